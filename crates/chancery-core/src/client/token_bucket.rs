//! A bound on how often something happens, as requests on a stream: a bucket of tokens, of which
//! each takes one (C-045).
//!
//! The bucket is the time at which it would be full again: nothing is counted, and nothing has to
//! happen for it to fill.

use std::time::Duration;

use crate::Time;

/// A bound on the requests of a stream, answers among them. Names that are held back are not
/// queued: the next request says what is true then. Answers are kept, up to a bound, and then no
/// more is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The number that may be sent in a row. Zero is as one.
    pub burst: u32,
    /// The time until one more may be sent.
    pub interval: Duration,
}

/// As Envoy has it, where its `rate_limit_settings` do not say otherwise.
impl Default for RateLimit {
    fn default() -> Self {
        Self { burst: 100, interval: Duration::from_millis(100) }
    }
}

/// A bucket. That of a stream outlives a connection, so that one that breaks again and again is not
/// a way around the bound.
#[derive(Debug, Default)]
pub struct TokenBucket {
    full: Time,
}

impl TokenBucket {
    /// Returns the time at which the next token may be taken.
    pub fn next_token(&self, limit: RateLimit) -> Time {
        let ahead = limit.interval.saturating_mul(limit.burst.saturating_sub(1));
        Time(self.full.0.saturating_sub(ahead))
    }

    /// Takes a token.
    pub fn take(&mut self, now: Time, limit: RateLimit) {
        self.full = self.full.max(now) + limit.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number that may be sent now.
    fn taken_at(pace: &mut TokenBucket, now: u64, limit: RateLimit) -> usize {
        let now = Time(Duration::from_millis(now));
        let may = |pace: &TokenBucket| pace.next_token(limit) <= now;
        std::iter::from_fn(|| may(pace).then(|| pace.take(now, limit))).take(1000).count()
    }

    /// C-045
    #[test]
    fn a_burst_may_be_said_and_then_one_at_a_time() {
        let (mut pace, limit) = (TokenBucket::default(), RateLimit::default());
        assert_eq!(taken_at(&mut pace, 0, limit), 100);
        assert_eq!(taken_at(&mut pace, 99, limit), 0);
        assert_eq!(taken_at(&mut pace, 100, limit), 1);
        assert_eq!(taken_at(&mut pace, 1_150, limit), 10);
        assert_eq!(taken_at(&mut pace, 1_200, limit), 1, "what is left of an interval counts");
        assert_eq!(taken_at(&mut pace, 3_600_000, limit), 100, "a bucket does not overflow");
    }

    /// C-045: whatever the settings say.
    #[test]
    fn no_setting_overflows_or_stops_for_good() {
        let none = RateLimit { burst: 0, interval: Duration::from_millis(10) };
        let mut pace = TokenBucket::default();
        assert_eq!((taken_at(&mut pace, 0, none), taken_at(&mut pace, 10, none)), (1, 1));
        let free = RateLimit { burst: 1, interval: Duration::ZERO };
        assert_eq!(taken_at(&mut TokenBucket::default(), 0, free), 1000);
        let vast = RateLimit { burst: u32::MAX, interval: Duration::MAX };
        assert_eq!(taken_at(&mut TokenBucket::default(), 0, vast), 1000);
    }
}
