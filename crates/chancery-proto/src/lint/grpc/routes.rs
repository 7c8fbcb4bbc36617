//! Routes that gRPC clients reject or leave out (C-094 to C-098, C-104, C-148).

use std::collections::BTreeSet;

use prost_reflect::{DynamicMessage, Value};

use super::{
    ALL, CORE, Findings, GO, JAVA, NODE, Side, headers, is_negative, overrides, type_in, weighted,
};
use crate::rules::is_pattern;
use crate::walk::{list_in, message_in, messages_in, text_in, texts_in, value_in};

/// Adds what is found in a route configuration at this path.
pub(super) fn lint(at: &str, config: &DynamicMessage, found: &mut Findings) {
    lint_of(at, config, Side::Client, found);
}

/// The same for the routes of a server.
pub(super) fn lint_of_server(at: &str, config: &DynamicMessage, found: &mut Findings) {
    lint_of(at, config, Side::Server, found);
}

fn lint_of(at: &str, config: &DynamicMessage, side: Side, found: &mut Findings) {
    let plugins: BTreeSet<_> = messages_in(config, "cluster_specifier_plugins")
        .filter_map(|plugin| Some(text_in(message_in(plugin, "extension")?, "name")))
        .collect();
    lint_plugins(at, config, found);
    for (index, host) in messages_in(config, "virtual_hosts").enumerate() {
        let at = format!("{at}virtual_hosts[{index}]");
        lint_domains(&at, host, side, found);
        overrides::lint(&at, host, side, found);
        lint_retries(&at, host, found);
        for (index, route) in messages_in(host, "routes").enumerate() {
            lint_route(&format!("{at}.routes[{index}]"), route, (&plugins, side), found);
        }
    }
}

fn lint_domains(at: &str, host: &DynamicMessage, side: Side, found: &mut Findings) {
    for (index, domain) in texts_in(host, "domains").enumerate() {
        let path = format!("{at}.domains[{index}]");
        let inner = domain.get(1..domain.len().saturating_sub(1)).unwrap_or_default();
        if inner.contains('*') {
            let why = "a `*` must be the first or the last character of a domain";
            found.rejected(CORE.and(NODE), path, why);
        } else if domain.is_empty() {
            let (who, why) = match side {
                Side::Client => (
                    CORE.and(JAVA),
                    "must not be empty: a channel of gRPC Java takes that, and fails all calls",
                ),
                Side::Server => (CORE, "must not be empty"),
            };
            found.rejected(who, path, why);
        }
    }
    if list_in(host, "domains").is_empty() {
        found.rejected(CORE, format!("{at}.domains"), "must not be empty");
    }
}

fn lint_plugins(at: &str, config: &DynamicMessage, found: &mut Findings) {
    for (index, plugin) in messages_in(config, "cluster_specifier_plugins").enumerate() {
        let config = message_in(plugin, "extension").and_then(|it| message_in(it, "typed_config"));
        let kind = config.map(type_in).unwrap_or_default();
        let is_unknown = !kind.starts_with("grpc.lookup.") && !kind.ends_with(".TypedStruct");
        if is_unknown && value_in(plugin, "is_optional").and_then(Value::as_bool) != Some(true) {
            let path = format!("{at}cluster_specifier_plugins[{index}]");
            found.rejected(GO.and(CORE).and(JAVA), path, "the plugin is not known");
        }
    }
}

fn lint_route(
    at: &str,
    route: &DynamicMessage,
    (plugins, side): (&BTreeSet<&str>, Side),
    found: &mut Findings,
) {
    if let Some(matcher) = message_in(route, "match")
        && !lint_match(&format!("{at}.match"), matcher, found)
    {
        return;
    }
    overrides::lint(at, route, side, found);
    let is_set = |field| message_in(route, field).is_some();
    if side == Side::Server {
        return lint_action_of_server(at, route, found);
    }
    if ["redirect", "direct_response", "filter_action"].into_iter().any(is_set) {
        let why = "the action of a route must be `route`";
        return found.rejected(JAVA.and(NODE), at, why);
    }
    let Some(action) = message_in(route, "route") else { return };
    let at = format!("{at}.route");
    lint_retries(&at, action, found);
    lint_limits(&at, action, found);
    if !text_in(action, "cluster_header").is_empty() {
        found.ignored(ALL, &at, "a cluster cannot come from a header, so the route");
    }
    let plugin = text_in(action, "cluster_specifier_plugin");
    if !plugin.is_empty() && !plugins.contains(plugin) {
        let path = format!("{at}.cluster_specifier_plugin");
        found.rejected(ALL, path, "`cluster_specifier_plugins` has none of this name");
    }
    weighted::lint(&at, action, side, found);
    for (index, policy) in messages_in(action, "hash_policy").enumerate() {
        if ["cookie", "connection_properties", "query_parameter"]
            .into_iter()
            .any(|field| message_in(policy, field).is_some())
        {
            let why = "a hash policy of another kind than `header` or `filter_state`";
            found.ignored(ALL, format!("{at}.hash_policy[{index}]"), why);
        }
    }
}

/// A server fails the calls of all other routes (C-144).
fn lint_action_of_server(at: &str, route: &DynamicMessage, found: &mut Findings) {
    let is_set = |field| message_in(route, field).is_some();
    if is_set("non_forwarding_action") {
        return;
    }
    if let Some(action) = message_in(route, "route") {
        weighted::lint(&format!("{at}.route"), action, Side::Server, found);
    } else {
        let why = "the action of a route must be `route` or `non_forwarding_action`";
        found.rejected(JAVA.and(NODE), at, why);
    }
    let why =
        "a server fails the calls of a route without `non_forwarding_action`, and its action is";
    found.ignored(ALL, at, why);
}

/// Adds what is found in a match. Returns false if the route is left out because of it.
fn lint_match(at: &str, matcher: &DynamicMessage, found: &mut Findings) -> bool {
    if !list_in(matcher, "query_parameters").is_empty() {
        let why = "a parameter of a query is never compared, so the route";
        found.ignored(ALL, format!("{at}.query_parameters"), why);
        return false;
    }
    let regex = message_in(matcher, "safe_regex");
    let has_path = ["prefix", "path"].into_iter().any(|field| matcher.has_field_by_name(field));
    if let Some(regex) = regex {
        if !is_pattern(text_in(regex, "regex")) {
            let why = "the pattern cannot be parsed, which ends a program with gRPC Node";
            found.rejected(ALL, format!("{at}.safe_regex.regex"), why);
        }
    } else if !has_path {
        found.rejected(ALL, at, "the path must be a `prefix`, a `path` or a `safe_regex`");
    }
    for (index, header) in messages_in(matcher, "headers").enumerate() {
        headers::lint(&format!("{at}.headers[{index}]"), header, found);
    }
    true
}

fn lint_retries(at: &str, owner: &DynamicMessage, found: &mut Findings) {
    let policy = message_in(owner, "retry_policy");
    let number = policy.and_then(|policy| message_in(policy, "num_retries"));
    if number.is_some_and(|number| !number.has_field_by_name("value")) {
        let path = format!("{at}.retry_policy.num_retries");
        found.rejected(GO.and(CORE).and(NODE), path, "must be at least 1");
    }
}

/// Checks the times that a route allows.
fn lint_limits(at: &str, action: &DynamicMessage, found: &mut Findings) {
    let Some(limits) = message_in(action, "max_stream_duration") else { return };
    for field in ["max_stream_duration", "grpc_timeout_header_max"] {
        let Some(limit) = message_in(limits, field) else { continue };
        if is_negative(limit) {
            let path = format!("{at}.max_stream_duration.{field}");
            found.rejected(CORE, path, "must not be negative");
        }
    }
}
