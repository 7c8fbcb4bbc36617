//! One stream of load reports, as the book has it: a row for each series that it has a part in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::counts::LoadCounts;
use super::interval::LoadInterval;
use super::series::SeriesKey;
use crate::{Node, Time};

/// One reporter.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) node: Option<Arc<Node>>,
    pub(super) since: Time,
    pub(super) last: Option<Time>,
    /// The time between two reports that it was told last.
    interval: LoadInterval,
    /// The longest time between two reports that it was ever told.
    longest: LoadInterval,
    /// The longest time that a cluster of its last report covers.
    covered: Duration,
    pub(super) totals: LoadCounts,
    pub(super) rows: BTreeMap<Arc<SeriesKey>, Row>,
    /// The bytes that it is charged for.
    pub(super) held: usize,
}

/// The part of a reporter in a series.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) counts: LoadCounts,
    pub(super) in_progress: u64,
    /// The series that the calls in progress are counted in. Another one may have its key by now.
    pub(super) made: Option<u64>,
}

/// One reporter, for those who ask.
#[derive(Clone, Debug)]
pub struct ReporterView {
    /// The number of its stream.
    pub id: u64,
    /// The node, as the client describes itself; `None` if it does not.
    pub node: Option<Arc<Node>>,
    /// The time at which its stream was opened.
    pub since: Time,
    /// The time of its last report; `None` if it has sent none.
    pub last: Option<Time>,
    /// All its calls on this stream.
    pub totals: LoadCounts,
    /// The parts of it, in the order of the keys.
    pub rows: Vec<RowView>,
}

/// The part of a reporter in a series, for those who ask.
#[derive(Clone, Debug)]
pub struct RowView {
    /// The series.
    pub key: Arc<SeriesKey>,
    /// Its calls.
    pub counts: LoadCounts,
    /// Those that had begun and not ended when it reported last.
    pub in_progress: u64,
}

/// The time within which parts are of one report.
const SAME_REPORT: Duration = Duration::from_millis(500);

impl Reporter {
    /// The bytes of a reporter without rows, and those of a row without its texts.
    pub(super) const BYTES: usize = 256;
    pub(super) const ROW_BYTES: usize = 160;

    pub(super) fn new(now: Time, node: Option<Arc<Node>>) -> Self {
        let (totals, rows) = (LoadCounts::default(), BTreeMap::new());
        let node_bytes = node.as_ref().map_or(0, |node| node.held_bytes());
        let (interval, held) = (LoadInterval::default(), Self::BYTES + node_bytes);
        let (longest, covered) = (LoadInterval::LEAST, Duration::ZERO);
        Self { node, since: now, last: None, interval, longest, covered, totals, rows, held }
    }

    /// It is told to report this often.
    pub(super) fn is_to_report(&mut self, interval: LoadInterval) {
        self.longest = self.longest.max(interval);
        self.interval = interval;
    }

    /// A part of a report came that covers this time.
    pub(super) fn reported(&mut self, now: Time, covered: Duration) {
        // The parts of one report come at nearly one time, and those of the next not before an interval.
        let is_same = self.last.is_some_and(|last| now.0.saturating_sub(last.0) < SAME_REPORT);
        self.covered = if is_same { self.covered.max(covered) } else { covered };
        self.last = Some(now);
    }

    /// The time between two reports of it. Some clients keep to the first one that they are told, so what a
    /// report covers counts, as far as the client was ever told so: it may say what it likes.
    pub(super) fn interval(&self) -> LoadInterval {
        let covered = LoadInterval::new(self.covered).unwrap_or(self.interval);
        self.interval.max(covered.min(self.longest))
    }

    pub(super) fn view(&self, id: u64) -> ReporterView {
        let Self { node, since, last, totals, rows, .. } = self;
        let rows = rows.iter().map(|(key, row)| RowView {
            key: Arc::clone(key),
            counts: row.counts,
            in_progress: row.in_progress,
        });
        let (node, rows) = (node.clone(), rows.collect());
        ReporterView { id, node, since: *since, last: *last, totals: *totals, rows }
    }
}
