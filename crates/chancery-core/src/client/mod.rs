//! The client's half of the protocol: what is watched, what is held, and which server is asked.

mod authority;
mod backoff;
mod dependency_manager;
mod entry;
mod error;
mod event;
mod events;
mod expiries;
mod fallback;
pub mod load;
mod machine;
mod nameless;
mod naming;
mod outage;
mod receive;
mod response;
mod restored;
mod server;
mod setup;
mod slots;
mod status;
mod subscription;
mod target;
mod template;
mod timeouts;
mod token_bucket;
mod watchers;

pub use dependency_manager::{
    DependencyManager, ResourceKey, ResourceResult, WatchChange, XdsConfig, XdsConfigResult,
};
pub use entry::{CachedResource, Rejection, ResourceState};
pub use error::{ErrorKind, WatchError};
pub use event::Event;
pub use events::WatchEvent;
pub use machine::{Effect, Input, Machine};
pub use naming::{AuthorityKey, Naming, NamingError, ResolvedName};
pub use response::{
    DecodedBody, HeartbeatResource, InvalidResource, ReceivedResource, Response, ResponseItem,
};
pub use setup::{
    AuthoritySetup, Fallback, Protocol, ServerFeatures, ServerId, ServerKey, ServerSetup, Settings,
    Setup, StreamId,
};
pub use status::ResourceStatus;
pub use target::{InvalidTarget, Target};
pub use template::Template;
pub use token_bucket::{RateLimit, TokenBucket};
pub use watchers::WatchId;
