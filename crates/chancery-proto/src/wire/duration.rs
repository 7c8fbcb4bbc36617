//! Durations and points in time, as in `duration.proto` and `timestamp.proto`.

use std::time::Duration;

use prost::Message;

/// A `google.protobuf.Duration`, or a `Timestamp`, which has the same fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WireDuration {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

impl From<Duration> for WireDuration {
    fn from(time: Duration) -> Self {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        // The nanoseconds are always below a billion.
        Self { seconds, nanos: time.subsec_nanos().cast_signed() }
    }
}

/// Fails for negative times, and for parts that are out of range.
impl TryFrom<WireDuration> for Duration {
    type Error = ();
    fn try_from(time: WireDuration) -> Result<Self, ()> {
        let seconds = u64::try_from(time.seconds).map_err(|_| ())?;
        let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
        Ok(Self::new(seconds, nanos.ok_or(())?))
    }
}
