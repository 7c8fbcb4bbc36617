//! All streams at one moment, and the nodes that they are of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::Node;

use super::gone::GoneStream;
use super::landing::Landing;
use super::stream_status::{StreamState, StreamStatus};
use crate::store::AudienceName;

/// All streams at one moment. Those who ask at the same moment share it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fleet {
    /// The last load that was shown before the streams were looked at.
    pub load: u64,
    /// The open streams, by number.
    pub streams: Vec<StreamStatus>,
    /// The streams that are gone, as far as they are remembered; the last one first.
    pub gone: Vec<GoneStream>,
    /// The time for which a load waits for a stream that is gone.
    pub grace: Duration,
    pub(super) mark: u64,
}

/// A node: all streams whose clients state one id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus<'a> {
    /// The id.
    pub id: &'a str,
    /// Its open streams, by number.
    pub streams: Vec<&'a StreamStatus>,
    /// Its streams that are gone, the last one first.
    pub gone: Vec<&'a GoneStream>,
    /// The worst state of its streams; `None` if the node is gone.
    pub state: Option<StreamState>,
    /// The time for which it is in that state, as long as its stream is; of a node that is gone, the time
    /// since it went.
    pub since: Duration,
    /// The audiences of its streams.
    pub audiences: BTreeSet<&'a AudienceName>,
    /// True if its streams state different clusters, localities or metadata.
    pub claims_differ: bool,
    /// True if its streams come from several addresses: two nodes have one id, or there is a proxy between.
    pub several_peers: bool,
}

impl Fleet {
    /// The landing of a load on those streams that `counts` returns true for. A stream without an audience
    /// does not count. Of streams that are gone, those count that went within the grace and had not the load.
    pub fn landing(self: &Arc<Self>, load: u64, counts: impl Fn(Candidate<'_>) -> bool) -> Landing {
        Landing::new(Arc::clone(self), load, counts)
    }

    /// Returns true if a load waits for a stream that is gone: it went within the grace, and had not the load.
    pub fn awaits(&self, gone: &GoneStream, load: u64) -> bool {
        gone.since <= self.grace && gone.landed < load
    }

    /// The nodes by id, open and gone. Streams of clients that do not say which node they are have none.
    pub fn nodes(&self) -> Vec<NodeStatus<'_>> {
        let mut nodes = BTreeMap::<&str, (Vec<&StreamStatus>, Vec<&GoneStream>)>::new();
        for stream in &self.streams {
            if let Some(node) = &stream.node {
                nodes.entry(&node.id).or_default().0.push(stream);
            }
        }
        for stream in &self.gone {
            nodes.entry(&stream.node).or_default().1.push(stream);
        }
        nodes.into_iter().map(|(id, (streams, gone))| NodeStatus::new(id, streams, gone)).collect()
    }

    /// The numbers of open streams in each state.
    pub fn states(&self) -> BTreeMap<StreamState, usize> {
        let mut states: BTreeMap<_, _> = StreamState::ALL.map(|state| (state, 0)).into();
        for stream in &self.streams {
            *states.entry(stream.state).or_default() += 1;
        }
        states
    }

    /// The mark of the moment, for [`StatusBook::changed_since`](crate::StatusBook::changed_since).
    pub fn mark(&self) -> u64 {
        self.mark
    }
}

/// A stream that may count for a landing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// The id of the node, if the client states one.
    pub node: Option<&'a str>,
    /// The cluster of the node; empty if the client states none.
    pub cluster: &'a str,
    /// The audience.
    pub audience: &'a AudienceName,
}

impl<'a> NodeStatus<'a> {
    fn new(id: &'a str, streams: Vec<&'a StreamStatus>, gone: Vec<&'a GoneStream>) -> Self {
        let state = streams.iter().map(|stream| stream.state).max();
        let of_state = streams.iter().filter(|stream| Some(stream.state) == state);
        let since = of_state.map(|stream| stream.since).max();
        let since = since.or_else(|| gone.iter().map(|stream| stream.since).min());
        let addresses: BTreeSet<Option<IpAddr>> =
            streams.iter().map(|stream| stream.peer.ip()).collect();
        let mut nodes = streams.iter().filter_map(|stream| stream.node.as_deref());
        let first = nodes.next();
        Self {
            id,
            state,
            since: since.unwrap_or_default(),
            audiences: streams.iter().filter_map(|stream| stream.audience.as_ref()).collect(),
            claims_differ: first.is_some_and(|first| nodes.any(|other| differ(first, other))),
            several_peers: addresses.len() > 1,
            streams,
            gone,
        }
    }
}

/// Returns true if two streams say different things of one node. What may change while a stream is open, and
/// the program, are left out.
fn differ(one: &Node, other: &Node) -> bool {
    one.cluster != other.cluster
        || one.locality != other.locality
        || (!Arc::ptr_eq(&one.metadata, &other.metadata) && one.metadata != other.metadata)
}
