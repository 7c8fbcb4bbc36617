//! Durations and chances, which many resources have.

use std::time::Duration;

use chancery_calls::matching::{Denominator, Fraction};
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use envoy_types::pb::google::protobuf;

use super::fault::Fault;

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
    let denominator = match DenominatorType::try_from(message.denominator) {
        Ok(DenominatorType::Hundred) => Denominator::Hundred,
        Ok(DenominatorType::TenThousand) => Denominator::TenThousand,
        Ok(DenominatorType::Million) => Denominator::Million,
        Err(_) => {
            return Err("`denominator` must be `HUNDRED`, `TEN_THOUSAND` or `MILLION`".into());
        }
    };
    Ok(Fraction::new(message.numerator, denominator))
}
