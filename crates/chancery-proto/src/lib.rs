//! All that knows protobuf: descriptors, canonical bytes, JSON, YAML, text, and the xDS wire.
//!
//! ```text
//!   files: YAML, JSON, text, binary           requests: gRPC, REST
//!        |                                         |        ^
//!        v                                         v        | responses
//!   [document] -- messages --> [resource]      [wire] and [json]
//!        ^                          |              ^
//!        |                          v              |
//!   [schema]: descriptors    chancery_core::{Resource, Snapshot, messages}
//!                                   |
//!             [lint], [complete]: what is to be said about them
//!
//!   the client's side: [wire] writes requests, [reply] reads responses; [show] is for people;
//!   [frames] finds messages in the bytes of either side's streams
//! ```
//!
//! The core sees names, bytes and a few facts; this crate makes them. Everything is described by a
//! [`Schema`](schema::Schema) at run time, so a user's own extensions are read and checked like
//! Envoy's, and no type of Envoy's is compiled in. Bytes are canonical: one content, one version
//! (S-031), on every replica and after every restart.
//!
//! Nothing here does I/O, knows a clock, or is async; nothing that comes from a peer or a file can
//! make it panic or recurse without bound.

mod any;
mod canonical;
mod facts;
#[cfg(test)]
mod samples;
mod walk;

// The public interface.
pub mod complete;
pub mod document;
pub mod frames;
pub mod json;
pub mod lint;
pub mod reply;
pub mod resource;
pub mod schema;
pub mod show;
pub mod syntax;
pub mod wire;
