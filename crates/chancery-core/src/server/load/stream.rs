//! One stream of load reports: what its client is told to report, and how often.
//!
//! The first response has the final choice wherever that can be, because some clients read no other (S-132).
//! Streams are many and clusters too, so a stream keeps no list of those it has asked for, but a digest.
//! Not here: what is reported (`book`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3;

use super::interval::{LoadInterval, LoadReporting};
use crate::Node;
use crate::load::{ClusterSelection, LoadResponse};

/// The server's half of one stream of load reports.
#[derive(Debug, Default)]
pub struct LoadStream {
    /// The client of the first message, once that has come; `None` inside if it does not say who it is.
    client: Option<Option<Arc<Node>>>,
    /// The choice that the client may not know, until it is told.
    wanted: Option<LoadResponse>,
    told: Option<Told>,
}

/// A response that the client was given.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// The digest of its names; none if all clusters are asked for.
    names: Option<u128>,
    interval: Option<Duration>,
    by_endpoint: bool,
}

impl LoadStream {
    /// Takes in that a message came, with this node. Returns true if it is the first one, which says who the
    /// client is. Later ones may not change that.
    pub fn receive(&mut self, node: Option<Arc<Node>>) -> bool {
        let is_first = self.client.is_none();
        if is_first {
            self.client = Some(node.filter(|node| !node.id.is_empty()));
        }
        is_first
    }

    /// The client, if it has said who it is.
    pub fn node(&self) -> Option<&Arc<Node>> {
        self.client.as_ref()?.as_ref()
    }

    /// The client is to report so from now on, and never for `None`. `known` are the clusters that it
    /// has, or `None` if these are the ones that it was told last; they are asked for if it has to be given a
    /// list.
    pub fn want(
        &mut self,
        reporting: Option<LoadReporting>,
        known: impl FnOnce() -> Option<BTreeSet<Arc<str>>>,
    ) {
        let clusters = match reporting {
            None => ClusterSelection::Named(BTreeSet::new()),
            Some(_) if self.takes_all() => ClusterSelection::All,
            Some(_) => match known() {
                Some(names) => ClusterSelection::Named(names),
                None => return,
            },
        };
        // A client that is to report nothing gets an interval too, because it has to be positive (S-131).
        let interval = reporting.map_or(LoadInterval::MOST, |it| it.interval).time();
        let by_endpoint = reporting.is_some_and(|it| it.by_endpoint);
        self.wanted = Some(LoadResponse { clusters, interval: Some(interval), by_endpoint });
    }

    /// The time between two reports that the client was told.
    pub fn told(&self) -> Option<Duration> {
        self.told.as_ref()?.interval
    }

    /// The next response: the first one as soon as the client has spoken, and later ones if something else is
    /// wanted than it was told.
    pub fn poll(&mut self) -> Option<LoadResponse> {
        self.client.as_ref()?;
        let wanted = self.wanted.take()?;
        let told = Some(Told::of(&wanted));
        if self.told == told {
            return None;
        }
        self.told = told;
        Some(wanted)
    }

    /// Returns true if the client announces that it can be told to report all clusters (S-132).
    fn takes_all(&self) -> bool {
        let features = self.node().map(|node| &*node.client_features).unwrap_or_default();
        features.iter().any(|feature| feature == SEND_ALL)
    }
}

impl Told {
    fn of(response: &LoadResponse) -> Self {
        let names = match &response.clusters {
            ClusterSelection::All => None,
            ClusterSelection::Named(names) => {
                let mut digest = Xxh3::new();
                for name in names {
                    digest.update(&name.len().to_le_bytes());
                    digest.update(name.as_bytes());
                }
                Some(digest.digest128())
            }
        };
        Self { names, interval: response.interval, by_endpoint: response.by_endpoint }
    }
}

/// The feature of clients that take `send_all_clusters`.
const SEND_ALL: &str = "envoy.lrs.supports_send_all_clusters";
