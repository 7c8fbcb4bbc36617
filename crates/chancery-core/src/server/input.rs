//! The inputs of a server's machine.

use std::sync::Arc;

use crate::Request;

/// An input of a [`Machine`](super::Machine).
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "an input is made, taken and never kept")]
pub enum Input {
    /// The client sent a message.
    Request(Request),
    /// The driver has a snapshot that the client should see from now on.
    Snapshot(Arc<crate::Snapshot>),
}
