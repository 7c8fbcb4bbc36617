//! The time between attempts to connect, by the rules of gRPC (connection backoff): one second at
//! first, 1.6 times as much after each failure, at most two minutes, and a fifth more or less. Streams that belong to a
//! connection begin again in the same way.

use std::time::Duration;

use chancery_calls::Dice;

/// The backoff of one address, or of one stream.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: i32,
}

impl Backoff {
    /// An attempt has failed. Returns the time until the next one, counted from its beginning.
    pub(crate) fn failed(&mut self, dice: &mut dyn Dice) -> Duration {
        let base = FIRST.as_secs_f64() * FACTOR.powi(self.failures);
        self.failures = self.failures.saturating_add(1).min(MOST_FAILURES);
        let base = base.min(LONGEST.as_secs_f64());
        let percent = 80 + u32::try_from(dice.below(41)).unwrap_or_default();
        Duration::from_secs_f64(base * f64::from(percent) / 100.0)
    }

    /// A connection was made, or a stream is of use.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(120);
const FACTOR: f64 = 1.6;
/// After these the time does not grow any more.
const MOST_FAILURES: i32 = 20;

#[cfg(test)]
mod tests {
    use chancery_calls::SeededDice;

    use super::*;

    #[test]
    fn the_time_grows_to_two_minutes_and_begins_again() {
        let mut dice = SeededDice(1);
        let mut backoff = Backoff::default();
        let mut expected = 1.0_f64;
        for _ in 0..40 {
            let time = backoff.failed(&mut dice).as_secs_f64();
            assert!((expected * 0.8..=expected * 1.2).contains(&time), "{time} for {expected}");
            expected = (expected * FACTOR).min(120.0);
        }
        backoff.succeeded();
        assert!(backoff.failed(&mut dice) <= Duration::from_millis(1_200));
    }
}
