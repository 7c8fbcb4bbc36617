//! Retry throttling (gRFC A6): when too many calls to a server fail, none is retried.
//!
//! The bucket is one for all calls, on all threads; they share a number and no lock.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicU32, Ordering};

/// The tokens of the calls to one server. A failure takes one, a success gives a part of one back.
#[derive(Debug)]
pub struct Throttle {
    /// In thousandths of a token.
    tokens: AtomicU32,
    most: u32,
    ratio: u32,
}

impl Throttle {
    /// Makes a full bucket, of at most 1,000 tokens. Decimals beyond the third are ignored.
    pub fn new(max_tokens: f64, token_ratio: f64) -> Result<Self, ThrottleError> {
        if !(max_tokens > 0.0 && max_tokens <= 1_000.0) {
            return Err(ThrottleError::MaxTokens);
        }
        if token_ratio.is_nan() || token_ratio <= 0.0 {
            return Err(ThrottleError::TokenRatio);
        }
        let most = thousandths(max_tokens);
        // A success never gives more than there is room for.
        let ratio = thousandths(token_ratio.min(1_000.0));
        Ok(Self { tokens: AtomicU32::new(most), most, ratio })
    }

    /// Returns true if calls may be retried now.
    pub fn allows(&self) -> bool {
        self.is_above(self.tokens.load(Ordering::Relaxed))
    }

    /// A call has succeeded.
    pub fn succeeded(&self) {
        self.change(|tokens| tokens.saturating_add(self.ratio).min(self.most));
    }

    /// A call has failed in a way that counts. Returns true if calls may be retried all the same.
    pub fn failed(&self) -> bool {
        self.is_above(self.change(|tokens| tokens.saturating_sub(1_000)))
    }

    fn is_above(&self, tokens: u32) -> bool {
        // At the threshold itself nothing is retried.
        tokens > self.most / 2
    }

    fn change(&self, change: impl Fn(u32) -> u32) -> u32 {
        let tokens = self.tokens.load(Ordering::Relaxed);
        // A full bucket remains full without a write, so that threads do not take the number from each other.
        if change(tokens) == tokens {
            return tokens;
        }
        let update = |tokens| Some(change(tokens));
        let before = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        change(before.unwrap_or(tokens))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1,000,000")]
fn thousandths(number: f64) -> u32 {
    // 0.1 + 0.2 and the like are a little below what they mean.
    (number * 1_000.0 + 1e-6) as u32
}

/// A throttle that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThrottleError {
    /// The number of tokens is not above 0 and at most 1,000.
    MaxTokens,
    /// The ratio is not above 0.
    TokenRatio,
}

impl Display for ThrottleError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MaxTokens => "`maxTokens` has to be above 0 and at most 1000",
            Self::TokenRatio => "`tokenRatio` has to be above 0",
        })
    }
}

impl Error for ThrottleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_tokens_have_to_be_there() {
        // gRFC A6.
        let throttle = Throttle::new(10.0, 0.5).unwrap();
        let failed: Vec<bool> = (0..6).map(|_| throttle.failed()).collect();
        assert_eq!(failed, [true, true, true, true, false, false]);
        throttle.succeeded(); // 4.5
        throttle.succeeded(); // 5
        assert!(!throttle.allows());
        throttle.succeeded(); // 5.5
        assert!(throttle.allows());
        (0..100).for_each(|_| throttle.succeeded());
        assert_eq!(throttle.tokens.load(Ordering::Relaxed), 10_000);
        (0..100).for_each(|_| {
            throttle.failed();
        });
        assert_eq!(throttle.tokens.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn numbers_are_checked() {
        // gRFC A6.
        for max in [0.0, -1.0, 1_000.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Throttle::new(max, 0.1).unwrap_err(), ThrottleError::MaxTokens);
        }
        for ratio in [0.0, -1.0, f64::NAN] {
            assert_eq!(Throttle::new(10.0, ratio).unwrap_err(), ThrottleError::TokenRatio);
        }
        assert_eq!(Throttle::new(1_000.0, 0.5466).unwrap().ratio, 546);
        assert_eq!(Throttle::new(10.0, 0.1).unwrap().ratio, 100);
        assert_eq!(Throttle::new(10.0, f64::INFINITY).unwrap().ratio, 1_000_000);
    }
}
