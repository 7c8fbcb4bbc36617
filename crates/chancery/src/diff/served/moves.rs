//! The nodes of a server that would be in another group by the rules of a directory.

use std::collections::BTreeMap;

use chancery_core::printable::{MAX_NAME_BYTES, cut};
use serde_json::{Value, json};

use super::super::side::DirectorySide;
use crate::admin_client::ConnectedNode;
use crate::ask::plain;

/// Nodes that would move.
#[derive(Debug)]
pub(in crate::diff) struct NodeMove {
    from: Option<String>,
    to: Destination,
    count: usize,
    /// The first ids.
    first: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Destination {
    /// A group, or none.
    Group(Option<String>),
    /// The rules refuse the nodes.
    Refused,
}

/// The moves, from the groups in their order; and the number of nodes that may move: the server does not
/// tell all of them that rules may look at.
pub(super) fn of(side: &DirectorySide<'_>, nodes: &[ConnectedNode]) -> (Vec<NodeMove>, usize) {
    let mut unsure = 0;
    let mut all: BTreeMap<(Option<String>, Destination), Vec<&str>> = BTreeMap::new();
    for connected in nodes {
        let to = match side.group_of(&connected.node) {
            Ok(group) => Destination::Group(group),
            Err(_) => Destination::Refused,
        };
        if to == Destination::Group(connected.group.clone()) {
            continue;
        }
        if connected.left_out.is_empty() {
            all.entry((connected.group.clone(), to)).or_default().push(&connected.node.id);
        } else {
            unsure += 1;
        }
    }
    let told = all.into_iter().map(|((from, to), mut ids)| {
        ids.sort_unstable();
        let first = ids.iter().take(MOST_NAMED).map(|id| (*id).to_owned()).collect();
        NodeMove { from, to, count: ids.len(), first }
    });
    (told.collect(), unsure)
}

impl NodeMove {
    pub(super) fn concerns(&self, group: &str) -> bool {
        let to = matches!(&self.to, Destination::Group(Some(to)) if to == group);
        to || self.from.as_deref() == Some(group)
    }

    /// The move in words.
    pub(in crate::diff) fn told(&self) -> String {
        let group = |group: &Option<String>| match group {
            Some(name) => format!("group `{}`", plain(name)),
            None => "no group".to_owned(),
        };
        let nodes =
            if self.count == 1 { "1 node".to_owned() } else { format!("{} nodes", self.count) };
        let from = group(&self.from);
        let told = match &self.to {
            Destination::Group(to) => format!("{nodes} would move from {from} to {}", group(to)),
            Destination::Refused => format!("{nodes} in {from} would be refused"),
        };
        let named: Vec<_> =
            self.first.iter().map(|id| plain(&cut(id, MAX_NAME_BYTES)).into_owned()).collect();
        let more = if self.count > self.first.len() { ", …" } else { "" };
        format!("{told}: {}{more}", named.join(", "))
    }

    /// The keys of its JSON object that no other object has.
    pub(in crate::diff) fn json(&self) -> Value {
        let (to, refused) = match &self.to {
            Destination::Group(to) => (to.as_deref(), false),
            Destination::Refused => (None, true),
        };
        json!({
            "from": self.from, "to": to, "refused": refused, "count": self.count,
            "nodes": self.first,
        })
    }
}

/// The number of nodes that are named.
const MOST_NAMED: usize = 5;
