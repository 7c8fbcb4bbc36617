//! The counts of one cluster that are not reported yet: a few locks, each held for a moment.
//!
//! Each locality is counted under a lock of its own, so that what a report says fits together:
//! calls that began are those that ended and those that have not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::metrics::{OrcaReport, ReportedMetrics};
use crate::Locality;
use crate::load::{ClusterStats, LocalityStats};

/// The calls to one cluster.
#[derive(Debug, Default)]
pub struct ClusterCounters {
    localities: Mutex<BTreeMap<Locality, Arc<LocalityCounters>>>,
    drops: Mutex<Drops>,
}

/// The calls to one locality of it.
#[derive(Debug, Default)]
pub struct LocalityCounters(Mutex<LocalityStats>);

#[derive(Debug, Default)]
struct Drops {
    by_category: BTreeMap<Arc<str>, u64>,
    total: u64,
}

impl ClusterCounters {
    /// Returns the counters of a locality.
    pub fn locality(&self, locality: &Locality) -> Arc<LocalityCounters> {
        let mut localities = lock(&self.localities);
        if let Some(known) = localities.get(locality) {
            return Arc::clone(known);
        }
        let new = Arc::default();
        localities.insert(locality.clone(), Arc::clone(&new));
        new
    }

    /// A call was dropped: for a category of the configuration, or for none, as circuit breakers
    /// drop (C-132).
    pub fn dropped(&self, category: Option<&str>) {
        let mut drops = lock(&self.drops);
        drops.total += 1;
        let Some(category) = category else { return };
        match drops.by_category.get_mut(category) {
            Some(count) => *count += 1,
            None => {
                drops.by_category.insert(category.into(), 1);
            }
        }
    }

    /// Takes out the counts. Localities that nobody counts for any more are forgotten.
    pub(super) fn take(&self, into: &mut ClusterStats) {
        lock(&self.localities).retain(|locality, tally| {
            let stats = lock(&tally.0).take();
            if !stats.is_empty() {
                into.localities.insert(locality.clone(), stats);
                return true;
            }
            // Only under the lock held here does somebody new begin to count for it.
            Arc::strong_count(tally) > 1
        });
        let drops = std::mem::take(&mut *lock(&self.drops));
        into.drops = drops.by_category;
        into.dropped = drops.total;
    }

    /// Puts back counts that were taken out and could not be reported.
    pub(super) fn give_back(&self, stats: &ClusterStats) {
        for (locality, stats) in &stats.localities {
            let tally = self.locality(locality);
            let mut now = lock(&tally.0);
            // Those in progress were never taken out.
            now.add(&LocalityStats { in_progress: 0, ..stats.clone() });
        }
        let mut drops = lock(&self.drops);
        drops.total += stats.dropped;
        for (category, count) in &stats.drops {
            *drops.by_category.entry(Arc::clone(category)).or_default() += count;
        }
    }
}

impl LocalityCounters {
    /// A call has begun.
    pub fn started(&self) {
        let mut stats = lock(&self.0);
        stats.issued += 1;
        stats.in_progress += 1;
    }

    /// A call that had begun has ended, well or not; the endpoint may have said something with it.
    pub fn ended(&self, succeeded: bool, said: Option<(&OrcaReport, &ReportedMetrics)>) {
        let mut stats = lock(&self.0);
        stats.in_progress = stats.in_progress.saturating_sub(1);
        if succeeded {
            stats.succeeded += 1;
        } else {
            stats.errored += 1;
        }
        if let Some((report, metrics)) = said {
            metrics.count(report, &mut stats);
        }
    }
}

/// Counts are values: whoever panicked while counting has counted.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
