//! The xDS protocol as values: names, resources, snapshots and the state machines of a server.
//!
//! ```text
//!   Snapshot (what a client should see) --+
//!                                         v
//!   Request (what it says) -------> [ads::Server] ------> Response (what it is sent)
//!                                         |
//!                                         +-------------> Event (what happened)
//! ```
//!
//! Nothing here does I/O. There is no clock, no async, no logging and no protobuf: time is an
//! input, bodies are opaque bytes, and what happened comes out as an [`Event`]. The same inputs in
//! the same order give the same outputs, which is how every rule of the protocol has a script test
//! and how whole fleets are simulated.
//!
//! Drive a stream like this: wait for one thing; [`handle`](ads::Server::handle) it;
//! [`poll`](ads::Server::poll) to `None` while the wire has room; sleep until
//! [`deadline`](ads::Server::deadline).

mod message;
mod name;
mod names;
mod node;
mod percent;
mod resource;
mod settings;
mod share;
mod snapshot;
mod step;
mod subscription;
mod type_url;

// The public interface.
pub mod ads;
pub mod client;
pub mod rest;
pub use message::{
    DeltaRequest, Entry, ErrorDetail, Event, Input, NameError, Request, Response, Scope,
    SotwRequest, Time, Variant, Violation,
};
pub use name::{InvalidName, ResourceName, XdstpParts};
pub use names::{Names, Versions};
pub use node::{Features, Locality, Node, Value};
pub use resource::{Facts, Link, Resource, Version};
pub use settings::Settings;
pub use share::{Encodings, Share, ShareKey};
pub use snapshot::{Change, ResourceSet, Snapshot};
pub use type_url::{Api, TypeRules, TypeUrl};
