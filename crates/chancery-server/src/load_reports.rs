//! All that clients report about their calls, for the streams that report and for whoever asks.
//!
//! One lock is over the book, and is held for one cluster of a report or a few entries of an answer at a time:
//! whoever asks for everything keeps no stream waiting. Not here: the streams (`grpc::load`), and what the book
//! keeps ([`LoadBook`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_core::Time;
use chancery_core::server::load::{LoadBook, LoadBounds, ReporterView, SeriesView};
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
