//! The numbers of nodes in each state, by group, for metrics.

use std::collections::{BTreeMap, BTreeSet};

use super::fleet::Fleet;
use crate::store::AudienceName;

/// The state and the group of nodes. The state of nodes that are gone is `gone`.
pub(crate) type NodeKey = (&'static str, String);

/// The most groups that are told apart; the others are together.
pub(crate) const MOST_GROUPS: usize = 100;

/// The name of the groups that are not told apart.
const OTHERS: &str = "other groups";

/// The numbers of nodes.
pub(crate) fn node_counts(fleet: &Fleet) -> BTreeMap<NodeKey, i64> {
    let nodes = fleet.nodes();
    let group = |audience: &AudienceName| match audience.audience() {
        Some(audience) => audience.group.as_deref().unwrap_or_default().to_owned(),
        None => audience.as_str().to_owned(),
    };
    let mut audiences = BTreeMap::new();
    for stream in fleet.streams.iter().filter_map(|stream| stream.audience.as_ref()) {
        audiences.entry(stream).or_insert_with(|| group(stream));
    }
    for stream in &fleet.gone {
        audiences.entry(&stream.audience).or_insert_with(|| group(&stream.audience));
    }
    let groups: BTreeSet<&String> = audiences.values().collect();
    let told: BTreeSet<&String> = groups.into_iter().take(MOST_GROUPS).collect();
    let mut counts = BTreeMap::new();
    for node in &nodes {
        let of_gone = || node.gone.first().map(|stream| &stream.audience);
        let Some(audience) = node.audiences.first().copied().or_else(of_gone) else { continue };
        let group = audiences.get(audience).filter(|group| told.contains(group));
        let group = group.map_or(OTHERS, |group| group).to_owned();
        let state = node.state.map_or("gone", |state| state.name());
        *counts.entry((state, group)).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use chancery_core::{Node, Variant};

    use super::*;
    use crate::policy::Peer;
    use crate::status::{StreamState, StreamStatus};

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
            rejected_types: 0,
            unanswered: None,
            acknowledged: None,
            heard: None,
        }
    }

    fn counts(streams: Vec<StreamStatus>) -> Vec<(NodeKey, i64)> {
        let (gone, grace) = (Vec::new(), Duration::ZERO);
        let fleet = Fleet { load: 1, streams, gone, grace, mark: 0 };
        node_counts(&fleet).into_iter().collect()
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
