//! Tests for xDS software: whole conversations as text, reference clients, simulated fleets.
//!
//! - [`script`]: a conversation with one stream of a server, written down line by line.
//! - [`client`]: reference clients, which do what the protocol asks and report what it forbids.
//! - [`sim`]: fleets of both in virtual time, with everything a network does to them.
//!
//! Everything here drives [`chancery_core`] as values: no sockets, no clock, no threads.

pub mod client;
pub mod script;
pub mod sim;

mod shape;
