//! A gRPC data plane for Rust: channels to `xds:///` targets, for tonic.
//!
//! Not here: the decisions of a call (`chancery-calls`), and the conversation with the control plane
//! (`chancery-client`).

mod connect;
mod dice;
mod read;
