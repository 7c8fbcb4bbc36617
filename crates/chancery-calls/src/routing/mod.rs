//! The way of a call: virtual host, route, cluster, and what the route says of it (C-094 to C-105).
//!
//! ```text
//!   RouteConfig -> VirtualHost -> Route -> ForwardAction -> a cluster
//!    by authority   by path, headers, chance       by weight
//! ```
//!
//! [`RouteConfig::decide`] goes this way once for each call, without a lock and, where no header is asked
//! for, without an allocation. [`RouteConfig::explain`] goes the same way and tells of it. The cluster is
//! chosen before load balancing, and no connection is looked at (C-099).
//!
//! Servers go it too, up to the route ([`RouteConfig::find`], C-144). Not here: how routes are read from
//! resources, and who keeps a cluster alive while calls use it (C-100).

mod action;
mod call;
mod config;
mod decision;
mod domains;
mod explain;
mod hash;
mod limits;
mod merged;
mod path;
mod place;
mod route;

pub use action::{
    Action, ActionError, ForwardAction, IgnoredRoute, RouteTarget, WeightedCluster,
    WeightedClusters,
};
pub use call::Call;
pub use config::{RouteConfig, VirtualHost};
pub use decision::{ChosenTarget, Decision};
pub use domains::{DomainPattern, InvalidDomain};
pub use explain::Explanation;
pub use hash::{HashPolicy, HashSource, RequestHash};
pub use limits::StreamLimits;
pub use merged::MergedChains;
pub use path::PathMatcher;
pub use place::Place;
pub use route::{Mismatch, Route, RouteMatcher};
