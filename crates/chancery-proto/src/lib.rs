//! All that knows protobuf: descriptors, canonical bytes, JSON, YAML, text, and the xDS wire.

mod any;
mod canonical;
mod facts;
mod walk;

// The public interface.
pub mod document;
pub mod json;
pub mod lint;
pub mod resource;
pub mod schema;
pub mod v2;
pub mod wire;
pub mod yaml;
