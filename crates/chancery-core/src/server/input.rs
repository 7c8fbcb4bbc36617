//! The inputs of a server's machine.

use std::sync::Arc;

use crate::Request;

/// What a machine is told.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "an input is made, taken and never kept")]
pub enum Input {
    /// The client sent a message.
    Request(Request),
    /// This is what the client should see from now on.
    Snapshot(Arc<crate::Snapshot>),
}
