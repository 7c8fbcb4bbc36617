//! Rules for groups that are about to come into force: the nodes that they would move.
//!
//! Not here: the judgement whether that is a loss (`gate::moves`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_catalog::{Audience, Lineage, OverlayNames};
use chancery_core::Node;
use chancery_core::printable::Printable;
use chancery_server::Audiences;
use serde::Deserialize;
use tracing::warn;

use super::grouping::Grouping;
use super::held;
use crate::gate::{Listed, Move, name_nodes};
use crate::state::{KeptMove, KeptRules};

/// The nodes with open streams, and the audiences that they belong to.
pub(super) type Belonging = Vec<(Arc<Node>, Audience)>;

/// The nodes with open streams, without files of their own, and the audiences that they belong to now.
pub(super) fn belonging(audiences: &Audiences<Grouping>) -> Belonging {
    let (catalog, in_force) = (audiences.catalog(), audiences.assignment());
    let known = catalog.groups();
    // A poll over REST is over in a moment, and nothing tells when: rules would wait for nobody.
    let streams = audiences.streams().into_iter().filter(|stream| !stream.is_poll);
    let mut nodes: Vec<_> = streams.filter_map(|stream| stream.node).collect();
    nodes.sort_by(|one, other| one.id.cmp(&other.id));
    // Several Envoys may have one id, and state other things beside it.
    nodes.dedup_by(|one, other| one == other);
    let belonging = nodes.into_iter().filter_map(|node| {
        let group = in_force.of_node(&node, |name| known.contains(name)).ok()?;
        Some((node, catalog.audience(group.as_deref(), None)))
    });
    belonging.collect()
}

/// Rules that are not in force yet.
pub(super) struct WantedRules {
    grouping: Grouping,
    /// The nodes that would move. Nodes that are away for a moment stay here.
    moves: BTreeMap<MovePath, Listed>,
}

/// The audience that nodes belong to, and the one that they would belong to; `None` if they would be refused.
type MovePath = (Audience, Option<Audience>);

impl WantedRules {
    pub(super) fn new(grouping: Grouping) -> Self {
        Self { grouping, moves: BTreeMap::new() }
    }

    /// The rules that waited before a start, and those that were in force then: if these are still the wanted
    /// ones, they wait on.
    pub(super) fn before(kept: &KeptRules, wanted: &Grouping) -> Option<(Grouping, Self)> {
        let in_force = Grouping::deserialize(&kept.in_force).ok()?;
        if Grouping::deserialize(&kept.wanted).ok()? != *wanted {
            return None;
        }
        let moves = kept.moves.iter().map(|kept| {
            let path = (Audience::from(&kept.from), kept.to.as_ref().map(Audience::from));
            (path, Listed { count: kept.count, first: kept.first.clone() })
        });
        Some((in_force, Self { grouping: wanted.clone(), moves: moves.collect() }))
    }

    /// The rules and the moves that they wait for, to be kept.
    pub(super) fn kept(&self, in_force: &Grouping) -> Option<KeptRules> {
        let moves = self.moves.iter().map(|((from, to), nodes)| KeptMove {
            from: from.into(),
            to: to.as_ref().map(Into::into),
            count: nodes.count,
            first: nodes.first.clone(),
        });
        Some(KeptRules {
            in_force: serde_json::to_value(in_force).ok()?,
            wanted: serde_json::to_value(&self.grouping).ok()?,
            moves: moves.collect(),
        })
    }

    /// The rules.
    pub(super) fn grouping(&self) -> &Grouping {
        &self.grouping
    }

    /// The nodes that would move, together with those that were to move before. `belonging` is from before
    /// anything changed.
    pub(super) fn moves(
        &mut self,
        audiences: &Audiences<Grouping>,
        belonging: Belonging,
    ) -> Vec<Move> {
        for (path, found) in self.found(audiences, belonging) {
            let known = self.moves.get(&path);
            // Nodes that leave and come back make no other moves of these, so that what was read can be confirmed.
            if !known.is_some_and(|known| covers(known, &found)) {
                self.moves.insert(path, found);
            }
        }
        let catalog = audiences.catalog();
        let seen = |audience: &Audience| catalog.seen_by(audience).map(|seen| seen.snapshot);
        let moves = self.moves.iter().filter_map(|((from, to), nodes)| {
            // An audience that has had no good state so far is refused too.
            let to = to.as_ref().and_then(|to| Some((to.clone(), seen(to)?)));
            Some(Move { from: from.clone(), to, before: seen(from)?, nodes: nodes.clone() })
        });
        moves.collect()
    }

    /// The nodes for which these rules have another answer.
    fn found(
        &self,
        audiences: &Audiences<Grouping>,
        belonging: Belonging,
    ) -> BTreeMap<MovePath, Listed> {
        let catalog = audiences.catalog();
        let known = catalog.groups();
        let is_known = |name: &str| known.contains(name);
        let mut found: BTreeMap<MovePath, Listed> = BTreeMap::new();
        // Many nodes state the same.
        let mut fitting = BTreeMap::new();
        for (node, from) in belonging {
            let after = self.grouping.of_node(&node, is_known).ok();
            let to = after.map(|group| catalog.audience(group.as_deref(), None));
            // A node that does not state what its new group needs, or not as it has to be, is refused there.
            let to = to.filter(|to| match catalog.needs(to).stated_by(Some(&node)) {
                Ok(stated) => *fitting
                    .entry((to.clone(), stated))
                    .or_insert_with_key(|(to, stated)| catalog.fits(to, stated).is_ok()),
                Err(_) => false,
            });
            if to.as_ref() != Some(&from) {
                let nodes = found.entry((from, to)).or_default();
                nodes.count += 1;
                if nodes.first.len() < MOST_NAMED {
                    nodes.first.push(node.id.clone());
                }
            }
        }
        found
    }
}

/// Returns true if somebody who has read of the first of these nodes has read of the second too, as far as they
/// are named.
fn covers(known: &Listed, found: &Listed) -> bool {
    let are_all_named = known.count <= known.first.len();
    let is_known = |id: &String| !are_all_named || known.first.contains(id);
    found.count <= known.count && found.first.iter().all(is_known)
}

/// The nodes with open streams that a load moved, in words, because groups have files now that had none, or have
/// none any more.
pub(super) fn moved_by_load(
    audiences: &Audiences<Grouping>,
    before: &OverlayNames,
    after: &OverlayNames,
) -> Option<String> {
    let grouping = audiences.assignment();
    let audience = |node: &Node, known: &OverlayNames| {
        let group = grouping.of_node(node, |name| known.contains(name)).ok()??;
        // A group without files sees what it extends.
        let group: Arc<str> = group.into();
        grouping.lineage().chain(&group).find(|name| known.contains(name)).cloned()
    };
    let mut moves: BTreeMap<[Audience; 2], usize> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for node in audiences.nodes() {
        // A node may have several streams.
        if !known.insert((node.id.clone(), node.cluster.clone())) {
            continue;
        }
        let [from, to] = [before, after].map(|known| Audience::of(audience(&node, known), None));
        if from != to {
            *moves.entry([from, to]).or_default() += 1;
        }
    }
    let told = moves.iter().take(MOST_IN_A_LINE).map(|([from, to], count)| {
        format!("{count} from {} to {}", Printable(from), Printable(to))
    });
    let mut text = told.collect::<Vec<_>>().join("; ");
    match moves.len().saturating_sub(MOST_IN_A_LINE) {
        0 => {}
        more => text += &format!("; and {more} more moves"),
    }
    (!text.is_empty()).then_some(text)
}

/// Logs the nodes that move. Whoever edits rules may have another order in mind than the one that they wrote.
pub(super) fn say(moves: &[Move]) {
    for Move { from, to, nodes, .. } in moves.iter().take(MOST_TOLD) {
        let (from, named) = (held::names(&[from]), name_nodes(nodes));
        match to {
            Some((to, _)) => warn!(
                "chancery.yaml moves {named} from {from} to {}; if that is not meant, see its `groups`: the \
                 first rule that matches decides",
                held::names(&[to])
            ),
            None => warn!(
                "chancery.yaml refuses {named} of {from}; if that is not meant, see its `groups` and \
                 `unmatched`"
            ),
        }
    }
}

/// Logs the groups that extend another one than before.
pub(super) fn say_lineage(before: &Lineage, after: &Lineage) {
    for group in after.differing(before).take(MOST_TOLD) {
        let words = |parent: Option<&Arc<str>>| {
            parent.map_or_else(|| "nothing".to_owned(), |it| format!("`{}`", Printable(it)))
        };
        let (was, is) = (words(before.parent(group)), words(after.parent(group)));
        let group = Printable(group);
        warn!("chancery.yaml: group `{group}` extends {is} now, and {was} before");
    }
}

/// The number of nodes that are named of each move.
const MOST_NAMED: usize = 5;
/// The number of moves that the line of a load tells.
const MOST_IN_A_LINE: usize = 5;
/// The number of moves that are told one by one.
const MOST_TOLD: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_leave_and_come_back_are_no_other_moves() {
        let nodes = |count, first: &[&str]| {
            let first = first.iter().map(|id| (*id).to_owned()).collect();
            Listed { count, first }
        };
        let known = nodes(2, &["a", "b"]);
        assert!(covers(&known, &nodes(2, &["a", "b"])) && covers(&known, &nodes(1, &["b"])));
        assert!(!covers(&known, &nodes(2, &["b", "c"])), "one that nobody has read of");
        assert!(!covers(&known, &nodes(3, &["a", "b", "c"])));
        let many = nodes(9, &["a", "b", "c", "d", "e"]);
        assert!(covers(&many, &nodes(9, &["b", "c", "d", "e", "f"])));
        assert!(!covers(&many, &nodes(10, &["a", "b", "c", "d", "e"])));
    }
}
