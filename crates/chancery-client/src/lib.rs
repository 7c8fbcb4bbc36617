//! An xDS client: federation, fallback, state of the world or delta, over gRPC, REST and from files.
//!
//! A [`Bootstrap`] has all that a client knows before its first request. It is read from JSON, as
//! other xDS clients read it, or built in code. Nothing that arrives later can add a server to it.
//!
//! ```
//! use chancery_client::Bootstrap;
//!
//! let bootstrap: Bootstrap = r#"{
//!     "xds_servers": [{
//!         "server_uri": "xds.example.com:443",
//!         "channel_creds": [{"type": "tls"}]
//!     }],
//!     "node": {"id": "billing-7"}
//! }"#
//! .parse()?;
//! let found = bootstrap.target(&"xds:///orders:8080".parse()?)?;
//! assert_eq!(found.place.name.as_str(), "orders:8080");
//! assert_eq!(found.servers[0].uri, "xds.example.com:443");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Client`] keeps watches alive: it connects when something is watched, reconnects for as long
//! as it takes, falls back to another server if the bootstrap names one, and keeps its cache while
//! no server can be reached. A [`Watch`] is a stream of events, each of which is true when it is
//! read; a slow program slows its own stream and no other.
//!
//! Not here: the protocol, which `chancery-core` decides, and the meaning of resources, which the
//! program decides ([`ResourceType`]).

pub mod bootstrap;
mod calls;
mod client;
mod clients;
pub mod credentials;
pub mod dial;
pub mod disk_cache;
mod driver;
mod drop_later;
mod engine;
mod errors;
mod event_log;
mod grpc;
mod keeper;
pub mod load;
pub mod metrics;
pub mod options;
mod poll;
mod report_driver;
pub mod resource;
mod server_context;
mod service_paths;
mod session;
pub mod status;
mod tasks;
pub mod watch;

// The public interface: the names that every program needs. The others are in their modules.
pub use bootstrap::{Bootstrap, BootstrapError};
pub use client::Client;
pub use clients::Clients;
pub use options::Options;
pub use resource::{Received, ResourceType, TypeUrl};
pub use watch::{Event, RawWatch, Watch, WatchError};

/// The examples of the page for users are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
struct Page;
