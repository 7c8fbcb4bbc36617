//! The policy of a cluster (C-112): the first of its list that is known, or the older field.

use std::sync::Arc;

use chancery_calls::balancing::PolicyConfig;
use envoy_types::pb::envoy::config::cluster::v3::cluster::LbPolicy;
use envoy_types::pb::envoy::config::cluster::v3::{Cluster, LoadBalancingPolicy};
use envoy_types::pb::envoy::extensions::load_balancing_policies::pick_first::v3::PickFirst;
use envoy_types::pb::envoy::extensions::load_balancing_policies::round_robin::v3::RoundRobin;
use envoy_types::pb::envoy::extensions::load_balancing_policies::wrr_locality::v3::WrrLocality;
use envoy_types::pb::google::protobuf::Any;

use super::{opened, quoted};

/// The depth to which policies may stand in each other.
const MAX_DEPTH: usize = 16;

/// Reads the policy of a cluster.
pub(super) fn read(cluster: &Cluster) -> Result<PolicyConfig, String> {
    if let Some(policy) = &cluster.load_balancing_policy {
        return first_known(policy, 1).map_err(|why| format!("load_balancing_policy: {why}"));
    }
    match cluster.lb_policy() {
        LbPolicy::RoundRobin => Ok(PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin))),
        other => Err(format!("lb_policy: {} is not supported", other.as_str_name())),
    }
}

fn first_known(policy: &LoadBalancingPolicy, depth: usize) -> Result<PolicyConfig, String> {
    if depth > MAX_DEPTH {
        return Err(format!("policies stand in each other more than {MAX_DEPTH} deep"));
    }
    let configs = policy.policies.iter().filter_map(|it| it.typed_extension_config.as_ref());
    let configs = configs.filter_map(|config| config.typed_config.as_ref());
    for config in configs.clone() {
        if let Some(known) = known(config, depth) {
            return known;
        }
    }
    let names: Vec<_> = configs.map(|config| quoted(&config.type_url)).take(8).collect();
    Err(format!("none of the policies is supported: {}", names.join(", ")))
}

/// Reads a policy, if it is one that is known.
fn known(config: &Any, depth: usize) -> Option<Result<PolicyConfig, String>> {
    if let Some(config) = opened::<RoundRobin>(config) {
        return Some(config.map(|_| PolicyConfig::RoundRobin));
    }
    if let Some(config) = opened::<PickFirst>(config) {
        let read = |it: PickFirst| PolicyConfig::PickFirst { shuffle: it.shuffle_address_list };
        return Some(config.map(read));
    }
    let config = opened::<WrrLocality>(config)?;
    Some(config.and_then(|config| {
        let child = config.endpoint_picking_policy.ok_or("`endpoint_picking_policy` is missing")?;
        Ok(PolicyConfig::WrrLocality(Arc::new(first_known(&child, depth + 1)?)))
    }))
}
