//! Streams of load reports (LRS).
//!
//! ```text
//!   request body --> [framing] --> [session]: which clusters, how often --> response body
//!                                     |
//!                                     +--> the book of all reports
//! ```
//!
//! Like a discovery stream, one of load reports has no task and no channel, is charged for what it holds, and
//! works for a slice of time only. A report is read cluster by cluster, so that a large one is many pieces of
//! work. Not here: what clients are told, and what is kept of reports (`chancery_core::server::load`).

mod body;
mod session;

pub(crate) use body::LoadBody;
pub(super) use session::LoadSession;
