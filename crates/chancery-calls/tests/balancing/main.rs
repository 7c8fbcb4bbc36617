//! Scripts of trees of policies on a network without sockets, each with the rule that it proves.

mod cluster;
mod custom;
mod description;
mod least_request;
mod outlier_detection;
mod pick_first;
mod policy_simulation;
mod priority;
mod random_subsetting;
mod ring_hash;
mod round_robin;
mod sessions;
mod sessions_simulation;
mod simulation;
mod support;
mod weighted_round_robin;
