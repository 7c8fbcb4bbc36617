//! The time for which the connections of one peer kept workers busy lately.
//!
//! It is a leaky bucket: work is added as it is done, and a quarter of a worker's time leaks out of it.
//! So many short pieces count as a few long ones. It is time and not processor time, because that costs a
//! system call: a machine that does something else makes honest peers busy too, which must do them no
//! harm. Not here: what a busy peer has to do (`connection::turn`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time for which work counts, as a multiple of the time that it took.
const LEAK: u64 = 4;
/// The microseconds for which the work of a busy peer counts at least: that of a worker that did nothing
/// else for 100 ms.
const BUSY: u64 = 300_000;
/// The microseconds from which on no more work is added, so that a peer is not busy for long afterwards.
const FULL: u64 = 1_000_000;

/// The work of one peer: the time until which it counts, in microseconds since the budget was made.
#[derive(Default)]
pub(super) struct RecentWork(AtomicU64);

impl RecentWork {
    /// Adds work that took that long. A sum that is not exact when workers add at the same moment is good
    /// enough.
    pub(super) fn add(&self, now: u64, took: Duration) {
        let counts = self.0.load(Ordering::Relaxed);
        if counts < now {
            self.0.fetch_max(now, Ordering::Relaxed);
        }
        if counts < now.saturating_add(FULL) {
            let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            self.0.fetch_add(took.saturating_mul(LEAK).min(FULL), Ordering::Relaxed);
        }
    }

    /// Returns true if the peer had a worker for 100 ms a moment ago, or more than a quarter of its time
    /// for longer.
    pub(super) fn is_busy(&self, now: u64) -> bool {
        self.0.load(Ordering::Relaxed) > now.saturating_add(BUSY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000;
    const SECOND: u64 = 1_000 * MILLISECOND;

    /// Adds so many pieces of work of that time, with a pause after each. Returns the time at the end.
    fn worked(work: &RecentWork, begin: u64, pieces: u64, took: u64, pause: u64) -> u64 {
        (0..pieces).fold(begin, |begin, _| {
            work.add(begin + took, Duration::from_micros(took));
            begin + took + pause
        })
    }

    #[test]
    fn many_short_pieces_count_as_a_few_long_ones() {
        for took in [600, 12 * MILLISECOND] {
            let work = RecentWork::default();
            let now = worked(&work, SECOND, 90 * MILLISECOND / took, took, 0);
            assert!(!work.is_busy(now), "{took}");
            let now = worked(&work, now, 30 * MILLISECOND / took, took, 0);
            assert!(work.is_busy(now), "{took}");
        }
    }

    #[test]
    fn bursts_with_pauses_count_and_less_than_a_quarter_of_the_time_does_not() {
        let work = RecentWork::default();
        let now = worked(&work, SECOND, 1_000, MILLISECOND, 4 * MILLISECOND);
        assert!(!work.is_busy(now));
        for burst in 0..4 {
            let now = worked(&work, now + burst * 2 * SECOND, 63, 12 * MILLISECOND, 0);
            assert!(work.is_busy(now), "{burst}");
        }
    }

    #[test]
    fn a_peer_that_worked_for_long_is_not_busy_for_long_afterwards() {
        let work = RecentWork::default();
        let now = worked(&work, SECOND, 20, SECOND, 0);
        assert!(work.is_busy(now));
        assert!(!work.is_busy(now + 2 * SECOND));
    }
}
