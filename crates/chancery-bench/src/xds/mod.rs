//! What clients of xDS say and hear, as bytes.
//!
//! A response is scanned as it streams by: how many resources, how large, and the three strings an
//! acknowledgement needs. Nothing is decoded, and nothing is known of Envoy's messages, so this
//! measures servers of any make. Not here: frames ([`crate::http2`]) and sockets.

pub(super) mod plan;
pub(super) mod proto;
mod scanner;
mod session;
mod status;
mod stream;
pub(super) mod types;

pub(super) use plan::{AckMode, Expect, Plan, Subscription};
pub use plan::{Node, Protocol};
pub(super) use session::Session;
pub use types::parse_type;
