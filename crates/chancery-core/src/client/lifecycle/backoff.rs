//! The wait after a failure: longer each time, up to a bound, and never quite the same.
//!
//! There is no last attempt, and no arithmetic that grows with their number (C-069). Chance is a
//! hash of the seed and of how often it was asked: the core has no other.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::client::setup::Settings;

/// The waits of one stream.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// The next wait; `None` stands for the first.
    next: Option<Duration>,
    drawn: u64,
}

impl Backoff {
    /// The server answered: the next failure is the first again.
    pub(super) fn reset(&mut self) {
        self.next = None;
    }

    /// Returns the next wait.
    pub(super) fn wait(&mut self, settings: &Settings, stream: u64) -> Duration {
        let nominal = self.next.unwrap_or(settings.backoff).min(settings.backoff_max);
        let factor = if settings.backoff_factor > 1.0 { settings.backoff_factor } else { 1.0 };
        // At most a bounded time by a bounded factor: nothing overflows.
        let grown = Duration::try_from_secs_f64(nominal.as_secs_f64() * factor);
        self.next = Some(grown.unwrap_or(settings.backoff_max).min(settings.backoff_max));
        let jitter = settings.jitter.clamp(0.0, 1.0);
        let part = 1.0 - jitter + 2.0 * jitter * self.chance(settings.seed, stream);
        Duration::try_from_secs_f64(nominal.as_secs_f64() * part).unwrap_or(settings.backoff_max)
    }

    /// Returns the wait until the next poll: never shorter than asked for, and never quite the
    /// same.
    pub(super) fn spread(
        &mut self,
        settings: &Settings,
        stream: u64,
        refresh: Duration,
    ) -> Duration {
        let part = 1.0 + settings.jitter.clamp(0.0, 1.0) * self.chance(settings.seed, stream);
        Duration::try_from_secs_f64(refresh.as_secs_f64() * part).unwrap_or(refresh)
    }

    /// Returns a number between 0 and 1.
    fn chance(&mut self, seed: u64, stream: u64) -> f64 {
        self.drawn += 1;
        let mut text = [0; 16];
        text[..8].copy_from_slice(&stream.to_le_bytes());
        text[8..].copy_from_slice(&self.drawn.to_le_bytes());
        let hash = xxh3_64_with_seed(&text, seed);
        f64::from((hash >> 32) as u32) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-069
    #[test]
    fn ten_thousand_failures_in_a_row_end_in_the_longest_wait() {
        let settings = Settings { jitter: 0.0, ..Settings::default() };
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..10_000).map(|_| backoff.wait(&settings, 0)).collect();
        assert_eq!(waits[0], settings.backoff);
        assert!(waits.is_sorted());
        assert_eq!(waits[9_999], settings.backoff_max);
        backoff.reset();
        assert_eq!(backoff.wait(&settings, 0), settings.backoff);
    }

    /// C-069
    #[test]
    fn waits_differ_by_chance_and_stay_near_their_nominal() {
        let settings = Settings { backoff_factor: 1.0, ..Settings::default() };
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..1000).map(|_| backoff.wait(&settings, 7).as_secs_f64()).collect();
        let (least, most) =
            (waits.iter().copied().fold(9.0, f64::min), waits.iter().copied().fold(0.0, f64::max));
        assert!((0.8..0.85).contains(&least) && (1.15..=1.2).contains(&most), "{least} {most}");
    }

    /// C-069: whatever the settings say.
    #[test]
    fn no_setting_overflows() {
        for factor in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            let settings = Settings {
                backoff_factor: factor,
                backoff_max: Duration::MAX / 4,
                ..Settings::default()
            };
            let mut backoff = Backoff::default();
            for _ in 0..100 {
                backoff.wait(&settings, 1);
            }
        }
    }
}
