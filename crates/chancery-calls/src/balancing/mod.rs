//! Policies that choose among endpoints (C-109 to C-120, C-147, C-149), and the trees that they form.
//!
//! ```text
//!   Tree                         what a driver holds: actions, a deadline, a picker
//!    └─ Priority                 the clusters of an aggregate, or the one cluster
//!        └─ OutlierDetection     takes endpoints out whose calls fail
//!            └─ Cluster          drops, allows and counts calls, and knows the endpoints of sessions
//!                └─ Priority     the priorities of its endpoints
//!                    └─ Switch   changes the kind of a policy without a call that fails
//!                        └─ WrrLocality      divides by the weights of localities
//!                            └─ ConnectAll   has an EndpointSet: a PickFirst for each endpoint
//! ```
//!
//! An update goes down the tree. The state of a subchannel finds its way down by owners, which note
//! at each level who made it. Up go states, and pickers when somebody asks for one: a thousand events
//! between two questions make one picker.
//!
//! Not here: how connections are made, their backoff, and how endpoints are read from resources.

mod cluster;
mod connect_all;
mod connectivity;
mod context;
mod counted;
mod custom;
mod description;
mod endpoint;
mod endpoint_set;
mod least_request;
mod node;
mod outlier_detection;
mod owners;
mod pick_first;
mod picker;
mod policy;
mod priority;
mod random_subsetting;
mod ready_list;
mod report;
mod ring_hash;
mod roster;
mod round_robin;
mod switch;
mod tree;
mod weighted_round_robin;
mod weighted_target;
mod weights;

pub use cluster::{
    AssignedLocality, Assignment, Cluster, ClusterTarget, DropCategory, InFlight, LoadSink, Permit,
    PriorityNames, SessionEndpoints,
};
pub use connect_all::{Choose, ConnectAll};
pub use connectivity::{Connectivity, SubchannelState};
pub use context::{Action, Context, EndpointId, SubchannelId};
pub use counted::{Counted, Ejection, Unenforced, Weights};
pub use custom::{CustomPolicies, CustomPolicy, PolicyFactory};
pub use description::{ChildName, DescribedChild, DescribedEndpoint, Description, TreePart, Turn};
pub use endpoint::{Endpoint, EndpointLocality, Health, SessionHealth};
pub use endpoint_set::Member;
pub use least_request::ChoiceCount;
pub use node::{Branch, Node, PolicyTarget};
pub use outlier_detection::{
    Detection, DetectionMethod, DetectionTarget, FailurePercentage, OutlierDetection, Percent,
    SuccessRate,
};
pub use picker::{CallEnd, CallObserver, Observers, Pick, PickArgs, Picked, Picker, Wake};
pub use policy::{Balancer, PolicyConfig, Update};
pub use priority::Priority;
pub use report::{LoadWatch, LoadWatcher};
pub use ring_hash::{RingHashConfig, RingHashError};
pub use switch::Switch;
pub use tree::Tree;
pub use weighted_round_robin::{ErrorPenalty, UtilizationMetrics, WeightedRoundRobinConfig};
