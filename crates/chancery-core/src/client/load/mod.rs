//! Load reports, the client's half: what is counted, and when which server is told of it.
//!
//! ```text
//!   calls, drops --> [Tally] of a cluster --+
//!                                           +--> [Reporter] of a server --> [LoadReport]
//!   which clusters, how often ([LoadAnswer]) +
//! ```
//!
//! Whoever makes calls counts them in a [`Tally`], from any thread, and knows nothing of streams. A
//! [`Reporter`] knows one report server (C-134): it has a stream opened while a cluster needs it,
//! and takes out of the tallies what a report says at the moment that is written.
//!
//! What was taken is not counted again. So nothing is ever told twice, and what is lost with a
//! stream is at most what was written to it and not read by the server; LRS has no acknowledgement
//! by which a client could know. All that is counted while there is no stream waits for the next
//! one.
//!
//! Not here: bytes (`chancery_proto::wire`), and connections (`chancery-client`).

mod counters;
mod metrics;
mod reporter;
mod stats;
mod store;

pub use counters::{ClusterCounters, LocalityCounters};
pub use metrics::{OrcaReport, ReportedMetrics};
pub use reporter::{LoadEvent, LoadMessage, LoadReporter};
pub use stats::{
    ClusterSelection, ClusterStats, LoadKey, LoadReport, LoadResponse, LocalityStats, MetricStats,
};
