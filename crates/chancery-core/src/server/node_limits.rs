//! The limits on the node of a client, on a stream and in a poll.
//!
//! Not here: the limits that the decoder of a request applies ([`RequestLimits`](super::RequestLimits)).

use super::{Settings, Violation};
use crate::{Locality, Node};

/// Compares a node with the limits. Returns the bytes that are kept of it.
///
/// # Errors
/// Fails if a text that says who or where the node is, is too long: a policy may look at it with many
/// patterns. Fails if the node takes too much memory: maps of one entry each take a hundred times as
/// much as on the wire.
pub fn check_node(node: &Node, settings: &Settings) -> Result<usize, Violation> {
    check_texts(node, settings.max_name_length)?;
    let found = node.held_bytes();
    check_node_bytes(found, settings)?;
    Ok(found)
}

fn check_texts(node: &Node, limit: usize) -> Result<(), Violation> {
    let Locality { region, zone, sub_zone } = &node.locality;
    let texts = [
        ("id", &node.id),
        ("cluster", &node.cluster),
        ("locality.region", region),
        ("locality.zone", zone),
        ("locality.sub_zone", sub_zone),
        ("user_agent_name", &node.user_agent_name),
        ("user_agent_version", &node.user_agent_version),
    ];
    match texts.into_iter().find(|(_, text)| text.len() > limit) {
        Some((field, text)) => Err(Violation::NodeTextTooLong { field, found: text.len(), limit }),
        None => Ok(()),
    }
}

/// Compares what is kept of a node with the limit.
pub(super) fn check_node_bytes(found: usize, settings: &Settings) -> Result<(), Violation> {
    let limit = settings.request_limits().max_node_memory();
    if found > limit { Err(Violation::NodeTooLarge { found, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of a node.
    type TextOf = fn(&mut Node) -> &mut String;

    #[test]
    fn a_text_of_a_node_is_no_longer_than_a_name() {
        // S-110: at the limit, and past it
        let settings = Settings { max_name_length: 10, ..Settings::default() };
        let fields: [(&str, TextOf); 7] = [
            ("id", |node| &mut node.id),
            ("cluster", |node| &mut node.cluster),
            ("locality.region", |node| &mut node.locality.region),
            ("locality.zone", |node| &mut node.locality.zone),
            ("locality.sub_zone", |node| &mut node.locality.sub_zone),
            ("user_agent_name", |node| &mut node.user_agent_name),
            ("user_agent_version", |node| &mut node.user_agent_version),
        ];
        for (field, text) in fields {
            let mut node = Node::default();
            *text(&mut node) = "x".repeat(10);
            assert!(check_node(&node, &settings).is_ok(), "{field}");
            text(&mut node).push('x');
            let refused = check_node(&node, &settings).unwrap_err();
            let expected = Violation::NodeTextTooLong { field, found: 11, limit: 10 };
            assert_eq!(refused, expected);
            assert!(refused.is_limit());
        }
    }
}
