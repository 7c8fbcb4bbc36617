//! The rules that Envoy enforces in its code, and that no descriptor states.
//!
//! Each was found by asking an Envoy 1.40 (`--mode validate`), and a test asks it again: what is a
//! violation here is refused there. What Envoy accepts is no violation, however useless it is.
//!
//! Not here: the rules of the descriptors, and what depends on other resources or on Envoy's build.

mod addresses;
mod clusters;
mod durations;
mod extensions;
mod filters;
mod listeners;
mod others;
mod policies;
mod routes;
mod subsets;
mod tls;

pub(crate) use self::listeners::passes_requests_on;

use std::collections::HashMap;
use std::sync::LazyLock;

use prost_reflect::{DynamicMessage, Kind, ReflectMessage, Value};

use super::name::RuleName;
use super::violation::Step;
use crate::walk::value_in;

/// The rules of one type of message.
pub(super) type EnvoyCheck = fn(&DynamicMessage, &mut Found<'_>);

/// A step below the message that is checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Below {
    Field(&'static str),
    Index(usize),
}

use Below::{Field, Index};

/// A violation, before anybody knows whether it is described.
pub(super) struct Broken<'a> {
    pub(super) below: &'a [Below],
    pub(super) rule: RuleName,
    pub(super) describe: &'a dyn Fn() -> String,
}

/// The place for what is found in one message.
pub(super) struct Found<'a> {
    /// True if the message is a resource, and not a part of one.
    pub(super) is_resource: bool,
    pub(super) report: &'a mut dyn FnMut(Broken<'_>),
}

impl Found<'_> {
    fn broken(&mut self, below: &[Below], rule: RuleName, describe: impl Fn() -> String) {
        (self.report)(Broken { below, rule, describe: &describe });
    }

    fn says(&mut self, below: &[Below], rule: RuleName, sentence: &'static str) {
        self.broken(below, rule, || sentence.to_owned());
    }
}

/// The rules of a type of message, by its name.
pub(super) fn checks_of(name: &str) -> &'static [EnvoyCheck] {
    CHECKS.get(name).map_or(&[], Vec::as_slice)
}

static CHECKS: LazyLock<HashMap<&str, Vec<EnvoyCheck>>> = LazyLock::new(|| {
    let parts = [
        routes::CHECKS,
        clusters::CHECKS,
        listeners::CHECKS,
        addresses::CHECKS,
        durations::CHECKS,
        extensions::CHECKS,
        filters::CHECKS,
        others::CHECKS,
        policies::CHECKS,
        subsets::CHECKS,
        tls::CHECKS,
    ];
    let mut checks: HashMap<&str, Vec<EnvoyCheck>> = HashMap::new();
    for (name, check) in parts.into_iter().flatten() {
        checks.entry(name).or_default().push(*check);
    }
    for name in extensions::TYPED.iter().map(|point| point.message) {
        let all = checks.entry(name).or_default();
        if !all.contains(&(extensions::types as EnvoyCheck)) {
            all.push(extensions::types);
        }
    }
    checks
});

/// The types whose rules of the descriptors Envoy does not check, though they are there: what stands in
/// their place is used as it is.
pub(super) const UNCHECKED: [&str; 9] = [
    "envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
    "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest",
    "envoy.extensions.load_balancing_policies.maglev.v3.Maglev",
    "envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash",
    "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin",
    "envoy.extensions.load_balancing_policies.subset.v3.Subset",
    "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality",
    "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
    "envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig",
];

/// Returns true for a message of which Envoy does not open what is in it: a match that goes on after its
/// action.
pub(super) fn is_unread(message: &DynamicMessage) -> bool {
    message.descriptor().full_name() == "xds.type.matcher.v3.Matcher.OnMatch"
        && value_in(message, "keep_matching").and_then(Value::as_bool) == Some(true)
}

/// Returns true for a load balancing policy that Envoy may know, and not for another extension.
pub(super) fn is_policy(policy: &DynamicMessage) -> bool {
    policies::is_policy(policy)
}

/// The checks of one file: the name of a message, and its rules.
type Checks = &'static [(&'static str, EnvoyCheck)];

/// The steps of a path below a message.
pub(super) fn steps(message: &DynamicMessage, below: &[Below]) -> Vec<Step> {
    let mut descriptor = Some(message.descriptor());
    let mut steps = Vec::new();
    for step in below {
        match step {
            Index(index) => steps.push(Step::Index(*index)),
            Field(name) => {
                let field = descriptor.and_then(|it| it.get_field_by_name(name));
                descriptor = match field.as_ref().map(prost_reflect::FieldDescriptor::kind) {
                    Some(Kind::Message(message)) => Some(message),
                    _ => None,
                };
                steps.extend(field.map(Step::Field));
            }
        }
    }
    steps
}
