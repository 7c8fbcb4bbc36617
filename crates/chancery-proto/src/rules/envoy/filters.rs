//! Single filters: providers of tokens that are not there, and settings that need another.

use chancery_core::TypeUrl;
use prost_reflect::{DynamicMessage, MapKey, Value};

use super::Below::{Field, Index};
use super::{Below, Checks, Found};
use crate::any;
use crate::rules::check::duration;
use crate::rules::name::RuleName;
use crate::walk::{message_in, messages_in, text_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication", jwt),
    ("envoy.extensions.filters.http.lua.v3.Lua", lua),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", tcp_proxy),
    ("envoy.config.cluster.v3.Cluster", protocol_options),
    ("envoy.extensions.filters.http.ext_authz.v3.HttpService", authorization),
    ("envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit", local_rate_limit),
    ("envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit", local_rate_limit),
];

/// Each provider that a rule names must be one of the filter.
fn jwt(filter: &DynamicMessage, found: &mut Found<'_>) {
    for (at, rule) in messages_in(filter, "rules").enumerate() {
        let below = vec![Field("rules"), Index(at)];
        if let Some(requires) = message_in(rule, "requires") {
            requirement(filter, requires, &with(&below, &[Field("requires")]), 0, found);
        }
        let name = text_in(rule, "requirement_name");
        if !name.is_empty() && !has(filter, "requirement_map", name) {
            let below = with(&below, &[Field("requirement_name")]);
            found.says(&below, RuleName::JWT_PROVIDER, "must be a name in `requirement_map`");
        }
    }
}

/// The depth to which requirements are looked at.
const MOST_LEVELS: usize = 32;

fn requirement(
    filter: &DynamicMessage,
    requires: &DynamicMessage,
    below: &[Below],
    depth: usize,
    found: &mut Found<'_>,
) {
    let provider = |requires, below: &[Below], found: &mut Found<'_>| {
        let name = text_in(requires, "provider_name");
        if !name.is_empty() && !has(filter, "providers", name) {
            let below = with(below, &[Field("provider_name")]);
            found.says(&below, RuleName::JWT_PROVIDER, "must be one of the `providers`");
        }
    };
    provider(requires, below, found);
    if let Some(inner) = message_in(requires, "provider_and_audiences") {
        provider(inner, &with(below, &[Field("provider_and_audiences")]), found);
    }
    if depth == MOST_LEVELS {
        return;
    }
    for list in ["requires_any", "requires_all"] {
        let Some(inner) = message_in(requires, list) else { continue };
        for (at, inner) in messages_in(inner, "requirements").enumerate() {
            let below = with(below, &[Field(list), Field("requirements"), Index(at)]);
            requirement(filter, inner, &below, depth + 1, found);
        }
    }
}

fn with(below: &[Below], more: &[Below]) -> Vec<Below> {
    [below, more].concat()
}

fn has(message: &DynamicMessage, field: &str, name: &str) -> bool {
    let entries = value_in(message, field).and_then(Value::as_map);
    entries.is_some_and(|entries| entries.contains_key(&MapKey::String(name.to_owned())))
}

/// Envoy finds these options by the key, and not by their type.
fn protocol_options(cluster: &DynamicMessage, found: &mut Found<'_>) {
    const FIELD: &str = "typed_extension_protocol_options";
    const KEYS: [&str; 2] = [
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "envoy.extensions.upstreams.tcp.v3.TcpProtocolOptions",
    ];
    let Some(entries) = value_in(cluster, FIELD).and_then(Value::as_map) else { return };
    let mut all: Vec<_> =
        entries.iter().filter_map(|(key, it)| Some((key.as_str()?, it))).collect();
    all.sort_by_key(|(key, _)| *key);
    for (key, options) in all {
        let url = options.as_message().and_then(any::type_url).unwrap_or_default();
        let name = TypeUrl::message_name_in(&url);
        if KEYS.contains(&name) && key != name {
            found.broken(&[Field(FIELD)], RuleName::PROTOCOL_OPTIONS, || {
                format!("must have the options of this type under the key `{name}`")
            });
        }
    }
}

fn authorization(service: &DynamicMessage, found: &mut Found<'_>) {
    let prefix = text_in(service, "path_prefix");
    if !prefix.is_empty() && !prefix.starts_with('/') {
        let sentence = "must begin with `/`";
        found.says(&[Field("path_prefix")], RuleName::EXT_AUTHZ, sentence);
    }
}

fn local_rate_limit(filter: &DynamicMessage, found: &mut Found<'_>) {
    const LEAST: i128 = 50_000_000;
    let interval = message_in(filter, "token_bucket")
        .and_then(|bucket| message_in(bucket, "fill_interval"))
        .and_then(duration);
    // The rule of the descriptors is about those that are no time at all.
    if interval.is_some_and(|interval| (1..LEAST).contains(&interval)) {
        let below = [Field("token_bucket"), Field("fill_interval")];
        found.says(&below, RuleName::FILL_INTERVAL, "must be at least 0.05s");
    }
}

fn tcp_proxy(proxy: &DynamicMessage, found: &mut Found<'_>) {
    let mode = value_in(proxy, "upstream_connect_mode").and_then(Value::as_enum_number);
    if mode.unwrap_or(0) != 0 && message_in(proxy, "max_early_data_bytes").is_none() {
        let sentence = "needs `max_early_data_bytes` unless it is `IMMEDIATE`";
        found.says(&[Field("upstream_connect_mode")], RuleName::TCP_PROXY, sentence);
    }
}

fn lua(filter: &DynamicMessage, found: &mut Found<'_>) {
    let has_default = message_in(filter, "default_source_code").is_some();
    if has_default && !text_in(filter, "inline_code").is_empty() {
        let sentence = "must be left out where there is a `default_source_code`";
        found.says(&[Field("inline_code")], RuleName::LUA, sentence);
    }
}
