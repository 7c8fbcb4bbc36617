//! The fields that refer to other resources, by the message they are in.
//!
//! Every text of the bundled descriptors that may name a resource is in [`TABLE`], or in the list of
//! those that do not (`tests/not_references.rs`), which the tests hold to. A `Cluster` that waits for
//! its endpoints is no row: the name comes from elsewhere than the source (`facts`).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use chancery_core::{Api, TypeUrl};
use xxhash_rust::xxh3::xxh3_64;

/// A field that refers to other resources.
#[derive(Debug)]
pub(super) struct ReferenceField {
    /// The full name of the message.
    pub(super) message: &'static str,
    /// The field with the name, or the names. Of a map, the keys are the names.
    pub(super) field: &'static str,
    pub(super) target: Target,
    pub(super) source: Source,
    /// True if requests go this way, or the way is found by it: what a data plane of gRPC follows. The
    /// other clusters are those of services that Envoy itself calls.
    pub(super) is_path: bool,
}

/// The type that a reference leads to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A type of xDS, of v3 or v2 like the resource with the reference.
    Api(Api),
    /// A type that is none of these, by the name of its message.
    Message(&'static str),
}

/// The source of the target.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// The server that all resources of the type come from: there is no field that says so.
    Same,
    /// The `ConfigSource` in this field.
    Field(&'static str),
    /// That in the `ExtensionConfigSource` in this field, if it is set.
    Extension(&'static str),
}

impl Target {
    /// The type for a resource of v2, or of v3. v2 lacks some.
    pub(super) fn type_url(self, v2: bool) -> Option<TypeUrl> {
        match self {
            Self::Api(api) => super::type_of(api, v2),
            Self::Message(name) => Some(TypeUrl::new(name)),
        }
    }
}

/// The row for a message, if it refers to anything.
pub(super) fn of(message: &str) -> Option<&'static ReferenceField> {
    static BY_MESSAGE: LazyLock<
        HashMap<&str, &'static ReferenceField, BuildHasherDefault<NameHasher>>,
    > = LazyLock::new(|| TABLE.iter().map(|row| (row.message, row)).collect());
    BY_MESSAGE.get(message).copied()
}

/// A hasher for the names of messages, of which one is looked up for each message that is loaded. The
/// names that it stores are those of the table, so nobody can choose names that collide.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.rotate_left(5) ^ xxh3_64(bytes);
    }

    fn write_u8(&mut self, _: u8) {
        // The end of a text: each name is hashed alone.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A cluster that requests go to.
const fn path(message: &'static str, field: &'static str) -> ReferenceField {
    let (target, source) = (Target::Api(Api::Cds), Source::Same);
    ReferenceField { message, field, target, source, is_path: true }
}

/// A cluster of a service that Envoy itself calls, or looks at.
const fn called(message: &'static str, field: &'static str) -> ReferenceField {
    ReferenceField { is_path: false, ..path(message, field) }
}

/// A resource of another type, from the source in a field.
const fn from(
    message: &'static str,
    field: &'static str,
    target: Target,
    source: &'static str,
) -> ReferenceField {
    ReferenceField { message, field, target, source: Source::Field(source), is_path: true }
}

/// A filter that may come from ECDS, under its own name.
const fn filter(message: &'static str) -> ReferenceField {
    let (target, source) = (Target::Api(Api::Ecds), Source::Extension("config_discovery"));
    ReferenceField { message, field: "name", target, source, is_path: true }
}

/// A resource of another type, from the same server.
const fn to(message: &'static str, field: &'static str, api: Api) -> ReferenceField {
    ReferenceField { target: Target::Api(api), ..path(message, field) }
}

/// The fields that refer to other resources. A message has one row at most. For scoped routes, the
/// listener with the scopes states the source of the routes.
pub(super) static TABLE: &[ReferenceField] = &[
    // Clusters of routes and proxies.
    path("envoy.config.route.v3.RouteAction", "cluster"),
    path("envoy.config.route.v3.RouteAction.RequestMirrorPolicy", "cluster"),
    path("envoy.config.route.v3.WeightedCluster.ClusterWeight", "name"),
    path("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "cluster"),
    path(
        "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight",
        "name",
    ),
    path("envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig", "cluster"),
    path("envoy.extensions.filters.udp.udp_proxy.v3.Route", "cluster"),
    path("envoy.extensions.filters.network.thrift_proxy.v3.RouteAction", "cluster"),
    path("envoy.extensions.filters.network.thrift_proxy.v3.WeightedCluster.ClusterWeight", "name"),
    path(
        "envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.PrefixRoutes.Route",
        "cluster",
    ),
    path(
        "envoy.extensions.router.cluster_specifiers.priority_group.v3.ClusterWeight",
        "cluster_name",
    ),
    path("envoy.extensions.clusters.aggregate.v3.ClusterConfig", "clusters"),
    called(
        "envoy.extensions.filters.network.thrift_proxy.v3.RouteAction.RequestMirrorPolicy",
        "cluster",
    ),
    called(
        "envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.PrefixRoutes.Route.RequestMirrorPolicy",
        "cluster",
    ),
    called(
        "envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.PrefixRoutes.Route.ReadCommandPolicy",
        "cluster",
    ),
    called("envoy.extensions.filters.network.dubbo_proxy.v3.RouteAction", "cluster"),
    called("envoy.extensions.filters.network.generic_proxy.action.v3.RouteAction", "cluster"),
    called("envoy.extensions.filters.network.rocketmq_proxy.v3.RouteAction", "cluster"),
    called("envoy.extensions.filters.network.sip_proxy.v3alpha.RouteAction", "cluster"),
    called("envoy.extensions.router.cluster_specifiers.lua.v3.LuaConfig", "default_cluster"),
    called("envoy.extensions.router.cluster_specifiers.matcher.v3.ClusterAction", "cluster"),
    called("envoy.extensions.clusters.composite.v3.ClusterConfig.ClusterEntry", "name"),
    called("envoy.extensions.clusters.mcp_multicluster.v3.ClusterConfig.McpCluster", "cluster"),
    called("envoy.extensions.filters.http.mcp_router.v3.McpRouter.McpCluster", "cluster"),
    called("envoy.extensions.filters.http.cache_v2.v3.CacheV2Config", "override_upstream_cluster"),
    // Clusters of services: authorization, rate limits, tokens, keys, access logs, tracing, code.
    called("envoy.config.core.v3.HttpUri", "cluster"),
    called("envoy.config.core.v3.GrpcService.EnvoyGrpc", "cluster_name"),
    called("envoy.config.trace.v3.DatadogConfig", "collector_cluster"),
    called("envoy.config.trace.v3.LightstepConfig", "collector_cluster"),
    called("envoy.config.trace.v3.ZipkinConfig", "collector_cluster"),
    called("envoy.extensions.tracers.fluentd.v3.FluentdConfig", "cluster"),
    called("envoy.extensions.access_loggers.fluentd.v3.FluentdAccessLogConfig", "cluster"),
    called("envoy.extensions.filters.http.gcp_authn.v3.GcpAuthnFilterConfig", "cluster"),
    called("envoy.extensions.filters.http.squash.v3.Squash", "cluster"),
    called("envoy.extensions.filters.network.client_ssl_auth.v3.ClientSSLAuth", "auth_api_cluster"),
    called("envoy.data.dns.v3.DnsTable.DnsServiceTarget", "cluster_name"),
    called("envoy.data.dns.v3.DnsTable.DnsEndpoint", "cluster_name"),
    called(
        "envoy.extensions.filters.http.health_check.v3.HealthCheck",
        "cluster_min_healthy_percentages",
    ),
    // Other types.
    to("envoy.config.route.v3.ScopedRouteConfiguration", "route_configuration_name", Api::Rds),
    to("envoy.config.core.v3.EnvoyInternalAddress", "server_listener_name", Api::Lds),
    from(
        "envoy.config.endpoint.v3.LedsClusterLocalityConfig",
        "leds_collection_name",
        Target::Api(Api::Leds),
        "leds_config",
    ),
    from(
        "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig",
        "name",
        Target::Api(Api::Sds),
        "sds_config",
    ),
    from(
        "envoy.extensions.transport_sockets.tls.cert_selectors.on_demand_secret.v3.Config",
        "prefetch_secret_names",
        Target::Api(Api::Sds),
        "config_source",
    ),
    from(
        "envoy.extensions.filters.network.http_connection_manager.v3.Rds",
        "route_config_name",
        Target::Api(Api::Rds),
        "config_source",
    ),
    from(
        "envoy.extensions.filters.network.thrift_proxy.v3.Trds",
        "route_config_name",
        Target::Message("envoy.extensions.filters.network.thrift_proxy.v3.RouteConfiguration"),
        "config_source",
    ),
    from(
        "envoy.extensions.filters.network.dubbo_proxy.v3.Drds",
        "route_config_name",
        Target::Message(
            "envoy.extensions.filters.network.dubbo_proxy.v3.MultipleRouteConfiguration",
        ),
        "config_source",
    ),
    from(
        "envoy.extensions.filters.network.generic_proxy.v3.GenericRds",
        "route_config_name",
        Target::Message("envoy.extensions.filters.network.generic_proxy.v3.RouteConfiguration"),
        "config_source",
    ),
    from(
        "envoy.extensions.access_loggers.filters.process_ratelimit.v3.DynamicTokenBucket",
        "resource_name",
        Target::Message("envoy.type.v3.TokenBucket"),
        "config_source",
    ),
    filter("envoy.config.listener.v3.Filter"),
    filter("envoy.config.listener.v3.ListenerFilter"),
    filter("envoy.config.cluster.v3.Filter"),
    filter("envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"),
    filter("envoy.extensions.filters.http.composite.v3.DynamicConfig"),
    filter("envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.SessionFilter"),
    // v2.
    path("envoy.api.v2.route.RouteAction", "cluster"),
    path("envoy.api.v2.route.RouteAction.RequestMirrorPolicy", "cluster"),
    path("envoy.api.v2.route.WeightedCluster.ClusterWeight", "name"),
    path("envoy.config.filter.network.tcp_proxy.v2.TcpProxy", "cluster"),
    path("envoy.config.filter.network.tcp_proxy.v2.TcpProxy.WeightedCluster.ClusterWeight", "name"),
    path("envoy.config.cluster.aggregate.v2alpha.ClusterConfig", "clusters"),
    called("envoy.config.filter.network.tcp_proxy.v2.TcpProxy.DeprecatedV1.TCPRoute", "cluster"),
    called("envoy.config.filter.network.thrift_proxy.v2alpha1.RouteAction", "cluster"),
    called(
        "envoy.config.filter.network.thrift_proxy.v2alpha1.WeightedCluster.ClusterWeight",
        "name",
    ),
    called("envoy.config.filter.network.dubbo_proxy.v2alpha1.RouteAction", "cluster"),
    called("envoy.config.filter.network.redis_proxy.v2.RedisProxy", "cluster"),
    called(
        "envoy.config.filter.network.redis_proxy.v2.RedisProxy.PrefixRoutes",
        "catch_all_cluster",
    ),
    called("envoy.config.filter.network.redis_proxy.v2.RedisProxy.PrefixRoutes.Route", "cluster"),
    called(
        "envoy.config.filter.network.redis_proxy.v2.RedisProxy.PrefixRoutes.Route.RequestMirrorPolicy",
        "cluster",
    ),
    called("envoy.config.filter.udp.udp_proxy.v2alpha.UdpProxyConfig", "cluster"),
    called("envoy.api.v2.core.HttpUri", "cluster"),
    called("envoy.api.v2.core.GrpcService.EnvoyGrpc", "cluster_name"),
    called("envoy.config.trace.v2.DatadogConfig", "collector_cluster"),
    called("envoy.config.trace.v2.LightstepConfig", "collector_cluster"),
    called("envoy.config.trace.v2.ZipkinConfig", "collector_cluster"),
    called("envoy.config.filter.http.squash.v2.Squash", "cluster"),
    called("envoy.config.filter.network.client_ssl_auth.v2.ClientSSLAuth", "auth_api_cluster"),
    called(
        "envoy.config.filter.http.health_check.v2.HealthCheck",
        "cluster_min_healthy_percentages",
    ),
    to("envoy.api.v2.ScopedRouteConfiguration", "route_configuration_name", Api::Rds),
    from("envoy.api.v2.auth.SdsSecretConfig", "name", Target::Api(Api::Sds), "sds_config"),
    from(
        "envoy.config.filter.network.http_connection_manager.v2.Rds",
        "route_config_name",
        Target::Api(Api::Rds),
        "config_source",
    ),
];
