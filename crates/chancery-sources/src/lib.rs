//! A directory of resources as a source: it is read whole, and its changes are followed.
//!
//! ```text
//!   DIR --scan--> Listing --read--> Documents --assemble--> ChangeSet --commit--> Catalog
//!    |              ^                  ^                        ^
//!    |            patch          pieces that are new     files that changed
//!    +- events: where to look
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
//! The directory serves no clients: it commits what it read to a
//! [`Catalog`](chancery_catalog::Catalog), and reports to its caller what changed there. Nothing
//! here knows a socket, a stream or a configuration file; documents are parsed by `chancery-proto`.
//!
//! Invariants: nothing is committed from a half-read directory; a fault holds back its layer and no
//! others; a directory that disappears deletes nothing, nor does a file that is cut to nothing.

mod allowance;
mod allowed_places;
mod assemble;
mod behind;
mod change_log;
mod directory;
mod fault;
mod fault_list;
mod follow;
mod layer_name;
mod layers;
mod options;
mod pace;
mod passer;
mod past;
mod read;
mod report;
mod scan;
mod warnings;
mod watch;

// The public interface.
pub use allowance::Allowance;
pub use allowed_places::{AllowedPlaces, NeededAllowances};
pub use behind::BehindFaults;
pub use directory::Directory;
pub use fault::{Fault, FaultyResource, Scope, Warning};
pub use follow::Following;
pub use layer_name::InvalidLayerName;
pub use options::{LayerChecks, Options, Watch};
pub use passer::{Passer, Passing};
pub use past::ReadEntries;
pub use report::LoadReport;
