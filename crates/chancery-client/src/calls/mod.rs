//! Calls of gRPC over `h2`.

pub(crate) mod client;
pub(crate) mod connection;
mod status;
