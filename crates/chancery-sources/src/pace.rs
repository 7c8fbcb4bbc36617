//! The times at which a follower looks by itself: at all files (a sweep), and at files that may have
//! changed without a new stamp or could not be read.
//!
//! Each look costs what it took, with the load that it led to if that found nothing new, and the
//! next one waits for a multiple of that: it must not keep the machine busy. Time that passes while
//! the follower waits is no cost. A multiple has a bound, because storage that stalls once is no
//! reason to look away for an hour. Not here: what a look finds.

use std::time::{Duration, Instant};

/// The times of the next looks.
#[derive(Debug)]
pub(crate) struct Pace {
    sweep: Pause,
    retry: Pause,
    /// The pause after files were read again and that cost nothing.
    retry_every: Duration,
    /// The pause after a sweep that cost nothing.
    sweep_every: Duration,
    /// The time that the last sweep took.
    sweep_took: Duration,
    /// The reciprocal of the share of time that sweeps may take.
    share: u32,
}

/// A wait that began at some time.
#[derive(Clone, Copy, Debug)]
struct Pause {
    since: Instant,
    length: Duration,
}

impl Pause {
    fn left(self, now: Instant) -> Duration {
        self.length.saturating_sub(now.saturating_duration_since(self.since))
    }
}

impl Pace {
    /// The looks of a directory that is swept this often.
    pub(crate) fn new(sweep_every: Duration, now: Instant) -> Self {
        let retry_every = sweep_every.min(RETRY);
        Self {
            sweep: Pause { since: now, length: sweep_every },
            retry: Pause { since: now, length: retry_every },
            retry_every,
            sweep_every,
            sweep_took: Duration::ZERO,
            share: SWEEP_SHARE,
        }
    }

    /// The time until the next sweep.
    pub(crate) fn until_sweep(&self, now: Instant) -> Duration {
        self.sweep.left(now)
    }

    /// The time until files are read again that may have changed.
    pub(crate) fn until_retry(&self, now: Instant) -> Duration {
        self.retry.left(now)
    }

    /// Takes note of a sweep. Where events report everything, it finds lost ones alone.
    pub(crate) fn swept(&mut self, took: Duration, now: Instant, hears_everything: bool) {
        self.share = if hears_everything { LOST_EVENTS_SHARE } else { SWEEP_SHARE };
        self.sweep_took = took;
        self.sweep = Pause { since: now, length: pause(self.sweep_every, took, self.share) };
    }

    /// Takes note of a load that a sweep led to and that found nothing new.
    pub(crate) fn swept_in_vain(&mut self, load: Duration, now: Instant) {
        let took = self.sweep_took + load;
        self.sweep = Pause { since: now, length: pause(self.sweep_every, took, self.share) };
    }

    /// Takes note that files are read again, all of them or a part.
    pub(crate) fn retried(&mut self, now: Instant, are_all: bool) {
        self.retry_every = self.sweep_every.min(if are_all { RETRY } else { NEXT_PART });
        self.retry = Pause { since: now, length: self.retry_every };
    }

    /// Takes note of a load that did so and found nothing new.
    pub(crate) fn retried_in_vain(&mut self, load: Duration, now: Instant) {
        self.retry = Pause { since: now, length: pause(self.retry_every, load, SWEEP_SHARE) };
    }
}

/// The time to wait after something that took so long, if it may take this share of all time.
pub(crate) fn pause(least: Duration, took: Duration, share: u32) -> Duration {
    least.max(took.saturating_mul(share).min(LONGEST))
}

/// The reciprocal of the share of time that sweeps may take where they find the changes.
const SWEEP_SHARE: u32 = 20;

/// The reciprocal of that share where events report the changes, and sweeps find lost ones alone.
const LOST_EVENTS_SHARE: u32 = 200;

/// The longest pause that follows from the time that something took.
const LONGEST: Duration = Duration::from_secs(120);

/// The time after which files are read again that may have changed.
const RETRY: Duration = Duration::from_secs(2);

/// The time after which more of them are read again, if they are too many for one load.
const NEXT_PART: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_sweep_that_stalls_is_not_the_last_one_for_an_hour() {
        let now = Instant::now();
        let mut pace = Pace::new(2 * SECOND, now);
        assert_eq!(pace.until_sweep(now), 2 * SECOND);
        pace.swept(SECOND / 10, now, true);
        assert_eq!(pace.until_sweep(now), 20 * SECOND);
        pace.swept(SECOND / 10, now, false);
        assert_eq!(pace.until_sweep(now + SECOND), SECOND);
        pace.swept(30 * SECOND, now, true);
        assert_eq!(pace.until_sweep(now), LONGEST);
        // A longer pause that was asked for stays.
        let mut pace = Pace::new(3600 * SECOND, now);
        pace.swept(30 * SECOND, now, true);
        assert_eq!(pace.until_sweep(now), 3600 * SECOND);
        assert_eq!(Pace::new(Duration::MAX, now).until_sweep(now), Duration::MAX);
    }

    #[test]
    fn a_load_in_vain_counts_for_what_led_to_it() {
        let now = Instant::now();
        let mut pace = Pace::new(2 * SECOND, now);
        pace.swept(SECOND / 10, now, true);
        pace.swept_in_vain(SECOND / 10, now);
        assert_eq!(pace.until_sweep(now), 40 * SECOND);
        assert_eq!(pace.until_retry(now), 2 * SECOND);
        pace.retried(now + SECOND, true);
        pace.retried_in_vain(SECOND, now + SECOND);
        assert_eq!(pace.until_retry(now + SECOND), 20 * SECOND);
        for (are_all, least) in [(false, NEXT_PART), (true, RETRY)] {
            pace.retried(now, are_all);
            pace.retried_in_vain(Duration::from_millis(1), now);
            assert_eq!(pace.until_retry(now), least);
        }
        assert_eq!(pace.until_sweep(now), 40 * SECOND);
    }

    #[test]
    fn files_are_read_again_soon_however_seldom_sweeps_are() {
        let now = Instant::now();
        let mut pace = Pace::new(3600 * SECOND, now);
        assert_eq!(pace.until_retry(now), RETRY);
        pace.swept(30 * SECOND, now, true);
        assert_eq!(pace.until_retry(now + SECOND), RETRY - SECOND);
        assert_eq!(Pace::new(SECOND, now).until_retry(now), SECOND);
    }
}
