//! Load balancing policies, and those that may stand in others.
//!
//! Of a list Envoy takes the first policy that it knows. A policy of which Chancery knows nothing may be that one,
//! and so may the content of a `TypedStruct`: then nothing is said. Not here: the settings of the policies
//! (`clusters`).

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::Below::{Field, Index};
use super::clusters::type_of;
use super::{Below, Checks, Found};
use crate::any;
use crate::rules::name::RuleName;
use crate::walk::{message_in, messages_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality", wrr_locality),
    (
        "envoy.extensions.load_balancing_policies.load_aware_locality.v3.LoadAwareLocality",
        load_aware_locality,
    ),
    ("envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost", override_host),
    ("envoy.extensions.load_balancing_policies.subset.v3.Subset", subset),
];

const PREFIX: &str = "envoy.extensions.load_balancing_policies.";
const PROVIDED: &str = "cluster_provided.v3.ClusterProvided";
const LOAD_AWARE: &str = "load_aware_locality.v3.LoadAwareLocality";
const WEIGHTED: &str = "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin";

/// The policy of a list that Envoy takes.
#[derive(Debug, PartialEq, Eq)]
enum First {
    /// One of Envoy's, by its name behind [`PREFIX`].
    Known(String),
    /// Nobody knows which.
    Maybe,
    /// There is none.
    None,
}

fn first(config: &DynamicMessage) -> First {
    for policy in messages_in(config, "policies") {
        let extension = message_in(policy, "typed_extension_config");
        let Some(any) = extension.and_then(|it| message_in(it, "typed_config")) else { continue };
        let kind = type_of(any);
        let is_known = any.descriptor().parent_pool().get_message_by_name(&kind).is_some();
        if !is_known || kind.ends_with(".TypedStruct") {
            return First::Maybe;
        }
        if let Some(name) = kind.strip_prefix(PREFIX) {
            return First::Known(name.to_owned());
        }
    }
    First::None
}

/// Returns true for a load balancing policy, and for what Chancery does not know.
pub(super) fn is_policy(policy: &DynamicMessage) -> bool {
    let extension = message_in(policy, "typed_extension_config");
    let Some(any) = extension.and_then(|it| message_in(it, "typed_config")) else { return false };
    let kind = type_of(any);
    let is_known = any.descriptor().parent_pool().get_message_by_name(&kind).is_some();
    !is_known || kind.ends_with(".TypedStruct") || kind.starts_with(PREFIX)
}

/// Checks the `load_balancing_policy` of a cluster.
pub(super) fn of_cluster(cluster: &DynamicMessage, config: &DynamicMessage, found: &mut Found<'_>) {
    let below = [Field("load_balancing_policy"), Field("policies")];
    match first(config) {
        First::None => {
            let sentence = "must have a load balancing policy, and has none that Envoy knows";
            found.says(&below, RuleName::LB_POLICY, sentence);
        }
        First::Known(name) if name == PROVIDED && provides(cluster) == Some(false) => {
            let sentence = "must have another policy than `ClusterProvided` first: a cluster of this `type` \
                 provides none";
            found.says(&below, RuleName::LB_POLICY, sentence);
        }
        First::Known(name) if name != PROVIDED && provides(cluster) == Some(true) => {
            let sentence = "must have `ClusterProvided` first for Envoy, where a cluster of this type balances itself";
            found.says(&below, RuleName::LB_POLICY, sentence);
        }
        First::Known(_) | First::Maybe => {}
    }
}

/// Returns true for a cluster that balances itself, and `None` if nobody knows.
fn provides(cluster: &DynamicMessage) -> Option<bool> {
    const ORIGINAL_DST: i32 = 4;
    const AGGREGATE: &str = "envoy.extensions.clusters.aggregate.v3.ClusterConfig";
    if let Some(custom) = message_in(cluster, "cluster_type") {
        let kind = message_in(custom, "typed_config").map(type_of)?;
        return (kind == AGGREGATE).then_some(true);
    }
    let kind = value_in(cluster, "type").and_then(Value::as_enum_number).unwrap_or_default();
    Some(kind == ORIGINAL_DST)
}

fn wrr_locality(policy: &DynamicMessage, found: &mut Found<'_>) {
    says(&[], of_wrr_locality(policy), found);
}

fn load_aware_locality(policy: &DynamicMessage, found: &mut Found<'_>) {
    says(&[], of_load_aware_locality(policy), found);
}

fn override_host(policy: &DynamicMessage, found: &mut Found<'_>) {
    says(&[], of_override_host(policy), found);
}

/// Envoy does not check the rules of a `Subset`, and takes the policy in it.
fn subset(policy: &DynamicMessage, found: &mut Found<'_>) {
    let inner = message_in(policy, "subset_lb_policy");
    let mut policies = inner.into_iter().flat_map(|inner| messages_in(inner, "policies"));
    let Some(any) = policies
        .next()
        .and_then(|policy| message_in(policy, "typed_extension_config"))
        .and_then(|it| message_in(it, "typed_config"))
    else {
        return;
    };
    let Some(content) = any::open(any) else { return };
    let wrong = match type_of(any).strip_prefix(PREFIX) {
        Some("wrr_locality.v3.WrrLocality") => of_wrr_locality(&content),
        Some(LOAD_AWARE) => of_load_aware_locality(&content),
        Some("override_host.v3.OverrideHost") => of_override_host(&content),
        _ => None,
    };
    let below =
        [Field("subset_lb_policy"), Field("policies"), Index(0), Field("typed_extension_config")];
    says(&below, wrong.map(|(_, sentence)| ("typed_config", sentence)), found);
}

/// A field with a policy that another one does not take, and what is wrong with it.
type Wrong = Option<(&'static str, &'static str)>;

fn says(below: &[Below], wrong: Wrong, found: &mut Found<'_>) {
    if let Some((field, sentence)) = wrong {
        found.says(&[below, &[Field(field)]].concat(), RuleName::LB_POLICY, sentence);
    }
}

fn of_wrr_locality(policy: &DynamicMessage) -> Wrong {
    let picking = message_in(policy, "endpoint_picking_policy").map(first);
    let sentence = match picking {
        None => "is required",
        Some(First::Maybe) => return None,
        Some(First::Known(name)) if name == WEIGHTED => return None,
        Some(First::Known(_) | First::None) => {
            "must have a `ClientSideWeightedRoundRobin` first: the `WrrLocality` of Envoy takes no other policy"
        }
    };
    Some(("endpoint_picking_policy", sentence))
}

fn of_load_aware_locality(policy: &DynamicMessage) -> Wrong {
    let sentence = match message_in(policy, "endpoint_picking_policy").map(first) {
        None => "is required",
        Some(First::None) => "must have a load balancing policy, and has none that Envoy knows",
        Some(First::Known(name)) if [PROVIDED, LOAD_AWARE].contains(&&*name) => {
            "must not have `ClusterProvided` or `LoadAwareLocality` first: a locality cannot be balanced \
             by these"
        }
        Some(First::Known(_) | First::Maybe) => return None,
    };
    Some(("endpoint_picking_policy", sentence))
}

/// Envoy refuses this one, or ends at it.
fn of_override_host(policy: &DynamicMessage) -> Wrong {
    let fallback = message_in(policy, "fallback_policy").map(first);
    let sentence = "must have another policy than `ClusterProvided` first, at which Envoy may end";
    (fallback == Some(First::Known(PROVIDED.to_owned()))).then_some(("fallback_policy", sentence))
}
