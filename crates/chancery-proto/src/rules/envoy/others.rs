//! Runtime layers, scopes of routes, and headers that somebody adds.

use prost_reflect::{DynamicMessage, Value};

use super::Below::Field;
use super::{Checks, Found};
use crate::rules::name::RuleName;
use crate::walk::{message_in, number_in, text_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.service.runtime.v3.Runtime", runtime),
    ("envoy.config.route.v3.ScopedRouteConfiguration", scope),
    ("envoy.config.core.v3.HeaderValueOption", header),
    (EXTRACTOR, extractor),
    ("envoy.config.endpoint.v3.ClusterLoadAssignment.Policy.DropOverload", drop_overload),
    ("envoy.config.route.v3.RouteAction.RequestMirrorPolicy", mirror_policy),
];

/// A fraction of all calls is no more than all of them.
fn drop_overload(overload: &DynamicMessage, found: &mut Found<'_>) {
    let Some(share) = message_in(overload, "drop_percentage") else { return };
    let denominator = value_in(share, "denominator").and_then(Value::as_enum_number);
    let whole = match denominator.unwrap_or_default() {
        0 => 100,
        1 => 10_000,
        2 => 1_000_000,
        _ => return,
    };
    if number_in(share, "numerator") > whole {
        let below = [Field("drop_percentage"), Field("numerator")];
        found.broken(&below, RuleName::DROP_OVERLOAD, || {
            format!("must be at most {whole}, which is everything")
        });
    }
}

fn mirror_policy(policy: &DynamicMessage, found: &mut Found<'_>) {
    let is_set = |field| !text_in(policy, field).is_empty();
    if is_set("cluster") == is_set("cluster_header") {
        let sentence = "must have one of `cluster` and `cluster_header`";
        found.says(&[], RuleName::MIRROR_POLICY, sentence);
    }
}

/// A layer has scalars, fractions and more of them below other names.
fn runtime(runtime: &DynamicMessage, found: &mut Found<'_>) {
    if message_in(runtime, "layer").is_some_and(|layer| !is_layer(layer, 0)) {
        let sentence = "must have texts, numbers, true and false alone, or more of them below a name: no \
                        lists and no `null`";
        found.says(&[Field("layer")], RuleName::RUNTIME, sentence);
    }
}

/// The depth of a `Struct` to which it is looked at.
const MOST_LEVELS: usize = 50;

fn is_layer(layer: &DynamicMessage, depth: usize) -> bool {
    let entries = value_in(layer, "fields").and_then(Value::as_map);
    let mut values = entries.into_iter().flat_map(|entries| entries.values());
    values.all(|value| {
        let Some(value) = value.as_message() else { return true };
        let of = |field: &str| value.has_field_by_name(field);
        match message_in(value, "struct_value") {
            Some(inner) => depth == MOST_LEVELS || is_layer(inner, depth + 1),
            None => of("number_value") || of("string_value") || of("bool_value"),
        }
    })
}

fn scope(scope: &DynamicMessage, found: &mut Found<'_>) {
    let has_routes = message_in(scope, "route_configuration").is_some();
    if text_in(scope, "route_configuration_name").is_empty() && !has_routes {
        let sentence = "must not be empty";
        found.says(&[Field("route_configuration_name")], RuleName::SCOPE, sentence);
    }
}

fn header(option: &DynamicMessage, found: &mut Found<'_>) {
    let action = value_in(option, "append_action").and_then(Value::as_enum_number);
    if message_in(option, "append").is_some() && action.is_some_and(|action| action != 0) {
        let sentence = "must not have both `append` and `append_action`";
        found.says(&[], RuleName::HEADER, sentence);
    }
}

const EXTRACTOR: &str = "envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes.\
                         ScopeKeyBuilder.FragmentBuilder.HeaderValueExtractor";

fn extractor(extractor: &DynamicMessage, found: &mut Found<'_>) {
    if !["index", "element"].iter().any(|field| extractor.has_field_by_name(field)) {
        found.says(&[], RuleName::SCOPE, "must have `index` or `element`");
    }
}
