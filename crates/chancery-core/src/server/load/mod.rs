//! Load reports, the server's half: one stream of them, and the book of what all streams report.
//!
//! ```text
//!   messages of a client --> [LoadStream]: which clusters, how often --> LoadResponse
//!          |
//!          +-- clusters --> [LoadBook]: rows of each reporter, series of all of them
//! ```
//!
//! A client reports nothing before it is told which clusters and how often (S-130). What it reports is kept
//! twice: in rows of its own, which go when its stream does, and in series that all reporters share, which
//! stay for a while. Rows say who sent how much, series when it was.
//!
//! Not here: bytes (`chancery_proto::wire`), the interval of a group (the policy of the server), and who
//! may look.

mod book;
mod counts;
mod interval;
mod reporter;
mod series;
mod stream;
mod timeline;

pub use self::book::{LoadBook, LoadBounds, SeriesView};
pub use self::counts::{LeftOut, LoadCounts};
pub use self::interval::{InvalidInterval, LoadInterval, LoadReporting};
pub use self::reporter::{ReporterView, RowView};
pub use self::series::SeriesKey;
pub use self::stream::LoadStream;
pub use self::timeline::Slot;
pub use crate::load::{
    ClusterSelection, ClusterStats, EndpointStats, LoadKey, LoadResponse, LocalityStats,
    MetricStats,
};
