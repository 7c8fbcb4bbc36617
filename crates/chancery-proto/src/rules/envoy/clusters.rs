//! Clusters: what their type needs, load balancing, health checks and outlier detection.

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::Below::{Field, Index};
use super::routes::number_of;
use super::{Checks, Found, addresses};
use crate::any;
use crate::rules::check::duration;
use crate::rules::name::RuleName;
use crate::walk::{list_in, message_in, messages_in, text_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.config.cluster.v3.Cluster", cluster),
    ("envoy.config.cluster.v3.OutlierDetection", outlier_detection),
    ("envoy.config.core.v3.HealthCheck.HttpHealthCheck", http_health_check),
    ("envoy.config.core.v3.HealthCheck.Payload", payload),
    ("envoy.extensions.load_balancing_policies.maglev.v3.Maglev", maglev),
    ("envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash", ring_hash),
];

/// The types of clusters, as in `Cluster.DiscoveryType`.
const STATIC: i32 = 0;
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
        provided(cluster, kind, policy, found);
    } else {
        aggregate(cluster, policy, found);
    }
    balancing(cluster, policy, found);
    health_checks(cluster, found);
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
    for (at, resolver) in messages_in(cluster, "dns_resolvers").enumerate() {
        let below = [Field("dns_resolvers"), Index(at)];
        addresses::address(&below, resolver, addresses::NOT_IP, found);
    }
    let assignment = message_in(cluster, "load_assignment");
    match (kind, assignment) {
        (STATIC, Some(assignment)) => {
            addresses::endpoints(&[Field("load_assignment")], assignment, found);
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
    let kind = message_in(cluster, "cluster_type").and_then(|it| message_in(it, "typed_config"));
    let is_aggregate = kind.is_some_and(|kind| type_of(kind) == AGGREGATE);
    if is_aggregate && policy != CLUSTER_PROVIDED {
        let sentence = "must be `CLUSTER_PROVIDED`, because the cluster is an aggregate of others";
        found.says(&[Field("lb_policy")], RuleName::LB_POLICY, sentence);
    }
}

/// The name of the type of message in an `Any`.
pub(super) fn type_of(any: &DynamicMessage) -> String {
    let url = any::type_url(any).unwrap_or_default();
    chancery_core::TypeUrl::message_name_in(&url).to_owned()
}

fn balancing(cluster: &DynamicMessage, policy: i32, found: &mut Found<'_>) {
    if policy == CLUSTER_PROVIDED && message_in(cluster, "lb_subset_config").is_some() {
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
        Some(_) => {}
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

fn ring_hash(policy: &DynamicMessage, found: &mut Found<'_>) {
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
    // The rules of the descriptors bound it, and with it this search.
    let is_prime = size > 1 && (2..).take_while(|it| it * it <= size).all(|it| size % it != 0);
    if size <= LARGEST_TABLE && !is_prime {
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

fn may_have_http2(cluster: &DynamicMessage) -> bool {
    if message_in(cluster, "http2_protocol_options").is_some() {
        return true;
    }
    let Some(options) = protocol_options(cluster) else { return false };
    let explicit = message_in(&options, "explicit_http_config");
    explicit.is_none_or(|it| message_in(it, "http_protocol_options").is_none())
}

const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// The protocol options of the cluster that is an extension.
fn protocol_options(cluster: &DynamicMessage) -> Option<DynamicMessage> {
    let options = value_in(cluster, "typed_extension_protocol_options")?.as_map()?;
    let options = options.get(&prost_reflect::MapKey::String(OPTIONS.to_owned()))?;
    let options = any::open(options.as_message()?)?;
    (options.descriptor().full_name() == OPTIONS).then_some(options)
}

/// To choose a protocol, both sides need TLS.
fn alpn(cluster: &DynamicMessage, found: &mut Found<'_>) {
    let Some(options) = protocol_options(cluster) else { return };
    let socket = message_in(cluster, "transport_socket");
    let chooses = message_in(&options, "auto_config").is_some();
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
