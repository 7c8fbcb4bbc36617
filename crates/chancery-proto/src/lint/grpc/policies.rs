//! The load balancing policies of clusters that gRPC clients reject (C-112, C-114,
//! [gRFC A52](https://github.com/grpc/proposal/blob/master/A52-xds-custom-lb-policies.md)).
//!
//! Of a list each implementation takes the first policy that it knows, so each is asked by itself what is wrong
//! with a list. A program may have registered a policy that stands in a `TypedStruct`, so nothing is said of these.
//! Not here: the sizes of rings (`rings`).

use std::collections::BTreeMap;

use prost_reflect::{DynamicMessage, Value};

use super::clusters::enum_in;
use super::{ALL, CORE, Findings, GO, JAVA, NODE, Who, rings, type_in};
use crate::any;
use crate::walk::{message_in, messages_in, number_in, value_in};

/// Adds what is found in the policy of a cluster.
pub(super) fn lint(cluster: &DynamicMessage, found: &mut Findings) {
    match message_in(cluster, LIST) {
        Some(list) => lint_list(list, found),
        None => lint_by_name(cluster, found),
    }
}

/// Checks the policy of a cluster without a list of policies.
fn lint_by_name(cluster: &DynamicMessage, found: &mut Findings) {
    match enum_in(cluster, "lb_policy").as_deref() {
        None | Some("ROUND_ROBIN") => {}
        Some("LEAST_REQUEST") => {
            found.rejected(CORE.and(NODE), "lb_policy", "the policy is not known");
            let config = message_in(cluster, "least_request_lb_config");
            if config.and_then(choices).is_some_and(|choices| choices < 2) {
                let path = "least_request_lb_config.choice_count";
                found.rejected(GO.and(JAVA), path, TOO_FEW_CHOICES);
            }
        }
        Some("RING_HASH") => {
            if let Some(config) = message_in(cluster, "ring_hash_lb_config") {
                rings::lint_by_name(config, found);
            }
        }
        Some(_) => {
            let why = "the policy must be `ROUND_ROBIN`, `RING_HASH` or `LEAST_REQUEST`";
            found.rejected(ALL, "lb_policy", why);
        }
    }
}

/// A path, and what is wrong there.
pub(super) type Fault = (String, &'static str);

fn lint_list(list: &DynamicMessage, found: &mut Findings) {
    let mut faults: BTreeMap<Fault, Who> = BTreeMap::new();
    for who in [GO, CORE, JAVA, NODE] {
        if let Err(fault) = judge(LIST, list, who, 1) {
            faults.entry(fault).and_modify(|all| *all = all.and(who)).or_insert(who);
        }
    }
    for ((path, why), who) in faults {
        found.rejected(who, path, why);
    }
}

/// Looks at a list of policies as one implementation does.
fn judge(path: &str, list: &DynamicMessage, who: Who, depth: usize) -> Result<(), Fault> {
    if depth > if [GO, CORE].contains(&who) { 16 } else { 17 } {
        return Err((LIST.to_owned(), "policies stand in others more than 16 deep"));
    }
    for (at, policy) in messages_in(list, "policies").enumerate() {
        let extension = message_in(policy, "typed_extension_config");
        let Some(config) = extension.and_then(|it| message_in(it, "typed_config")) else {
            continue;
        };
        let kind = type_in(config);
        if kind.ends_with(".TypedStruct") {
            return Ok(());
        }
        let Some(kind) = kind.strip_prefix(PACKAGE) else { continue };
        let known = POLICIES.iter().find(|(name, _)| kind.starts_with(name));
        let Some((name, _)) = known.filter(|(_, all)| all.and(who) == *all) else { continue };
        let Some(policy) = any::open(config) else { return Ok(()) };
        let path = format!("{path}.policies[{at}].typed_extension_config.typed_config");
        return judge_policy(name, &path, &policy, who, depth);
    }
    Err((path.to_owned(), "none of the policies is known"))
}

fn judge_policy(
    name: &str,
    path: &str,
    policy: &DynamicMessage,
    who: Who,
    depth: usize,
) -> Result<(), Fault> {
    match name {
        "ring_hash." => rings::judge(path, policy, who),
        "least_request." => match choices(policy) {
            Some(1) => Err((format!("{path}.choice_count"), TOO_FEW_CHOICES)),
            // gRPC Go takes 0 for unset.
            Some(0) if who == JAVA => Err((format!("{path}.choice_count"), TOO_FEW_CHOICES)),
            _ => Ok(()),
        },
        "client_side_weighted_round_robin." if [GO, CORE].contains(&who) => {
            let penalty = message_in(policy, "error_utilization_penalty");
            match penalty.and_then(|it| value_in(it, "value")).and_then(Value::as_f32) {
                Some(penalty) if penalty < 0.0 => {
                    Err((format!("{path}.error_utilization_penalty"), "must not be negative"))
                }
                _ => Ok(()),
            }
        }
        "wrr_locality." => {
            let path = format!("{path}.endpoint_picking_policy");
            match message_in(policy, "endpoint_picking_policy") {
                Some(list) => judge(&path, list, who, depth + 1),
                None => Err((path, "must be set")),
            }
        }
        _ => Ok(()),
    }
}

/// The number of choices, if it is set.
fn choices(config: &DynamicMessage) -> Option<u32> {
    message_in(config, "choice_count").map(|it| number_in(it, "value"))
}

const LIST: &str = "load_balancing_policy";
const PACKAGE: &str = "envoy.extensions.load_balancing_policies.";
const TOO_FEW_CHOICES: &str = "must be at least 2";

/// The policies that some gRPC knows, each with those who do. That of random subsets needs a variable of the
/// environment, which may be set, so nothing is said of it.
const POLICIES: [(&str, Who); 7] = [
    ("round_robin.", ALL),
    ("ring_hash.", ALL),
    ("wrr_locality.", ALL),
    ("least_request.", GO.and(JAVA)),
    ("pick_first.", GO.and(CORE).and(JAVA)),
    ("client_side_weighted_round_robin.", GO.and(CORE).and(JAVA)),
    ("random_subsetting.", ALL),
];
