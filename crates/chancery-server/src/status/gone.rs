//! The streams that are gone, for a while: what their clients held last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_core::{Node, TypeUrl, Variant};
use tokio::time::Instant;

use super::bounds::StatusBounds;
use super::card::RejectionNote;
use crate::policy::Peer;
use crate::store::AudienceName;

/// A stream that is gone. It is forgotten when somebody sees one of the same node and service that was opened
/// after it went. Each of those takes the place of one: if several clients have one id, each has to come back.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GoneStream {
    /// The number of the stream.
    pub id: u64,
    /// The id of the node.
    pub node: Arc<str>,
    /// The cluster of the node.
    pub cluster: Arc<str>,
    /// The other end of the connection, without its certificates.
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
    /// The number of the last stream that was opened before it went.
    pub(super) before: u64,
}

/// The streams that are gone, no more than the bounds allow.
#[derive(Default)]
pub(super) struct GoneStreams {
    /// The streams, in the order in which they went.
    streams: BTreeMap<u64, Arc<GoneStream>>,
    /// The places of the streams of each node and service, by a hash.
    by_node: HashMap<u64, BTreeSet<u64>>,
    keys: RandomState,
    by_address: HashMap<Option<IpAddr>, OfAddress>,
    last: u64,
    bytes: usize,
}

/// The streams from one address.
#[derive(Default)]
struct OfAddress {
    places: BTreeSet<u64>,
    bytes: usize,
}

/// One address may take that part of the bounds before its own streams are forgotten for its new ones.
const PARTS: usize = 8;

/// The number of streams of one node and service among which that one is found whose client is back.
const MOST_COMPARED: usize = 16;

impl GoneStream {
    /// The bytes that it keeps, about.
    fn bytes(&self) -> usize {
        // Three times, for the maps.
        3 * size_of::<Self>()
            + self.peer.held_bytes()
            + self.node.len()
            + self.cluster.len()
            + self.rejections.iter().map(RejectionNote::bytes).sum::<usize>()
    }

    fn is_of(&self, node: &Node, only: Option<&TypeUrl>) -> bool {
        *self.node == *node.id && *self.cluster == *node.cluster && self.type_url.as_ref() == only
    }
}

impl GoneStreams {
    pub(super) fn add(&mut self, stream: GoneStream, bounds: &StatusBounds) {
        self.last += 1;
        let (bytes, address) = (stream.bytes(), stream.peer.ip());
        self.bytes += bytes;
        let of_address = self.by_address.entry(address).or_default();
        of_address.places.insert(self.last);
        of_address.bytes += bytes;
        self.by_node.entry(self.hash_of(&stream)).or_default().insert(self.last);
        self.streams.insert(self.last, Arc::new(stream));
        while self.streams.len() > bounds.gone || self.bytes > bounds.gone_bytes {
            self.make_room(address, bounds);
        }
        self.forget_old(bounds);
    }

    /// A stream is there. If it was opened after one of the same node and service had gone, its client is back,
    /// and one of those is forgotten. Nobody knows which one of several is: so that no landing is told too early,
    /// the time of the one that went first is forgotten, and the load of the one that had the last one. Returns
    /// the place of the one that is forgotten.
    pub(super) fn is_back(&mut self, id: u64, node: &Node, only: Option<&TypeUrl>) -> Option<u64> {
        let key = self.keys.hash_one((&*node.id, &*node.cluster, only));
        let places = self.by_node.get(&key).into_iter().flatten();
        let gone = places.filter_map(|at| self.streams.get(at).map(|stream| (*at, stream)));
        let earlier = gone.take_while(|(_, stream)| stream.before < id).take(MOST_COMPARED);
        let mut same = earlier.filter(|(_, stream)| stream.is_of(node, only));
        let (first, stream) = same.next()?;
        let others = same.map(|(at, stream)| (stream.landed, at));
        let (had, newest) = (stream.landed, others.max());
        self.remove(first);
        if let Some((landed, at)) = newest
            && had < landed
            && let Some(stream) = self.streams.get_mut(&at)
        {
            Arc::make_mut(stream).landed = had;
        }
        Some(first)
    }

    /// Forgets the stream that went first: of those of an address, if it has more than its part.
    fn make_room(&mut self, address: Option<IpAddr>, bounds: &StatusBounds) {
        let mine = self.by_address.get(&address).filter(|of_address| {
            of_address.places.len() > bounds.gone / PARTS
                || of_address.bytes > bounds.gone_bytes / PARTS
        });
        let first = match mine {
            Some(mine) => mine.places.first(),
            None => self.streams.keys().next(),
        };
        if let Some(at) = first.copied() {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: u64) {
        let Some(stream) = self.streams.remove(&at) else { return };
        let (bytes, address, key) = (stream.bytes(), stream.peer.ip(), self.hash_of(&stream));
        self.bytes -= bytes;
        if let Some(places) = self.by_node.get_mut(&key) {
            places.remove(&at);
            if places.is_empty() {
                self.by_node.remove(&key);
            }
        }
        if let Some(of_address) = self.by_address.get_mut(&address) {
            of_address.places.remove(&at);
            of_address.bytes -= bytes;
            if of_address.places.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }

    fn hash_of(&self, stream: &GoneStream) -> u64 {
        self.keys.hash_one((&*stream.node, &*stream.cluster, stream.type_url.as_ref()))
    }

    /// Forgets the streams that went long ago.
    pub(super) fn forget_old(&mut self, bounds: &StatusBounds) {
        while let Some((at, oldest)) = self.streams.first_key_value() {
            if oldest.went.elapsed() <= bounds.gone_for {
                break;
            }
            self.remove(*at);
        }
    }

    /// The streams and their places, in the order in which they went.
    pub(super) fn list(&self) -> Vec<(u64, Arc<GoneStream>)> {
        self.streams.iter().map(|(at, stream)| (*at, Arc::clone(stream))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str) -> Node {
        Node { id: id.to_owned(), ..Node::default() }
    }

    fn stream(id: u64, node: &str, host: u8, before: u64, landed: u64) -> GoneStream {
        let address = Some(([127, 0, 0, host], 1).into());
        GoneStream {
            id,
            node: node.into(),
            cluster: "".into(),
            peer: Arc::new(Peer { address, tls: false, certificates: Vec::new() }),
            audience: "all".into(),
            variant: Variant::Sotw,
            type_url: None,
            at: SystemTime::now(),
            since: Duration::ZERO,
            code: None,
            landed,
            rejections: Vec::new(),
            went: Instant::now(),
            before,
        }
    }

    fn ids(gone: &GoneStreams) -> Vec<u64> {
        gone.list().iter().rev().map(|(_, stream)| stream.id).collect()
    }

    #[test]
    fn a_client_is_back_if_its_stream_was_opened_after_the_other_had_gone() {
        let (mut gone, bounds) = (GoneStreams::default(), StatusBounds::default());
        gone.add(stream(1, "n", 1, 2, 0), &bounds);
        gone.is_back(2, &node("n"), None);
        assert_eq!(ids(&gone), [1], "another client of the same id");
        gone.is_back(3, &node("m"), None);
        assert_eq!(ids(&gone), [1]);
        gone.is_back(3, &node("n"), None);
        assert_eq!(ids(&gone), [0; 0]);
        assert!(gone.by_node.is_empty() && gone.by_address.is_empty());
        assert_eq!(gone.bytes, 0);
    }

    #[test]
    fn of_several_clients_with_one_id_each_has_to_come_back() {
        let (mut gone, bounds) = (GoneStreams::default(), StatusBounds::default());
        gone.add(stream(1, "n", 1, 2, 6), &bounds);
        gone.add(stream(2, "n", 1, 2, 7), &bounds);
        assert_eq!(ids(&gone), [2, 1]);
        gone.is_back(3, &node("n"), None);
        assert_eq!(ids(&gone), [2]);
        assert_eq!(gone.list()[0].1.landed, 6, "the one that lacks a load may be away still");
        gone.is_back(4, &node("n"), None);
        assert_eq!(ids(&gone), [0; 0]);
    }

    #[test]
    fn an_address_with_many_streams_has_its_own_forgotten() {
        let mut gone = GoneStreams::default();
        let bounds = StatusBounds { gone: 16, ..StatusBounds::default() };
        gone.add(stream(1, "honest", 1, 1, 0), &bounds);
        for id in 2..100 {
            gone.add(stream(id, &id.to_string(), 2, id, 0), &bounds);
        }
        let ids = ids(&gone);
        assert_eq!((ids.len(), ids[0], ids[15]), (16, 99, 1));
        let bounds = StatusBounds { gone_bytes: 20_000, ..bounds };
        for id in 100..200 {
            gone.add(stream(id, &"n".repeat(4000), 2, id, 0), &bounds);
        }
        assert!(gone.bytes <= 20_000 && gone.list()[0].1.id == 1);
    }
}
