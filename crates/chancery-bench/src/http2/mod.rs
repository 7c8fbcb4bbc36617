//! As much of an HTTP/2 client as a load driver needs, without I/O: bytes in, events and bytes out.
//!
//! Written for thousands of connections in one process: a connection is a few hundred bytes, a
//! response body is handed on where it lies in the read buffer, and nothing is allocated for a
//! message. Not here: requests and responses of xDS ([`crate::xds`]), sockets
//! ([`crate::connection`]).

mod connection;
mod frame;
mod hpack;
mod huffman;

pub(super) use connection::{Event, Http2Connection, Http2Error, SendWindow, WINDOW_STEP};
pub(super) use hpack::{Field, request_block};
