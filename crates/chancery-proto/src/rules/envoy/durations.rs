//! Durations that Envoy refuses below zero, where no rule of the descriptors says so.

use prost_reflect::DynamicMessage;

use super::Below::Field;
use super::{Checks, Found};
use crate::rules::check::duration;
use crate::rules::name::RuleName;
use crate::walk::message_in;

pub(super) const CHECKS: Checks = &[
    ("envoy.config.core.v3.ConfigSource", |message, found| {
        not_negative(message, &["initial_fetch_timeout"], found);
    }),
    ("envoy.config.core.v3.HttpProtocolOptions", |message, found| {
        not_negative(message, &["idle_timeout"], found);
    }),
    ("envoy.config.route.v3.RetryPolicy", |message, found| {
        not_negative(message, &["per_try_timeout"], found);
    }),
    ("envoy.config.route.v3.RouteAction.MaxStreamDuration", |message, found| {
        not_negative(message, &["max_stream_duration"], found);
    }),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", |message, found| {
        not_negative(message, &["idle_timeout"], found);
    }),
];

/// Checks these fields of a message.
pub(super) fn not_negative(
    message: &DynamicMessage,
    fields: &[&'static str],
    found: &mut Found<'_>,
) {
    for field in fields {
        if message_in(message, field).and_then(duration).is_some_and(|nanos| nanos < 0) {
            found.says(&[Field(field)], RuleName::DURATION, "must not be negative");
        }
    }
}
