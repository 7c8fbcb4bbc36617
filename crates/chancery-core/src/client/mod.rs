//! The client's half of the protocol: what is watched, what is held, and which server is asked.

mod cache;
mod dependency_manager;
mod error;
mod event;
mod fallback;
mod lifecycle;
pub mod load;
mod machine;
mod nameless;
mod naming;
mod outage;
mod receive;
mod response;
mod servers;
mod setup;
mod status;
mod timeouts;
mod watching;

pub use cache::entry::{CachedResource, Rejection, ResourceState};
pub use dependency_manager::{
    DependencyManager, ResourceKey, ResourceResult, WatchChange, XdsConfig, XdsConfigResult,
};
pub use error::{ErrorKind, WatchError};
pub use event::Event;
pub use lifecycle::token_bucket::{RateLimit, TokenBucket};
pub use machine::{Effect, Input, Machine};
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
pub use watching::events::WatchEvent;
pub use watching::watchers::WatchId;
