//! The limits on the node of a client, on a stream and in a poll.
//!
//! Not here: the limits that the decoder of a request applies ([`RequestLimits`](super::RequestLimits)).

use super::{Settings, Violation};
use crate::Node;

/// Compares a node with the limits. Returns the bytes that are kept of it.
///
/// # Errors
/// Fails if the node takes too much memory. Maps of one entry each take a hundred times as much as
/// on the wire.
pub fn check_node(node: &Node, settings: &Settings) -> Result<usize, Violation> {
    let found = node.held_bytes();
    check_node_bytes(found, settings)?;
    Ok(found)
}

/// Compares what is kept of a node with the limit.
pub(super) fn check_node_bytes(found: usize, settings: &Settings) -> Result<(), Violation> {
    let limit = settings.request_limits().max_node_memory();
    if found > limit { Err(Violation::NodeTooLarge { found, limit }) } else { Ok(()) }
}
