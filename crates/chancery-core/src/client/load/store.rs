//! The counters of one report server: the clusters that report to it, and the time since each has
//! not.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counters::ClusterCounters;
use crate::Time;
use crate::load::{ClusterSelection, ClusterStats, LoadKey};

/// All clusters that report, and those that did and have something to report yet.
#[derive(Debug, Default)]
pub(super) struct LoadStore {
    clusters: BTreeMap<LoadKey, ReportingCluster>,
    /// The number of clusters that somebody counts for.
    open: usize,
}

/// A cluster with its counters.
#[derive(Debug)]
struct ReportingCluster {
    counters: Arc<ClusterCounters>,
    /// The number of those that count for it.
    users: usize,
    /// The time since which the counters count.
    since: Time,
}

/// The number of clusters that nobody counts for any more and that are kept until they are
/// reported. Clusters may come and go for as long as a server cannot be reached.
const MOST_LEFT: usize = 1000;

impl LoadStore {
    /// Somebody counts for a cluster.
    pub(super) fn open(&mut self, now: Time, key: LoadKey) -> Arc<ClusterCounters> {
        let new = || ReportingCluster { counters: Arc::default(), users: 0, since: now };
        let cluster = self.clusters.entry(key).or_insert_with(new);
        self.open += usize::from(cluster.users == 0);
        cluster.users += 1;
        Arc::clone(&cluster.counters)
    }

    /// Somebody counts for it no longer. Returns the number of calls that are lost because of that.
    pub(super) fn close(&mut self, key: &LoadKey) -> u64 {
        let Some(cluster) = self.clusters.get_mut(key).filter(|cluster| cluster.users > 0) else {
            return 0;
        };
        cluster.users -= 1;
        if cluster.users > 0 {
            return 0;
        }
        self.open -= 1;
        if self.clusters.len() - self.open <= MOST_LEFT {
            return 0;
        }
        let left = self.clusters.iter().filter(|(_, cluster)| cluster.users == 0);
        let oldest = left.min_by_key(|(_, cluster)| cluster.since).map(|(key, _)| key.clone());
        oldest.map_or(0, |key| self.forget(&key))
    }

    /// Returns true if somebody counts for any.
    pub(super) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Takes out the counts until now.
    pub(super) fn take(&mut self, now: Time, selection: &ClusterSelection) -> Vec<ClusterStats> {
        let mut all = Vec::new();
        self.clusters.retain(|key, cluster| {
            if !selection.covers(&key.cluster) {
                return true;
            }
            let stats = cluster.take(now, key);
            if !stats.is_empty() {
                all.push(stats);
            }
            cluster.users > 0
        });
        all
    }

    /// Puts back counts that were taken out just now and could not be reported.
    pub(super) fn give_back(&mut self, now: Time, all: &[ClusterStats]) {
        for stats in all {
            let since = Time(now.0.saturating_sub(stats.interval));
            let new = || ReportingCluster { counters: Arc::default(), users: 0, since };
            let cluster = self.clusters.entry(stats.key.clone()).or_insert_with(new);
            cluster.since = cluster.since.min(since);
            cluster.counters.give_back(stats);
        }
    }

    /// Drops the counts that nobody will hear of. Returns the number of their calls.
    pub(super) fn forget_left(&mut self) -> u64 {
        let left = self.clusters.iter().filter(|(_, cluster)| cluster.users == 0);
        let left: Vec<_> = left.map(|(key, _)| key.clone()).collect();
        left.iter().map(|key| self.forget(key)).sum()
    }

    fn forget(&mut self, key: &LoadKey) -> u64 {
        let cluster = self.clusters.remove(key);
        cluster.map_or(0, |mut cluster| cluster.take(Time::default(), key).calls())
    }
}

impl ReportingCluster {
    fn take(&mut self, now: Time, key: &LoadKey) -> ClusterStats {
        let interval = now.0.saturating_sub(self.since.0);
        self.since = now;
        let mut stats = ClusterStats { key: key.clone(), interval, ..ClusterStats::default() };
        self.counters.take(&mut stats);
        stats
    }
}
