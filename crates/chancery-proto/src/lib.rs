//! Protobuf for Chancery: descriptors, canonical bytes, files of resources, and the xDS messages.
//!
//! The core ([`chancery_core`]) sees names, bytes and a few facts. This crate makes them, and it is
//! the only one that knows protobuf. Everything is described by a [`Schema`] at run time, so a user's
//! own extensions are read and checked like Envoy's, and no message type of Envoy's is compiled in.
//!
//! # Which module answers which question
//!
//! | question | module |
//! |---|---|
//! | Which messages and discovery services exist? | [`schema`]: [`Schema`] |
//! | How does a file become resources, and what is wrong with it? | [`document`]: [`document::parse`] |
//! | How does a message, or its bytes, become a resource? How does it look to v2 clients? | [`resource`]: [`resource::resource_from_bytes`], [`resource::to_v2`] |
//! | Which snapshot can be published, and which of its references lead nowhere? | [`complete`]: [`Complete`] |
//! | How does a layer change a resource of the layers below it? | [`patch`]: [`patch::Patch`] |
//! | Which values of a resource differ by node, and what do nodes state? | [`values`]: [`values::NodeValues`] |
//! | Which certificates stand in a resource? | [`certificates`]: [`certificates::certificates`] |
//! | Which rules of Envoy's API does a message break? | [`rules`]: [`Schema::rules`] |
//! | For which clients is a resource, and which versions of Envoy are known? | [`clients`]: [`clients::Clients`] |
//! | What would gRPC clients refuse in a resource? | [`lint`] |
//! | How does a server read requests and write responses? | [`wire`] for gRPC, [`json`] for REST |
//! | How does a client write requests? | [`wire::encode_request`], [`json::request_to_json`] |
//! | How does a client read responses? | [`reply`]: [`reply::Reader`] |
//! | Where does a message end in the bytes of a gRPC stream? | [`frames`] |
//! | How do load reports and CSDS look on the wire? | [`wire`] |
//! | Does a body hold a secret, and which values are secret? | [`sensitive`]: [`sensitive::withheld`], [`sensitive::values`] |
//! | How do people read a resource, without its secrets? | [`show`]: [`show::Viewer`] |
//! | How is a configuration file read, with the position of each fault? | [`syntax`]: [`syntax::from_yaml`] |
//!
//! A control plane needs [`Schema`], [`resource`] or [`document`], and [`Complete`], because the
//! server crate does the rest. The other modules are for the crates of this workspace, and for
//! programs that write their own server or client.
//!
//! ```
//! use chancery_proto::document::{Format, parse};
//! use chancery_proto::{Complete, Schema};
//!
//! let text = br#"{ "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "a" }"#;
//! let parsed = parse(&Schema::bundled(), Format::Json, text);
//! assert!(parsed.faults.is_empty());
//! let mut complete = Complete::new();
//! for found in parsed.resources {
//!     complete.insert(&found.type_url, found.resource);
//! }
//! // `complete.snapshot()` is ready to be published.
//! ```
//!
//! # How the modules use each other
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
//!             [lint], [complete]: warnings, and a snapshot that can be published
//! ```
//!
//! Equal content has equal bytes, on every replica and after every restart, so a version that is a
//! hash of the bytes names the content
//! ([S-031](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ack-nack-and-resource-type-instance-version)).
//!
//! Nothing here does I/O, reads a clock, or is async. No bytes from a peer or a file make it panic or
//! recurse without bound.

mod any;
mod canonical;
mod facts;
mod made;
mod node_matcher;
mod node_memory;
mod request_size;
#[cfg(test)]
mod samples;
mod walk;

pub mod certificates;
pub mod clients;
pub mod complete;
pub mod document;
pub mod frames;
pub mod gathered;
pub mod json;
pub mod lint;
pub mod patch;
pub mod reply;
pub mod resource;
pub mod rules;
pub mod schema;
pub mod sensitive;
pub mod show;
pub mod syntax;
pub mod values;
pub mod wire;
pub use node_matcher::NodeMatchers;
pub use request_size::RequestTooLarge;

pub use complete::Complete;
pub use schema::Schema;
