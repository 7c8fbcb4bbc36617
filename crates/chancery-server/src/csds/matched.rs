//! The clients that a question is about, and the streams of each.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use chancery_core::{Node, Variant};
use chancery_proto::NodeMatchers;

use crate::status::{Fleet, StreamStatus};

/// A client: the streams that state one node, from one address. Two nodes with one id are two clients.
#[derive(Clone, Debug)]
pub(super) struct MatchedClient {
    /// The node, as the newest of its streams states it.
    pub(super) node: Arc<Node>,
    /// Its streams by number, each with its variant.
    pub(super) streams: Vec<(u64, Variant)>,
}

impl MatchedClient {
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.streams.iter().map(|(id, _)| *id)
    }
}

/// The clients that meet the matchers, by id.
pub(super) fn clients(fleet: &Fleet, matchers: &NodeMatchers) -> Vec<MatchedClient> {
    let mut found = BTreeMap::<(&str, &str, Option<IpAddr>), MatchedClient>::new();
    for stream in &fleet.streams {
        let Some(node) = stream.node.as_ref().filter(|node| matchers.matches(node)) else {
            continue;
        };
        let address = stream.peer.address.map(|address| address.ip().to_canonical());
        let entry = found.entry((&node.id, &node.cluster, address));
        let client =
            entry.or_insert_with(|| MatchedClient { node: Arc::clone(node), streams: Vec::new() });
        client.node = Arc::clone(node);
        client.streams.push(of(stream));
    }
    found.into_values().collect()
}

fn of(stream: &StreamStatus) -> (u64, Variant) {
    (stream.id, stream.variant)
}

/// The clients in parts that are looked at together, in their order.
pub(super) fn parts(clients: Vec<MatchedClient>) -> impl Iterator<Item = Vec<MatchedClient>> {
    let mut rest = clients.into_iter().peekable();
    std::iter::from_fn(move || {
        let (mut part, mut streams) = (Vec::new(), 0);
        while let Some(client) =
            rest.next_if(|next| part.is_empty() || streams + next.streams.len() <= AT_ONCE)
        {
            streams += client.streams.len();
            part.push(client);
        }
        (!part.is_empty()).then_some(part)
    })
}

/// The streams that are looked at together.
const AT_ONCE: usize = 32;
