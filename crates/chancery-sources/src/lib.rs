//! Where snapshots come from: a directory of resources, read whole and followed.
//!
//! ```text
//!   DIR --scan--> Listing --read--> parsed files --assemble--> layers --merge--> Snapshot
//!    |              ^                  ^                         ^  |      ^       per audience
//!    |            patch            new pieces                  edit |  difference
//!    +- events: where to look                                    Catalog
//! ```
//!
//! ```
//! use chancery_proto::schema::Schema;
//! use chancery_sources::{Directory, Options};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! std::fs::write(
//!     path.join("clusters.yaml"),
//!     "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n",
//! )?;
//! let mut directory = Directory::new(Options::new(path), Schema::bundled());
//! let catalog = directory.catalog();
//! let report = directory.load();
//! assert!(report.faults.is_empty());
//! assert_eq!(catalog.snapshot(Some("eu"), Some("node-1")).map(|all| all.len()), Some(1));
//!
//! let following = directory.follow(|report| println!("{} resources", report.resources))?;
//! // The catalog follows the directory until here.
//! following.stop();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A source publishes nothing by itself: it keeps a [`Catalog`], which answers what each audience
//! should see, and tells its caller when the answers changed. Nothing here knows a socket, a
//! stream or a configuration file; what a document says is `chancery-proto`'s to tell.
//!
//! Invariants: a [`Catalog`] is only ever replaced by a whole load; a fault holds back the
//! audiences that contain its layer and no others; a directory that disappears deletes nothing.

mod assemble;
mod directory;
mod fault;
mod follow;
mod layer_name;
mod layers;
mod options;
mod read;
mod report;
mod scan;
mod warnings;
mod watch;

// The public interface.
pub use directory::Directory;
pub use fault::{Fault, Scope, Warning};
pub use follow::Following;
pub use layer_name::InvalidLayerName;
pub use options::{Options, Watch};
pub use report::LoadReport;
