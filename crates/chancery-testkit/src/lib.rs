//! Tests for xDS software: whole conversations as text, reference clients, simulated fleets.
//!
//! - [`script`]: a conversation with one stream of a server, written down line by line.
//!
//! Everything here drives [`chancery_core`] as values: no sockets, no clock, no threads.

pub mod script;

mod shape;
