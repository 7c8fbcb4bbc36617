//! A node for each audience, to ask a server as: one that is connected, or one that is made by the rules
//! of the directory.

use std::collections::{BTreeMap, BTreeSet};

use chancery_catalog::Audience;
use chancery_core::Node;
use chancery_core::printable::Printable;

use super::super::side::DirectorySide;
use crate::admin_client::ConnectedNode;

/// A node that stands for an audience.
pub(super) struct Representative {
    /// The audience as it is told.
    pub(super) shown: Audience,
    pub(super) node: Node,
    /// The audience in the directory.
    pub(super) after: Audience,
}

/// A representative of each audience of the server and the directory, of all or of those in a group; and
/// those without one, in words.
pub(super) fn of(
    side: &DirectorySide<'_>,
    nodes: &[ConnectedNode],
    group: Option<&str>,
) -> (Vec<Representative>, Vec<String>) {
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    // One that is told whole is better, and the first of these.
    let (whole, parts): (Vec<_>, Vec<_>) = nodes.iter().partition(|it| it.left_out.is_empty());
    let best_last = parts.into_iter().rev().chain(whole.into_iter().rev());
    let known: BTreeMap<_, _> = best_last.map(|it| (audience_of(it), it)).collect();
    let shown: BTreeSet<_> = side.audiences().into_iter().chain(known.keys().cloned()).collect();
    for shown in shown {
        let connected = known.get(&shown).copied().or_else(|| own_node(nodes, &shown));
        let node = match connected {
            Some(connected) => Some(connected.node.clone()),
            None => made(side, &shown),
        };
        let after = match (&shown.node, &node) {
            (Some(_), Some(node)) => side.audience_of(node),
            _ => side.audience(&shown),
        };
        let is_in = |wanted: &str| {
            let now = connected.and_then(|it| it.group.as_deref()).or(shown.group.as_deref());
            now == Some(wanted) || after.node.is_some() && after.group.as_deref() == Some(wanted)
        };
        if !group.is_none_or(is_in) {
            continue;
        }
        if let Some(parts) = connected.filter(|it| !it.left_out.is_empty()) {
            let (id, parts) = (Printable(&parts.node.id), parts.left_out.join(", "));
            missing.push(format!(
                "{}: it is asked for as node `{id}` without {}",
                Printable(&shown),
                Printable(parts)
            ));
        }
        match node {
            Some(node) => all.push(Representative { shown, node, after }),
            None => missing.push(format!("{}: {NOBODY}", Printable(&shown))),
        }
    }
    (all, missing)
}

/// The audience on the server, as it is told.
fn audience_of(connected: &ConnectedNode) -> Audience {
    match connected.own_files {
        true => Audience::of(None, Some(connected.node.id.as_str().into())),
        false => Audience::of(connected.group.as_deref().map(Into::into), None),
    }
}

/// The node that is connected and has files of its own in the directory alone.
fn own_node<'n>(nodes: &'n [ConnectedNode], shown: &Audience) -> Option<&'n ConnectedNode> {
    let id = shown.node.as_deref()?;
    nodes.iter().find(|it| it.node.id == id)
}

/// A node that would belong to the audience by the rules of the directory.
fn made(side: &DirectorySide<'_>, shown: &Audience) -> Option<Node> {
    let plain = |id: &str, cluster: &str| Node {
        id: id.to_owned(),
        cluster: cluster.to_owned(),
        user_agent_name: "chancery".to_owned(),
        ..Node::default()
    };
    let nodes = match (&shown.node, &shown.group) {
        (Some(id), _) => return Some(plain(id, "")),
        (None, None) => vec![plain(ID, "")],
        (None, Some(group)) => {
            let rules = side.config.groups.iter().filter(|rule| rule.name.as_str() == &**group);
            let by_rules = rules.filter_map(|rule| rule.conditions.example(ID));
            by_rules.chain([plain(ID, group)]).collect()
        }
    };
    nodes.into_iter().find(|node| {
        side.group_of(node).is_ok_and(|found| found.as_deref() == shown.group.as_deref())
    })
}

/// The id of a node that is made.
const ID: &str = "chancery-diff";

const NOBODY: &str =
    "no node of it is connected, and the rules have no exact values to make one of";
