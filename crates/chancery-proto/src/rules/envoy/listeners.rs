//! Listeners: addresses, filter chains that match the same, and the order of filters.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use prost_reflect::{DynamicMessage, Value};

use super::Below::{Field, Index};
use super::clusters::type_of;
use super::durations::not_negative;
use super::routes::number_of;
use super::{Below, Checks, Found, addresses};
use crate::rules::name::RuleName;
use crate::walk::{list_in, message_in, messages_in, text_in, texts_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.config.listener.v3.Listener", listener),
    ("envoy.config.listener.v3.FilterChain", filter_chain),
    ("envoy.config.listener.v3.FilterChainMatch", filter_chain_match),
    (
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        connection_manager,
    ),
];

fn listener(listener: &DynamicMessage, found: &mut Found<'_>) {
    not_negative(listener, &["listener_filters_timeout"], found);
    let has = |field| message_in(listener, field).is_some();
    if has("api_listener") {
        return;
    }
    match message_in(listener, "address") {
        _ if has("internal_listener") => {}
        Some(address) if message_in(address, "envoy_internal_address").is_some() => {
            let sentence = "must be no `envoy_internal_address`: an internal listener has \
                            `internal_listener` instead of an `address`";
            found.says(&[Field("address")], RuleName::LISTENER, sentence);
        }
        Some(address) => {
            addresses::address(&[Field("address")], address, addresses::NOT_IP, found);
            compatible(address, found);
        }
        None => found.says(&[Field("address")], RuleName::LISTENER, "is required"),
    }
    for (at, more) in messages_in(listener, "additional_addresses").enumerate() {
        let below = [Field("additional_addresses"), Index(at), Field("address")];
        match message_in(more, "address") {
            Some(address) => addresses::address(&below, address, addresses::NOT_IP, found),
            // Envoy ends here.
            None => found.says(&below, RuleName::LISTENER, "is required"),
        }
    }
    let has_chains = !list_in(listener, "filter_chains").is_empty();
    if is_udp(listener) {
        let quic = message_in(listener, "udp_listener_config")
            .is_some_and(|config| message_in(config, "quic_options").is_some());
        if has_chains && !quic {
            let sentence = "must be empty: a listener of UDP has them only with `quic_options`";
            found.says(&[Field("filter_chains")], RuleName::LISTENER, sentence);
        }
        for (at, chain) in messages_in(listener, "filter_chains").enumerate().filter(|_| quic) {
            if message_in(chain, "transport_socket").is_none() {
                let below = [Field("filter_chains"), Index(at), Field("transport_socket")];
                found.says(&below, RuleName::LISTENER, "is required, because of `quic_options`");
            }
        }
        let default = message_in(listener, "default_filter_chain").filter(|_| quic);
        if default.is_some_and(|chain| message_in(chain, "transport_socket").is_none()) {
            let below = [Field("default_filter_chain"), Field("transport_socket")];
            found.says(&below, RuleName::LISTENER, "is required, because of `quic_options`");
        }
        return;
    }
    // A default alone is enough, but not where a matcher names the chains.
    let needs_chains = has("filter_chain_matcher") || !has("default_filter_chain");
    if !has_chains && needs_chains {
        found.says(&[Field("filter_chains")], RuleName::LISTENER, "must not be empty");
    }
    match has("filter_chain_matcher") {
        true => named_chains(listener, found),
        false => overlapping_chains(listener, found),
    }
}

/// An address of IPv6 alone may be one of IPv4 as well.
fn compatible(address: &DynamicMessage, found: &mut Found<'_>) {
    let Some(socket) = message_in(address, "socket_address") else { return };
    let is_v4 = text_in(socket, "address").parse::<std::net::Ipv4Addr>().is_ok();
    if is_v4 && is_true(socket, "ipv4_compat") {
        let below = [Field("address"), Field("socket_address"), Field("ipv4_compat")];
        let sentence = "must be left out: only the address `::` may be one of IPv4 as well";
        found.says(&below, RuleName::IP_ADDRESS, sentence);
    }
}

fn is_udp(listener: &DynamicMessage) -> bool {
    let address = message_in(listener, "address").and_then(|it| message_in(it, "socket_address"));
    let protocol = address.and_then(|it| value_in(it, "protocol")).and_then(Value::as_enum_number);
    protocol == Some(1)
}

/// A matcher of the listener finds chains by their names.
fn named_chains(listener: &DynamicMessage, found: &mut Found<'_>) {
    let mut seen = BTreeSet::new();
    for (at, chain) in messages_in(listener, "filter_chains").enumerate() {
        let (name, below) = (text_in(chain, "name"), [Field("filter_chains"), Index(at)]);
        let sentence = match name {
            "" => "must have a `name`, because the listener has a `filter_chain_matcher`",
            name if !seen.insert(name) => "must have a `name` of its own",
            _ => continue,
        };
        found.says(&below, RuleName::FILTER_CHAIN, sentence);
    }
}

/// The values of one criterion of a match. A match without any matches all.
type Criterion = BTreeSet<String>;

/// Envoy refuses chains of which a connection could match two equally well.
fn overlapping_chains(listener: &DynamicMessage, found: &mut Found<'_>) {
    let mut seen: HashMap<Vec<String>, usize> = HashMap::new();
    let mut room = MOST_MATCHES;
    for (at, chain) in messages_in(listener, "filter_chains").enumerate() {
        let criteria = message_in(chain, "filter_chain_match").map_or_else(Vec::new, criteria);
        let Some(keys) = product(&criteria, &mut room) else { return };
        let mut first = None;
        for key in keys {
            let other = *seen.entry(key).or_insert(at);
            first = first.or_else(|| (other != at).then_some(other));
        }
        if let Some(first) = first {
            let below = [Field("filter_chains"), Index(at), Field("filter_chain_match")];
            found.broken(&below, RuleName::FILTER_CHAIN, || {
                format!("must not match the same connections as that of filter_chains[{first}]")
            });
        }
    }
}

/// The number of combinations of criteria that are compared. Of a listener with more, no more are.
const MOST_MATCHES: usize = 20_000;

/// The criteria of a match in the order in which Envoy looks at them.
fn criteria(chain_match: &DynamicMessage) -> Vec<Criterion> {
    let number = |field| {
        let number = message_in(chain_match, field).map(|it| number_of(it).to_string());
        number.into_iter().collect::<Criterion>()
    };
    let texts = |field| texts_in(chain_match, field).map(str::to_owned).collect::<Criterion>();
    let ranges = |field| messages_in(chain_match, field).map(network).collect::<Criterion>();
    let ports = list_in(chain_match, "source_ports").iter().filter_map(Value::as_u32);
    let source = value_in(chain_match, "source_type").and_then(Value::as_enum_number);
    let names = texts_in(chain_match, "server_names").map(server_name);
    vec![
        number("destination_port"),
        ranges("prefix_ranges"),
        names.collect(),
        texts("transport_protocol"),
        texts("application_protocols"),
        ranges("direct_source_prefix_ranges"),
        source.filter(|source| *source != 0).map(|it| it.to_string()).into_iter().collect(),
        ranges("source_prefix_ranges"),
        ports.map(|port| port.to_string()).collect(),
    ]
}

/// Envoy takes `*.a.com` and `.a.com` for the same.
fn server_name(name: &str) -> String {
    name.strip_prefix('*').unwrap_or(name).to_ascii_lowercase()
}

/// A network as Envoy compares it: without the bits behind its prefix.
fn network(range: &DynamicMessage) -> String {
    let text = text_in(range, "address_prefix");
    let length = message_in(range, "prefix_len").map_or(0, number_of);
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            let length = length.min(32);
            let mask = u32::MAX.checked_shl(32 - length as u32).unwrap_or_default();
            format!("{}/{length}", address.to_bits() & mask)
        }
        Ok(IpAddr::V6(address)) => {
            let length = length.min(128);
            let mask = u128::MAX.checked_shl(128 - length as u32).unwrap_or_default();
            format!("{:x}:/{length}", address.to_bits() & mask)
        }
        Err(_) => format!("{text}/{length}"),
    }
}

/// All combinations of one value of each criterion; `None` if there is no room for them.
fn product(criteria: &[Criterion], room: &mut usize) -> Option<Vec<Vec<String>>> {
    let count = criteria
        .iter()
        .try_fold(1_usize, |count, it| count.checked_mul(it.len().max(1)))
        .filter(|count| count <= room)?;
    *room -= count;
    let mut keys = vec![Vec::with_capacity(criteria.len())];
    for criterion in criteria {
        // No value is another one than all of those that there can be.
        let values: Vec<_> = criterion.iter().map(|it| format!("={it}")).collect();
        let values = if values.is_empty() { vec![String::new()] } else { values };
        let longer = keys.iter().flat_map(|key: &Vec<String>| {
            values.iter().map(|value| {
                let mut longer = key.clone();
                longer.push(value.clone());
                longer
            })
        });
        keys = longer.collect();
    }
    // A match without any criterion has no list of them.
    for key in &mut keys {
        key.resize(CRITERIA, String::new());
    }
    Some(keys)
}

const CRITERIA: usize = 9;

fn filter_chain_match(chain_match: &DynamicMessage, found: &mut Found<'_>) {
    for (at, name) in texts_in(chain_match, "server_names").enumerate() {
        if name.strip_prefix("*.").unwrap_or(name).contains('*') {
            let sentence = "must be a whole name, or begin with `*.`";
            found.says(&[Field("server_names"), Index(at)], RuleName::FILTER_CHAIN, sentence);
        }
    }
    if !text_in(chain_match, "address_suffix").is_empty() {
        found.says(&[Field("address_suffix")], RuleName::FILTER_CHAIN, NOT_IMPLEMENTED);
    }
    if message_in(chain_match, "suffix_len").is_some() {
        found.says(&[Field("suffix_len")], RuleName::FILTER_CHAIN, NOT_IMPLEMENTED);
    }
    for field in ["server_names", "application_protocols"] {
        let mut seen = BTreeSet::new();
        for (at, value) in texts_in(chain_match, field).enumerate() {
            let value = if field == "server_names" { server_name(value) } else { value.to_owned() };
            if !seen.insert(value) {
                let sentence = "must be there once: `*.a.com` and `.a.com` are the same";
                found.says(&[Field(field), Index(at)], RuleName::FILTER_CHAIN, sentence);
            }
        }
    }
}

const NOT_IMPLEMENTED: &str = "must be left out: Envoy does not implement it";

/// The filters of a chain that end it, and some of those that do not.
struct Chain {
    ending: &'static [&'static str],
    passing: &'static [&'static str],
    kind: &'static str,
}

const NETWORK: Chain = Chain {
    ending: &[
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
    ],
    passing: &[
        "envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit",
        "envoy.extensions.filters.network.ext_authz.v3.ExtAuthz",
        "envoy.extensions.filters.network.local_ratelimit.v3.LocalRateLimit",
        "envoy.extensions.filters.network.mongo_proxy.v3.MongoProxy",
        "envoy.extensions.filters.network.ratelimit.v3.RateLimit",
        "envoy.extensions.filters.network.rbac.v3.RBAC",
        "envoy.extensions.filters.network.set_filter_state.v3.Config",
        "envoy.extensions.filters.network.sni_cluster.v3.SniCluster",
        "envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3.FilterConfig",
        "envoy.extensions.filters.network.wasm.v3.Wasm",
        "envoy.extensions.filters.network.zookeeper_proxy.v3.ZooKeeperProxy",
    ],
    kind: "must be followed by a filter that ends the chain, as `http_connection_manager` and \
           `tcp_proxy` do",
};

const HTTP: Chain = Chain {
    ending: &["envoy.extensions.filters.http.router.v3.Router"],
    passing: &[
        "envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency",
        "envoy.extensions.filters.http.admission_control.v3.AdmissionControl",
        "envoy.extensions.filters.http.alternate_protocols_cache.v3.FilterConfig",
        "envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuth",
        "envoy.extensions.filters.http.bandwidth_limit.v3.BandwidthLimit",
        "envoy.extensions.filters.http.basic_auth.v3.BasicAuth",
        "envoy.extensions.filters.http.buffer.v3.Buffer",
        "envoy.extensions.filters.http.cache.v3.CacheConfig",
        "envoy.extensions.filters.http.composite.v3.Composite",
        "envoy.extensions.filters.http.compressor.v3.Compressor",
        "envoy.extensions.filters.http.cors.v3.Cors",
        "envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
        "envoy.extensions.filters.http.csrf.v3.CsrfPolicy",
        "envoy.extensions.filters.http.custom_response.v3.CustomResponse",
        "envoy.extensions.filters.http.decompressor.v3.Decompressor",
        "envoy.extensions.filters.http.dynamic_forward_proxy.v3.FilterConfig",
        "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
        "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
        "envoy.extensions.filters.http.fault.v3.HTTPFault",
        "envoy.extensions.filters.http.file_system_buffer.v3.FileSystemBufferFilterConfig",
        "envoy.extensions.filters.http.gcp_authn.v3.GcpAuthnFilterConfig",
        "envoy.extensions.filters.http.grpc_http1_bridge.v3.Config",
        "envoy.extensions.filters.http.grpc_stats.v3.FilterConfig",
        "envoy.extensions.filters.http.grpc_web.v3.GrpcWeb",
        "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
        "envoy.extensions.filters.http.header_to_metadata.v3.Config",
        "envoy.extensions.filters.http.health_check.v3.HealthCheck",
        "envoy.extensions.filters.http.json_to_metadata.v3.JsonToMetadata",
        "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
        "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
        "envoy.extensions.filters.http.lua.v3.Lua",
        "envoy.extensions.filters.http.mcp.v3.Mcp",
        "envoy.extensions.filters.http.oauth2.v3.OAuth2",
        "envoy.extensions.filters.http.on_demand.v3.OnDemand",
        "envoy.extensions.filters.http.original_src.v3.OriginalSrc",
        "envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        "envoy.extensions.filters.http.rbac.v3.RBAC",
        "envoy.extensions.filters.http.set_filter_state.v3.Config",
        "envoy.extensions.filters.http.set_metadata.v3.Config",
        "envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
        "envoy.extensions.filters.http.tap.v3.Tap",
    ],
    kind: "must be followed by `envoy.filters.http.router`, which ends the chain",
};

/// Returns true for a type of HTTP filters that lets requests pass to the next one.
pub(crate) fn passes_requests_on(type_name: &str) -> bool {
    HTTP.passing.contains(&type_name)
}

fn filter_chain(chain: &DynamicMessage, found: &mut Found<'_>) {
    order(chain, &[], "filters", &NETWORK, found);
    let socket = message_in(chain, "transport_socket");
    let config = socket.and_then(|socket| message_in(socket, "typed_config"));
    if config.is_some_and(|config| type_of(config) == UPSTREAM) {
        let below = [Field("transport_socket"), Field("typed_config")];
        let sentence = "must be a `DownstreamTlsContext`: the other one is for clusters";
        found.says(&below, RuleName::EXTENSION_TYPE, sentence);
    }
}

const UPSTREAM: &str = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";

/// Checks that the filter which ends a chain is the last one.
fn order(
    message: &DynamicMessage,
    above: &[Below],
    field: &'static str,
    chain: &Chain,
    found: &mut Found<'_>,
) {
    let last = list_in(message, field).len().saturating_sub(1);
    for (at, filter) in messages_in(message, field).enumerate() {
        let Some(config) = message_in(filter, "typed_config") else { continue };
        let kind = type_of(config);
        let below = [above, &[Field(field), Index(at)]].concat();
        if at < last && chain.ending.contains(&&*kind) {
            let sentence = "must be the last filter, because it ends the chain";
            found.says(&below, RuleName::FILTER_ORDER, sentence);
        } else if at == last && chain.passing.contains(&&*kind) {
            found.says(&below, RuleName::FILTER_ORDER, chain.kind);
        } else if at == last && is_true(filter, "disabled") {
            let sentence = "must not be disabled, because it is the last filter";
            found.says(&below, RuleName::FILTER_ORDER, sentence);
        }
    }
}

fn connection_manager(manager: &DynamicMessage, found: &mut Found<'_>) {
    order(manager, &[], "http_filters", &HTTP, found);
    not_negative(manager, &["request_timeout", "stream_idle_timeout", "drain_timeout"], found);
    let strips = ["strip_matching_host_port", "strip_any_host_port"];
    if strips.into_iter().all(|field| is_true(manager, field)) {
        let sentence = "must not be set beside `strip_matching_host_port`";
        found.says(&[Field("strip_any_host_port")], RuleName::CONNECTION_MANAGER, sentence);
    }
    let hops = value_in(manager, "xff_num_trusted_hops").and_then(Value::as_u32).unwrap_or(0);
    if hops > 0 && !list_in(manager, "original_ip_detection_extensions").is_empty() {
        let sentence = "must not be set beside `original_ip_detection_extensions`";
        found.says(&[Field("xff_num_trusted_hops")], RuleName::CONNECTION_MANAGER, sentence);
    }
    let mut seen = BTreeSet::new();
    for (at, upgrade) in messages_in(manager, "upgrade_configs").enumerate() {
        if !seen.insert(text_in(upgrade, "upgrade_type").to_ascii_lowercase()) {
            let below = [Field("upgrade_configs"), Index(at), Field("upgrade_type")];
            found.says(&below, RuleName::CONNECTION_MANAGER, "must be there once");
        }
        order(upgrade, &[Field("upgrade_configs"), Index(at)], "filters", &HTTP, found);
    }
}

fn is_true(message: &DynamicMessage, field: &str) -> bool {
    value_in(message, field).and_then(Value::as_bool).unwrap_or_default()
}
