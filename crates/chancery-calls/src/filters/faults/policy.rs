//! The policy of faults, and the decision for one call.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use http::HeaderMap;

use super::{AbortStatus, ActiveFaults, FaultPermit, headers};
use crate::Dice;
use crate::matching::Fraction;

/// The faults that calls of a way may get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPolicy {
    /// A wait before the call is sent.
    pub delay: Option<FaultDelay>,
    /// An end of the call before it is sent, after the wait.
    pub abort: Option<FaultAbort>,
    /// The number of faults in the process above which a call gets none; no limit if it is not set.
    pub max_active: Option<u32>,
}

/// A wait, and its chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultDelay {
    /// The length of the wait.
    pub source: DelaySource,
    /// The part of the calls that wait.
    pub chance: Fraction,
}

/// The length of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelaySource {
    /// It is the same for all calls.
    Fixed(Duration),
    /// The call says it, and its chance up to that of the policy.
    Header,
}

/// An end, and its chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultAbort {
    /// The status.
    pub source: AbortSource,
    /// The part of the calls that end.
    pub chance: Fraction,
}

/// The status of an aborted call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortSource {
    /// It is the same for all calls.
    Fixed(AbortStatus),
    /// The call says it, and its chance up to that of the policy.
    Header,
}

/// The faults of one call. It counts as active until this is dropped: after the wait, and after the call was
/// aborted.
#[derive(Debug)]
pub struct Fault {
    /// The time for which the call waits first.
    pub delay: Option<Duration>,
    /// The status with which it ends then, without being sent.
    pub abort: Option<AbortStatus>,
    /// The part of the limit that it takes.
    pub permit: FaultPermit,
}

impl FaultPolicy {
    /// Decides about a call. Each kind of fault has a roll of its own.
    pub fn decide(
        &self,
        headers: &HeaderMap,
        active: &ActiveFaults,
        dice: &mut impl Dice,
    ) -> Option<Fault> {
        let delay = self.delay.as_ref().and_then(|delay| delay.roll(headers, dice));
        let abort = self.abort.as_ref().and_then(|abort| abort.roll(headers, dice));
        if delay.is_none() && abort.is_none() {
            return None;
        }
        let permit = active.begin(self.max_active)?;
        Some(Fault { delay, abort, permit })
    }
}

/// A sentence about a call: "the filter delays ...".
impl Display for FaultPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(FaultDelay { source, chance }) = &self.delay {
            match source {
                DelaySource::Fixed(time) => write!(f, "delays {chance} calls by {time:?}")?,
                DelaySource::Header => write!(f, "delays up to {chance} calls as they ask for")?,
            }
        }
        match (&self.delay, &self.abort) {
            (Some(_), Some(_)) => f.write_str(", ")?,
            (None, None) => return f.write_str("does nothing"),
            (Some(_), None) | (None, Some(_)) => {}
        }
        if let Some(FaultAbort { source, chance }) = &self.abort {
            match source {
                AbortSource::Fixed(AbortStatus::Ok) => write!(f, "ends {chance} calls with OK")?,
                AbortSource::Fixed(AbortStatus::Code(code)) => {
                    write!(f, "ends {chance} calls with {code}")?;
                }
                AbortSource::Header => write!(f, "ends up to {chance} calls as they ask for")?,
            }
        }
        match self.max_active {
            Some(most) => write!(f, ", at most {most} at a time"),
            None => Ok(()),
        }
    }
}

impl FaultPolicy {
    /// The status with which every call ends, if they all end with the same one.
    pub fn certain_abort(&self) -> Option<AbortStatus> {
        let abort = self.abort.as_ref().filter(|_| self.max_active.is_none())?;
        match abort.source {
            AbortSource::Fixed(status) => abort.chance.is_certain().then_some(status),
            AbortSource::Header => None,
        }
    }
}

impl FaultDelay {
    fn roll(&self, headers: &HeaderMap, dice: &mut impl Dice) -> Option<Duration> {
        let (delay, chance) = match self.source {
            DelaySource::Fixed(delay) => (delay, self.chance),
            DelaySource::Header => {
                (headers::delay(headers)?, headers::delay_chance(headers, self.chance))
            }
        };
        (!delay.is_zero() && chance.happens(dice)).then_some(delay)
    }
}

impl FaultAbort {
    fn roll(&self, headers: &HeaderMap, dice: &mut impl Dice) -> Option<AbortStatus> {
        let (status, chance) = match self.source {
            AbortSource::Fixed(status) => (status, self.chance),
            AbortSource::Header => {
                (headers::abort(headers)?, headers::abort_chance(headers, self.chance))
            }
        };
        chance.happens(dice).then_some(status)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::matching::Denominator;
    use crate::{Code, SeededDice};

    const UNAVAILABLE: AbortStatus = AbortStatus::Code(Code::Unavailable);

    fn percent(percent: u32) -> Fraction {
        Fraction::new(percent, Denominator::Hundred)
    }

    fn delay(chance: u32) -> Option<FaultDelay> {
        let source = DelaySource::Fixed(Duration::from_secs(1));
        Some(FaultDelay { source, chance: percent(chance) })
    }

    fn abort(chance: u32) -> Option<FaultAbort> {
        let source = AbortSource::Fixed(UNAVAILABLE);
        Some(FaultAbort { source, chance: percent(chance) })
    }

    /// A policy that leaves everything to headers, with chances of 50 of 100.
    fn by_headers() -> FaultPolicy {
        FaultPolicy {
            delay: Some(FaultDelay { source: DelaySource::Header, chance: percent(50) }),
            abort: Some(FaultAbort { source: AbortSource::Header, chance: percent(50) }),
            max_active: None,
        }
    }

    /// The delays and the aborts of so many calls.
    fn counts(
        policy: &FaultPolicy,
        pairs: &[(&'static str, &'static str)],
        calls: u32,
    ) -> (u32, u32, u32) {
        let headers = headers(pairs);
        let (active, mut dice) = (ActiveFaults::default(), SeededDice(2));
        let (mut delays, mut aborts, mut both) = (0, 0, 0);
        for _ in 0..calls {
            let Some(fault) = policy.decide(&headers, &active, &mut dice) else { continue };
            delays += u32::from(fault.delay.is_some());
            aborts += u32::from(fault.abort.is_some());
            both += u32::from(fault.delay.is_some() && fault.abort.is_some());
        }
        assert_eq!(active.count(), 0);
        (delays, aborts, both)
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn decide(policy: &FaultPolicy, pairs: &[(&'static str, &'static str)]) -> Option<Fault> {
        policy.decide(&headers(pairs), &ActiveFaults::default(), &mut SeededDice(1))
    }

    #[test]
    fn delay_and_abort_have_chances_of_their_own() {
        // gRFC A33: of 10,000 calls 2,000 are delayed, 500 aborted and 100 both, within five deviations.
        let policy = FaultPolicy { delay: delay(20), abort: abort(5), max_active: None };
        let (delays, aborts, both) = counts(&policy, &[], 10_000);
        assert!((1_800..=2_200).contains(&delays), "{delays}");
        assert!((391..=609).contains(&aborts), "{aborts}");
        assert!((51..=149).contains(&both), "{both}");
        let none = FaultPolicy { delay: delay(0), abort: abort(0), max_active: None };
        assert_eq!(counts(&none, &[], 1_000), (0, 0, 0));
        let all = FaultPolicy { delay: delay(100), abort: abort(100), max_active: None };
        assert_eq!(counts(&all, &[], 1_000), (1_000, 1_000, 1_000));
        assert_eq!(counts(&FaultPolicy::default(), &[], 10), (0, 0, 0));
    }

    #[test]
    fn headers_say_what_happens_where_the_policy_lets_them() {
        // gRFC A33.
        let always = FaultPolicy {
            delay: Some(FaultDelay { source: DelaySource::Header, chance: percent(100) }),
            abort: Some(FaultAbort { source: AbortSource::Header, chance: percent(100) }),
            max_active: None,
        };
        assert!(decide(&always, &[]).is_none());
        let delayed = decide(&always, &[("x-envoy-fault-delay-request", "53")]).unwrap();
        assert_eq!((delayed.delay, delayed.abort), (Some(Duration::from_millis(53)), None));
        let http = ("x-envoy-fault-abort-request", "503");
        let grpc = ("x-envoy-fault-abort-grpc-request", "3");
        let abort = |pairs: &[_]| decide(&always, pairs).and_then(|fault| fault.abort);
        assert_eq!(abort(&[http]), Some(UNAVAILABLE));
        assert_eq!(abort(&[grpc]), Some(AbortStatus::Code(Code::InvalidArgument)));
        assert_eq!(abort(&[grpc, http]), Some(UNAVAILABLE));
        let ok = ("x-envoy-fault-abort-grpc-request", "0");
        assert_eq!(abort(&[ok]), Some(AbortStatus::Ok));
        // Headers that are no numbers are ignored, as are headers that nobody asked the call for.
        for bad in ["", "x", "-1", "1.5", "99999999999999999999999"] {
            assert_eq!(abort(&[("x-envoy-fault-abort-request", bad), grpc]), abort(&[grpc]));
            assert!(decide(&always, &[("x-envoy-fault-delay-request", bad)]).is_none(), "{bad}");
        }
        assert!(decide(&always, &[("x-envoy-fault-delay-request", "0")]).is_none());
        let fixed = FaultPolicy { delay: None, abort: self::abort(0), max_active: None };
        assert!(decide(&fixed, &[http, grpc]).is_none());
    }

    #[test]
    fn a_header_lowers_a_chance_and_never_raises_it() {
        // gRFC A33.
        let http = ("x-envoy-fault-abort-request", "503");
        let aborts = |value| {
            let chance = ("x-envoy-fault-abort-request-percentage", value);
            counts(&by_headers(), &[http, chance], 10_000).1
        };
        assert_eq!(aborts("0"), 0);
        let few = aborts("5");
        assert!((391..=609).contains(&few), "{few}");
        for capped in ["50", "100", "4000000000", "x", "-1"] {
            let half = aborts(capped);
            assert!((4_750..=5_250).contains(&half), "{capped}: {half}");
        }
        let wait = ("x-envoy-fault-delay-request", "1");
        let chance = ("x-envoy-fault-delay-request-percentage", "0");
        assert_eq!(counts(&by_headers(), &[wait, chance], 1_000).0, 0);
    }

    #[test]
    fn a_limit_is_for_the_process() {
        // gRFC A33.
        let active = ActiveFaults::default();
        let policy = |max_active| FaultPolicy { delay: delay(100), abort: None, max_active };
        let decide =
            |policy: &FaultPolicy| policy.decide(&HeaderMap::new(), &active, &mut SeededDice(1));
        // A fault without a limit counts for those that have one.
        let first = decide(&policy(None)).unwrap();
        let second = decide(&policy(Some(2))).unwrap();
        assert_eq!(active.count(), 2);
        assert!(decide(&policy(Some(2))).is_none());
        drop(first);
        let third = decide(&policy(Some(2))).unwrap();
        drop((second, third));
        assert_eq!(active.count(), 0);
        assert!(decide(&policy(Some(0))).is_none());
    }
}
