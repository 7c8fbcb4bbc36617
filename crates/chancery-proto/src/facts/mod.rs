//! The facts in a body: the few things the core must know about bytes that it cannot read.
//!
//! A body is walked completely, through every `Any`, because a reference can stand anywhere: a
//! secret in a transport socket in a match list, a cluster in a route in a listener. The message
//! around a name decides if it is a reference, for v3 and v2 alike: [`SOURCED`], [`NAMED`] and two
//! more.
//!
//! This module does not check that targets exist; [`crate::complete`] does. Names that depend on a
//! request (`cluster_header`, scoped routes, virtual hosts) are not references.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use chancery_core::{Api, Facts, Link, ResourceName, TypeUrl};
use prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value,
};
use xxhash_rust::xxh3::xxh3_128;

use crate::walk::{message_in, text_in, texts_in, value_in, walk};
use crate::wire::fields::Fields;
use crate::{canonical, sensitive};

/// The facts of a resource of this type with this body. It is not searched for private keys, which
/// whoever has its bytes does faster (`resource`).
pub(crate) fn facts(type_url: &TypeUrl, message: &DynamicMessage) -> Facts {
    let mut links = Links { v2: is_v2(type_url), found: BTreeSet::new() };
    let (mut is_sensitive, mut parts) = (false, 0_u32);
    let part = parts_of(type_url.api());
    walk(message, &mut |_, message| {
        reference(message, &mut links);
        parts = parts.saturating_add(u32::from(part.contains(&message.descriptor().full_name())));
        is_sensitive = is_sensitive || sensitive::withheld_by_meaning(message).is_some();
    });
    Facts {
        links: links.found.into_iter().map(link).collect(),
        hosts: if type_url.api() == Api::Vhds { hosts(message) } else { Vec::new() },
        vhds: if type_url.api() == Api::Rds { vhds(message) } else { None },
        reports_to_server: is_own_server(message_in(message, LOAD_SERVER)),
        sensitive: is_sensitive,
        parts,
    }
}

/// The messages whose number says how much a client loses with a resource of this API. A locality
/// whose endpoints come from elsewhere counts as one of them.
fn parts_of(api: Api) -> &'static [&'static str] {
    match api {
        Api::Cds | Api::Eds => &ENDPOINTS,
        Api::Lds | Api::Rds | Api::Vhds => &ROUTES,
        _ => &[],
    }
}

const ENDPOINTS: [&str; 3] = [
    "envoy.config.endpoint.v3.LbEndpoint",
    "envoy.config.endpoint.v3.LedsClusterLocalityConfig",
    "envoy.api.v2.endpoint.LbEndpoint",
];

const ROUTES: [&str; 2] = ["envoy.config.route.v3.Route", "envoy.api.v2.route.Route"];

/// The reader of the facts that the client's machine needs about bodies of one type. These are
/// fewer than the server's, so bodies are neither walked nor decoded as a whole.
#[derive(Clone, Debug)]
pub(crate) struct ClientFacts {
    /// The field in which a cluster names the server for its load reports.
    load_server: Option<FieldDescriptor>,
}

impl ClientFacts {
    /// Creates the reader for a type. `None` stands for an unknown type.
    pub(crate) fn new(descriptor: Option<&MessageDescriptor>) -> Self {
        Self { load_server: descriptor.and_then(|it| it.get_field_by_name(LOAD_SERVER)) }
    }

    /// The facts of a body. For bytes that are not of the type the result is arbitrary.
    pub(crate) fn of(&self, body: &[u8]) -> Facts {
        let source = self.load_server.as_ref().and_then(|field| message_at(field, body));
        Facts { reports_to_server: is_own_server(source.as_ref()), ..Facts::default() }
    }
}

/// Decodes the message in one field of a body.
fn message_at(field: &FieldDescriptor, body: &[u8]) -> Option<DynamicMessage> {
    let Kind::Message(descriptor) = field.kind() else { return None };
    let mut found: Option<DynamicMessage> = None;
    let mut fields = Fields(body);
    while let Some((number, value)) = fields.next().ok()? {
        if number == field.number() {
            // Protobuf merges a message field that occurs twice.
            let message = found.get_or_insert_with(|| DynamicMessage::new(descriptor.clone()));
            message.merge(value).ok()?;
        }
    }
    found
}

/// The field of clusters, v3 and v2, that names the server for load reports
/// ([C-082](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md)).
pub(crate) const LOAD_SERVER: &str = "lrs_server";

fn is_own_server(source: Option<&DynamicMessage>) -> bool {
    source.map(ConfigSource::of) == Some(ConfigSource::OwnServer)
}

/// Returns true for types of v2.
pub(crate) fn is_v2(type_url: &TypeUrl) -> bool {
    let name = type_url.message_name();
    name.starts_with("envoy.api.v2.") || name.starts_with("envoy.service.discovery.v2.")
}

/// Adds the references of this one message. Messages inside of it are visited separately.
fn reference(message: &DynamicMessage, links: &mut Links) {
    let descriptor = message.descriptor();
    let is = descriptor.full_name();
    if let Some((_, api, name, source)) = SOURCED.iter().find(|(known, ..)| *known == is) {
        links.add(*api, text_in(message, name), message, source);
    } else if let Some((_, api, name)) = NAMED.iter().find(|(known, ..)| *known == is) {
        for name in texts_in(message, name) {
            links.insert(*api, name, true);
        }
    } else if CLUSTERS.contains(&is) {
        load_assignment(message, links);
    } else {
        extension_config(message, links);
    }
}

const CLUSTERS: [&str; 2] = ["envoy.config.cluster.v3.Cluster", "envoy.api.v2.Cluster"];

/// Messages that name a resource and its source: the message, the API of the target, the field with
/// the name, the field with the source.
static SOURCED: [(&str, Api, &str, &str); 5] = [
    (
        "envoy.config.endpoint.v3.LedsClusterLocalityConfig",
        Api::Leds,
        "leds_collection_name",
        "leds_config",
    ),
    ("envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig", Api::Sds, "name", "sds_config"),
    ("envoy.api.v2.auth.SdsSecretConfig", Api::Sds, "name", "sds_config"),
    (
        "envoy.extensions.filters.network.http_connection_manager.v3.Rds",
        Api::Rds,
        "route_config_name",
        "config_source",
    ),
    (
        "envoy.config.filter.network.http_connection_manager.v2.Rds",
        Api::Rds,
        "route_config_name",
        "config_source",
    ),
];

/// Messages that name resources and nothing else: the message, the API of the targets, the field.
/// For scoped routes, the listener with the scopes states the source of the routes.
static NAMED: [(&str, Api, &str); 19] = [
    ("envoy.config.route.v3.RouteAction", Api::Cds, "cluster"),
    ("envoy.config.route.v3.RouteAction.RequestMirrorPolicy", Api::Cds, "cluster"),
    ("envoy.config.route.v3.WeightedCluster.ClusterWeight", Api::Cds, "name"),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", Api::Cds, "cluster"),
    (
        "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight",
        Api::Cds,
        "name",
    ),
    ("envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig", Api::Cds, "cluster"),
    ("envoy.extensions.filters.udp.udp_proxy.v3.Route", Api::Cds, "cluster"),
    ("envoy.extensions.filters.network.thrift_proxy.v3.RouteAction", Api::Cds, "cluster"),
    (
        "envoy.extensions.filters.network.thrift_proxy.v3.WeightedCluster.ClusterWeight",
        Api::Cds,
        "name",
    ),
    (
        "envoy.extensions.filters.network.redis_proxy.v3.RedisProxy.PrefixRoutes.Route",
        Api::Cds,
        "cluster",
    ),
    ("envoy.extensions.clusters.aggregate.v3.ClusterConfig", Api::Cds, "clusters"),
    ("envoy.config.route.v3.ScopedRouteConfiguration", Api::Rds, "route_configuration_name"),
    ("envoy.api.v2.route.RouteAction", Api::Cds, "cluster"),
    ("envoy.api.v2.route.RouteAction.RequestMirrorPolicy", Api::Cds, "cluster"),
    ("envoy.api.v2.route.WeightedCluster.ClusterWeight", Api::Cds, "name"),
    ("envoy.config.filter.network.tcp_proxy.v2.TcpProxy", Api::Cds, "cluster"),
    (
        "envoy.config.filter.network.tcp_proxy.v2.TcpProxy.WeightedCluster.ClusterWeight",
        Api::Cds,
        "name",
    ),
    ("envoy.config.cluster.aggregate.v2alpha.ClusterConfig", Api::Cds, "clusters"),
    ("envoy.api.v2.ScopedRouteConfiguration", Api::Rds, "route_configuration_name"),
];

/// Adds the load assignment for which a cluster of type EDS waits.
fn load_assignment(cluster: &DynamicMessage, links: &mut Links) {
    if !is_eds(cluster) {
        return;
    }
    let Some(config) = message_in(cluster, "eds_cluster_config") else { return };
    let service = text_in(config, "service_name");
    let name = if service.is_empty() { text_in(cluster, "name") } else { service };
    links.add(Api::Eds, name, config, "eds_config");
}

/// Returns true if the endpoints of a cluster are a resource of their own.
pub(crate) fn is_eds(cluster: &DynamicMessage) -> bool {
    const EDS: i32 = 3;
    value_in(cluster, "type").and_then(Value::as_enum_number) == Some(EDS)
}

/// Adds the extension of a filter that says `config_discovery`: it comes from ECDS under the name
/// of the filter.
fn extension_config(message: &DynamicMessage, links: &mut Links) {
    if let Some(discovery) = message_in(message, "config_discovery")
        && discovery.descriptor().full_name() == "envoy.config.core.v3.ExtensionConfigSource"
    {
        links.add(Api::Ecds, text_in(message, "name"), discovery, "config_source");
    }
}

/// The links found so far, each once. A route configuration names the same cluster in many routes.
struct Links {
    v2: bool,
    found: BTreeSet<(TypeUrl, ResourceName, bool)>,
}

impl Links {
    /// Adds a link if `source`, a field of `message`, names a server. A file gives no link.
    fn add(&mut self, api: Api, name: &str, message: &DynamicMessage, source: &str) {
        match message_in(message, source).map(ConfigSource::of) {
            Some(ConfigSource::Aggregated | ConfigSource::OwnServer) => {
                self.insert(api, name, true)
            }
            Some(ConfigSource::OtherServer) => self.insert(api, name, false),
            Some(ConfigSource::Elsewhere) | None => {}
        }
    }

    fn insert(&mut self, api: Api, name: &str, aggregated: bool) {
        // No resource has an empty or malformed name. The client will refuse the message.
        if let (Some(type_url), Ok(name)) = (type_of(api, self.v2), ResourceName::parse(name)) {
            self.found.insert((type_url, name, aggregated));
        }
    }
}

fn link((type_url, name, aggregated): (TypeUrl, ResourceName, bool)) -> Link {
    Link { type_url, name, aggregated }
}

/// The type of an API in v3 or v2; v2 lacks some.
pub(crate) fn type_of(api: Api, v2: bool) -> Option<TypeUrl> {
    static KNOWN: LazyLock<Vec<TypeUrl>> = LazyLock::new(|| TypeUrl::known().collect());
    KNOWN.iter().find(|type_url| type_url.api() == api && is_v2(type_url) == v2).cloned()
}

/// The source of a resource, according to a `ConfigSource`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigSource {
    /// `ads`: the aggregated stream.
    Aggregated,
    /// `self`: the server that sent the message with this source.
    OwnServer,
    /// `api_config_source`: a stream of its own, perhaps of another server.
    OtherServer,
    /// A file, or no source at all.
    Elsewhere,
}

impl ConfigSource {
    /// Reads a `ConfigSource` of v3 or v2.
    pub(crate) fn of(source: &DynamicMessage) -> Self {
        if source.has_field_by_name("ads") {
            Self::Aggregated
        } else if source.has_field_by_name("self") {
            Self::OwnServer
        } else if source.has_field_by_name("api_config_source") {
            Self::OtherServer
        } else {
            Self::Elsewhere
        }
    }
}

/// The domains of a virtual host
/// ([S-092](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
fn hosts(virtual_host: &DynamicMessage) -> Vec<Box<str>> {
    texts_in(virtual_host, "domains").map(Box::from).collect()
}

/// A digest of the `vhds` field of a route configuration
/// ([S-094](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
fn vhds(route_configuration: &DynamicMessage) -> Option<u128> {
    Some(xxh3_128(&canonical::encode(message_in(route_configuration, "vhds")?)))
}

#[cfg(test)]
mod tests;
