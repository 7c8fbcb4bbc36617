//! The facts in a body: the few things the core must know about bytes that it cannot read.
//!
//! A body is walked completely, through every `Any`, because a reference can stand anywhere: a
//! secret in a transport socket in a match list, a cluster in a route in a listener. The message
//! around a name decides if it is a reference, for v3 and v2 alike: those of [`references::TABLE`], and
//! clusters that wait for their endpoints. The clusters of the server of a `ConfigSource` are none,
//! because a client has to know them from its bootstrap.
//!
//! This module does not check that targets exist; [`crate::complete`] does. Names that depend on a
//! request (`cluster_header`, scoped routes, virtual hosts) are not references.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use chancery_core::{Api, Facts, Link, ResourceName, TypeUrl};
use prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};
use xxhash_rust::xxh3::xxh3_128;

use self::references::{ReferenceField, Source, Target};
use crate::walk::{message_in, text_in, texts_in, value_in, walk};
use crate::wire::fields::Fields;
use crate::{any, canonical, sensitive};

pub(crate) mod addresses;
mod references;

/// The facts of a resource of this type with this body. It is not searched for private keys, which
/// whoever has its bytes does faster (`resource`).
pub(crate) fn facts(type_url: &TypeUrl, message: &DynamicMessage) -> Facts {
    // A route configuration names the same cluster in many routes.
    let mut found = BTreeSet::new();
    let mut add = |_: &str, link| {
        found.insert(link);
    };
    let mut links = Links::new(type_url, &mut add);
    let (mut is_sensitive, mut parts) = (false, 0_u32);
    let part = parts_of(type_url.api());
    walk(message, &mut |path, message| {
        references_of(path, message, &mut links);
        parts = parts.saturating_add(u32::from(part.contains(&message.descriptor().full_name())));
        is_sensitive = is_sensitive || sensitive::withheld_by_meaning(message).is_some();
    });
    Facts {
        links: found.into_iter().map(link).collect(),
        hosts: if type_url.api() == Api::Vhds { hosts(message) } else { Vec::new() },
        addresses: addresses::of_resource(type_url, message),
        vhds: if type_url.api() == Api::Rds { vhds(message) } else { None },
        reports_to_server: is_own_server(message_in(message, LOAD_SERVER)),
        is_aggregate: is_aggregate(type_url, message),
        sensitive: is_sensitive,
        parts,
    }
}

/// Returns true for a field of a message that refers to resources of this type.
pub(crate) fn refers_to(message: &str, field: &str, api: Api) -> bool {
    references::of(message)
        .is_some_and(|row| row.field == field && matches!(row.target, Target::Api(of) if of == api))
}

/// The references that requests follow: to routes, clusters and endpoints, and not to the services that
/// a data plane may call beside them.
pub(crate) fn path_links(type_url: &TypeUrl, message: &DynamicMessage) -> Vec<Link> {
    let mut found = BTreeSet::new();
    let mut add = |_: &str, link| {
        found.insert(link);
    };
    let mut links = Links { paths_only: true, ..Links::new(type_url, &mut add) };
    walk(message, &mut |path, message| references_of(path, message, &mut links));
    found.into_iter().map(link).collect()
}

/// The paths of the fields with a reference to a resource, so many at most.
pub(crate) fn places_of(
    type_url: &TypeUrl,
    message: &DynamicMessage,
    target: (&TypeUrl, &ResourceName),
    most: usize,
) -> Vec<String> {
    let mut places = Vec::new();
    each_place(type_url, message, &mut |path, (type_url, name, _)| {
        if places.len() < most && (&type_url, &name) == target {
            places.push(path());
        }
    });
    places
}

/// The paths of all fields with references to resources of an API, with these, so many at most.
pub(crate) fn link_places(
    type_url: &TypeUrl,
    message: &DynamicMessage,
    api: Api,
    most: usize,
) -> Vec<(String, Link)> {
    let mut places = Vec::new();
    each_place(type_url, message, &mut |path, found| {
        if places.len() < most && found.0.api() == api {
            places.push((path(), link(found)));
        }
    });
    places
}

/// A type, a name, and true if the target is asked for on the same stream.
type Reference = (TypeUrl, ResourceName, bool);

/// Calls a function with each reference, and with what makes the path of its field.
fn each_place(
    type_url: &TypeUrl,
    message: &DynamicMessage,
    found: &mut dyn FnMut(&dyn Fn() -> String, Reference),
) {
    let mut api_source = None;
    walk(message, &mut |path, message| {
        let dot = if path.is_empty() { "" } else { "." };
        let mut add = |field: &str, link| found(&|| format!("{path}{dot}{field}"), link);
        let mut links = Links { api_source: api_source.take(), ..Links::new(type_url, &mut add) };
        references_of(path, message, &mut links);
        api_source = links.api_source;
    });
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
fn references_of(path: &str, message: &DynamicMessage, links: &mut Links<'_>) {
    let descriptor = message.descriptor();
    let is = descriptor.full_name();
    if let Some(row) = references::of(is) {
        if links.follows(row, path) {
            links.add_row(row, message);
        }
    } else if CLUSTERS.contains(&is) {
        load_assignment(message, links);
    } else if API_SOURCES.contains(&is) {
        links.api_source = Some(format!("{path}."));
    }
}

const CLUSTERS: [&str; 2] = ["envoy.config.cluster.v3.Cluster", "envoy.api.v2.Cluster"];

/// The sources that name a server of their own. The clusters of such a server are known to the client
/// before any server is asked, so that they are in its bootstrap.
const API_SOURCES: [&str; 2] =
    ["envoy.config.core.v3.ApiConfigSource", "envoy.api.v2.core.ApiConfigSource"];

/// The messages that name the cluster of a gRPC service, be it that of a source or another one.
const GRPC_SERVICES: [&str; 2] =
    ["envoy.config.core.v3.GrpcService.EnvoyGrpc", "envoy.api.v2.core.GrpcService.EnvoyGrpc"];

/// Adds the load assignment for which a cluster of type EDS waits.
fn load_assignment(cluster: &DynamicMessage, links: &mut Links<'_>) {
    if !is_eds(cluster) {
        return;
    }
    let Some(config) = message_in(cluster, "eds_cluster_config") else { return };
    let service = text_in(config, "service_name");
    let name = if service.is_empty() { text_in(cluster, "name") } else { service };
    let target = Target::Api(Api::Eds);
    links.add("eds_cluster_config", target, name, message_in(config, "eds_config"));
}

/// Returns true if the endpoints of a cluster are a resource of their own.
pub(crate) fn is_eds(cluster: &DynamicMessage) -> bool {
    const EDS: i32 = 3;
    value_in(cluster, "type").and_then(Value::as_enum_number) == Some(EDS)
}

/// Returns true for a cluster that aggregates others.
fn is_aggregate(type_url: &TypeUrl, cluster: &DynamicMessage) -> bool {
    const AGGREGATE: &str = "envoy.extensions.clusters.aggregate.v3.ClusterConfig";
    if type_url.api() != Api::Cds || is_v2(type_url) {
        return false;
    }
    let kind = message_in(cluster, "cluster_type").and_then(|it| message_in(it, "typed_config"));
    let url = kind.and_then(any::type_url).unwrap_or_default();
    TypeUrl::message_name_in(&url) == AGGREGATE
}

/// The references found in one body, one by one.
struct Links<'a> {
    v2: bool,
    /// True if only those count that requests follow.
    paths_only: bool,
    /// The path of the last source with a server of its own, with a dot behind it.
    api_source: Option<String>,
    /// Is called with each reference, and the field of its message.
    found: &'a mut dyn FnMut(&'static str, (TypeUrl, ResourceName, bool)),
}

impl<'a> Links<'a> {
    fn new(
        type_url: &TypeUrl,
        found: &'a mut dyn FnMut(&'static str, (TypeUrl, ResourceName, bool)),
    ) -> Self {
        Self { v2: is_v2(type_url), paths_only: false, api_source: None, found }
    }

    /// Returns true if a row counts for the message at that path.
    fn follows(&self, row: &ReferenceField, path: &str) -> bool {
        let is_of_source = || self.api_source.as_ref().is_some_and(|it| path.starts_with(it));
        (row.is_path || !self.paths_only)
            && !(GRPC_SERVICES.contains(&row.message) && is_of_source())
    }

    /// Adds the references of a message that has a row.
    fn add_row(&mut self, row: &ReferenceField, message: &DynamicMessage) {
        let source = match row.source {
            Source::Same => None,
            Source::Field(field) => Some(message_in(message, field)),
            Source::Extension(field) => {
                let Some(extension) = message_in(message, field) else { return };
                Some(message_in(extension, "config_source"))
            }
        };
        for name in names_in(message, row.field) {
            match source {
                None => self.insert(row.field, row.target, name, true),
                Some(source) => self.add(row.field, row.target, name, source),
            }
        }
    }

    /// Adds a link if its source is a server. A file gives no link.
    fn add(
        &mut self,
        field: &'static str,
        target: Target,
        name: &str,
        source: Option<&DynamicMessage>,
    ) {
        match source.map(ConfigSource::of) {
            Some(ConfigSource::Aggregated | ConfigSource::OwnServer) => {
                self.insert(field, target, name, true)
            }
            Some(ConfigSource::OtherServer) => self.insert(field, target, name, false),
            Some(ConfigSource::Elsewhere) | None => {}
        }
    }

    fn insert(&mut self, field: &'static str, target: Target, name: &str, aggregated: bool) {
        // No resource has an empty or malformed name. The client will refuse the message.
        if let (Some(type_url), Ok(name)) = (target.type_url(self.v2), ResourceName::parse(name)) {
            (self.found)(field, (type_url, name, aggregated));
        }
    }
}

/// The texts in a field, repeated or not; of a map, its keys.
fn names_in<'a>(message: &'a DynamicMessage, field: &str) -> impl Iterator<Item = &'a str> {
    let keys = match value_in(message, field) {
        Some(Value::Map(entries)) => Some(entries.keys().filter_map(MapKey::as_str)),
        _ => None,
    };
    texts_in(message, field).chain(keys.into_iter().flatten())
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
