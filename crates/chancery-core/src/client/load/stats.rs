//! What is said about load, as values: a client's report, and what the server asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::{Locality, Node};

/// What load is counted for.
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
    /// Who reports, on the first message of a stream.
    pub node: Option<Arc<Node>>,
    /// What happened since the last report.
    pub clusters: Vec<ClusterStats>,
}

/// What happened to the calls to one cluster in some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterStats {
    /// Which cluster.
    pub key: LoadKey,
    /// The calls, by where they went.
    pub localities: BTreeMap<Locality, LocalityStats>,
    /// Calls that were dropped by the configuration, by category.
    pub drops: BTreeMap<Arc<str>, u64>,
    /// All calls that were dropped, those without a category too.
    pub dropped: u64,
    /// In which time.
    pub interval: Duration,
}

/// What happened to the calls to one locality.
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
    /// What endpoints said of their processors.
    pub cpu: MetricStats,
    /// What they said of their memory.
    pub mem: MetricStats,
    /// What they said of whatever limits them.
    pub application: MetricStats,
    /// What else they said, by the name it is reported under.
    pub named: BTreeMap<Arc<str>, MetricStats>,
}

/// The sum of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MetricStats {
    /// How many calls brought it.
    pub requests: u64,
    /// The sum of what they brought.
    pub total: f64,
}

/// A `LoadStatsResponse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadResponse {
    /// Of which clusters.
    pub clusters: ClusterSelection,
    /// How often; `None` if it is not said, or is no time.
    pub interval: Option<Duration>,
}

/// The clusters a server wants to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSelection {
    /// All there are.
    All,
    /// These.
    Named(BTreeSet<Arc<str>>),
}

impl ClusterSelection {
    pub(super) fn covers(&self, cluster: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(cluster),
        }
    }
}

impl ClusterStats {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.localities.is_empty() && self.drops.is_empty() && self.dropped == 0
    }

    /// How many calls were begun or dropped.
    pub(super) fn calls(&self) -> u64 {
        self.localities.values().map(|stats| stats.issued).sum::<u64>() + self.dropped
    }
}

impl LocalityStats {
    /// Adds what happened at another time, or with another priority. Counts that came from a peer
    /// may be anything.
    pub fn add(&mut self, other: &Self) {
        self.issued = self.issued.saturating_add(other.issued);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.errored = self.errored.saturating_add(other.errored);
        self.in_progress = self.in_progress.saturating_add(other.in_progress);
        self.cpu.add(other.cpu);
        self.mem.add(other.mem);
        self.application.add(other.application);
        for (name, stats) in &other.named {
            self.named.entry(Arc::clone(name)).or_default().add(*stats);
        }
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is told, and so not counted any more; what has not ended stays in progress.
    pub(super) fn take(&mut self) -> Self {
        let rest = Self { in_progress: self.in_progress, ..Self::default() };
        std::mem::replace(self, rest)
    }
}

impl MetricStats {
    pub(super) fn count(&mut self, value: f64) {
        self.add(Self { requests: 1, total: value });
    }

    /// Adds what was said at another time.
    pub fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.total += other.total;
    }
}
