//! The messages of LRS as values: a client's report, and the server's response. Both sides speak in them.
//!
//! Numbers are those since the last report, except for the calls in progress, which are those of
//! now. Not here: the halves of a stream (`client::load`, `server::load`), and bytes
//! (`chancery_proto::wire`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::{Locality, Node};

/// The cluster that load is counted for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadKey {
    /// The cluster.
    pub cluster: Arc<str>,
    /// The name its endpoints are found under; empty if that is the cluster's.
    pub service: Arc<str>,
}

/// A `LoadStatsRequest`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// The node that reports, on the first message of a stream.
    pub node: Option<Arc<Node>>,
    /// The calls since the last report.
    pub clusters: Vec<ClusterStats>,
}

/// The calls to one cluster in some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterStats {
    /// The cluster.
    pub key: LoadKey,
    /// The calls, by where they went.
    pub localities: BTreeMap<Locality, LocalityStats>,
    /// Calls that were dropped by the configuration, by category.
    pub drops: BTreeMap<Arc<str>, u64>,
    /// All calls that were dropped, those without a category too.
    pub dropped: u64,
    /// The time in which they happened.
    pub interval: Duration,
}

/// The calls to one locality.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalityStats {
    /// Calls that began.
    pub issued: u64,
    /// Calls that ended well.
    pub succeeded: u64,
    /// Calls that ended otherwise.
    pub errored: u64,
    /// Calls that have begun and not ended, now.
    pub in_progress: u64,
    /// The reports of endpoints on their processors.
    pub cpu: MetricStats,
    /// Their reports on memory.
    pub mem: MetricStats,
    /// Their reports on whatever limits them.
    pub application: MetricStats,
    /// Their other reports, by the name each is reported under.
    pub named: BTreeMap<Arc<str>, MetricStats>,
    /// The calls to single endpoints, by address, as far as the client tells them apart. They are counted
    /// above too.
    pub endpoints: BTreeMap<Arc<str>, EndpointStats>,
}

/// The calls to one endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointStats {
    /// Calls that began.
    pub issued: u64,
    /// Calls that ended well.
    pub succeeded: u64,
    /// Calls that ended otherwise.
    pub errored: u64,
    /// Calls that have begun and not ended, now.
    pub in_progress: u64,
    /// The reports of the endpoint, by the name each is reported under.
    pub named: BTreeMap<Arc<str>, MetricStats>,
}

/// The sum of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MetricStats {
    /// The number of calls that brought it.
    pub requests: u64,
    /// The sum of their values.
    pub total: f64,
}

/// A `LoadStatsResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadResponse {
    /// The clusters that it wants reports of.
    pub clusters: ClusterSelection,
    /// The time between reports; `None` if it is not said, or is no time.
    pub interval: Option<Duration>,
    /// True if it wants the calls to single endpoints too.
    pub by_endpoint: bool,
}

/// The clusters that a server wants reports of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSelection {
    /// All there are.
    All,
    /// These.
    Named(BTreeSet<Arc<str>>),
}

impl ClusterSelection {
    pub(crate) fn covers(&self, cluster: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(cluster),
        }
    }
}

impl ClusterStats {
    /// Returns true if there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.localities.is_empty() && self.drops.is_empty() && self.dropped == 0
    }

    /// Returns the number of calls that were begun or dropped.
    pub(crate) fn calls(&self) -> u64 {
        self.localities.values().map(|stats| stats.issued).sum::<u64>() + self.dropped
    }
}

impl LocalityStats {
    /// Adds the calls of another time, or of another priority. Counts that came from a peer
    /// may be anything.
    pub fn add(&mut self, other: &Self) {
        self.issued = self.issued.saturating_add(other.issued);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.errored = self.errored.saturating_add(other.errored);
        self.in_progress = self.in_progress.saturating_add(other.in_progress);
        self.cpu.add(other.cpu);
        self.mem.add(other.mem);
        self.application.add(other.application);
        add_named(&mut self.named, &other.named);
        for (address, stats) in &other.endpoints {
            self.endpoints.entry(Arc::clone(address)).or_default().add(stats);
        }
    }

    /// Returns true if there is nothing to report.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes out the counts that are reported. Calls that have not ended stay in progress.
    pub(crate) fn take(&mut self) -> Self {
        let rest = Self { in_progress: self.in_progress, ..Self::default() };
        std::mem::replace(self, rest)
    }
}

impl EndpointStats {
    /// Adds the calls of another time, or of another priority.
    pub fn add(&mut self, other: &Self) {
        self.issued = self.issued.saturating_add(other.issued);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.errored = self.errored.saturating_add(other.errored);
        self.in_progress = self.in_progress.saturating_add(other.in_progress);
        add_named(&mut self.named, &other.named);
    }
}

fn add_named(to: &mut BTreeMap<Arc<str>, MetricStats>, other: &BTreeMap<Arc<str>, MetricStats>) {
    for (name, stats) in other {
        to.entry(Arc::clone(name)).or_default().add(*stats);
    }
}

impl MetricStats {
    pub(crate) fn count(&mut self, value: f64) {
        self.add(Self { requests: 1, total: value });
    }

    /// Adds the values of another time.
    pub fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.total += other.total;
    }
}
