//! The client's half of the protocol: what is watched, what is held, and which server is asked.
//!
//! ```text
//!   machine       the public face; receive, fallback and timeouts say what follows from what
//!   servers/      streams and the requests on them        lifecycle/   one stream, of any kind
//!   cache/        what is watched and held, by name       naming/      which name, which authority
//!   watching/     what each watcher has still to hear     load/        load reports
//! ```

mod cache;
mod dependency_manager;
mod error;
mod event;
mod fallback;
mod input;
mod lifecycle;
pub mod load;
mod machine;
mod naming;
mod receive;
mod response;
mod servers;
mod setup;
mod status;
mod timeouts;
mod watching;

pub use cache::{CachedResource, Rejection, ResourceState};
pub use dependency_manager::{
    DependencyManager, ResourceKey, ResourceResult, WatchChange, XdsConfig, XdsConfigResult,
};
pub use error::{ErrorKind, WatchError};
pub use event::Event;
pub use input::{Effect, Input};
pub use lifecycle::{RateLimit, TokenBucket};
pub use machine::Machine;
pub use naming::{
    AuthorityKey, InvalidTarget, Naming, NamingError, ResolvedName, Target, Template,
};
pub use response::{
    DecodedBody, HeartbeatResource, InvalidResource, ReceivedResource, Response, ResponseItem,
};
pub use setup::{
    AuthoritySetup, Fallback, Protocol, ServerFeatures, ServerId, ServerKey, ServerSetup, Settings,
    Setup, StreamId,
};
pub use status::ResourceStatus;
pub use watching::{WatchEvent, WatchId};
