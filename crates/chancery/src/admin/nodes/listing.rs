//! The nodes with open streams, one row each, page by page.
//!
//! ```text
//!   streams --> those asked for, each with its place in the order --> sorted --> rows of one page
//! ```
//!
//! The cost of a page is n log n of all streams, and its size has a bound. Nodes come and go between two
//! pages: one that stays is on one of them.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use chancery_catalog::Audience;
use chancery_core::Node;
use chancery_server::{Audiences, OpenStream};

use super::document::{NodeRow, NodesDocument};
use super::shown::{self, MAX_TEXT_BYTES};
use crate::admin::status::{NodeState, States};
use crate::admin::written_bytes;
use crate::serve::Grouping;

/// The nodes that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The id, if only nodes with this one are wanted.
    pub(super) id: Option<String>,
    /// The group, if only its nodes are wanted; empty for nodes in none.
    pub(super) group: Option<String>,
    /// The state, if only nodes in this one are wanted.
    pub(super) state: Option<NodeState>,
    /// The place after which the page begins.
    pub(super) after: Option<Place>,
    /// The number of nodes on the page.
    pub(super) limit: usize,
}

/// The place of a node in the order of pages: the id as far as it is shown, and a digest of the rest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    id: String,
    digest: u64,
}

/// A stream of a node that is wanted.
struct Found {
    place: Place,
    node: Arc<Node>,
    group: Option<String>,
    stream: OpenStream,
}

/// The page of the nodes that are wanted.
pub(super) fn page(
    audiences: &Audiences<Grouping>,
    keys: &RandomState,
    wanted: &Wanted,
) -> NodesDocument {
    let states = States::of(audiences.store().status());
    let (grouping, known) = (audiences.assignment(), audiences.catalog().groups());
    let (mut found, mut anonymous) = (Vec::new(), 0);
    for stream in audiences.streams() {
        let Some(node) = stream.node.clone() else {
            anonymous += 1;
            continue;
        };
        let is_other = wanted.id.as_ref().is_some_and(|id| *id != node.id);
        if is_other || wanted.state.is_some_and(|state| state != states.of_node(&node.id)) {
            continue;
        }
        // A node that the rules refuse by now is about to lose its stream.
        let group = grouping.of_node(&node, |name| known.contains(name)).ok().flatten();
        if wanted.group.as_ref().is_none_or(|it| *it == *group.as_deref().unwrap_or_default()) {
            let place = Place::of(&node, &stream.audience, keys);
            found.push(Found { place, node, group, stream });
        }
    }
    found.sort_by(|one, other| one.place.cmp(&other.place));
    let nodes: Vec<_> = found.chunk_by(|one, other| one.place == other.place).collect();
    let first = nodes.partition_point(|of| Some(&of[0].place) <= wanted.after.as_ref());
    let lineage = audiences.catalog().lineage();
    let mut document = NodesDocument { count: nodes.len(), anonymous, ..NodesDocument::default() };
    let (mut bytes, mut last) = (0, None);
    for of_one in &nodes[first..] {
        if document.nodes.len() == wanted.limit || bytes > MAX_PAGE_BYTES {
            document.next = last.map(|place: &Place| place.to_string());
            break;
        }
        let mut row = row(of_one);
        states.add_to(&mut row, &of_one[0].node.id);
        row.layers =
            lineage.layers(&of_one[0].stream.audience).iter().map(ToString::to_string).collect();
        // A part that is not shown costs work too.
        bytes += of_one[0].node.held_bytes() + written_bytes(&row);
        last = Some(&of_one[0].place);
        document.nodes.push(row);
    }
    document
}

/// The row of a node, which has at least one stream.
fn row(streams: &[Found]) -> NodeRow {
    let Some(newest) = streams.iter().min_by_key(|found| found.stream.age) else {
        return NodeRow::default();
    };
    let polls = streams.iter().filter(|found| found.stream.is_poll).count();
    let age = streams.iter().map(|found| found.stream.age).max().unwrap_or_default();
    let opened = SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH);
    let peers: BTreeSet<_> = streams.iter().map(|found| found.stream.peer.to_string()).collect();
    NodeRow {
        group: newest.group.clone(),
        audience: newest.stream.audience.to_string(),
        own_files: newest.stream.audience.node.is_some(),
        streams: streams.len() - polls,
        polls,
        peers: peers.into_iter().take(MOST_PEERS).collect(),
        since: opened.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        ..shown::row(&newest.node)
    }
}

impl Place {
    fn of(node: &Node, audience: &Audience, keys: &RandomState) -> Self {
        let shown = node.id.floor_char_boundary(MAX_TEXT_BYTES);
        let digest = keys.hash_one((&node.id, &node.cluster, audience));
        Self { id: node.id[..shown].to_owned(), digest }
    }

    /// The place in a text. That of a mere id is behind all nodes with this id.
    pub(super) fn read(text: &str) -> Self {
        let whole = || Self { id: text.to_owned(), digest: u64::MAX };
        let Some((id, digest)) = text.rsplit_once(' ').filter(|(_, it)| it.len() == DIGITS) else {
            return whole();
        };
        let digest = u64::from_str_radix(digest, 16);
        digest.map_or_else(|_| whole(), |digest| Self { id: id.to_owned(), digest })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:0DIGITS$x}", self.id, self.digest)
    }
}

/// The number of digits of a digest.
const DIGITS: usize = 16;

/// The number of addresses that are shown of a node.
const MOST_PEERS: usize = 10;

/// The bytes of nodes after which a page ends.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_what_its_text_says() {
        let keys = RandomState::new();
        let place = |id: &str, cluster: &str| {
            let node = Node { id: id.to_owned(), cluster: cluster.to_owned(), ..Node::default() };
            Place::of(&node, &Audience::default(), &keys)
        };
        for id in ["", "a", "a b", "\u{e9} 0123456789abcdef", &"\u{e9}".repeat(1000)] {
            let found = place(id, "c");
            assert_eq!(Place::read(&found.to_string()), found);
            assert_eq!(place(id, "c"), found);
            assert_ne!(place(id, "d"), found);
            assert!(found.to_string().len() <= MAX_TEXT_BYTES + 1 + DIGITS);
        }
        assert!(Place::read("a") > place("a", "c") && Place::read("a") < place("b", "c"));
        assert_ne!(place(&"x".repeat(1000), ""), place(&"x".repeat(1001), ""));
    }
}
