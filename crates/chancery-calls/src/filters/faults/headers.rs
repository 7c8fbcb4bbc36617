//! The headers by which a caller asks for faults, where the policy lets it.
//!
//! A value that is no number counts as absent. Of several the first that is one counts.

use std::time::Duration;

use http::HeaderMap;

use super::AbortStatus;
use crate::matching::Fraction;

/// The delay that the call asks for.
pub(super) fn delay(headers: &HeaderMap) -> Option<Duration> {
    number(headers, "x-envoy-fault-delay-request").map(Duration::from_millis)
}

/// The chance of a delay: that of the policy at most.
pub(super) fn delay_chance(headers: &HeaderMap, most: Fraction) -> Fraction {
    chance(headers, "x-envoy-fault-delay-request-percentage", most)
}

/// The status that the call asks to be aborted with. One of HTTP comes before one of gRPC.
pub(super) fn abort(headers: &HeaderMap) -> Option<AbortStatus> {
    let http = number(headers, "x-envoy-fault-abort-request").and_then(AbortStatus::from_http);
    http.or_else(|| number(headers, "x-envoy-fault-abort-grpc-request").map(AbortStatus::from_grpc))
}

/// The chance of an abort: that of the policy at most.
pub(super) fn abort_chance(headers: &HeaderMap, most: Fraction) -> Fraction {
    chance(headers, "x-envoy-fault-abort-request-percentage", most)
}

fn chance(headers: &HeaderMap, name: &str, most: Fraction) -> Fraction {
    number(headers, name).map_or(most, |numerator| most.at_most(numerator))
}

fn number<N: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<N> {
    let mut values = headers.get_all(name).iter();
    values.find_map(|value| value.to_str().ok()?.parse().ok())
}
