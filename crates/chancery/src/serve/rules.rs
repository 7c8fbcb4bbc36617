//! Rules for groups that are about to come into force: the nodes that they would move.
//!
//! Not here: the judgement whether that is a loss (`gate::moves`).

use std::collections::BTreeMap;

use chancery_catalog::Audience;
use chancery_server::Audiences;
use serde::Deserialize;
use tracing::info;

use super::grouping::Grouping;
use super::held;
use crate::gate::{Listed, Move};
use crate::state::{KeptMove, KeptRules};

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

    /// The nodes that would move, together with those that were to move before.
    pub(super) fn moves(&mut self, audiences: &Audiences<Grouping>) -> Vec<Move> {
        let found = self.found(audiences);
        self.moves.extend(found);
        let catalog = audiences.catalog();
        let seen = |audience: &Audience| catalog.seen_by(audience).map(|seen| seen.snapshot);
        let moves = self.moves.iter().filter_map(|((from, to), nodes)| {
            // An audience that has had no good state so far is refused too.
            let to = to.as_ref().and_then(|to| Some((to.clone(), seen(to)?)));
            Some(Move { from: from.clone(), to, before: seen(from)?, nodes: nodes.clone() })
        });
        moves.collect()
    }

    /// The nodes with open streams for which these rules have another answer.
    fn found(&self, audiences: &Audiences<Grouping>) -> BTreeMap<MovePath, Listed> {
        let (catalog, in_force) = (audiences.catalog(), audiences.assignment());
        let known = catalog.groups();
        let is_known = |name: &str| known.contains(name);
        let mut nodes = audiences.nodes();
        nodes.sort_by(|one, other| one.id.cmp(&other.id));
        nodes.dedup_by(|one, other| one.id == other.id && one.cluster == other.cluster);
        let mut found: BTreeMap<MovePath, Listed> = BTreeMap::new();
        for node in nodes {
            let Ok(before) = in_force.of_node(&node, is_known) else { continue };
            let after = self.grouping.of_node(&node, is_known).ok();
            let from = catalog.audience(before.as_deref(), None);
            let to = after.map(|group| catalog.audience(group.as_deref(), None));
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

/// Logs the numbers of nodes that move.
pub(super) fn say(moves: &[Move]) {
    for Move { from, to, nodes, .. } in moves.iter().take(MOST_TOLD) {
        let (from, count) = (held::names(&[from]), nodes.count);
        match to {
            Some((to, _)) => {
                let to = held::names(&[to]);
                info!(nodes = count, from, to, "the rules of chancery.yaml move nodes");
            }
            None => info!(nodes = count, from, "the rules of chancery.yaml refuse nodes"),
        }
    }
}

/// The number of nodes that are named of each move.
const MOST_NAMED: usize = 5;
/// The number of moves that are told one by one.
const MOST_TOLD: usize = 20;
