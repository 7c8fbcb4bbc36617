//! Load reports, the client's half: the counters, and the stream on which they are reported.
//!
//! ```text
//!   calls, drops --> [ClusterCounters] --------+
//!                                              +--> [LoadReporter] of a server --> [LoadReport]
//!   which clusters, how often ([LoadResponse]) +
//! ```
//!
//! The caller of a service counts its calls in [`ClusterCounters`], from any thread, and knows
//! nothing of streams. A [`LoadReporter`] knows one report server (C-134): it has a stream opened
//! while a cluster needs it, and takes the contents of a report out of the counters at the moment
//! that the report is written.
//!
//! Counts that were taken are not counted again. So nothing is reported twice, and a lost stream
//! costs at most what was written to it and not read by the server; LRS has no acknowledgement by
//! which a client could know. All that is counted while there is no stream waits for the next one.
//!
//! Not here: bytes (`chancery_proto::wire`), and connections (`chancery-client`).

mod counters;
mod metrics;
mod reporter;
mod store;

pub use crate::load::{
    ClusterSelection, ClusterStats, EndpointStats, LoadKey, LoadReport, LoadResponse,
    LocalityStats, MetricStats,
};
pub use counters::{ClusterCounters, LocalityCounters};
pub use metrics::{OrcaReport, ReportedMetrics};
pub use reporter::{LoadEvent, LoadMessage, LoadReporter};
