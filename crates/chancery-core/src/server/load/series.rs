//! The calls to one locality or endpoint of a cluster, or the drops of a cluster, of all reporters together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::counts::{LeftOut, LoadCounts, MOST_CALLS};
use super::timeline::Timeline;
use crate::load::{ClusterStats, EndpointStats, LoadKey, LocalityStats, MetricStats};
use crate::{Locality, Time};

/// The calls that belong together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesKey {
    /// The cluster, with the name its endpoints are found under.
    pub cluster: LoadKey,
    /// The locality that the calls went to; `None` for those that were dropped and went nowhere.
    pub locality: Option<Arc<Locality>>,
    /// The address of the endpoint, if the series is about one alone. Its calls are counted in the series of
    /// its locality too.
    pub endpoint: Option<Arc<str>>,
}

/// The calls of all reporters.
#[derive(Debug, Default)]
pub(super) struct Series {
    pub(super) totals: LoadCounts,
    /// The sum of what each reporter said last.
    pub(super) in_progress: u64,
    pub(super) drops: BTreeMap<Arc<str>, u64>,
    pub(super) metrics: BTreeMap<Arc<str>, MetricStats>,
    pub(super) timeline: Timeline,
    /// The number of the series, in the order in which they were made.
    pub(super) made: u64,
    /// The reporter that is charged for it.
    pub(super) owner: Option<u64>,
    /// Its place among those that nobody is charged for.
    pub(super) left: Option<u64>,
    /// The bytes of names in it that others than its owner reported first.
    pub(super) lent: usize,
}

/// The numbers of one report that belong together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) interval: Duration,
    pub(super) counts: LoadCounts,
    pub(super) in_progress: u64,
    pub(super) named: Named<'a>,
}

/// The numbers with names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named<'a> {
    Metrics(&'a LocalityStats),
    EndpointMetrics(&'a EndpointStats),
    Drops(&'a ClusterStats),
}

/// The most metrics of one series, and the most categories of drops.
pub(super) const MOST_NAMED: usize = 32;
/// The most bytes of the name of a metric or category.
pub(super) const MOST_NAME_BYTES: usize = 256;
/// The bytes of a metric or category without its name.
const NAMED_BYTES: usize = 96;

impl SeriesKey {
    /// The length of its longest text.
    pub(super) fn longest(&self) -> usize {
        self.texts().into_iter().max().unwrap_or_default()
    }

    /// The bytes of its texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.texts().into_iter().sum()
    }

    fn texts(&self) -> [usize; 6] {
        let LoadKey { cluster, service } = &self.cluster;
        let place = self.locality.as_deref();
        let [region, zone, sub_zone] =
            place.map_or([0; 3], |it| [it.region.len(), it.zone.len(), it.sub_zone.len()]);
        let endpoint = self.endpoint.as_ref().map_or(0, |address| address.len());
        [cluster.len(), service.len(), region, zone, sub_zone, endpoint]
    }
}

impl Series {
    /// The bytes of a series and its key, without their texts.
    const BYTES: usize = size_of::<Self>() + size_of::<SeriesKey>() + 128 + Timeline::BYTES;

    /// The bytes that it keeps.
    pub(super) fn bytes(&self, key: &SeriesKey) -> usize {
        let metrics = self.metrics.keys().map(|name| NAMED_BYTES + name.len()).sum::<usize>();
        let drops = self.drops.keys().map(|name| NAMED_BYTES + name.len()).sum::<usize>();
        Self::BYTES + key.text_bytes() + metrics + drops
    }

    /// Adds the numbers of a report. `allows` is asked for the bytes of names that are new.
    pub(super) fn add(
        &mut self,
        now: Time,
        part: &Part<'_>,
        allows: &mut dyn FnMut(usize) -> bool,
    ) -> LeftOut {
        self.totals.add(part.counts);
        self.timeline.add(now, part.interval, part.counts);
        let mut left_out = LeftOut::default();
        match part.named {
            Named::Metrics(stats) => {
                let LocalityStats { cpu, mem, application, named, .. } = stats;
                let own = [(CPU, cpu), (MEMORY, mem), (APPLICATION, application)];
                for (name, metric) in own.into_iter().filter(|(_, metric)| metric.requests > 0) {
                    self.add_metric(&Arc::from(name), *metric, &mut left_out, allows);
                }
                for (name, metric) in named {
                    self.add_metric(name, *metric, &mut left_out, allows);
                }
            }
            Named::EndpointMetrics(stats) => {
                for (name, metric) in &stats.named {
                    self.add_metric(name, *metric, &mut left_out, allows);
                }
            }
            Named::Drops(stats) => {
                for (name, count) in &stats.drops {
                    if *count > MOST_CALLS {
                        left_out.numbers += 1;
                    } else if let Some(sum) = entry(&mut self.drops, name, &mut left_out, allows) {
                        *sum = sum.saturating_add(*count);
                    }
                }
            }
        }
        left_out
    }

    fn add_metric(
        &mut self,
        name: &Arc<str>,
        metric: MetricStats,
        left_out: &mut LeftOut,
        allows: &mut dyn FnMut(usize) -> bool,
    ) {
        if metric.requests > MOST_CALLS || !metric.total.is_finite() {
            left_out.numbers += 1;
            return;
        }
        let Some(sum) = entry(&mut self.metrics, name, left_out, allows) else { return };
        // Two numbers that are finite may have a sum that is none.
        if (sum.total + metric.total).is_finite() {
            sum.add(metric);
        } else {
            left_out.numbers += 1;
        }
    }
}

/// The sum under a name, which is made if there is room for it.
fn entry<'a, V: Default>(
    map: &'a mut BTreeMap<Arc<str>, V>,
    name: &Arc<str>,
    left_out: &mut LeftOut,
    allows: &mut dyn FnMut(usize) -> bool,
) -> Option<&'a mut V> {
    if !map.contains_key(name) {
        if name.len() > MOST_NAME_BYTES {
            left_out.names += 1;
            return None;
        }
        if map.len() >= MOST_NAMED {
            left_out.rows += 1;
            return None;
        }
        if !allows(NAMED_BYTES + name.len()) {
            left_out.memory += 1;
            return None;
        }
    }
    Some(map.entry(Arc::clone(name)).or_default())
}

/// The names of the metrics that have fields of their own.
const CPU: &str = "cpu_utilization";
const MEMORY: &str = "mem_utilization";
const APPLICATION: &str = "application_utilization";
