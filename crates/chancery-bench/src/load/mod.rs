//! Clients that report their calls (LRS), as bytes: what they say first, what the server answers, and
//! the same report in each interval.
//!
//! Not here: discovery ([`crate::xds`]), frames ([`crate::http2`]) and sockets
//! ([`crate::connection`]).

mod plan;
mod session;

pub(super) use plan::{CALLS, METHOD, ReportPlan};
pub(super) use session::LoadSession;
