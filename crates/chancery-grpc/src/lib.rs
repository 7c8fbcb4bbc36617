//! A gRPC data plane for Rust: channels to `xds:///` targets, and to ordinary ones, and servers that a control
//! plane configures, for tonic.
//!
//! ```text
//!   certificates   what the certificate providers of the bootstrap have
//!   connect    connections to endpoints, shared in the process
//!   read       resources, checked as gRPC checks them  -->  values of chancery-calls
//!   channel    calls, and the driver that publishes what they see
//!   orca       reports of servers about their load, read and written
//!   audit      logs of what RBAC decides
//!   server     connections and calls that arrive, and the driver that says whose they are
//! ```
//!
//! Not here: the decisions of a call (`chancery-calls`), and the conversation with the control plane
//! (`chancery-client`).

mod audit;
mod certificates;
mod channel;
mod codes;
mod connect;
mod dice;
mod extend;
mod metrics;
pub mod orca;
mod process;
mod read;
mod server;

pub use audit::{AuditEvent, AuditLogger, AuditLoggerFactory, register_audit_logger};
pub use chancery_calls::balancing::{
    ChildName, Connectivity, DescribedChild, DescribedEndpoint, Description, EndpointLocality,
    TreePart, Turn,
};
pub use chancery_client::status::StatusServer;
pub use channel::{
    CallExplanation, CallPlace, Channel, ChannelBuilder, ChannelError, ChannelPolicy, Credentials,
    ExplainedCluster, ExplainedFilter, ExplainedOutcome, ExplainedPlace, ExplainedRoute,
    PassedRoute, ResponseBody, WaitForReady,
};
pub use connect::Keepalive;
pub use extend::{
    CallSide, FilterFuture, FilterMessage, FilteredCall, HttpFilter, HttpFilterFactory,
    register_filter, register_policy,
};
#[cfg(feature = "opentelemetry")]
pub use metrics::OpenTelemetryRecorder;
#[cfg(feature = "prometheus")]
pub use metrics::PrometheusRecorder;
pub use metrics::{
    Label, METRICS, Metric, MetricKind, MetricsRecorder, RecorderExists, set_metrics_recorder,
};
pub use process::{client_status, close_clients};
pub use server::{ConnectionInfo, Server, ServerBuilder, ServerError, ServingState};

/// The pages on channels and servers, whose examples are compiled.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/channel.md")]
    struct Channels;

    #[doc = include_str!("../../../docs/server.md")]
    struct Servers;
}
