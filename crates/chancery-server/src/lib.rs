//! An xDS management server over gRPC and REST, usable as a library.
//!
//! ```text
//!   publish --> [Store]: a snapshot per audience --+
//!                                                  v
//!   client --> connection --> stream --> (which audience? [Policy]) --> machine --> shared bytes
//! ```
//!
//! A program publishes [`Snapshot`]s into a [`Store`], says with a
//! [`Policy`] which audience a client belongs to, and lets a [`Server`] serve them:
//!
//! ```
//! use bytes::Bytes;
//! use chancery_server::{
//!     ByNode, Config, Listener, Node, Resource, Server, Snapshot, Store, TypeUrl,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
//! let body = Bytes::from_static(b"\x0a\x03web"); // a `Cluster` with the name `web`
//! let mut snapshot = Snapshot::new();
//! snapshot.insert(&clusters, Resource::new("web".parse()?, body));
//!
//! let store = Store::new();
//! store.publish("edge", snapshot);
//! let policy = ByNode(|node: &Node| node.cluster.as_str().into());
//! let listener = Listener::tcp("127.0.0.1:0".parse()?).await?;
//! let stop = std::future::pending::<()>(); // until the program ends
//! # let stop = std::future::ready(());
//! Server::new(store, policy, Config::default()).serve(vec![listener], stop).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A program whose resources have layers (a base, groups, nodes) commits them to a
//! [`Catalog`](chancery_catalog::Catalog) and serves them with [`Audiences`]: these give the store
//! what is watched, and are the policy.
//!
//! The protocol is not here: it is in [`chancery_core::server`]. This crate moves bytes, keeps
//! limits, counts and logs. It never logs a body (S-138).

mod acceptor;
mod activity;
mod audiences;
mod body;
mod budget;
mod config;
mod connection;
mod csds;
mod event;
mod grpc;
mod handshake_failure;
mod http_error;
mod listen;
mod load_reports;
mod log_limiter;
mod metrics;
mod places;
mod policy;
mod random;
mod request_body;
mod rest;
mod routes;
mod server;
mod server_state;
mod service;
mod slice;
mod stall;
mod status;
mod store;
mod tls;
mod tower_service;
mod turns;
mod unix_socket;
mod unread_bodies;
mod work_line;
mod work_threads;

// The public interface.
pub use audiences::{Assign, Audiences, OpenStream};
pub use budget::{
    AvailableMemory, InvalidNetwork, MemoryBound, Network, PeerLimits, shared_address,
};
pub use config::{Config, Limits, Times};
pub use csds::{Csds, CsdsReaders, CsdsRefused};
pub use event::{Observer, StreamEvent, StreamEventKind};
pub use listen::Listener;
pub use load_reports::{LoadMinute, LoadReports};
pub use metrics::Metrics;
pub use policy::{ByNode, Client, OneAudience, Peer, Policy, Refusal};
pub use server::{ServeError, Server};
pub use status::{
    Candidate, EventPage, EventStream, Fleet, GoneStream, Landing, LoadStatus, LookQuery, Looks,
    NodeStatus, Outcome, PollVersions, RejectionNote, StatusBook, StatusBounds, StatusEvent,
    StatusEventKind, StreamDetails, StreamState, StreamStatus, TypeDetails, WaitDetails,
};
pub use store::{AudienceName, Demand, Store, Supply, TypeDemand};
pub use tls::{Tls, TlsError, TlsFiles};

// The types of other crates that occur in the public interface.
pub use chancery_core::server::load::{
    LoadBounds, LoadInterval, LoadReporting, ReporterView, SeriesView,
};
pub use chancery_core::server::{
    ResourcePage, ResourceQuery, ResourceSelection, ResourceState, ResourceStatus, Settings,
    UnsettledCounts, WaitReason,
};
pub use chancery_core::{
    Api, ErrorDetail, Facts, InvalidName, Node, Resource, ResourceName, Snapshot, TypeUrl, Variant,
};
pub use chancery_proto::schema::Schema;
#[doc(no_inline)]
pub use tonic;
