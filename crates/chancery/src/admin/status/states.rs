//! The states of nodes by their ids, for the list of those that are connected.

use std::collections::HashMap;
use std::sync::Arc;

use chancery_server::{Fleet, StatusBook, StreamStatus};

use super::document::NodeState;
use super::rows;
use crate::admin::nodes::NodeRow;

/// The states of all nodes at one moment.
pub(in crate::admin) struct States {
    book: StatusBook,
    fleet: Arc<Fleet>,
    /// The places of the streams of each node.
    streams: HashMap<String, Vec<usize>>,
}

impl States {
    /// The states as of now.
    pub(in crate::admin) fn of(book: StatusBook) -> Self {
        let (fleet, mut streams) = (book.fleet(), HashMap::<String, Vec<usize>>::new());
        for (at, stream) in fleet.streams.iter().enumerate() {
            if let Some(node) = &stream.node {
                match streams.get_mut(&node.id) {
                    Some(places) => places.push(at),
                    None => drop(streams.insert(node.id.clone(), vec![at])),
                }
            }
        }
        Self { book, fleet, streams }
    }

    fn streams(&self, id: &str) -> impl Iterator<Item = &StreamStatus> {
        let places = self.streams.get(id).map(Vec::as_slice).unwrap_or_default();
        places.iter().map(|at| &self.fleet.streams[*at])
    }

    /// The worst state of the streams of a node. One whose stream was just opened is pending.
    pub(in crate::admin) fn of_node(&self, id: &str) -> NodeState {
        let worst = self.streams(id).map(|stream| stream.state).max();
        worst.map_or(NodeState::Pending, NodeState::from)
    }

    /// Adds the state of a node to its row.
    pub(in crate::admin) fn add_to(&self, row: &mut NodeRow, id: &str) {
        row.state = self.of_node(id);
        let of_state = self.streams(id).filter(|stream| NodeState::from(stream.state) == row.state);
        let since = of_state.map(|stream| stream.since).max().unwrap_or_default();
        row.state_since = rows::before(since);
        row.landed = self.streams(id).map(|stream| stream.landed).min().unwrap_or_default();
        let rejecting = self.streams(id).filter(|stream| stream.rejected_types > 0);
        let notes = rejecting.flat_map(|stream| self.book.rejections(stream.id));
        row.rejections = notes.take(MOST_REJECTIONS).map(|note| rows::rejection(&note)).collect();
    }
}

/// The number of rejections that are shown of a node.
const MOST_REJECTIONS: usize = 8;
