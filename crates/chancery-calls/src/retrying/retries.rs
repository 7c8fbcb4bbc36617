//! The attempts of one call, and the decision after each of them.

use std::sync::Arc;
use std::time::Duration;

use super::{Pushback, RetryPolicy, Throttle};
use crate::{Code, Dice};

/// The attempts of one call so far.
#[derive(Clone, Debug)]
pub struct Retries {
    policy: Option<Arc<RetryPolicy>>,
    /// The attempts that a server may have seen.
    attempts: u32,
    /// The waits since the last pushback.
    waits: u32,
    was_refused: bool,
    is_committed: bool,
}

/// The end of an attempt that has not succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// Load balancing gave the call up in a way that is final (C-118, C-147).
    Dropped,
    /// Load balancing failed the call, with this code.
    NotPicked(Code),
    /// A connection was chosen, and nothing of the call has left.
    NeverSent,
    /// The server's transport has seen the call, and no program has: the stream was refused, or is above
    /// the last one of a GOAWAY. The code is that of the failure.
    Refused(Code),
    /// The server answered with a failure and nothing else, or the connection broke.
    Failed {
        /// The status.
        code: Code,
        /// The word of the server about another attempt.
        pushback: Option<Pushback>,
    },
}

/// The decision after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    /// The same once more at once, as if nothing had been.
    Transparent,
    /// Another attempt after a wait, with a new pick on the same cluster.
    After(Duration),
    /// Another attempt would come too late: the call waits for its deadline, and has failed by it.
    UntilDeadline,
    /// The call ends as the attempt did.
    Stop(StopReason),
}

/// The reason why there is no other attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Load balancing has dropped the call.
    Dropped,
    /// The caller has seen a part of the answer, or the messages are not kept any more.
    Committed,
    /// There is no policy, or it does not retry this code.
    NotRetryable,
    /// The server does not want to see it again.
    Pushback,
    /// Too many calls have failed.
    Throttled,
    /// There were as many attempts as the policy allows.
    Exhausted,
}

impl Retries {
    /// A call that begins, with the policy of its route.
    pub fn new(policy: Option<Arc<RetryPolicy>>) -> Self {
        Self { policy, attempts: 0, waits: 0, was_refused: false, is_committed: false }
    }

    /// The call is committed to the attempt that runs: response headers have come, or its messages are too
    /// many to be kept.
    pub fn commit(&mut self) {
        self.is_committed = true;
    }

    /// Returns true if the messages of the call have to be kept for another attempt.
    pub fn may_retry(&self) -> bool {
        !self.is_committed
    }

    /// The number of attempts before this one, for the header `grpc-previous-rpc-attempts`; the first has
    /// none. Attempts that no server has seen do not count.
    pub fn previous_attempts(&self) -> Option<u32> {
        (self.attempts > 0).then_some(self.attempts)
    }

    /// Decides after an attempt has failed. `left` is the time up to the deadline, if there is one.
    pub fn after(
        &mut self,
        end: AttemptEnd,
        left: Option<Duration>,
        throttle: Option<&Throttle>,
        dice: &mut impl Dice,
    ) -> NextAttempt {
        let (code, pushback) = match end {
            AttemptEnd::Dropped => return NextAttempt::Stop(StopReason::Dropped),
            _ if self.is_committed => return NextAttempt::Stop(StopReason::Committed),
            AttemptEnd::NeverSent => return NextAttempt::Transparent,
            // As in other implementations, only before an attempt that counts.
            AttemptEnd::Refused(_) if !self.was_refused && self.attempts == 0 => {
                self.was_refused = true;
                return NextAttempt::Transparent;
            }
            AttemptEnd::Refused(code) | AttemptEnd::NotPicked(code) => (code, None),
            AttemptEnd::Failed { code, pushback } => (code, pushback),
        };
        match self.wait(code, pushback, throttle, dice) {
            Err(reason) => NextAttempt::Stop(reason),
            Ok(wait) if left.is_some_and(|left| wait >= left) => NextAttempt::UntilDeadline,
            Ok(wait) => NextAttempt::After(wait),
        }
    }

    /// The wait before the next attempt by the policy.
    fn wait(
        &mut self,
        code: Code,
        pushback: Option<Pushback>,
        throttle: Option<&Throttle>,
        dice: &mut impl Dice,
    ) -> Result<Duration, StopReason> {
        if pushback == Some(Pushback::Never) {
            throttle.map(Throttle::failed);
            return Err(StopReason::Pushback);
        }
        let policy = self.policy.as_ref().filter(|policy| policy.conditions().contain(code));
        let policy = policy.ok_or(StopReason::NotRetryable)?;
        if throttle.is_some_and(|throttle| !throttle.failed()) {
            return Err(StopReason::Throttled);
        }
        self.attempts += 1;
        if self.attempts >= policy.attempts() {
            return Err(StopReason::Exhausted);
        }
        match pushback {
            Some(Pushback::After(wait)) => {
                self.waits = 0;
                Ok(wait)
            }
            _ => {
                self.waits += 1;
                Ok(policy.backoff(self.waits - 1, dice))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{RetryBackoff, RetryConditions};
    use super::*;
    use crate::SeededDice;

    const UNAVAILABLE: AttemptEnd = AttemptEnd::Failed { code: Code::Unavailable, pushback: None };

    fn pushed(pushback: Pushback) -> AttemptEnd {
        AttemptEnd::Failed { code: Code::Unavailable, pushback: Some(pushback) }
    }

    fn call(num_retries: u32) -> Retries {
        let backoff = RetryBackoff {
            base: Duration::from_millis(100),
            max: Some(Duration::from_millis(1_000)),
        };
        let conditions = RetryConditions::parse("unavailable");
        let policy = RetryPolicy::new(conditions, Some(num_retries), Some(backoff)).unwrap();
        Retries::new(Some(Arc::new(policy)))
    }

    fn after(retries: &mut Retries, end: AttemptEnd) -> NextAttempt {
        retries.after(end, None, None, &mut SeededDice(1))
    }

    /// The nominal wait in hundreds of milliseconds, which jitter blurs by a fifth.
    #[track_caller]
    fn hundreds(next: NextAttempt) -> u128 {
        let NextAttempt::After(wait) = next else { panic!("no wait: {next:?}") };
        let nominal = (wait.as_millis() + 50) / 100;
        let off = wait.as_millis().abs_diff(nominal * 100);
        assert!(off * 5 <= nominal * 100, "{wait:?}");
        nominal
    }

    #[test]
    fn attempts_follow_each_other_until_there_were_enough() {
        // gRFC A44: new attempts, each with a longer wait, and a number for the header of each.
        let mut retries = call(3);
        assert_eq!(retries.previous_attempts(), None);
        for (attempt, nominal) in [(1, 80..=120), (2, 160..=240), (3, 320..=480)] {
            let next = after(&mut retries, UNAVAILABLE);
            let NextAttempt::After(wait) = next else { panic!("no wait: {next:?}") };
            assert!(nominal.contains(&wait.as_millis()), "{wait:?}");
            assert_eq!(retries.previous_attempts(), Some(attempt));
        }
        assert_eq!(after(&mut retries, UNAVAILABLE), NextAttempt::Stop(StopReason::Exhausted));
    }

    #[test]
    fn only_codes_of_the_policy_are_retried() {
        let stop = NextAttempt::Stop(StopReason::NotRetryable);
        let failed = |code| AttemptEnd::Failed { code, pushback: None };
        assert_eq!(after(&mut call(1), failed(Code::Internal)), stop);
        assert_eq!(after(&mut call(1), AttemptEnd::NotPicked(Code::Internal)), stop);
        assert_eq!(after(&mut Retries::new(None), UNAVAILABLE), stop);
        assert_eq!(hundreds(after(&mut call(1), AttemptEnd::NotPicked(Code::Unavailable))), 1);
    }

    #[test]
    fn pushback_is_obeyed_and_starts_waits_anew() {
        // gRFC A6.
        let mut retries = call(4);
        after(&mut retries, UNAVAILABLE);
        let exactly = Duration::from_millis(7);
        let next = after(&mut retries, pushed(Pushback::After(exactly)));
        assert_eq!(next, NextAttempt::After(exactly));
        assert_eq!(hundreds(after(&mut retries, UNAVAILABLE)), 1);
        let never = after(&mut retries, pushed(Pushback::Never));
        assert_eq!(never, NextAttempt::Stop(StopReason::Pushback));
        // It does not make more attempts than the policy allows.
        let mut retries = call(1);
        after(&mut retries, UNAVAILABLE);
        let next = after(&mut retries, pushed(Pushback::After(exactly)));
        assert_eq!(next, NextAttempt::Stop(StopReason::Exhausted));
    }

    #[test]
    fn headers_of_a_response_end_it() {
        // gRFC A6.
        let mut retries = call(4);
        assert!(retries.may_retry());
        retries.commit();
        assert!(!retries.may_retry());
        for end in [UNAVAILABLE, AttemptEnd::NeverSent, AttemptEnd::Refused(Code::Unavailable)] {
            assert_eq!(after(&mut retries, end), NextAttempt::Stop(StopReason::Committed));
        }
        let dropped = after(&mut call(4), AttemptEnd::Dropped);
        assert_eq!(dropped, NextAttempt::Stop(StopReason::Dropped));
    }

    #[test]
    fn calls_that_no_program_has_seen_are_repeated_without_a_policy() {
        // gRFC A6: without an end if nothing has left, once if the server's transport has seen it.
        let mut retries = Retries::new(None);
        for _ in 0..100 {
            assert_eq!(after(&mut retries, AttemptEnd::NeverSent), NextAttempt::Transparent);
        }
        let refused = AttemptEnd::Refused(Code::Unavailable);
        assert_eq!(after(&mut retries, refused), NextAttempt::Transparent);
        assert_eq!(retries.previous_attempts(), None);
        assert_eq!(after(&mut retries, refused), NextAttempt::Stop(StopReason::NotRetryable));
        // With a policy the second one is a failure like others.
        let mut retries = call(1);
        assert_eq!(after(&mut retries, refused), NextAttempt::Transparent);
        assert_eq!(hundreds(after(&mut retries, refused)), 1);
        assert_eq!(retries.previous_attempts(), Some(1));
        // So is the first one after an attempt that counts.
        let mut retries = call(2);
        after(&mut retries, UNAVAILABLE);
        assert_eq!(hundreds(after(&mut retries, refused)), 2);
    }

    #[test]
    fn failures_that_count_are_those_of_the_policy_and_of_pushback() {
        // gRFC A6.
        let throttle = Throttle::new(4.0, 1.0).unwrap();
        let after = |retries: &mut Retries, end| {
            retries.after(end, None, Some(&throttle), &mut SeededDice(1))
        };
        let other = AttemptEnd::Failed { code: Code::InvalidArgument, pushback: None };
        for end in [other, AttemptEnd::NeverSent, AttemptEnd::Refused(Code::Unavailable)] {
            after(&mut call(4), end);
        }
        assert_eq!(hundreds(after(&mut call(4), UNAVAILABLE)), 1); // 3
        let never = AttemptEnd::Failed { code: Code::Aborted, pushback: Some(Pushback::Never) };
        after(&mut call(4), never); // 2
        let throttled = NextAttempt::Stop(StopReason::Throttled);
        assert_eq!(after(&mut call(4), UNAVAILABLE), throttled); // 1
        (0..3).for_each(|_| throttle.succeeded()); // 4
        assert_eq!(hundreds(after(&mut call(4), UNAVAILABLE)), 1);
    }

    #[test]
    fn the_deadline_is_one_for_all_attempts() {
        // gRFC A6.
        let after = |left| {
            let left = Some(Duration::from_millis(left));
            call(4).after(UNAVAILABLE, left, None, &mut SeededDice(1))
        };
        assert_eq!(after(79), NextAttempt::UntilDeadline);
        assert!(matches!(after(121), NextAttempt::After(_)));
    }

    fn any_end() -> impl Strategy<Value = AttemptEnd> {
        let codes = prop_oneof![Just(Code::Unavailable), Just(Code::Internal)];
        let after = |millis| Pushback::After(Duration::from_millis(millis));
        let pushback = prop_oneof![4 => Just(None), 2 => (0..9_000_u64).prop_map(move |millis| Some(after(millis))), 1 => Just(Some(Pushback::Never))];
        prop_oneof![
            1 => Just(AttemptEnd::NeverSent),
            1 => codes.clone().prop_map(AttemptEnd::Refused),
            1 => codes.clone().prop_map(AttemptEnd::NotPicked),
            6 => (codes, pushback).prop_map(|(code, pushback)| AttemptEnd::Failed { code, pushback }),
        ]
    }

    proptest! {
        #[test]
        fn no_policy_makes_more_attempts_than_it_allows_or_other_waits(
            num_retries in 1..9_u32,
            ends in proptest::collection::vec(any_end(), 0..40),
            seed in proptest::num::u64::ANY,
        ) {
            // gRFCs A6, A44.
            let (mut retries, mut dice) = (call(num_retries), SeededDice(seed));
            let (mut waits, mut refused) = (0, 0);
            for end in ends {
                let next = retries.after(end, None, None, &mut dice);
                match (end, next) {
                    (_, NextAttempt::Stop(_)) => break,
                    (AttemptEnd::NeverSent, next) => prop_assert_eq!(next, NextAttempt::Transparent),
                    (AttemptEnd::Refused(_), NextAttempt::Transparent) => refused += 1,
                    (AttemptEnd::Failed { pushback: Some(Pushback::After(wanted)), .. }, next) => {
                        prop_assert_eq!(next, NextAttempt::After(wanted));
                        waits += 1;
                    }
                    (_, NextAttempt::After(wait)) => {
                        prop_assert!((80..=1_200).contains(&wait.as_millis()), "{:?}", wait);
                        waits += 1;
                    }
                    (end, next) => prop_assert!(false, "{end:?} {next:?}"),
                }
                let previous = retries.previous_attempts().unwrap_or(0);
                prop_assert_eq!(previous, waits);
            }
            prop_assert!(waits <= num_retries.min(4) && refused <= 1);
        }
    }
}
