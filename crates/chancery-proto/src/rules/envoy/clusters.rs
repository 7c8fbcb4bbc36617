//! Clusters: what their type needs, load balancing, health checks and outlier detection.

use std::collections::BTreeSet;

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::Below::{Field, Index};
use super::routes::number_of;
use super::{Checks, Found, addresses, policies};
use crate::any;
use crate::rules::check::duration;
use crate::rules::name::RuleName;
use crate::walk::{list_in, message_in, messages_in, text_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.config.cluster.v3.Cluster", cluster),
    ("envoy.config.cluster.v3.Cluster.SlowStartConfig", slow_start),
    ("envoy.config.cluster.v3.OutlierDetection", outlier_detection),
    ("envoy.config.core.v3.HealthCheck.HttpHealthCheck", http_health_check),
    ("envoy.config.core.v3.HealthCheck.Payload", payload),
    ("envoy.extensions.load_balancing_policies.maglev.v3.Maglev", maglev),
    ("envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash", ring_hash),
    ("envoy.extensions.clusters.dns.v3.DnsCluster", failure_refresh_rate),
];

/// The types of clusters, as in `Cluster.DiscoveryType`.
const STATIC: i32 = 0;
const STRICT_DNS: i32 = 1;
const LOGICAL_DNS: i32 = 2;
const EDS: i32 = 3;
const ORIGINAL_DST: i32 = 4;

/// The load balancing policies, as in `Cluster.LbPolicy`.
const RING_HASH: i32 = 2;
const MAGLEV: i32 = 5;
const CLUSTER_PROVIDED: i32 = 6;
const BY_CONFIGURATION: i32 = 7;

fn cluster(cluster: &DynamicMessage, found: &mut Found<'_>) {
    let number = |field| value_in(cluster, field).and_then(Value::as_enum_number);
    let policy = number("lb_policy").unwrap_or_default();
    // A cluster whose type is an extension has none of these.
    if message_in(cluster, "cluster_type").is_none() {
        let kind = number("type").unwrap_or_default();
        discovery(cluster, kind, found);
        by_type(cluster, kind, found);
        provided(cluster, kind, policy, found);
    } else {
        aggregate(cluster, policy, found);
    }
    balancing(cluster, policy, found);
    health_checks(cluster, found);
    health_check_names(cluster, found);
    alpn(cluster, found);
}

fn discovery(cluster: &DynamicMessage, kind: i32, found: &mut Found<'_>) {
    let eds = message_in(cluster, "eds_cluster_config");
    if (kind == EDS) != eds.is_some() {
        let (below, sentence) = match kind == EDS {
            true => ("type", "is `EDS`, which needs an `eds_cluster_config`"),
            false => ("eds_cluster_config", "must be left out unless `type` is `EDS`"),
        };
        found.says(&[Field(below)], RuleName::CLUSTER_TYPE, sentence);
    }
    if eds.is_some_and(|eds| message_in(eds, "eds_config").is_none()) {
        let below = [Field("eds_cluster_config"), Field("eds_config")];
        found.says(&below, RuleName::CLUSTER_TYPE, "is required");
    }
    let assignment = message_in(cluster, "load_assignment");
    match (kind, assignment) {
        (STATIC, Some(assignment)) => {
            addresses::endpoints(&[Field("load_assignment")], assignment, found);
            addresses::no_leds(&[Field("load_assignment")], assignment, found);
        }
        (LOGICAL_DNS, assignment) if !has_one_endpoint(assignment) => {
            let sentence = "must have one locality with one endpoint, because `type` is `LOGICAL_DNS`: \
                            `STRICT_DNS` may have more";
            found.says(&[Field("load_assignment")], RuleName::CLUSTER_TYPE, sentence);
        }
        (ORIGINAL_DST, Some(_)) => {
            let sentence = "must be left out, because `type` is `ORIGINAL_DST`";
            found.says(&[Field("load_assignment")], RuleName::CLUSTER_TYPE, sentence);
        }
        _ => {}
    }
}

/// The settings that only some types of clusters have.
fn by_type(cluster: &DynamicMessage, kind: i32, found: &mut Found<'_>) {
    if [STRICT_DNS, LOGICAL_DNS].contains(&kind) {
        failure_refresh_rate(cluster, found);
        own_resolvers(cluster, found);
        resolvers(cluster, found);
    }
    let original = message_in(cluster, "original_dst_lb_config");
    let names_header = original.is_some_and(|it| {
        let uses = value_in(it, "use_http_header").and_then(Value::as_bool).unwrap_or_default();
        !uses && !text_in(it, "http_header_name").is_empty()
    });
    if kind == ORIGINAL_DST && names_header {
        let below = [Field("original_dst_lb_config"), Field("http_header_name")];
        found.says(
            &below,
            RuleName::CLUSTER_TYPE,
            "must be left out unless `use_http_header` is true",
        );
    }
    let hashing = message_in(cluster, "common_lb_config")
        .and_then(|it| message_in(it, "consistent_hashing_lb_config"))
        .and_then(|it| value_in(it, "use_hostname_for_hashing"));
    if kind != STRICT_DNS && hashing.and_then(Value::as_bool) == Some(true) {
        let below = [
            Field("common_lb_config"),
            Field("consistent_hashing_lb_config"),
            Field("use_hostname_for_hashing"),
        ];
        let sentence = "must be left out unless `type` is `STRICT_DNS`";
        found.says(&below, RuleName::CLUSTER_TYPE, sentence);
    }
}

/// A cluster that looks names up has one resolver for all of them, and checks health like others.
fn own_resolvers(cluster: &DynamicMessage, found: &mut Found<'_>) {
    let Some(assignment) = message_in(cluster, "load_assignment") else { return };
    for (locality, endpoints) in messages_in(assignment, "endpoints").enumerate() {
        for (at, endpoint) in messages_in(endpoints, "lb_endpoints").enumerate() {
            let below = [
                Field("load_assignment"),
                Field("endpoints"),
                Index(locality),
                Field("lb_endpoints"),
                Index(at),
            ];
            let Some(endpoint) = message_in(endpoint, "endpoint") else { continue };
            let inner = [below.as_slice(), &[Field("endpoint")]].concat();
            addresses::health_address(&inner, endpoint, found);
            let socket =
                message_in(endpoint, "address").and_then(|it| message_in(it, "socket_address"));
            if socket.is_some_and(|it| !text_in(it, "resolver_name").is_empty()) {
                let sentence = "must not have a `resolver_name`: set `typed_dns_resolver_config` of \
                                the cluster";
                found.says(&below, RuleName::ENDPOINT, sentence);
            }
        }
    }
}

fn failure_refresh_rate(message: &DynamicMessage, found: &mut Found<'_>) {
    let Some(rate) = message_in(message, "dns_failure_refresh_rate") else { return };
    let nanos = |field| message_in(rate, field).and_then(duration);
    if let (Some(base), Some(most)) = (nanos("base_interval"), nanos("max_interval"))
        && most < base
    {
        let below = [Field("dns_failure_refresh_rate"), Field("max_interval")];
        found.says(&below, RuleName::RETRY_BACK_OFF, "must not be less than `base_interval`");
    }
}

/// The servers that a cluster asks for names.
fn resolvers(cluster: &DynamicMessage, found: &mut Found<'_>) {
    const CARES: &str = "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig";
    for (at, resolver) in messages_in(cluster, "dns_resolvers").enumerate() {
        let below = [Field("dns_resolvers"), Index(at)];
        addresses::address(&below, resolver, addresses::NOT_IP, found);
    }
    let typed = message_in(cluster, "typed_dns_resolver_config");
    let typed = typed.and_then(|typed| message_in(typed, "typed_config"));
    let Some(config) = typed.filter(|it| type_of(it) == CARES).and_then(any::open) else { return };
    let below = [Field("typed_dns_resolver_config"), Field("typed_config")];
    for resolver in messages_in(&config, "resolvers") {
        let socket = message_in(resolver, "socket_address");
        let is_whole = |socket: &DynamicMessage| {
            let has_name = value_in(socket, "named_port").is_some();
            addresses::is_ip(text_in(socket, "address")) && !has_name
        };
        if !socket.is_some_and(is_whole) {
            let sentence = "must have resolvers that are addresses of IP";
            found.says(&below, RuleName::IP_ADDRESS, sentence);
        }
    }
}

fn has_one_endpoint(assignment: Option<&DynamicMessage>) -> bool {
    let mut localities = assignment.into_iter().flat_map(|it| messages_in(it, "endpoints"));
    let first = localities.next().map(|locality| list_in(locality, "lb_endpoints").len());
    first == Some(1) && localities.next().is_none()
}

/// Some types of clusters balance by themselves, and the others cannot.
fn provided(cluster: &DynamicMessage, kind: i32, policy: i32, found: &mut Found<'_>) {
    let is_provided = policy == CLUSTER_PROVIDED;
    if kind == ORIGINAL_DST && !is_provided {
        let sentence = "must be `CLUSTER_PROVIDED`, because `type` is `ORIGINAL_DST`";
        found.says(&[Field("lb_policy")], RuleName::LB_POLICY, sentence);
    } else if kind != ORIGINAL_DST
        && is_provided
        && message_in(cluster, "load_balancing_policy").is_none()
    {
        let sentence = "must be another policy: a cluster of this `type` provides none";
        found.says(&[Field("lb_policy")], RuleName::LB_POLICY, sentence);
    }
}

fn aggregate(cluster: &DynamicMessage, policy: i32, found: &mut Found<'_>) {
    const AGGREGATE: &str = "envoy.extensions.clusters.aggregate.v3.ClusterConfig";
    const PROXY: &str = "envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig";
    const DNS: &str = "envoy.extensions.clusters.dns.v3.DnsCluster";
    let kind = message_in(cluster, "cluster_type").and_then(|it| message_in(it, "typed_config"));
    let provides = kind.is_some_and(|kind| [AGGREGATE, PROXY].contains(&&*type_of(kind)));
    let dns = kind.filter(|kind| type_of(kind) == DNS).and_then(any::open);
    let is_single = dns.is_some_and(|dns| {
        let single = value_in(&dns, "all_addresses_in_single_endpoint");
        single.and_then(Value::as_bool) == Some(true)
    });
    if is_single && !has_one_endpoint(message_in(cluster, "load_assignment")) {
        let sentence = "must have one locality with one endpoint, because of \
                        `all_addresses_in_single_endpoint`";
        found.says(&[Field("load_assignment")], RuleName::CLUSTER_TYPE, sentence);
    }
    if provides && policy != CLUSTER_PROVIDED && !has_provided_policy(cluster) {
        let sentence = "must be `CLUSTER_PROVIDED` for Envoy, where a cluster of this `cluster_type` balances itself";
        found.says(&[Field("lb_policy")], RuleName::LB_POLICY, sentence);
    }
}

/// Returns true if one of the `load_balancing_policy` is that of the cluster itself.
fn has_provided_policy(cluster: &DynamicMessage) -> bool {
    let Some(policy) = message_in(cluster, "load_balancing_policy") else { return false };
    messages_in(policy, "policies").any(|policy| {
        let extension = message_in(policy, "typed_extension_config");
        let kind = extension.and_then(|it| message_in(it, "typed_config")).map(type_of);
        kind.is_some_and(|kind| kind.ends_with(".ClusterProvided"))
    })
}

/// The name of the type of message in an `Any`.
pub(super) fn type_of(any: &DynamicMessage) -> String {
    let url = any::type_url(any).unwrap_or_default();
    chancery_core::TypeUrl::message_name_in(&url).to_owned()
}

fn balancing(cluster: &DynamicMessage, policy: i32, found: &mut Found<'_>) {
    let subsets = message_in(cluster, "lb_subset_config");
    let has_subsets = subsets.is_some_and(|it| !list_in(it, "subset_selectors").is_empty());
    if policy == CLUSTER_PROVIDED && has_subsets {
        let sentence = "must be left out where `lb_policy` is `CLUSTER_PROVIDED`";
        found.says(&[Field("lb_subset_config")], RuleName::LB_POLICY, sentence);
    }
    match message_in(cluster, "load_balancing_policy") {
        None if policy == BY_CONFIGURATION => {
            let sentence =
                "is `LOAD_BALANCING_POLICY_CONFIG`, which needs a `load_balancing_policy`";
            found.says(&[Field("lb_policy")], RuleName::LB_POLICY, sentence);
        }
        Some(config) if list_in(config, "policies").is_empty() => {
            let below = [Field("load_balancing_policy"), Field("policies")];
            found.says(&below, RuleName::LB_POLICY, "must not be empty");
        }
        Some(config) => {
            if subsets.is_some() {
                let sentence = "must be left out where there is a `load_balancing_policy`";
                found.says(&[Field("lb_subset_config")], RuleName::LB_POLICY, sentence);
            }
            policies::of_cluster(cluster, config, found);
        }
        None => {
            let config = match policy {
                RING_HASH => "ring_hash_lb_config",
                MAGLEV => "maglev_lb_config",
                _ => return,
            };
            let Some(message) = message_in(cluster, config) else { return };
            match policy {
                RING_HASH => ring_size(message, &[Field(config)], found),
                _ => table_size(message, &[Field(config)], found),
            }
        }
    }
}

/// Envoy does not check the rules of a `RingHash`, and ends where a hash has no source.
fn ring_hash(policy: &DynamicMessage, found: &mut Found<'_>) {
    if let Some(config) = message_in(policy, "consistent_hashing_lb_config") {
        for (at, hash) in messages_in(config, "hash_policy").enumerate() {
            let sources =
                ["header", "cookie", "connection_properties", "query_parameter", "filter_state"];
            if !sources.iter().any(|source| message_in(hash, source).is_some()) {
                let below =
                    [Field("consistent_hashing_lb_config"), Field("hash_policy"), Index(at)];
                let sentence = "must have one of `header`, `cookie`, `connection_properties`, \
                                `query_parameter` and `filter_state`";
                found.says(&below, RuleName::LB_POLICY, sentence);
            }
        }
    }
    ring_size(policy, &[], found);
}

fn ring_size(config: &DynamicMessage, below: &[super::Below], found: &mut Found<'_>) {
    let size = |field, default| message_in(config, field).map_or(default, number_of);
    let (least, most) = (size("minimum_ring_size", 1024), size("maximum_ring_size", 8 << 20));
    if least > most {
        let below = [below, &[Field("minimum_ring_size")]].concat();
        found.broken(&below, RuleName::RING_SIZE, || {
            format!("is {least}, which must not be above `maximum_ring_size`, which is {most}")
        });
    }
}

fn maglev(policy: &DynamicMessage, found: &mut Found<'_>) {
    table_size(policy, &[], found);
}

fn table_size(config: &DynamicMessage, below: &[super::Below], found: &mut Found<'_>) {
    let Some(size) = message_in(config, "table_size").map(number_of) else { return };
    // A larger one is not looked at, so that this search has a bound.
    let is_prime = || size > 1 && (2..).take_while(|it| it * it <= size).all(|it| size % it != 0);
    if size <= LARGEST_TABLE && !is_prime() {
        let below = [below, &[Field("table_size")]].concat();
        found.says(&below, RuleName::TABLE_SIZE, "must be a prime number, as 65537 is");
    }
}

const LARGEST_TABLE: u64 = 5_000_011;

fn outlier_detection(outliers: &DynamicMessage, found: &mut Found<'_>) {
    let nanos = |field| message_in(outliers, field).and_then(duration);
    let Some(most) = nanos("max_ejection_time") else { return };
    if most < nanos("base_ejection_time").unwrap_or(30 * 1_000_000_000) {
        let sentence = "must not be less than `base_ejection_time`, which is 30s unless it is set";
        found.says(&[Field("max_ejection_time")], RuleName::EJECTION_TIME, sentence);
    }
}

/// A health check by gRPC is made over HTTP/2.
fn health_checks(cluster: &DynamicMessage, found: &mut Found<'_>) {
    for (at, check) in messages_in(cluster, "health_checks").enumerate() {
        let chooses = message_in(check, "http_health_check")
            .and_then(|it| value_in(it, "use_alpn_protocol"))
            .and_then(Value::as_bool);
        if chooses == Some(true) && is_plain(message_in(cluster, "transport_socket")) {
            let below = [
                Field("health_checks"),
                Index(at),
                Field("http_health_check"),
                Field("use_alpn_protocol"),
            ];
            found.says(&below, RuleName::ALPN, "needs a `transport_socket` with TLS");
        }
    }
    let checks = messages_in(cluster, "health_checks").enumerate();
    for (at, _) in checks.filter(|(_, it)| message_in(it, "grpc_health_check").is_some()) {
        if !may_have_http2(cluster) {
            let below = [Field("health_checks"), Index(at), Field("grpc_health_check")];
            let sentence = "needs HTTP/2: set `http2_protocol_options` in the \
                            `explicit_http_config` of the cluster's `HttpProtocolOptions`";
            found.says(&below, RuleName::GRPC_HEALTH_CHECK, sentence);
        }
    }
}

/// Several health checks are told apart by their names.
fn health_check_names(cluster: &DynamicMessage, found: &mut Found<'_>) {
    if list_in(cluster, "health_checks").len() < 2 {
        return;
    }
    let mut names = BTreeSet::new();
    for (at, check) in messages_in(cluster, "health_checks").enumerate() {
        let sentence = match text_in(check, "name") {
            "" => "is required where there are several health checks",
            name if !names.insert(name) => {
                "must be another one: a health check before it has it too"
            }
            _ => continue,
        };
        let below = [Field("health_checks"), Index(at), Field("name")];
        found.says(&below, RuleName::HEALTH_CHECK_NAME, sentence);
    }
}

/// Envoy ends at a share that is no number.
fn slow_start(config: &DynamicMessage, found: &mut Found<'_>) {
    let share = message_in(config, "min_weight_percent").and_then(|it| value_in(it, "value"));
    if share.and_then(Value::as_f64).is_some_and(f64::is_nan) {
        let below = [Field("min_weight_percent"), Field("value")];
        found.says(&below, RuleName::LB_POLICY, "must be a number from 0 to 100");
    }
}

fn may_have_http2(cluster: &DynamicMessage) -> bool {
    if message_in(cluster, "http2_protocol_options").is_some() {
        return true;
    }
    let Some(options) = protocol_options(cluster) else { return false };
    let explicit = message_in(&options, "explicit_http_config");
    explicit.is_none_or(|it| message_in(it, "http_protocol_options").is_none())
}

const QUIC: &str = "envoy.extensions.transport_sockets.quic.v3.QuicUpstreamTransport";
const PROXY_SOCKET: &str =
    "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport";
const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// The protocol options of the cluster that is an extension.
fn protocol_options(cluster: &DynamicMessage) -> Option<DynamicMessage> {
    let options = value_in(cluster, "typed_extension_protocol_options")?.as_map()?;
    let options = options.get(&prost_reflect::MapKey::String(OPTIONS.to_owned()))?;
    let options = any::open(options.as_message()?)?;
    (options.descriptor().full_name() == OPTIONS).then_some(options)
}

/// Returns true for a transport socket that chooses no protocol: none, one without TLS, or one that begins so.
fn is_plain(socket: Option<&DynamicMessage>) -> bool {
    const PLAIN: [&str; 2] = ["raw_buffer.v3.RawBuffer", "starttls.v3.UpstreamStartTlsConfig"];
    const AROUND: &str = "proxy_protocol.v3.ProxyProtocolUpstreamTransport";
    let Some(any) = socket.and_then(|socket| message_in(socket, "typed_config")) else {
        return socket.is_none();
    };
    let kind = type_of(any);
    let Some(kind) = kind.strip_prefix("envoy.extensions.transport_sockets.") else { return false };
    let inner = any::open(any).filter(|_| kind == AROUND);
    PLAIN.contains(&kind)
        || inner.is_some_and(|inner| is_plain(message_in(&inner, "transport_socket")))
}

/// Only options of HTTP can stand under the name of those.
fn other_options(cluster: &DynamicMessage, found: &mut Found<'_>) {
    let all = value_in(cluster, "typed_extension_protocol_options").and_then(Value::as_map);
    let options = all.and_then(|all| all.get(&prost_reflect::MapKey::String(OPTIONS.to_owned())));
    let kind = options.and_then(Value::as_message).map(type_of);
    if kind.is_some_and(|kind| kind != OPTIONS && !kind.ends_with(".TypedStruct")) {
        let below = [Field("typed_extension_protocol_options")];
        let sentence =
            "must have `HttpProtocolOptions` under the name of their type, and has another type";
        found.says(&below, RuleName::EXTENSION_TYPE, sentence);
    }
}

/// To choose a protocol, both sides need TLS.
fn alpn(cluster: &DynamicMessage, found: &mut Found<'_>) {
    other_options(cluster, found);
    let Some(options) = protocol_options(cluster) else { return };
    let socket = message_in(cluster, "transport_socket");
    let chooses = message_in(&options, "auto_config").is_some();
    let quic = socket.and_then(|socket| message_in(socket, "typed_config"));
    // A proxy of HTTP/1.1 may have QUIC inside, and nobody knows what a `TypedStruct` is.
    let has_quic = quic
        .map(type_of)
        .is_some_and(|kind| kind == QUIC || kind == PROXY_SOCKET || kind.ends_with(".TypedStruct"));
    let explicit = message_in(&options, "explicit_http_config");
    if explicit.is_some_and(|it| message_in(it, "http3_protocol_options").is_some()) && !has_quic {
        let below = [Field("typed_extension_protocol_options")];
        let sentence = "has `http3_protocol_options`, which need a `transport_socket` with QUIC";
        found.says(&below, RuleName::ALPN, sentence);
    }
    let automatic = message_in(&options, "auto_config");
    let has_cache =
        || automatic.and_then(|it| message_in(it, "alternate_protocols_cache_options")).is_some();
    if automatic.is_some_and(|it| message_in(it, "http3_protocol_options").is_some())
        && !has_cache()
    {
        let below = [Field("typed_extension_protocol_options")];
        let sentence = "has an `auto_config` with `http3_protocol_options`, which need \
                        `alternate_protocols_cache_options`";
        found.says(&below, RuleName::ALPN, sentence);
    }
    if chooses && socket.is_none() {
        let below = [Field("typed_extension_protocol_options")];
        let sentence = "has an `auto_config`, which needs a `transport_socket` with TLS";
        found.says(&below, RuleName::ALPN, sentence);
    }
}

fn http_health_check(check: &DynamicMessage, found: &mut Found<'_>) {
    for field in ["expected_statuses", "retriable_statuses"] {
        for (at, range) in messages_in(check, field).enumerate() {
            let bound = |name| value_in(range, name).and_then(Value::as_i64).unwrap_or_default();
            let (start, end) = (bound("start"), bound("end"));
            if start >= end || start < 100 || end > 600 {
                let sentence = "must be a range of statuses of HTTP: `start` is at least 100, `end` is \
                                above it, is not in the range, and is at most 600";
                found.says(&[Field(field), Index(at)], RuleName::STATUS_RANGE, sentence);
            }
        }
    }
}

fn payload(payload: &DynamicMessage, found: &mut Found<'_>) {
    let text = text_in(payload, "text");
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        found.says(&[Field("text")], RuleName::HEX, "must be bytes in hexadecimal, as in `000a`");
    }
}
