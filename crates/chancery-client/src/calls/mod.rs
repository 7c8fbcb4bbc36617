//! Calls of gRPC over `h2`, in both directions: those that the client makes of its servers, and
//! those that others make of it.
//!
//! ```text
//!   [client]: credentials, connection, head --+
//!                                             +--> MessageReader, MessageWriter
//!   [server]: listener, connection, head -----+
//! ```
//!
//! Not here: the messages of a call and their time.

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod messages;
pub(crate) mod server;
pub(crate) mod status;
