//! From what sources say to what each audience sees.
//!
//! ```text
//!   a source --ChangeSet--> [Catalog]: layers --> audiences --> Snapshot
//!                               |
//!                               +--Revision--> whoever shows the snapshots to clients
//! ```
//!
//! A source (a directory, a key-value store, another server, the program itself) says which
//! resources each [`Layer`] has, and which layers it cannot vouch for. The [`Catalog`] merges base,
//! the overlay of a group and that of a node into the snapshot of an [`Audience`], and says with
//! each [`Revision`] which audiences see something else.
//!
//! ```
//! use chancery_catalog::{Catalog, ChangeSet, Entry, Layer, Origin};
//! use chancery_core::{Resource, TypeUrl};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
//! let web = Resource::new("web".parse()?, b"\x0a\x03web"[..].into()); // a `Cluster` named `web`
//!
//! let catalog = Catalog::new();
//! let mut changes = ChangeSet::new("deployer");
//! changes.put(&Layer::Group("eu".into()), &clusters, Entry::new(web, Origin::program("example")));
//! let revision = catalog.commit(changes).expect("there was nothing before");
//! assert_eq!((revision.number, revision.author.as_str()), (1, "deployer"));
//! assert_eq!(catalog.snapshot(Some("eu"), Some("node-1")).map(|all| all.len()), Some(1));
//! assert_eq!(catalog.snapshot(Some("us"), Some("node-2")).map(|all| all.len()), Some(0));
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here knows a file, a socket, a stream or a thread of its own.
//!
//! Invariants: an audience sees one state whole; what holds one layer back holds back the audiences
//! that contain it and no others; equal content has an equal hash, and unchanged content keeps its
//! snapshot.

mod audience;
mod catalog;
mod changes;
mod content;
mod entry;
mod external;
mod filled;
mod flaws;
mod gate;
mod history;
mod layer;
mod layer_edit;
mod lineage;
mod memory;
mod parents;
mod reach;
mod references;
mod resolve;
mod revision;
mod state;
mod stated;
mod told;
mod unseen;
mod view;
mod view_cache;

// The public interface.
pub use audience::Audience;
pub use catalog::{AudienceSnapshot, Catalog, ListedEntry};
pub use changes::{Author, ChangeSet, Hold};
pub use content::LayerContent;
pub use entry::{Entry, EntryContent, Form, Key, Origin};
pub use external::External;
pub use filled::{FilledValue, NeededBy, Needs, UnfitResource, Unstated};
pub use flaws::{Unapplied, WhyUnapplied};
pub use gate::{Gate, Seen};
pub use layer::Layer;
pub use layer_edit::{LayerEdit, SomeKeys};
pub use lineage::{InvalidLineage, Lineage};
pub use memory::{Kept, Memory, Piece, PieceId, Reader, Unreadable};
pub use references::lost::{LostReference, SeenReferences, lost_references};
pub use references::{MissingTarget, NearMiss, References, UnappliedEdit};
pub use revision::{ContentHash, Reassigned, Revision};
pub use state::OverlayNames;
pub use stated::StatedValues;
pub use unseen::{Unseen, UnseenEdit};
