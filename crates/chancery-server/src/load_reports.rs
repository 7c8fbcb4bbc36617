//! All that clients report about their calls, for the streams that report and for whoever asks.
//!
//! One lock is over the book, and is held for one cluster of a report or a few entries of an answer at a time:
//! whoever asks for everything keeps no stream waiting. Not here: the streams (`grpc::load`), and what the book
//! keeps ([`LoadBook`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_core::Time;
use chancery_core::server::load::{
    LoadBook, LoadBounds, LoadCounts, ReporterView, SeriesView, Slot,
};
use tokio::time::Instant;

/// The load reports of the clients of a server. Clones are the same.
#[derive(Clone, Debug)]
pub struct LoadReports(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    book: Mutex<LoadBook>,
    began: Instant,
}

/// The number of series that are taken out of the book at once.
const AT_ONCE: usize = 64;

const MINUTE: Duration = Duration::from_secs(60);

/// A minute on which all clients have reported.
#[derive(Clone, Copy, Debug)]
pub struct LoadMinute {
    end: Duration,
}

impl LoadMinute {
    /// The calls of a series in the slots that end within this minute.
    pub fn counts(&self, series: &SeriesView) -> LoadCounts {
        let mut sum = LoadCounts::default();
        for slot in &series.slots {
            let ended = slot.begins().0 + Slot::LENGTH;
            if ended <= self.end && ended + MINUTE > self.end {
                sum.add(slot.counts);
            }
        }
        sum
    }
}

impl LoadReports {
    /// A book of no reports yet.
    pub fn new(bounds: LoadBounds) -> Self {
        Self(Arc::new(Shared { book: Mutex::new(LoadBook::new(bounds)), began: Instant::now() }))
    }

    /// The series of all clients, in the order of their keys. Those that come or go meanwhile may be missing.
    pub fn series(&self) -> impl Iterator<Item = SeriesView> + '_ {
        let (mut last, mut page) = (None, VecDeque::new());
        std::iter::from_fn(move || {
            if page.is_empty() {
                page.extend(self.book().series_after(self.now(), last.as_ref(), AT_ONCE));
            }
            let next: SeriesView = page.pop_front()?;
            last = Some(Arc::clone(&next.key));
            Some(next)
        })
    }

    /// The clients that report, in the order in which their streams were opened.
    pub fn reporters(&self) -> impl Iterator<Item = ReporterView> + '_ {
        let mut last = None;
        std::iter::from_fn(move || {
            let next = self.book().reporter_after(last)?;
            last = Some(next.id);
            Some(next)
        })
    }

    /// The time since such a moment of the book.
    pub fn age(&self, moment: Time) -> Duration {
        self.now().0.saturating_sub(moment.0)
    }

    /// The last minute on which all clients have reported: it ends with the longest time between two reports
    /// before now. `None` if that is longer than the calls of a series are kept.
    pub fn last_minute(&self) -> Option<LoadMinute> {
        let longest = self.book().longest_interval().time();
        let kept = Slot::LENGTH * u32::try_from(Slot::MOST).ok()?;
        let end = self.now().0.checked_sub(longest)?;
        (longest + MINUTE <= kept).then_some(LoadMinute { end })
    }

    /// The number of clients that report, and of series.
    pub fn size(&self) -> (usize, usize) {
        self.book().size()
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.0.began.elapsed())
    }

    /// No code panics with the lock held but by a fault of the book, which is whole even then but for one
    /// reporter.
    pub(crate) fn book(&self) -> MutexGuard<'_, LoadBook> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::server::load::{ClusterStats, LoadInterval, LoadKey, LocalityStats};
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A report on a call in each second of these.
    fn report(reports: &LoadReports, reporter: u64, seconds: u32) {
        let issued = seconds.into();
        let stats = LocalityStats { issued, ..LocalityStats::default() };
        let stats = ClusterStats {
            key: LoadKey { cluster: "a".into(), service: "".into() },
            localities: [(chancery_core::Locality::default(), stats)].into(),
            interval: SECOND * seconds,
            ..ClusterStats::default()
        };
        reports.book().record(reports.now(), reporter, &stats, &mut |_| true);
    }

    fn opened(reports: &LoadReports, reporter: u64, seconds: u32) {
        let mut book = reports.book();
        book.open(reports.now(), reporter, None);
        book.is_to_report(reporter, LoadInterval::new(SECOND * seconds).unwrap());
    }

    /// S-133: two clients make a call in each second, and report at different times.
    #[tokio::test(start_paused = true)]
    async fn the_last_minute_is_one_that_all_clients_have_reported_on() {
        let reports = LoadReports::new(LoadBounds::default());
        opened(&reports, 1, 10);
        opened(&reports, 2, 50);
        for second in 1..=400 {
            advance(SECOND).await;
            for (reporter, interval) in [(1, 10), (2, 50)] {
                if second % interval == 0 {
                    report(&reports, reporter, interval);
                }
            }
            if second > 130 {
                let series = reports.series().next().unwrap();
                let minute = reports.last_minute().unwrap().counts(&series);
                assert_eq!(minute.issued, 120, "{second}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_report_too_seldom_have_no_last_minute() {
        for (seconds, has_one) in [(540, true), (541, false)] {
            let reports = LoadReports::new(LoadBounds::default());
            opened(&reports, 1, seconds);
            advance(SECOND * 1_000).await;
            report(&reports, 1, 1);
            assert_eq!(reports.last_minute().is_some(), has_one);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_series_and_reporters_are_listed_once() {
        let reports = LoadReports::new(LoadBounds::default());
        for reporter in 0..3 {
            opened(&reports, reporter, 10);
            for name in 0..AT_ONCE + 1 {
                let key = LoadKey { cluster: name.to_string().into(), service: "".into() };
                let stats = ClusterStats { key, dropped: 1, ..ClusterStats::default() };
                reports.book().record(reports.now(), reporter, &stats, &mut |_| true);
            }
        }
        let dropped = reports.series().map(|series| series.totals.dropped);
        assert_eq!(dropped.collect::<Vec<_>>(), [3; AT_ONCE + 1]);
        let rows = reports.reporters().map(|reporter| reporter.rows.len());
        assert_eq!(rows.collect::<Vec<_>>(), [AT_ONCE + 1; 3]);
    }
}
