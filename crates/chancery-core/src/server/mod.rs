//! The server's half of one stream: all types, in the order in which one change has to be sent.
//!
//! ```text
//!   Snapshot (the resources that the client should see) --+
//!                                                         v
//!   Request (sent by the client) --------------------> [Machine] ------> Response (to be sent)
//!                                                         |
//!                                                         +------------> Event (for the driver)
//! ```
//!
//! Each type has a subscription (`subscription/`) of its own, which knows nothing of the others
//! (S-002, [four variants]). The rules that need more than one type are here: the order of one change
//! (S-096), the wait of routes for new clusters (S-097), the wait of removals until nothing uses the
//! resource (S-098, all [eventual consistency]), and the endpoints that follow a changed cluster
//! (S-099, [resource warming]). A poll over REST stands alone and is a function
//! ([`rest`]), and so does a stream of load reports ([`load`]).
//!
//! [four variants]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#four-variants
//! [eventual consistency]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations
//! [resource warming]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-warming

mod asking;
mod demand;
mod event;
pub(crate) mod held_bytes;
mod input;
pub mod load;
mod machine;
mod node_limits;
mod order;
mod rejected;
mod resource_status;
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
pub use node_limits::check_node;
pub use rejected::RejectedResources;
pub use resource_status::{
    ResourcePage, ResourceQuery, ResourceSelection, ResourceState, ResourceStatus, UnsettledCounts,
};
pub use response::Response;
pub use settings::{RequestLimits, Settings};
pub use status::{Rejection, TypeStatus, Wait, WaitReason, Wanted};
pub use violation::Violation;
