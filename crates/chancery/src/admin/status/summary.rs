//! `/api/v1/status`: the groups, and the nodes with the worst states first.

use std::collections::BTreeMap;

use chancery_server::{Audiences, LoadStatus, StatusBook};

use super::document::{GroupStatus, LoadShown, NodeState, StatusSummary};
use super::not_live::NotLive;
use super::views::{Groups, View, views};
use super::{Changes, rows};
use crate::admin::load_status::HeldLoads;
use crate::admin::written_bytes;
use crate::serve::Grouping;

/// The nodes that are asked for.
pub(super) struct Wanted {
    /// The group, if only its nodes are wanted; empty for nodes in none.
    pub(super) group: Option<String>,
    pub(super) state: Option<NodeState>,
    pub(super) limit: usize,
}

/// The summary of the nodes that are wanted.
pub(super) fn summary(
    audiences: &Audiences<Grouping>,
    book: &StatusBook,
    (changes, held): (&Changes, &HeldLoads),
    wanted: &Wanted,
) -> StatusSummary {
    let fleet = book.fleet();
    let groups = Groups::of(audiences);
    let in_group = |view: &View<'_>| {
        let group = view.group.as_deref().unwrap_or_default();
        wanted.group.as_ref().is_none_or(|wanted| wanted == group)
    };
    let mut nodes: Vec<_> = views(&fleet, &groups).into_iter().filter(in_group).collect();
    let mut counts = BTreeMap::<Option<&str>, GroupStatus>::new();
    for view in &nodes {
        let of_group = counts.entry(view.group.as_deref()).or_default();
        of_group.add(view.state);
    }
    let with_name = |(group, counts): (Option<&str>, _)| GroupStatus {
        group: group.map(rows::shown),
        ..counts
    };
    let by_group: Vec<_> = counts.into_iter().map(with_name).collect();
    nodes.retain(|view| wanted.state.is_none_or(|state| state == view.state));
    nodes.sort_by_key(|view| (view.state, view.id));
    let (mut first, mut bytes) = (Vec::new(), 0);
    for view in nodes.iter().take(wanted.limit) {
        if bytes > MAX_BYTES {
            break;
        }
        let row = view.row(book, &fleet, fleet.load);
        bytes += written_bytes(&row);
        first.push(row);
    }
    let last = book.loads().into_iter().next();
    StatusSummary {
        load: last.map(|load| shown(&load, changes)),
        not_landed_for: book.oldest_load().map(|age| age.as_secs()),
        not_live: NotLive::new(held, &groups).all(),
        groups: by_group,
        count: nodes.len(),
        nodes: first,
    }
}

/// A load as it is shown.
pub(super) fn shown(load: &LoadStatus, changes: &Changes) -> LoadShown {
    let (author, changed) = changes.of(load.number);
    LoadShown {
        number: load.number,
        hash: load.content.map(|content| content.to_string()),
        at: rows::seconds(load.at),
        landed: load.landed_after.is_some(),
        landed_after_ms: load.landed_after.map(rows::millis),
        superseded: load.superseded,
        streams: load.streams,
        author,
        changed,
    }
}

/// The bytes of nodes after which a summary ends.
const MAX_BYTES: usize = 2 * 1024 * 1024;
