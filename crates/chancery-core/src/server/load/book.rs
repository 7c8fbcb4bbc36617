//! The book of all load reports: what each reporter has sent, and the series of all together.
//!
//! A client chooses how many clusters and localities it reports, so each row, and each series with its
//! history, is charged to a reporter: the first one that reported it, and another one when that is gone.
//! Whoever may hold no more has the rest left out, which is counted, and no part of it takes the place of
//! another client's. Series that nobody is charged for are kept within a bound, the last that were left. A name of
//! a metric or category is charged to whoever reported it first and stays when that one is gone; so the names in
//! the series of others have a bound together.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::counts::{LeftOut, LoadCounts, MOST_CALLS};
use super::interval::LoadInterval;
use super::reporter::{Reporter, ReporterView, Row};
use super::series::{Named, Part, Series, SeriesKey};
use super::timeline::Slot;
use crate::load::{ClusterStats, EndpointStats, LocalityStats, MetricStats};
use crate::{Node, Time};

/// The limits of a book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBounds {
    /// The most rows of one reporter: a cluster has one for each locality and endpoint, and one for its drops;
    /// 10,000.
    pub max_rows: usize,
    /// The most bytes of the name of a cluster, service or endpoint, and of each text of a locality; 4 KiB.
    pub max_name_length: usize,
    /// The most bytes of series whose reporters are gone; 16 MiB, which is some 5,000 of them.
    pub max_left_bytes: usize,
    /// The most bytes of names of metrics and categories in the series of others; 16 MiB.
    pub max_lent_bytes: usize,
}

/// All that is reported.
#[derive(Debug)]
pub struct LoadBook {
    bounds: LoadBounds,
    reporters: BTreeMap<u64, Reporter>,
    series: BTreeMap<Arc<SeriesKey>, Series>,
    /// The series that nobody is charged for, with their bytes, in the order in which they were left.
    left: BTreeMap<u64, (Arc<SeriesKey>, usize)>,
    left_bytes: usize,
    /// The bytes of names in series that others are charged for.
    lent_bytes: usize,
    /// The number of series that were made or left so far.
    counted: u64,
}

/// A series, for those who ask.
#[derive(Clone, Debug)]
pub struct SeriesView {
    /// The calls that it is about.
    pub key: Arc<SeriesKey>,
    /// All calls since the series was made.
    pub totals: LoadCounts,
    /// The calls that had begun and not ended when each reporter reported last.
    pub in_progress: u64,
    /// The calls that were dropped, by category.
    pub drops: BTreeMap<Arc<str>, u64>,
    /// The metrics that endpoints reported with calls, by name.
    pub metrics: BTreeMap<Arc<str>, MetricStats>,
    /// The calls of the last minutes, the oldest first.
    pub slots: Vec<Slot>,
}

impl Default for LoadBounds {
    fn default() -> Self {
        Self {
            max_rows: 10_000,
            max_name_length: 4 * 1024,
            max_left_bytes: MIB_16,
            max_lent_bytes: MIB_16,
        }
    }
}

impl LoadBook {
    /// A book without entries.
    pub fn new(bounds: LoadBounds) -> Self {
        Self {
            bounds,
            reporters: BTreeMap::new(),
            series: BTreeMap::new(),
            left: BTreeMap::new(),
            left_bytes: 0,
            lent_bytes: 0,
            counted: 0,
        }
    }

    /// A reporter is there. Its number is its own among those that are.
    pub fn open(&mut self, now: Time, reporter: u64, node: Option<Arc<Node>>) {
        self.close(reporter);
        self.reporters.insert(reporter, Reporter::new(now, node));
    }

    /// A reporter was told to report this often.
    pub fn is_to_report(&mut self, reporter: u64, interval: LoadInterval) {
        if let Some(from) = self.reporters.get_mut(&reporter) {
            from.is_to_report(interval);
        }
    }

    /// The longest time between two reports of a reporter that has sent one: all that was reported of calls
    /// before that has come.
    pub fn longest_interval(&self) -> LoadInterval {
        let reporting = self.reporters.values().filter(|from| from.last.is_some());
        reporting.map(Reporter::interval).max().unwrap_or_default()
    }

    /// Adds the calls to one cluster. `allows` is asked for more bytes, and says whether the reporter may be
    /// charged for them.
    pub fn record(
        &mut self,
        now: Time,
        reporter: u64,
        stats: &ClusterStats,
        allows: &mut dyn FnMut(usize) -> bool,
    ) -> LeftOut {
        // It is taken out, so that the series can be changed together with its rows.
        let Some(mut from) = self.reporters.remove(&reporter) else { return LeftOut::default() };
        from.reported(now, stats.interval);
        let mut entry = Entry { now, by: reporter, left_out: LeftOut::default(), allows };
        for (locality, calls) in &stats.localities {
            let cluster = stats.key.clone();
            let locality = Some(Arc::new(locality.clone()));
            let key = SeriesKey { cluster, locality, endpoint: None };
            self.add_locality(&mut from, &mut entry, stats.interval, key, calls);
        }
        if stats.dropped > MOST_CALLS {
            entry.left_out.numbers += 1;
        } else if stats.dropped > 0 || !stats.drops.is_empty() {
            let counts = LoadCounts { dropped: stats.dropped, ..LoadCounts::default() };
            let named = Named::Drops(stats);
            let part = Part { interval: stats.interval, counts, in_progress: 0, named };
            let key = SeriesKey { cluster: stats.key.clone(), locality: None, endpoint: None };
            self.add(&mut from, &mut entry, key, &part);
        }
        let left_out = entry.left_out;
        self.reporters.insert(reporter, from);
        left_out
    }

    /// The bytes that a reporter is charged for.
    pub fn held_bytes(&self, reporter: u64) -> usize {
        self.reporters.get(&reporter).map_or(0, |from| from.held)
    }

    /// All calls that a reporter has reported.
    pub fn totals(&self, reporter: u64) -> LoadCounts {
        self.reporters.get(&reporter).map_or_else(LoadCounts::default, |from| from.totals)
    }

    /// A reporter is gone.
    pub fn close(&mut self, reporter: u64) {
        while !self.close_part(reporter) {}
    }

    /// A reporter is gone, of which a part is forgotten now. Returns true if that was the rest.
    pub fn close_part(&mut self, reporter: u64) -> bool {
        let Some(gone) = self.reporters.get_mut(&reporter) else { return true };
        let rows: Vec<_> = std::iter::from_fn(|| gone.rows.pop_first()).take(AT_ONCE).collect();
        if gone.rows.is_empty() {
            self.reporters.remove(&reporter);
        }
        for (key, row) in rows {
            self.leave(&key, reporter, row);
        }
        while self.left_bytes > self.bounds.max_left_bytes
            && let Some((_, (key, bytes))) = self.left.pop_first()
        {
            self.left_bytes -= bytes;
            self.series.remove(&key);
        }
        !self.reporters.contains_key(&reporter)
    }

    /// At most so many series, in the order of their keys, those after this one.
    pub fn series_after(
        &self,
        now: Time,
        after: Option<&Arc<SeriesKey>>,
        most: usize,
    ) -> Vec<SeriesView> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let found = self.series.range::<Arc<SeriesKey>, _>((from, Bound::Unbounded)).take(most);
        let view = |(key, series): (&Arc<SeriesKey>, &Series)| SeriesView {
            key: Arc::clone(key),
            totals: series.totals,
            in_progress: series.in_progress,
            drops: series.drops.clone(),
            metrics: series.metrics.clone(),
            slots: series.timeline.slots(now),
        };
        found.map(view).collect()
    }

    /// The next reporter after this one, in the order of their numbers.
    pub fn reporter_after(&self, after: Option<u64>) -> Option<ReporterView> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (id, found) = self.reporters.range((from, Bound::Unbounded)).next()?;
        Some(found.view(*id))
    }

    /// The number of reporters, and of series.
    pub fn size(&self) -> (usize, usize) {
        (self.reporters.len(), self.series.len())
    }

    fn add_locality(
        &mut self,
        from: &mut Reporter,
        entry: &mut Entry<'_>,
        interval: Duration,
        key: SeriesKey,
        calls: &LocalityStats,
    ) {
        for (address, calls) in &calls.endpoints {
            let EndpointStats { in_progress, .. } = *calls;
            let Some(counts) = LoadCounts::of_endpoint(calls) else {
                entry.left_out.numbers += 1;
                continue;
            };
            let key = SeriesKey { endpoint: Some(Arc::clone(address)), ..key.clone() };
            let named = Named::EndpointMetrics(calls);
            self.add(from, entry, key, &Part { interval, counts, in_progress, named });
        }
        let Some(counts) = LoadCounts::of(calls) else {
            entry.left_out.numbers += 1;
            return;
        };
        let (in_progress, named) = (calls.in_progress, Named::Metrics(calls));
        self.add(from, entry, key, &Part { interval, counts, in_progress, named });
    }

    fn add(&mut self, from: &mut Reporter, entry: &mut Entry<'_>, key: SeriesKey, part: &Part<'_>) {
        let Some(key) = self.row(from, entry, key) else { return };
        let room = self.bounds.max_lent_bytes.saturating_sub(self.lent_bytes);
        let series = self.series(from, entry, &key);
        let Some(row) = from.rows.get_mut(&key) else { return };
        if key.endpoint.is_none() {
            from.totals.add(part.counts);
        }
        row.counts.add(part.counts);
        let before = std::mem::replace(&mut row.in_progress, part.in_progress);
        let Some(series) = series else { return };
        let counted = if row.made == Some(series.made) { before } else { 0 };
        row.made = Some(series.made);
        series.in_progress =
            series.in_progress.saturating_sub(counted).saturating_add(part.in_progress);
        let is_own = series.owner == Some(entry.by);
        let mut lent = 0;
        let mut allows = |bytes: usize| {
            let may = (is_own || lent + bytes <= room) && pay(&mut from.held, bytes, entry.allows);
            lent += if may && !is_own { bytes } else { 0 };
            may
        };
        let left_out = series.add(entry.now, part, &mut allows);
        series.lent += lent;
        self.lent_bytes += lent;
        entry.left_out.add(left_out);
    }

    /// The key of the reporter's row, which is made if there is room for it.
    fn row(
        &self,
        from: &mut Reporter,
        entry: &mut Entry<'_>,
        key: SeriesKey,
    ) -> Option<Arc<SeriesKey>> {
        if let Some((key, _)) = from.rows.get_key_value(&key) {
            return Some(Arc::clone(key));
        }
        if key.longest() > self.bounds.max_name_length {
            entry.left_out.names += 1;
            return None;
        }
        if from.rows.len() >= self.bounds.max_rows {
            entry.left_out.rows += 1;
            return None;
        }
        if !pay(&mut from.held, Reporter::ROW_BYTES + key.text_bytes(), entry.allows) {
            entry.left_out.memory += 1;
            return None;
        }
        let known = self.series.get_key_value(&key).map(|(key, _)| Arc::clone(key));
        let key = known.unwrap_or_else(|| Arc::new(key));
        from.rows.insert(Arc::clone(&key), Row::default());
        Some(key)
    }

    /// The series of a row. It is made if there is none, and has an owner from now on if it had none, unless
    /// this reporter may not be charged for it.
    fn series(
        &mut self,
        from: &mut Reporter,
        entry: &mut Entry<'_>,
        key: &Arc<SeriesKey>,
    ) -> Option<&mut Series> {
        if self.series.get(key).is_none_or(|series| series.owner.is_none()) {
            let bytes = self
                .series
                .get(key)
                .map_or_else(|| Series::default().bytes(key), |it| it.bytes(key));
            let pays = pay(&mut from.held, bytes, entry.allows);
            if pays && !self.series.contains_key(key) {
                self.counted += 1;
                let series = Series { made: self.counted, ..Series::default() };
                self.series.insert(Arc::clone(key), series);
            }
            if let Some(series) = self.series.get_mut(key).filter(|_| pays) {
                series.owner = Some(entry.by);
                let left = series.left.take().and_then(|place| self.left.remove(&place));
                self.left_bytes -= left.map_or(0, |(_, bytes)| bytes);
            }
        }
        let found = self.series.get_mut(key);
        entry.left_out.memory += u64::from(found.is_none());
        found
    }

    /// A reporter is gone that had this row.
    fn leave(&mut self, key: &Arc<SeriesKey>, by: u64, row: Row) {
        let Some(series) = self.series.get_mut(key) else { return };
        if row.made == Some(series.made) {
            series.in_progress = series.in_progress.saturating_sub(row.in_progress);
        }
        if series.owner == Some(by) {
            self.counted += 1;
            series.owner = None;
            series.left = Some(self.counted);
            // They are among the bytes of a series that nobody is charged for.
            self.lent_bytes -= std::mem::take(&mut series.lent);
            let bytes = series.bytes(key);
            self.left.insert(self.counted, (Arc::clone(key), bytes));
            self.left_bytes += bytes;
        }
    }
}

/// One report that is being added.
struct Entry<'a> {
    now: Time,
    by: u64,
    left_out: LeftOut,
    allows: &'a mut dyn FnMut(usize) -> bool,
}

/// A bound of what stays when its reporter is gone.
const MIB_16: usize = 16 * 1024 * 1024;

/// The number of rows that are forgotten in one part.
const AT_ONCE: usize = 256;

/// Charges a reporter for more bytes, if it may hold them.
fn pay(held: &mut usize, bytes: usize, allows: &mut dyn FnMut(usize) -> bool) -> bool {
    let may = allows(bytes);
    *held += if may { bytes } else { 0 };
    may
}
