//! The tallies of one report server: which clusters report to it, and since when each has not.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counters::ClusterCounters;
use super::stats::{ClusterSelection, ClusterStats, LoadKey};
use crate::Time;

/// All clusters that report, and those that did and have something to tell yet.
#[derive(Debug, Default)]
pub(super) struct LoadStore {
    pages: BTreeMap<LoadKey, ReportingCluster>,
    /// How many of them somebody counts for.
    open: usize,
}

#[derive(Debug)]
struct ReportingCluster {
    tally: Arc<ClusterCounters>,
    /// How many count for it.
    users: usize,
    /// What is in the tally happened since.
    since: Time,
}

/// How many clusters that nobody counts for any more are kept until they are told of. Clusters may
/// come and go for as long as a server cannot be reached.
const MOST_LEFT: usize = 1000;

impl LoadStore {
    /// Somebody counts for a cluster.
    pub(super) fn open(&mut self, now: Time, key: LoadKey) -> Arc<ClusterCounters> {
        let new = || ReportingCluster { tally: Arc::default(), users: 0, since: now };
        let page = self.pages.entry(key).or_insert_with(new);
        self.open += usize::from(page.users == 0);
        page.users += 1;
        Arc::clone(&page.tally)
    }

    /// Somebody counts for it no longer. How many calls nobody will ever be told of because of that.
    pub(super) fn close(&mut self, key: &LoadKey) -> u64 {
        let Some(page) = self.pages.get_mut(key).filter(|page| page.users > 0) else { return 0 };
        page.users -= 1;
        if page.users > 0 {
            return 0;
        }
        self.open -= 1;
        if self.pages.len() - self.open <= MOST_LEFT {
            return 0;
        }
        let left = self.pages.iter().filter(|(_, page)| page.users == 0);
        let oldest = left.min_by_key(|(_, page)| page.since).map(|(key, _)| key.clone());
        oldest.map_or(0, |key| self.forget(&key))
    }

    /// Whether somebody counts for any.
    pub(super) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Takes out what happened until now.
    pub(super) fn take(&mut self, now: Time, asked: &ClusterSelection) -> Vec<ClusterStats> {
        let mut all = Vec::new();
        self.pages.retain(|key, page| {
            if !asked.covers(&key.cluster) {
                return true;
            }
            let stats = page.take(now, key);
            if !stats.is_empty() {
                all.push(stats);
            }
            page.users > 0
        });
        all
    }

    /// What was taken out just now could not be told.
    pub(super) fn give_back(&mut self, now: Time, all: &[ClusterStats]) {
        for stats in all {
            let since = Time(now.0.saturating_sub(stats.interval));
            let new = || ReportingCluster { tally: Arc::default(), users: 0, since };
            let page = self.pages.entry(stats.key.clone()).or_insert_with(new);
            page.since = page.since.min(since);
            page.tally.give_back(stats);
        }
    }

    /// Drops what nobody will be told of: how many calls that were.
    pub(super) fn forget_left(&mut self) -> u64 {
        let left = self.pages.iter().filter(|(_, page)| page.users == 0);
        let left: Vec<_> = left.map(|(key, _)| key.clone()).collect();
        left.iter().map(|key| self.forget(key)).sum()
    }

    fn forget(&mut self, key: &LoadKey) -> u64 {
        let page = self.pages.remove(key);
        page.map_or(0, |mut page| page.take(Time::default(), key).calls())
    }
}

impl ReportingCluster {
    fn take(&mut self, now: Time, key: &LoadKey) -> ClusterStats {
        let interval = now.0.saturating_sub(self.since.0);
        self.since = now;
        let mut stats = ClusterStats { key: key.clone(), interval, ..ClusterStats::default() };
        self.tally.take(&mut stats);
        stats
    }
}
