//! Tests for xDS software: whole conversations as text, reference clients, simulated fleets.
//!
//! - [`script`]: a conversation with one stream of a server, written down line by line.
//! - [`client`]: reference clients, which do what the protocol asks and report what it forbids.
//! - [`sim`]: fleets of both in virtual time, with everything a network does to them.
//! - [`fuzz`]: mutations of inputs, for the tests of decoders.
//! - `TestServer`, with the feature `server`: a real server on a free port.
//!
//! All but the last drive [`chancery_core`] as values: no sockets, no clock, no threads.

pub mod client;
pub mod fuzz;
pub mod script;
pub mod sim;

#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
pub use server::{TestEvent, TestEventKind, TestServer};

mod compared_machine;
mod response_rules;
