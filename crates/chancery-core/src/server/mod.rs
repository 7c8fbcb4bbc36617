//! The server's half of one stream: all types, in the order one change has to be sent in.
//!
//! ```text
//!   Snapshot (what a client should see) --+
//!                                         v
//!   Request (what it says) -------> [Machine] ------> Response (what it is sent)
//!                                         |
//!                                         +---------> Event (what happened)
//! ```
//!
//! Each type has a subscription (`subscription/`) of its own and never sees the others
//! (S-002). What takes more than one type to know is here: the order of one change (S-096), the
//! wait of routes for the clusters they will point to (S-097), the wait of removals for the
//! acknowledgement of what stopped using them (S-098), and the endpoints that have to follow a
//! changed cluster (S-099). A poll over REST stands alone and is a function ([`rest`]).

mod demand;
mod event;
mod input;
mod machine;
mod order;
mod response;
pub mod rest;
mod settings;
mod status;
pub(crate) mod subscription;
mod subscriptions;
mod violation;
mod warming;

pub use crate::encodings::Form;
pub use crate::entries::{Entries, ResponseEntry, Run, Segment};
pub use demand::{DemandEdit, DemandFilter, NamesEdit, SnapshotChanges};
pub use event::Event;
pub use input::Input;
pub use machine::Machine;
pub use response::Response;
pub use settings::Settings;
pub use status::{Rejection, TypeStatus, Wait, WaitReason, Wanted};
pub use violation::Violation;
