//! Extensions that need a configuration: Envoy finds them by its type, among those of the same kind.

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::Below::{Field, Index};
use super::clusters::type_of;
use super::{Below, Checks, Found};
use crate::rules::name::RuleName;
use crate::walk::{message_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.config.core.v3.TransportSocket", extension),
    ("envoy.config.cluster.v3.Filter", extension),
    ("envoy.config.listener.v3.Filter", extension),
    ("envoy.config.listener.v3.ListenerFilter", extension),
    ("envoy.config.accesslog.v3.AccessLog", extension),
    ("envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter", extension),
];

fn extension(message: &DynamicMessage, found: &mut Found<'_>) {
    let is_optional = value_in(message, "is_optional").and_then(Value::as_bool).unwrap_or_default();
    let is_there = ["typed_config", "config_discovery"].map(|it| message_in(message, it).is_some());
    if is_there == [false, false] && !is_optional {
        let sentence = "must have a `typed_config`: Envoy finds an extension by the type of that, and \
                        not by its name";
        found.says(&[], RuleName::EXTENSION_CONFIG, sentence);
    }
}

/// A field in which the configurations of one kind of extension stand.
pub(super) struct ExtensionPoint {
    pub(super) message: &'static str,
    field: &'static str,
    /// The beginnings of the names of the types that Envoy knows there.
    begin: &'static [&'static str],
    kind: &'static str,
}

const fn point(
    message: &'static str,
    field: &'static str,
    begin: &'static [&'static str],
    kind: &'static str,
) -> ExtensionPoint {
    ExtensionPoint { message, field, begin, kind }
}

const HTTP_FILTERS: &[&str] =
    &["envoy.extensions.filters.http.", "envoy.extensions.common.matching."];
const ROUTE_FILTERS: &[&str] = &[
    "envoy.extensions.filters.http.",
    "envoy.extensions.common.matching.",
    "envoy.config.route.v3.FilterConfig",
];
const PER_ROUTE: &str = "an HTTP filter for one route";
const COMPRESSION: &[&str] = &["envoy.extensions.compression."];

/// The fields for extensions. A field is an `Any`, an extension with its configuration, a list or a map of
/// them.
pub(super) const TYPED: &[ExtensionPoint] = &[
    point(
        "envoy.config.cluster.v3.Cluster.CustomClusterType",
        "typed_config",
        &["envoy.extensions.clusters."],
        "a type of clusters",
    ),
    point(
        "envoy.config.core.v3.TransportSocket",
        "typed_config",
        &["envoy.extensions.transport_sockets."],
        "a transport socket",
    ),
    point(
        "envoy.config.listener.v3.Filter",
        "typed_config",
        &["envoy.extensions.filters.network."],
        "a network filter",
    ),
    point(
        "envoy.config.listener.v3.ListenerFilter",
        "typed_config",
        &["envoy.extensions.filters.listener.", "envoy.extensions.filters.udp."],
        "a listener filter",
    ),
    point(
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
        "typed_config",
        HTTP_FILTERS,
        "an HTTP filter",
    ),
    point(
        "envoy.config.accesslog.v3.AccessLog",
        "typed_config",
        &["envoy.extensions.access_loggers."],
        "an access log",
    ),
    point(
        "envoy.config.trace.v3.Tracing.Http",
        "typed_config",
        &["envoy.config.trace.", "envoy.extensions.tracers."],
        "a tracer",
    ),
    point(
        "envoy.config.route.v3.RetryPolicy.RetryHostPredicate",
        "typed_config",
        &["envoy.extensions.retry.host."],
        "a predicate for hosts of retries",
    ),
    point(
        "envoy.config.route.v3.RetryPolicy.RetryPriority",
        "typed_config",
        &["envoy.extensions.retry.priority."],
        "a priority of retries",
    ),
    point(
        "envoy.config.route.v3.InternalRedirectPolicy",
        "predicates",
        &["envoy.extensions.internal_redirect."],
        "a predicate of internal redirects",
    ),
    point(
        "envoy.config.route.v3.RouteMatch",
        "path_match_policy",
        &["envoy.extensions.path.match."],
        "a match of paths",
    ),
    point(
        "envoy.config.route.v3.RouteAction",
        "path_rewrite_policy",
        &["envoy.extensions.path.rewrite."],
        "a rewrite of paths",
    ),
    point(
        "envoy.config.route.v3.ClusterSpecifierPlugin",
        "extension",
        &["envoy.extensions.router.cluster_specifier"],
        "a cluster specifier",
    ),
    point("envoy.config.route.v3.VirtualHost", "typed_per_filter_config", ROUTE_FILTERS, PER_ROUTE),
    point("envoy.config.route.v3.Route", "typed_per_filter_config", ROUTE_FILTERS, PER_ROUTE),
    point(
        "envoy.config.route.v3.RouteConfiguration",
        "typed_per_filter_config",
        ROUTE_FILTERS,
        PER_ROUTE,
    ),
    point(
        "envoy.config.route.v3.WeightedCluster.ClusterWeight",
        "typed_per_filter_config",
        ROUTE_FILTERS,
        PER_ROUTE,
    ),
    point(
        "envoy.extensions.filters.http.compressor.v3.Compressor",
        "compressor_library",
        COMPRESSION,
        "a compressor",
    ),
    point(
        "envoy.extensions.filters.http.decompressor.v3.Decompressor",
        "decompressor_library",
        COMPRESSION,
        "a decompressor",
    ),
    point(
        "envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
        "session_state",
        &["envoy.extensions.http.stateful_session."],
        "a state of sessions",
    ),
    point(
        MANAGER,
        "original_ip_detection_extensions",
        &["envoy.extensions.http."],
        "a detection of IPs",
    ),
    point(
        MANAGER,
        "early_header_mutation_extensions",
        &["envoy.extensions.http.early_header_mutation."],
        "an early mutation of headers",
    ),
];

const MANAGER: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

/// Checks the types of the extensions in a message. Types that Chancery does not know may be those of
/// somebody's own extension, and a `TypedStruct` stands for any type.
pub(super) fn types(message: &DynamicMessage, found: &mut Found<'_>) {
    // Envoy leaves out what is optional if it does not know it.
    if value_in(message, "is_optional").and_then(Value::as_bool) == Some(true) {
        return;
    }
    let name = message.descriptor().full_name().to_owned();
    for point in TYPED.iter().filter(|point| point.message == name) {
        match value_in(message, point.field) {
            Some(Value::Message(one)) => typed(one, &[Field(point.field)], point, found),
            Some(Value::List(items)) => {
                for (at, item) in items.iter().enumerate() {
                    if let Value::Message(item) = item {
                        typed(item, &[Field(point.field), Index(at)], point, found);
                    }
                }
            }
            Some(Value::Map(entries)) => {
                let items = entries.values().filter_map(Value::as_message);
                items.for_each(|item| typed(item, &[Field(point.field)], point, found));
            }
            _ => {}
        }
    }
}

fn typed(message: &DynamicMessage, at: &[Below], point: &ExtensionPoint, found: &mut Found<'_>) {
    let (any, below) = match message_in(message, "typed_config") {
        Some(any) => (any, [at, &[Field("typed_config")]].concat()),
        None => (message, at.to_vec()),
    };
    let kind = type_of(any);
    let is_known = any.descriptor().parent_pool().get_message_by_name(&kind).is_some();
    let is_any_kind = kind.ends_with(".TypedStruct");
    if is_known && !is_any_kind && !point.begin.iter().any(|begin| kind.starts_with(begin)) {
        found.broken(&below, RuleName::EXTENSION_TYPE, || {
            format!("must be {}, and `{kind}` is none", point.kind)
        });
    }
}
