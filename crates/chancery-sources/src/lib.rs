//! Where snapshots come from: a directory of resources, read whole and followed.
//!
//! ```text
//!   DIR --scan--> Listing --read--> parsed files --assemble--> layers --merge--> Snapshot
//!    ^                                                            |                per audience
//!    +---- follow: events, settle, sweep                       Catalog
//! ```
//!
//! A source publishes nothing by itself: it keeps a [`Catalog`], which answers what each audience
//! should see, and tells its caller when the answers changed. Nothing here knows a socket, a
//! stream or a configuration file; what a document says is `chancery-proto`'s to tell.
//!
//! Invariants: a [`Catalog`] is only ever replaced by a whole load; a fault holds back the
//! audiences that contain its layer and no others; a directory that disappears deletes nothing.

mod audience;
mod cache;
mod catalog;
mod content;
mod directory;
mod fault;
mod follow;
mod generation;
mod layer;
mod listing;
mod options;
mod scan;
mod trail;
mod watcher;

// The public interface.
pub use audience::Audience;
pub use catalog::{Catalog, Origin};
pub use directory::{Directory, LoadReport};
pub use fault::{Fault, Scope, Warning};
pub use follow::Following;
pub use layer::{InvalidLayerName, Layer};
pub use options::{Options, Watch};
