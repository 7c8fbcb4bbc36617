//! The numbers of nodes in each state, by group, for metrics.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use super::gone::GoneStream;
use super::stream_status::{StreamState, StreamStatus};
use crate::store::AudienceName;

/// The state and the group of nodes. The state of nodes that are gone is `gone`.
pub(crate) type NodeKey = (&'static str, String);

/// The most groups that are told apart; the others are together.
pub(crate) const MOST_GROUPS: usize = 100;

/// The name of the groups that are not told apart.
const OTHERS: &str = "other groups";

/// Counts nodes, of which it keeps a hash of the id, the worst state and the audience.
#[derive(Default)]
pub(crate) struct NodeCounter {
    nodes: BTreeMap<u64, (Option<StreamState>, usize)>,
    keys: RandomState,
    audiences: HashMap<AudienceName, usize>,
    /// The number of types with something rejected.
    pub(crate) rejected_types: i64,
}

impl NodeCounter {
    /// Takes in a stream.
    pub(crate) fn see(&mut self, stream: &StreamStatus) {
        self.rejected_types += i64::from(stream.rejected_types);
        if let (Some(node), Some(audience)) = (&stream.node, &stream.audience) {
            self.add(&node.id, Some(stream.state), audience);
        }
    }

    /// Takes in a stream that is gone.
    pub(crate) fn see_gone(&mut self, stream: &GoneStream) {
        self.add(&stream.node, None, &stream.audience);
    }

    fn add(&mut self, id: &str, state: Option<StreamState>, audience: &AudienceName) {
        let next = self.audiences.len();
        let audience = match self.audiences.get(audience) {
            Some(known) => *known,
            None => *self.audiences.entry(audience.clone()).or_insert(next),
        };
        let node = self.nodes.entry(self.keys.hash_one(id)).or_insert((state, audience));
        node.0 = node.0.max(state);
    }

    /// The numbers of nodes.
    pub(crate) fn counts(&self) -> BTreeMap<NodeKey, i64> {
        let group = |audience: &AudienceName| match audience.audience() {
            Some(audience) => audience.group.as_deref().unwrap_or_default().to_owned(),
            None => audience.as_str().to_owned(),
        };
        let groups = self.audiences.iter().map(|(audience, at)| (*at, group(audience)));
        let groups: BTreeMap<_, _> = groups.collect();
        let told: BTreeSet<&String> = groups.values().collect();
        let told: BTreeSet<&String> = told.into_iter().take(MOST_GROUPS).collect();
        let mut counts = BTreeMap::new();
        self.nodes.values().for_each(|(state, audience)| {
            let group = groups.get(audience).filter(|group| told.contains(group));
            let group = group.map_or(OTHERS, |group| group).to_owned();
            let state = state.map_or("gone", StreamState::name);
            *counts.entry((state, group)).or_default() += 1;
        });
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use chancery_core::{Node, Variant};

    use super::*;
    use crate::policy::Peer;

    fn stream(id: u64, node: &str, audience: &str, state: StreamState) -> StreamStatus {
        StreamStatus {
            id,
            node: Some(Arc::new(Node { id: node.to_owned(), ..Node::default() })),
            peer: Arc::new(Peer { address: None, tls: false, certificates: Vec::new() }),
            audience: Some(audience.into()),
            variant: Variant::Sotw,
            type_url: None,
            poll: None,
            age: Duration::ZERO,
            state,
            since: Duration::ZERO,
            seen: 1,
            landed: 1,
            is_asking: false,
            counts: true,
            rejected_types: 0,
            unanswered: None,
            acknowledged: None,
            heard: None,
            landed_ago: None,
        }
    }

    fn counts(streams: Vec<StreamStatus>) -> Vec<(NodeKey, i64)> {
        let mut counter = NodeCounter::default();
        streams.iter().for_each(|stream| counter.see(stream));
        counter.counts().into_iter().collect()
    }

    #[test]
    fn a_node_counts_once_with_its_worst_state_and_its_group() {
        let streams = vec![
            stream(1, "a", "groups/g", StreamState::InStep),
            stream(2, "a", "groups/g", StreamState::Rejected),
            stream(3, "b", "groups/g+nodes/b", StreamState::Rejected),
            stream(4, "c", "base", StreamState::InStep),
            stream(5, "d", "by hand", StreamState::Silent),
        ];
        let told = [("in-step", "", 1), ("rejected", "g", 2), ("silent", "by hand", 1)];
        let told = told.map(|(state, group, count)| ((state, group.to_owned()), count));
        assert_eq!(counts(streams), told);
    }

    #[test]
    fn there_are_no_more_series_than_groups_are_told_apart() {
        let streams = (0..150)
            .map(|at| stream(at, &at.to_string(), &format!("groups/{at:03}"), StreamState::InStep));
        let counts = counts(streams.collect());
        assert_eq!(counts.len(), MOST_GROUPS + 1);
        let others = counts.iter().find(|((_, group), _)| group == OTHERS).unwrap();
        assert_eq!(others.1, 50);
    }
}
