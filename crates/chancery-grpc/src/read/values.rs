//! Durations, chances and the health of endpoints, which several resources have.

use std::time::Duration;

use chancery_calls::balancing::Health;
use chancery_calls::matching::{Denominator, Fraction};
use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use envoy_types::pb::google::protobuf;

use super::fault::{At, Fault};

/// The most seconds of a duration: ten thousand years.
const MAX_SECONDS: u64 = 315_576_000_000;

/// Reads a duration that is not negative.
pub(super) fn duration(message: &protobuf::Duration) -> Result<Duration, Fault> {
    let seconds = u64::try_from(message.seconds).ok().filter(|seconds| *seconds <= MAX_SECONDS);
    let nanos = u32::try_from(message.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let parts = seconds.zip(nanos);
    let (seconds, nanos) = parts.ok_or("a duration must be from 0 to 315576000000 seconds")?;
    Ok(Duration::new(seconds, nanos))
}

/// Reads a duration that may be left out.
pub(super) fn some_duration(
    message: Option<&protobuf::Duration>,
) -> Result<Option<Duration>, Fault> {
    message.map(duration).transpose()
}

/// Reads a chance.
pub(super) fn fraction(message: &FractionalPercent) -> Result<Fraction, Fault> {
    let denominator = match denominator(message)? {
        DenominatorType::Hundred => Denominator::Hundred,
        DenominatorType::TenThousand => Denominator::TenThousand,
        DenominatorType::Million => Denominator::Million,
    };
    Ok(Fraction::new(message.numerator, denominator))
}

/// Reads a chance in millionths, at most all of them.
pub(super) fn per_million(message: &FractionalPercent) -> Result<u32, Fault> {
    let times = match denominator(message)? {
        DenominatorType::Hundred => 10_000,
        DenominatorType::TenThousand => 100,
        DenominatorType::Million => 1,
    };
    Ok(message.numerator.saturating_mul(times).min(1_000_000))
}

/// Reads the health of an endpoint; `None` is one that takes no calls (C-109).
pub(super) fn health(status: HealthStatus) -> Option<Health> {
    match status {
        HealthStatus::Unknown => Some(Health::Unknown),
        HealthStatus::Healthy => Some(Health::Healthy),
        HealthStatus::Draining => Some(Health::Draining),
        HealthStatus::Unhealthy | HealthStatus::Timeout | HealthStatus::Degraded => None,
    }
}

fn denominator(message: &FractionalPercent) -> Result<DenominatorType, Fault> {
    const EXPECTED: &str = "it must be `HUNDRED`, `TEN_THOUSAND` or `MILLION`";
    DenominatorType::try_from(message.denominator).map_err(|_| EXPECTED).at("denominator")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_within_the_range_of_protobuf() {
        let read = |seconds, nanos| duration(&protobuf::Duration { seconds, nanos }).ok();
        assert_eq!(read(1, 500_000_000), Some(Duration::from_millis(1_500)));
        assert_eq!(read(315_576_000_000, 0), Some(Duration::from_secs(MAX_SECONDS)));
        for (seconds, nanos) in [(-1, 0), (0, -1), (0, 1_000_000_000), (315_576_000_001, 0)] {
            assert_eq!(read(seconds, nanos), None, "{seconds} {nanos}");
        }
    }

    #[test]
    fn a_chance_has_one_of_three_denominators() {
        // C-097
        let read = |denominator| {
            let read = fraction(&FractionalPercent { numerator: 5, denominator });
            read.map_or_else(|fault| fault.to_string(), |fraction| fraction.to_string())
        };
        assert_eq!(read(0), "5 of 100");
        assert_eq!(read(1), "5 of 10000");
        assert_eq!(read(2), "5 of 1000000");
        assert_eq!(read(3), "denominator: it must be `HUNDRED`, `TEN_THOUSAND` or `MILLION`");
    }
}
