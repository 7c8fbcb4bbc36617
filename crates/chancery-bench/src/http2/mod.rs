//! The part of an HTTP/2 client that a load generator needs, without I/O: bytes in, events and bytes
//! out (RFC 9113).
//!
//! It is written for thousands of connections in one process: a connection is a few hundred bytes,
//! a response body is passed on from the read buffer without a copy, and nothing is allocated for a
//! message.
//!
//! Not here: requests and responses of xDS ([`crate::xds`]), sockets ([`crate::connection`]).

mod connection;
mod flow;
mod frame;
mod hpack;
mod huffman;

pub(super) use connection::{Http2Connection, Http2Error, Http2Event};
pub(super) use flow::StreamFlow;
pub(super) use hpack::{Field, request_block};
