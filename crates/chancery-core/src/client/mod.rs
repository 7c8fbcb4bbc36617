//! The client's half of the protocol: what is watched, what is held, and which server is asked.
//!
//! ```text
//!   machine/      the client: what follows from a response, from an outage, from the time
//!   servers/      its streams, and the requests on them
//!   cache/        what is watched and held, by authority, type and name
//!   watching/     what each watcher has still to hear
//!   lifecycle/    the life of one stream, also of load reports (load/)
//!   naming/       which name a target means, and under which authority
//! ```

mod authority_key;
mod cache;
mod dependency_manager;
mod error;
mod event;
mod ids;
mod input;
mod lifecycle;
pub mod load;
mod machine;
mod naming;
mod resource;
mod response;
mod servers;
mod setup;
mod token_bucket;
mod watching;

pub use authority_key::AuthorityKey;
pub use dependency_manager::{
    DependencyManager, ResourceKey, ResourceResult, WatchChange, XdsConfig, XdsConfigResult,
};
pub use error::{ErrorKind, WatchError};
pub use event::Event;
pub use ids::{ServerId, StreamId, WatchId};
pub use input::{Effect, Input};
pub use machine::Machine;
pub use machine::status::ResourceStatus;
pub use naming::{InvalidTarget, Naming, NamingError, ResolvedName, Target, Template};
pub use resource::{CachedResource, Rejection, ResourceState};
pub use response::{
    DecodedBody, HeartbeatResource, InvalidResource, ReceivedResource, Response, ResponseItem,
};
pub use setup::{
    AuthoritySetup, Fallback, Protocol, ServerFeatures, ServerKey, ServerSetup, Settings, Setup,
};
pub use token_bucket::{RateLimit, TokenBucket};
pub use watching::WatchEvent;
