//! The retry policy of a route or a virtual host (C-148).

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::{Code, Dice};

/// The most attempts that a policy can ask for, the first one included.
const MOST_ATTEMPTS: u32 = 5;

const DEFAULT_BASE: Duration = Duration::from_millis(25);
const LEAST_BACKOFF: Duration = Duration::from_millis(1);

/// The status codes after which another attempt may follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryConditions(u8);

impl RetryConditions {
    /// Reads `retry_on`: names between commas. Names of other conditions are ignored, as they are about
    /// HTTP.
    pub fn parse(retry_on: &str) -> Self {
        let names = retry_on.split(',').map(str::trim);
        let bits = names.filter_map(|name| {
            CONDITIONS.iter().position(|(known, _)| known.eq_ignore_ascii_case(name))
        });
        Self(bits.fold(0, |all, bit| all | (1 << bit)))
    }

    /// Returns true if another attempt may follow this code.
    pub fn contain(self, code: Code) -> bool {
        let bit = CONDITIONS.iter().position(|(_, known)| *known == code);
        bit.is_some_and(|bit| self.0 & (1 << bit) != 0)
    }

    /// Returns true if no code is retried.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

const CONDITIONS: [(&str, Code); 5] = [
    ("cancelled", Code::Cancelled),
    ("deadline-exceeded", Code::DeadlineExceeded),
    ("internal", Code::Internal),
    ("resource-exhausted", Code::ResourceExhausted),
    ("unavailable", Code::Unavailable),
];

/// The intervals of `retry_back_off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBackoff {
    /// The first interval, which doubles with each attempt.
    pub base: Duration,
    /// The longest interval; ten times the first if it is not set.
    pub max: Option<Duration>,
}

/// When a call is tried again, and how often.
///
/// A policy without conditions retries nothing. Of a route it still is one: that of the virtual host does
/// not count then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    conditions: RetryConditions,
    attempts: u32,
    base: Duration,
    max: Duration,
}

impl RetryPolicy {
    /// Makes a policy of the fields of the resource.
    pub fn new(
        conditions: RetryConditions,
        num_retries: Option<u32>,
        backoff: Option<RetryBackoff>,
    ) -> Result<Self, RetryPolicyError> {
        let retries = num_retries.unwrap_or(1);
        if retries == 0 {
            return Err(RetryPolicyError::NoRetries);
        }
        let attempts = retries.saturating_add(1).min(MOST_ATTEMPTS);
        let RetryBackoff { base, max } =
            backoff.unwrap_or(RetryBackoff { base: DEFAULT_BASE, max: None });
        if base.is_zero() {
            return Err(RetryPolicyError::ZeroBackoff("base_interval"));
        }
        if max.is_some_and(|max| max.is_zero()) {
            return Err(RetryPolicyError::ZeroBackoff("max_interval"));
        }
        let base = base.max(LEAST_BACKOFF);
        let max = max.map_or_else(|| base.saturating_mul(10), |max| max.max(LEAST_BACKOFF));
        if max < base {
            return Err(RetryPolicyError::MaxBelowBase { base, max });
        }
        Ok(Self { conditions, attempts, base, max })
    }

    /// The codes that are retried.
    pub fn conditions(&self) -> RetryConditions {
        self.conditions
    }

    /// The most attempts, the first one included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The wait before an attempt, of which so many without pushback went before: the interval, doubled as
    /// often up to the longest one, and a fifth more or less.
    pub(super) fn backoff(&self, waits: u32, dice: &mut impl Dice) -> Duration {
        let doubled = self.base.saturating_mul(2_u32.saturating_pow(waits));
        let jitter = 800_000 + dice.below(400_001);
        let nanos = doubled.min(self.max).as_nanos() * u128::from(jitter) / 1_000_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A retry policy that is refused. The fault is that of whoever wrote the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryPolicyError {
    /// `num_retries` is 0.
    NoRetries,
    /// An interval is 0.
    ZeroBackoff(
        /// The field.
        &'static str,
    ),
    /// The longest interval is shorter than the first one.
    MaxBelowBase {
        /// The first interval.
        base: Duration,
        /// The longest interval.
        max: Duration,
    },
}

impl Display for RetryPolicyError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRetries => f.write_str("`num_retries` is 0, and has to be at least 1"),
            Self::ZeroBackoff(field) => write!(f, "`{field}` has to be above zero"),
            Self::MaxBelowBase { base, max } => {
                write!(f, "`max_interval` is {max:?}, which is less than `base_interval`, {base:?}")
            }
        }
    }
}

impl Error for RetryPolicyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededDice;

    fn backoff(base: u64, max: Option<u64>) -> Option<RetryBackoff> {
        let max = max.map(Duration::from_millis);
        Some(RetryBackoff { base: Duration::from_millis(base), max })
    }

    fn policy(
        retries: Option<u32>,
        backoff: Option<RetryBackoff>,
    ) -> Result<RetryPolicy, RetryPolicyError> {
        RetryPolicy::new(RetryConditions::parse("unavailable"), retries, backoff)
    }

    #[test]
    fn five_conditions_are_known() {
        // gRFC A44.
        let all = "cancelled, Deadline-Exceeded,internal ,resource-exhausted,unavailable";
        let codes = [1, 4, 13, 8, 14];
        let conditions = RetryConditions::parse(all);
        let known = CONDITIONS.map(|(_, code)| (code as u8, conditions.contain(code)));
        assert_eq!(known, codes.map(|code| (code, true)));
        assert!(!conditions.contain(Code::Unknown) && !conditions.contain(Code::Aborted));
        let one = RetryConditions::parse("5xx,unavailable,reset,,");
        assert!(one.contain(Code::Unavailable) && !one.contain(Code::Internal));
        assert!(RetryConditions::parse("5xx, gateway-error").is_empty());
        assert!(RetryConditions::parse("").is_empty());
    }

    #[test]
    fn numbers_are_checked_and_have_defaults() {
        // gRFC A44.
        assert_eq!(policy(Some(0), None), Err(RetryPolicyError::NoRetries));
        for (retries, attempts) in
            [(None, 2), (Some(1), 2), (Some(4), 5), (Some(5), 5), (Some(u32::MAX), 5)]
        {
            assert_eq!(policy(retries, None).unwrap().attempts(), attempts);
        }
        let intervals = |backoff| policy(None, backoff).map(|policy| (policy.base, policy.max));
        let ms = Duration::from_millis;
        assert_eq!(intervals(None), Ok((ms(25), ms(250))));
        assert_eq!(intervals(backoff(100, None)), Ok((ms(100), ms(1_000))));
        assert_eq!(intervals(backoff(100, Some(100))), Ok((ms(100), ms(100))));
        assert_eq!(
            intervals(backoff(0, None)),
            Err(RetryPolicyError::ZeroBackoff("base_interval"))
        );
        let zero = intervals(backoff(1, Some(0)));
        assert_eq!(zero, Err(RetryPolicyError::ZeroBackoff("max_interval")));
        let below = RetryPolicyError::MaxBelowBase { base: ms(100), max: ms(99) };
        assert_eq!(intervals(backoff(100, Some(99))), Err(below));
        let tiny =
            RetryBackoff { base: Duration::from_nanos(1), max: Some(Duration::from_nanos(1)) };
        assert_eq!(intervals(Some(tiny)), Ok((ms(1), ms(1))));
    }

    #[test]
    fn waits_double_up_to_the_longest_with_a_fifth_of_jitter() {
        // gRFC A6.
        let policy = policy(Some(4), backoff(100, Some(300))).unwrap();
        let mut dice = SeededDice(3);
        for (waits, nominal) in [(0, 100), (1, 200), (2, 300), (3, 300), (40, 300)] {
            let all: Vec<u128> =
                (0..1_000).map(|_| policy.backoff(waits, &mut dice).as_micros()).collect();
            let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
            assert!((nominal * 800..nominal * 805).contains(least), "{waits}: {least}");
            assert!((nominal * 1_195..=nominal * 1_200).contains(most), "{waits}: {most}");
        }
    }
}
