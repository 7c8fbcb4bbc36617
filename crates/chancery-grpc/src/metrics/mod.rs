//! Metrics of channels and servers, by the names that gRPC has for them (gRFC A66, A78, A89, A91, A94, A96).
//!
//! ```text
//!   calls, connections, policies  -->  MetricsRecorder  -->  prometheus or opentelemetry (features),
//!                                                       or what the program has
//! ```
//!
//! Nothing is counted until the program has given a recorder. Not here: metrics of the client of the control plane,
//! which `chancery-client` has.

mod call;
mod names;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
#[cfg(feature = "prometheus")]
mod prometheus;
mod server;
mod sizes;
mod tree;

use std::fmt;
use std::sync::OnceLock;

pub(crate) use self::call::{AttemptMeter, CallMeter, RetryKind};
pub use self::names::METRICS;
pub(crate) use self::names::{
    CONNECTIONS_FAILED, CONNECTIONS_MADE, CONNECTIONS_OPEN, DISCONNECT_ERROR, DISCONNECTIONS,
};
#[cfg(feature = "opentelemetry")]
pub use self::opentelemetry::OpenTelemetryRecorder;
#[cfg(feature = "prometheus")]
pub use self::prometheus::PrometheusRecorder;
pub(crate) use self::server::ServerMeter;
pub(crate) use self::sizes::SizeCounter;
pub(crate) use self::tree::counted;

/// Takes what is counted and measured. It is called on the way of calls, and must not block.
pub trait MetricsRecorder: fmt::Debug + Send + Sync + 'static {
    /// Adds to a counter.
    fn add(&self, metric: &'static Metric, by: u64, labels: &[Label<'_>]);

    /// Changes a number that goes up and down.
    fn change(&self, metric: &'static Metric, by: i64, labels: &[Label<'_>]);

    /// Takes a value of a histogram.
    fn observe(&self, metric: &'static Metric, value: f64, labels: &[Label<'_>]);
}

/// A label with its value. The labels of a metric always come in the order of [`Metric::labels`].
pub type Label<'a> = (&'static str, &'a str);

/// One metric.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// The name, as `grpc.client.attempt.started`.
    pub name: &'static str,
    /// The sort of metric.
    pub kind: MetricKind,
    /// The unit, in the notation of OpenTelemetry: `s`, or `{attempt}`.
    pub unit: &'static str,
    /// The description.
    pub description: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The upper bounds of the buckets of a histogram.
    pub bounds: &'static [f64],
}

/// A sort of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// A number that goes up.
    Counter,
    /// A number that goes up and down.
    UpDownCounter,
    /// The distribution of values.
    Histogram,
}

/// The error of a second recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process has a recorder of metrics already")]
pub struct RecorderExists;

/// Gives what the channels and servers of the process count and measure to this recorder, from now on.
///
/// # Errors
///
/// If there is a recorder already.
pub fn set_metrics_recorder(recorder: impl MetricsRecorder) -> Result<(), RecorderExists> {
    RECORDER.set(Box::new(recorder)).map_err(|_| RecorderExists)
}

/// The recorder of the process.
#[inline]
pub(crate) fn recorder() -> Option<&'static dyn MetricsRecorder> {
    RECORDER.get().map(|recorder| &**recorder)
}

static RECORDER: OnceLock<Box<dyn MetricsRecorder>> = OnceLock::new();
