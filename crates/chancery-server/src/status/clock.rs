//! Times of a book as numbers, so that they fit into atomics.

use std::time::Duration;

use tokio::time::Instant;

/// The clock of a book.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    /// A moment in milliseconds. It is never 0, which is no moment.
    pub(crate) fn millis(self, at: Instant) -> u64 {
        let age = at.saturating_duration_since(self.0).as_millis();
        u64::try_from(age).unwrap_or(u64::MAX - 1) + 1
    }

    /// The time from a moment until another one; `None` if the first is none.
    pub(crate) fn since(self, millis: u64, now: Instant) -> Option<Duration> {
        let moment = self.0 + Duration::from_millis(millis.checked_sub(1)?);
        Some(now.saturating_duration_since(moment))
    }
}
