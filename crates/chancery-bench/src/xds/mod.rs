//! The client's half of xDS, as bytes: requests, responses and acknowledgements.
//!
//! A response is scanned as its bytes arrive, for the number and size of its resources and for the
//! three strings that an acknowledgement needs. Resources are not decoded and Envoy's messages are
//! not known here, so servers of any make can be measured.
//!
//! Not here: frames ([`crate::http2`]) and sockets ([`crate::connection`]).

pub(super) mod plan;
pub(super) mod proto;
mod scanner;
mod session;
pub(super) mod status;
mod stream;
pub(super) mod types;

pub use plan::Node;
pub(super) use plan::{AckMode, Expect, PlannedSubscription, RequestPlan};
pub(super) use session::XdsSession;
pub use types::{Protocol, parse_type};
