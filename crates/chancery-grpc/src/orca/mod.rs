//! Reports of servers about their load, ORCA in gRPC (gRFC A51): in the trailers of calls, and beside them.
//!
//! ```text
//!   handler --> CallMetricsRecorder --> CallMetricsLayer --trailer--> a channel of any gRPC
//!   program --> ServerMetricsRecorder --> OpenRcaService --stream-->  a channel of any gRPC
//! ```
//!
//! A server of tonic that is to be weighed by its clients (`weighted_round_robin`), or whose metrics are to get into
//! their reports to the control plane, takes [`CallMetricsLayer`] or [`OpenRcaService`]; it needs no control plane of
//! its own. Channels read the reports by themselves. Not here: weights (`chancery-calls`), and reports to control planes
//! (`chancery-client`).

mod layer;
mod message;
mod metrics;
mod service;
mod trailer;

pub use self::layer::{CallMetrics, CallMetricsBody, CallMetricsFuture, CallMetricsLayer};
pub(crate) use self::message::{OrcaLoadReport, OrcaLoadReportRequest, STREAM_CORE_METRICS};
pub use self::metrics::{
    CallMetricsRecorder, ServerMetrics, ServerMetricsProvider, ServerMetricsRecorder,
};
pub use self::service::OpenRcaService;
pub(crate) use self::trailer::read as report_of;
