//! The xDS protocol as values: names, resources, snapshots and the machines of both sides.
//!
//! ```text
//!   [server::Machine]   one stream of a server:     snapshots and requests  -> responses
//!   [client::Machine]   all streams of a client:    watches and responses   -> requests, events
//! ```
//!
//! Nothing here does I/O. There is no clock, no async, no logging and no protobuf: time is an
//! input, bodies are opaque bytes, and the machines report through events ([`server::Event`],
//! [`client::Event`]). The same inputs in the same order give the same outputs. So every rule of
//! the protocol has a script test, and whole fleets are simulated.
//!
//! A driver hands each message or timer to the machine (`handle`), asks the machine what to do
//! (`poll`) until it answers `None`, and sleeps until the machine's `deadline`.
//!
//! Comments cite the rules of the protocol by number, as S-096. The rules are in `docs/rules/`, each
//! with the section of the specification or the gRFC that it comes from.

mod encodings;
mod entries;
mod load;
mod message;
mod name;
mod name_bits;
mod names;
mod node;
mod resource;
mod resource_set;
mod snapshot;
mod step;
mod type_map;
mod type_url;

// The public interface.
pub mod base64;
pub mod client;
pub mod percent;
pub mod printable;
pub mod re2;
pub mod server;
pub(crate) use message::PART_SUFFIX;
pub use message::{
    DeltaRequest, ErrorDetail, NameError, Request, Scope, SotwRequest, Time, Variant,
};
pub use name::{InvalidName, ResourceName, XdstpParts};
pub use names::{Names, Versions};
pub use node::{Features, Locality, Node, Value};
pub use resource::{Facts, Link, Resource, Version};
pub use resource_set::{Change, Pending, ResourceSet};
pub use snapshot::Snapshot;
pub use type_url::{Api, TypeRules, TypeUrl};
