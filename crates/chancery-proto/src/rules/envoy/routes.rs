//! Routes: domains, weights, rewrites, retries, headers and direct responses.

use std::collections::{HashMap, HashSet};

use chancery_core::re2::{self, Alphabet};
use prost_reflect::{DynamicMessage, Value};

use super::Below::{Field, Index};
use super::clusters::type_of;
use super::durations::not_negative;
use super::{Below, Checks, Found};
use crate::rules::check::duration;
use crate::rules::name::RuleName;
use crate::walk::{list_in, message_in, messages_in, text_in, texts_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.config.route.v3.RouteConfiguration", route_configuration),
    ("envoy.config.route.v3.VirtualHost", headers),
    ("envoy.config.route.v3.Route", headers),
    ("envoy.config.route.v3.VirtualCluster", virtual_cluster),
    ("envoy.config.route.v3.WeightedCluster", weighted_cluster),
    ("envoy.config.route.v3.Route", route),
    ("envoy.config.route.v3.RouteAction", route_action),
    ("envoy.config.route.v3.RouteAction.UpgradeConfig", upgrade),
    ("envoy.config.route.v3.RetryPolicy.RetryBackOff", retry_back_off),
    ("envoy.type.matcher.v3.RegexMatcher", regex_matcher),
];

fn route_configuration(routes: &DynamicMessage, found: &mut Found<'_>) {
    headers(routes, found);
    domains(routes, found);
    direct_responses(routes, found);
    plugins(routes, found);
}

/// A plugin that a route names must be one of the route configuration.
fn plugins(routes: &DynamicMessage, found: &mut Found<'_>) {
    let known: HashSet<_> = messages_in(routes, "cluster_specifier_plugins")
        .filter_map(|plugin| Some(text_in(message_in(plugin, "extension")?, "name")))
        .collect();
    for (host, message) in messages_in(routes, "virtual_hosts").enumerate() {
        for (at, route) in messages_in(message, "routes").enumerate() {
            let plugin =
                message_in(route, "route").map(|it| text_in(it, "cluster_specifier_plugin"));
            if plugin.is_some_and(|plugin| !plugin.is_empty() && !known.contains(plugin)) {
                let route = [Field("virtual_hosts"), Index(host), Field("routes"), Index(at)];
                let action = [Field("route"), Field("cluster_specifier_plugin")];
                let below = [route.as_slice(), action.as_slice()].concat();
                let sentence = "must be the name of one of the `cluster_specifier_plugins`";
                found.says(&below, RuleName::CLUSTER_PLUGIN, sentence);
            }
        }
    }
}

/// Envoy compares domains in lower case, and takes each once in a route configuration.
fn domains(routes: &DynamicMessage, found: &mut Found<'_>) {
    let mut seen: HashMap<String, (usize, usize)> = HashMap::new();
    for (host, message) in messages_in(routes, "virtual_hosts").enumerate() {
        for (at, domain) in texts_in(message, "domains").enumerate() {
            let first = *seen.entry(domain.to_ascii_lowercase()).or_insert((host, at));
            if first != (host, at) {
                let below = [Field("virtual_hosts"), Index(host), Field("domains"), Index(at)];
                found.broken(&below, RuleName::DUPLICATE_DOMAIN, || {
                    format!(
                        "must be there once in all virtual hosts of the routes: it is the same as \
                         virtual_hosts[{}].domains[{}]",
                        first.0, first.1
                    )
                });
            }
        }
    }
}

/// The bytes of the body of a direct response, unless the routes say otherwise.
const DIRECT_RESPONSE: usize = 4096;

fn direct_responses(routes: &DynamicMessage, found: &mut Found<'_>) {
    let most = message_in(routes, "max_direct_response_body_size_bytes");
    let most = most.map_or(DIRECT_RESPONSE, |most| number_of(most) as usize);
    for (host, message) in messages_in(routes, "virtual_hosts").enumerate() {
        for (at, route) in messages_in(message, "routes").enumerate() {
            let body = message_in(route, "direct_response").and_then(|it| message_in(it, "body"));
            let length = body.map_or(0, |body| {
                let bytes = value_in(body, "inline_bytes").and_then(Value::as_bytes);
                text_in(body, "inline_string").len() + bytes.map_or(0, |bytes| bytes.len())
            });
            if length > most {
                let response = [Field("direct_response"), Field("body")];
                let route = [Field("virtual_hosts"), Index(host), Field("routes"), Index(at)];
                let below = [route.as_slice(), response.as_slice()].concat();
                found.broken(&below, RuleName::DIRECT_RESPONSE_SIZE, || {
                    format!(
                        "has {length} bytes, and {most} are allowed: raise \
                         `max_direct_response_body_size_bytes` of the routes"
                    )
                });
            }
        }
    }
}

/// The number in a wrapper.
pub(super) fn number_of(wrapper: &DynamicMessage) -> u64 {
    let value = wrapper.get_field_by_number(1);
    value.and_then(|value| value.as_u32().map(u64::from).or_else(|| value.as_u64())).unwrap_or(0)
}

fn weighted_cluster(weighted: &DynamicMessage, found: &mut Found<'_>) {
    let (mut sum, mut is_known) = (0, true);
    for (at, cluster) in messages_in(weighted, "clusters").enumerate() {
        headers_below(&[Field("clusters"), Index(at)], cluster, found);
        let names = ["name", "cluster_header"].map(|name| !text_in(cluster, name).is_empty());
        let below = [Field("clusters"), Index(at)];
        match names {
            [true, true] => found.says(
                &below,
                RuleName::WEIGHTED_CLUSTER,
                "must have `name` or `cluster_header`, and has both",
            ),
            [false, false] => found.says(
                &below,
                RuleName::WEIGHTED_CLUSTER,
                "must have `name` or `cluster_header`",
            ),
            _ => {}
        }
        match message_in(cluster, "weight") {
            Some(weight) => sum += number_of(weight),
            None => {
                is_known = false;
                let below = [Field("clusters"), Index(at), Field("weight")];
                found.says(&below, RuleName::WEIGHTED_CLUSTER, "is required");
            }
        }
    }
    let clusters = [Field("clusters")];
    if is_known && sum == 0 && !list_in(weighted, "clusters").is_empty() {
        let sentence = "must have a weight above 0 somewhere";
        found.says(&clusters, RuleName::WEIGHTED_CLUSTER, sentence);
    } else if sum > u64::from(u32::MAX) {
        let sentence = "must have weights whose sum is at most 4294967295";
        found.says(&clusters, RuleName::WEIGHTED_CLUSTER, sentence);
    }
}

/// A rewrite by the template of a path needs a match by one.
fn route(route: &DynamicMessage, found: &mut Found<'_>) {
    let policy = |message: Option<&DynamicMessage>, field: &str, wanted: &str| {
        let config = message.and_then(|it| message_in(it, field));
        let config = config.and_then(|it| message_in(it, "typed_config"));
        config.is_some_and(|config| type_of(config) == wanted)
    };
    const REWRITE: &str = "envoy.extensions.path.rewrite.uri_template.v3.UriTemplateRewriteConfig";
    const MATCH: &str = "envoy.extensions.path.match.uri_template.v3.UriTemplateMatchConfig";
    if policy(message_in(route, "route"), "path_rewrite_policy", REWRITE)
        && !policy(message_in(route, "match"), "path_match_policy", MATCH)
    {
        let below = [Field("route"), Field("path_rewrite_policy")];
        let sentence = "needs a `path_match_policy` with a template in the `match`";
        found.says(&below, RuleName::REWRITES, sentence);
    }
}

fn virtual_cluster(cluster: &DynamicMessage, found: &mut Found<'_>) {
    if list_in(cluster, "headers").is_empty() {
        found.says(&[Field("headers")], RuleName::VIRTUAL_CLUSTER, "must not be empty");
    }
}

fn upgrade(upgrade: &DynamicMessage, found: &mut Found<'_>) {
    let kind = text_in(upgrade, "upgrade_type");
    let connects = ["CONNECT", "CONNECT-UDP"].iter().any(|it| it.eq_ignore_ascii_case(kind));
    if message_in(upgrade, "connect_config").is_some() && !connects {
        let sentence = "must be left out unless `upgrade_type` is `CONNECT`";
        found.says(&[Field("connect_config")], RuleName::UPGRADE, sentence);
    }
}

fn route_action(action: &DynamicMessage, found: &mut Found<'_>) {
    not_negative(action, &["timeout", "idle_timeout"], found);
    let rewrites = [
        !text_in(action, "prefix_rewrite").is_empty(),
        message_in(action, "regex_rewrite").is_some(),
        message_in(action, "path_rewrite_policy").is_some(),
    ];
    if rewrites.into_iter().filter(|is_set| *is_set).count() > 1 {
        let sentence =
            "must have one of `prefix_rewrite`, `regex_rewrite` and `path_rewrite_policy` at most";
        found.says(&[], RuleName::REWRITES, sentence);
    }
}

fn retry_back_off(back_off: &DynamicMessage, found: &mut Found<'_>) {
    let nanos = |field| message_in(back_off, field).and_then(duration);
    if let (Some(base), Some(most)) = (nanos("base_interval"), nanos("max_interval"))
        && most < base
    {
        let sentence = "must not be less than `base_interval`";
        found.says(&[Field("max_interval")], RuleName::RETRY_BACK_OFF, sentence);
    }
}

fn regex_matcher(matcher: &DynamicMessage, found: &mut Found<'_>) {
    if let Err(fault) = re2::translated(text_in(matcher, "regex"), Alphabet::Latin1) {
        found.broken(&[Field("regex")], RuleName::REGEX, || {
            format!("must be a pattern of RE2: {}", fault.text())
        });
    }
}

fn headers(message: &DynamicMessage, found: &mut Found<'_>) {
    headers_below(&[], message, found);
}

/// Headers that a route adds or removes. Envoy sets those of HTTP itself.
fn headers_below(below: &[Below], message: &DynamicMessage, found: &mut Found<'_>) {
    let is_own = |name: &str| name.starts_with(':') || name.eq_ignore_ascii_case("host");
    for field in ["request_headers_to_add", "response_headers_to_add"] {
        for (at, header) in messages_in(message, field).enumerate() {
            let option = [below, [Field(field), Index(at)].as_slice()].concat();
            if message_in(header, "header").is_some_and(|header| is_own(text_in(header, "key"))) {
                let below = [option.as_slice(), &[Field("header"), Field("key")]].concat();
                let sentence = "must not begin with `:` nor be `host`: Envoy sets these itself (see \
                                `host_rewrite_literal` and `prefix_rewrite`)";
                found.says(&below, RuleName::HEADER, sentence);
            }
        }
    }
    for field in ["request_headers_to_remove", "response_headers_to_remove"] {
        for (at, name) in texts_in(message, field).enumerate() {
            if is_own(name) {
                let below = [below, [Field(field), Index(at)].as_slice()].concat();
                let sentence = "must not begin with `:` nor be `host`: Envoy does not remove these";
                found.says(&below, RuleName::HEADER, sentence);
            }
        }
    }
}
