//! The nodes of a moment with their groups and states.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::Node;
use chancery_server::{Audiences, Fleet, GoneStream, NodeStatus, StatusBook, StreamStatus};

use super::document::{AwaitedRow, GroupStatus, NodeState, NodeStatusRow};
use super::rows;
use crate::admin::api::ApiError;
use crate::serve::Grouping;

/// A node: all streams whose clients state one id, or one stream whose client states none.
pub(super) struct View<'f> {
    pub(super) id: &'f str,
    pub(super) cluster: &'f str,
    pub(super) group: Option<String>,
    pub(super) state: NodeState,
    pub(super) since: Duration,
    pub(super) streams: Vec<&'f StreamStatus>,
    pub(super) gone: Vec<&'f GoneStream>,
    claims_differ: bool,
    several_peers: bool,
}

/// The rules by which nodes are in groups.
pub(super) struct Groups {
    grouping: Arc<Grouping>,
    known: chancery_catalog::OverlayNames,
}

impl Groups {
    pub(super) fn of(audiences: &Audiences<Grouping>) -> Self {
        Self { grouping: audiences.assignment(), known: audiences.catalog().groups() }
    }

    /// The group of a node, or of a client that does not say which node it is. One that the rules refuse by
    /// now is about to lose its stream.
    pub(super) fn of_node(&self, node: Option<&Node>) -> Option<String> {
        let group = match node {
            Some(node) => self.grouping.of_node(node, |name| self.known.contains(name)),
            None => self.grouping.of_nobody(),
        };
        group.ok().flatten()
    }

    /// The group of a stream that is gone: the one whose files it saw. If it has none, the rules decide by what is
    /// remembered of the node.
    pub(super) fn of_gone(&self, gone: &GoneStream) -> Option<String> {
        rows::group_of(gone.audience.as_str()).or_else(|| {
            let (id, cluster) = (gone.node.to_string(), gone.cluster.to_string());
            self.of_node(Some(&Node { id, cluster, ..Node::default() }))
        })
    }

    /// Returns true if there is such a group.
    pub(super) fn has(&self, name: &str) -> bool {
        self.known.contains(name) || self.grouping.names().any(|known| known == name)
    }

    /// Checks that there is such a group.
    pub(super) fn check(&self, name: &str) -> Result<(), ApiError> {
        if self.has(name) {
            return Ok(());
        }
        let message = format!("there is no group `{}`", rows::shown(name));
        let error = ApiError::unknown("unknown-group", message);
        let names = self.names();
        Err(match chancery_proto::syntax::closest(name, names.iter().map(String::as_str)) {
            Some(near) => error.hint(format!("did you mean `{}`?", rows::shown(near))),
            None => error,
        })
    }

    /// The names of all groups.
    pub(super) fn names(&self) -> Vec<String> {
        let known = self.known.iter().map(ToString::to_string);
        let named = self.grouping.names().map(str::to_owned);
        known.chain(named).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns true if the files of a group are seen in another one, or in itself.
    pub(super) fn is_seen_in(&self, group: &str, other: &str) -> bool {
        group == other || self.grouping.lineage().ancestors(other).any(|below| **below == *group)
    }
}

/// All nodes of a moment.
pub(super) fn views<'f>(fleet: &'f Fleet, groups: &Groups) -> Vec<View<'f>> {
    let nobody = fleet.streams.iter().filter(|stream| stream.node.is_none());
    let anonymous = nobody.map(|stream| View {
        id: "",
        cluster: "",
        group: groups.of_node(None),
        state: stream.state.into(),
        since: stream.since,
        streams: vec![stream],
        gone: Vec::new(),
        claims_differ: false,
        several_peers: false,
    });
    anonymous.chain(fleet.nodes().into_iter().map(|node| View::of(node, groups))).collect()
}

/// The node of a fleet of one, if it is known.
pub(super) fn view<'f>(fleet: &'f Fleet, groups: &Groups) -> Option<View<'f>> {
    fleet.nodes().into_iter().next().map(|node| View::of(node, groups))
}

impl<'f> View<'f> {
    fn of(node: NodeStatus<'f>, groups: &Groups) -> Self {
        let newest = node.streams.iter().filter_map(|stream| stream.node.as_deref()).next_back();
        let last = node.gone.first();
        let group = match newest {
            Some(newest) => groups.of_node(Some(newest)),
            None => last.and_then(|gone| groups.of_gone(gone)),
        };
        let of_last = last.map_or("", |gone| &gone.cluster);
        Self {
            id: node.id,
            cluster: newest.map_or(of_last, |newest| &newest.cluster),
            group,
            state: node.state.map_or(NodeState::Gone, NodeState::from),
            since: node.since,
            claims_differ: node.claims_differ,
            several_peers: node.several_peers,
            streams: node.streams,
            gone: node.gone,
        }
    }
}

impl View<'_> {
    /// The row of it, for those who ask about a load.
    pub(super) fn row(&self, book: &StatusBook, fleet: &Fleet, load: u64) -> NodeStatusRow {
        let of_open = self.streams.iter().map(|stream| stream.landed).min();
        let of_gone = self.gone.iter().map(|stream| stream.landed).min();
        let open = self.streams.iter().map(|stream| &stream.peer);
        let gone = self.gone.iter().map(|stream| &stream.peer).filter(|_| self.streams.is_empty());
        let peers: BTreeSet<_> = open.chain(gone).map(ToString::to_string).collect();
        let unanswered = self.streams.iter().filter_map(|stream| stream.unanswered).max();
        NodeStatusRow {
            id: rows::shown(self.id),
            cluster: rows::shown(self.cluster),
            group: self.group.clone(),
            state: self.state,
            since: rows::before(self.since),
            streams: self.streams.len(),
            landed: of_open.or(of_gone).unwrap_or_default(),
            peers: peers.into_iter().take(MOST_PEERS).collect(),
            rejections: self.rejections(book),
            unanswered_since: unanswered.map(rows::before),
            claims_differ: self.claims_differ.then_some(true),
            several_peers: self.several_peers.then_some(true),
            awaited: self.awaited(fleet, load),
        }
    }

    /// The last stream that went and that this load waits for.
    fn awaited(&self, fleet: &Fleet, load: u64) -> Option<AwaitedRow> {
        let awaited = self.gone.iter().filter(|gone| fleet.awaits(gone, load));
        let last = awaited.min_by_key(|gone| gone.since)?;
        let (at, until) = (rows::seconds(last.at), rows::seconds(last.at + fleet.grace));
        Some(AwaitedRow { load, at, until })
    }

    fn rejections(&self, book: &StatusBook) -> Vec<super::document::RejectionRow> {
        let rejecting = self.streams.iter().filter(|stream| stream.rejected_types > 0);
        let open = rejecting.flat_map(|stream| book.rejections(stream.id));
        let gone = self.gone.iter().filter(|_| self.streams.is_empty());
        let gone = gone.flat_map(|stream| stream.rejections.iter().cloned());
        open.chain(gone).take(MOST_REJECTIONS).map(|note| rows::rejection(&note)).collect()
    }
}

impl GroupStatus {
    /// Counts a node.
    pub(super) fn add(&mut self, state: NodeState) {
        let count = match state {
            NodeState::Rejected => &mut self.rejected,
            NodeState::Silent => &mut self.silent,
            NodeState::Pending => &mut self.pending,
            NodeState::InStep => &mut self.in_step,
            NodeState::Gone => {
                self.gone += 1;
                return;
            }
        };
        *count += 1;
        self.nodes += 1;
    }
}

/// The number of addresses that are shown of a node.
const MOST_PEERS: usize = 10;

/// The number of rejections that are shown of a node.
const MOST_REJECTIONS: usize = 8;
