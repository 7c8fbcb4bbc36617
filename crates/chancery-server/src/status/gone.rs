//! The streams that are gone, for a while: what their clients held last.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_core::{TypeUrl, Variant};
use tokio::time::Instant;

use super::bounds::StatusBounds;
use super::card::RejectionNote;
use crate::policy::Peer;
use crate::store::AudienceName;

/// A stream that is gone. It is forgotten when somebody sees a later one of the same node and service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GoneStream {
    /// The number of the stream.
    pub id: u64,
    /// The id of the node.
    pub node: Arc<str>,
    /// The cluster of the node.
    pub cluster: Arc<str>,
    /// The other end of the connection.
    pub peer: Arc<Peer>,
    /// The audience it was in.
    pub audience: AudienceName,
    /// The variant of the protocol.
    pub variant: Variant,
    /// The only type of the stream; `None` if it was aggregated.
    pub type_url: Option<TypeUrl>,
    /// The time at which it went.
    pub at: SystemTime,
    /// The time since then.
    pub since: Duration,
    /// The status with which the server ended it; `None` if the client left.
    pub code: Option<i32>,
    /// The last load that had landed on it; 0 if none had.
    pub landed: u64,
    /// The rejections that waited for a change.
    pub rejections: Vec<RejectionNote>,
    pub(super) went: Instant,
}

/// The streams that are gone, no more than the bounds allow.
#[derive(Default)]
pub(super) struct GoneStreams {
    /// The streams, in the order in which they went.
    streams: BTreeMap<u64, GoneStream>,
    by_key: HashMap<GoneKey, u64>,
    last: u64,
    bytes: usize,
}

/// A node and a service.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct GoneKey {
    pub(super) node: Arc<str>,
    pub(super) cluster: Arc<str>,
    pub(super) type_url: Option<TypeUrl>,
}

impl GoneStream {
    pub(super) fn key(&self) -> GoneKey {
        GoneKey {
            node: Arc::clone(&self.node),
            cluster: Arc::clone(&self.cluster),
            type_url: self.type_url.clone(),
        }
    }

    /// The bytes that it keeps, about.
    fn bytes(&self) -> usize {
        2 * size_of::<Self>()
            + self.node.len()
            + self.cluster.len()
            + self.rejections.iter().map(RejectionNote::bytes).sum::<usize>()
    }
}

impl GoneStreams {
    pub(super) fn add(&mut self, stream: GoneStream, bounds: &StatusBounds) {
        self.remove(&stream.key());
        self.last += 1;
        self.bytes += stream.bytes();
        self.by_key.insert(stream.key(), self.last);
        self.streams.insert(self.last, stream);
        self.limit(bounds);
    }

    /// Returns true if nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The number of the last stream of a node and a service that is gone.
    pub(super) fn id_of(&self, key: &GoneKey) -> Option<u64> {
        self.by_key.get(key).and_then(|at| self.streams.get(at)).map(|stream| stream.id)
    }

    /// Forgets the streams of clients that are back.
    pub(super) fn forget(&mut self, back: &[GoneKey]) {
        back.iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: &GoneKey) {
        let known = self.by_key.remove(key);
        if let Some(stream) = known.and_then(|known| self.streams.remove(&known)) {
            self.bytes -= stream.bytes();
        }
    }

    /// Forgets the oldest ones, as far as the bounds want it.
    pub(super) fn limit(&mut self, bounds: &StatusBounds) {
        while let Some((_, oldest)) = self.streams.first_key_value() {
            let fits = self.streams.len() <= bounds.gone
                && self.bytes <= bounds.gone_bytes
                && oldest.went.elapsed() <= bounds.gone_for;
            if fits {
                break;
            }
            let key = oldest.key();
            self.remove(&key);
        }
    }

    /// The streams, the last one first.
    pub(super) fn list(&self, now: Instant) -> Vec<GoneStream> {
        let aged = |stream: &GoneStream| {
            let since = now.saturating_duration_since(stream.went);
            GoneStream { since, ..stream.clone() }
        };
        self.streams.values().rev().map(aged).collect()
    }
}
