//! The facts in bodies of every type, v3 and v2.

use serde::de::DeserializeSeed;

use self::not_references::NOT_REFERENCES;

use super::*;
use crate::schema::Schema;

mod not_references;

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "envoy.config.listener.v3.Listener";
const ROUTES: &str = "envoy.config.route.v3.RouteConfiguration";
const HCM: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.\
     HttpConnectionManager";

fn facts_of(type_name: &str, json: &serde_json::Value) -> Facts {
    let descriptor = Schema::bundled().message(type_name).unwrap();
    facts(&TypeUrl::new(type_name), &descriptor.deserialize(json).unwrap())
}

/// The links in short form: `cds a` for an aggregated one, `eds b elsewhere` for another.
fn links(type_name: &str, json: &serde_json::Value) -> Vec<String> {
    let short = |link: &Link| {
        let elsewhere = if link.aggregated { "" } else { " elsewhere" };
        format!("{} {}{elsewhere}", link.type_url.short(), link.name)
    };
    facts_of(type_name, json).links.iter().map(short).collect()
}

fn ads() -> serde_json::Value {
    serde_json::json!({"ads": {}})
}

#[test]
fn every_field_that_is_looked_for_exists() {
    let schema = Schema::bundled();
    let mut messages = BTreeSet::new();
    for row in references::TABLE {
        assert!(messages.insert(row.message), "{} has two rows", row.message);
        let message = schema.message(row.message).expect(row.message);
        for field in source_field(row.source).into_iter().chain([row.field]) {
            assert!(message.get_field_by_name(field).is_some(), "{} {field}", row.message);
        }
        if let Target::Message(name) = row.target {
            assert!(schema.message(name).is_some(), "{name}");
        }
        assert!(references::of(row.message).is_some_and(|found| found.message == row.message));
    }
    let names = CLUSTERS.iter().chain(&API_SOURCES).chain(&GRPC_SERVICES);
    names.for_each(|name| assert!(schema.message(name).is_some(), "{name}"));
}

/// Newer descriptors may bring a field that names a resource. Somebody has to say then if it is a
/// reference.
#[test]
fn every_field_that_may_name_a_resource_is_known_to_be_a_reference_or_not() {
    let mut unknown = Vec::new();
    let none: BTreeSet<_> =
        NOT_REFERENCES.iter().flat_map(|(_, fields)| *fields).copied().collect();
    let mut unused = none.clone();
    for message in Schema::bundled().pool().all_messages().filter(|it| !it.is_map_entry()) {
        let row = references::of(message.full_name());
        for field in message.fields().filter(|field| may_name_a_resource(&message, field)) {
            let is_in = |row: &ReferenceField| {
                row.field == field.name() || source_field(row.source) == Some(field.name())
            };
            let name = format!("{} {}", message.full_name(), field.name());
            unused.remove(name.as_str());
            if row.is_some_and(is_in) == none.contains(name.as_str()) {
                unknown.push(name);
            }
        }
    }
    assert!(
        unknown.is_empty() && unused.is_empty(),
        "neither a row of `facts/references.rs` nor in `facts/tests/not_references.rs`, or both: \
         {unknown:#?}; in that list and no field: {unused:#?}"
    );
}

/// The field that says where a target comes from, if there is one.
fn source_field(source: Source) -> Option<&'static str> {
    match source {
        Source::Same => None,
        Source::Field(field) | Source::Extension(field) => Some(field),
    }
}

/// Returns true for the fields that look like references: by their names, as names of messages that
/// are about resources, or as a source.
fn may_name_a_resource(message: &MessageDescriptor, field: &FieldDescriptor) -> bool {
    const FIELDS: [&str; 11] = [
        "cluster",
        "listener",
        "secret",
        "route_config",
        "endpoint",
        "virtual_host",
        "scope",
        "vhost",
        "upstream_name",
        "config_name",
        "collection",
    ];
    const MESSAGES: [&str; 8] = [
        "cluster",
        "listener",
        "secret",
        "routeconfig",
        "endpoint",
        "vhost",
        "virtualhost",
        "extension",
    ];
    let of_message = message.name().to_lowercase();
    match field.kind() {
        Kind::Message(kind) if !kind.is_map_entry() => {
            ["ConfigSource", "ExtensionConfigSource"].contains(&kind.name())
        }
        Kind::Message(entry) => {
            let is_text = entry.fields().any(|field| field.kind() == Kind::String);
            is_text && FIELDS.iter().any(|word| field.name().contains(word))
        }
        Kind::String => {
            FIELDS.iter().any(|word| field.name().contains(word))
                || (["name", "names"].contains(&field.name())
                    && MESSAGES.iter().any(|word| of_message.contains(word)))
        }
        _ => false,
    }
}

#[test]
fn services_that_filters_call_are_references() {
    let grpc = |cluster: &str| serde_json::json!({"envoyGrpc": {"clusterName": cluster}});
    let log = serde_json::json!({"name": "log", "typedConfig": {
        "@type": "type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
        "commonConfig": {"logName": "l", "grpcService": grpc("logs")}}});
    let authz = |service: serde_json::Value| {
        let url = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";
        let mut config = serde_json::json!({"@type": url});
        config.as_object_mut().unwrap().extend(service.as_object().unwrap().clone());
        serde_json::json!({"name": "authz", "typedConfig": config})
    };
    let uri = serde_json::json!({"uri": "http://a", "cluster": "http", "timeout": "1s"});
    let hcm = serde_json::json!({"@type": HCM, "accessLog": [log],
        "rds": {"routeConfigName": "r", "configSource":
            {"apiConfigSource": {"apiType": "GRPC", "grpcServices": [grpc("xds")]}}},
        "httpFilters": [authz(serde_json::json!({"grpcService": grpc("grpc")})),
            authz(serde_json::json!({"httpService": {"serverUri": uri}}))]});
    let listener = serde_json::json!({"name": "l", "filterChains":
        [{"filters": [{"name": "f", "typedConfig": hcm}]}]});
    let found = links(LISTENER, &listener);
    assert_eq!(found, ["cds grpc", "cds http", "cds logs", "rds r elsewhere"]);
    let descriptor = Schema::bundled().message(LISTENER).unwrap();
    let message: DynamicMessage = descriptor.deserialize(&listener).unwrap();
    let followed = path_links(&TypeUrl::new(LISTENER), &message);
    assert_eq!(followed.len(), 1, "gRPC follows routes alone: {followed:?}");
}

#[test]
fn a_source_in_front_of_a_service_does_not_hide_it() {
    let grpc = |cluster: &str| serde_json::json!({"envoyGrpc": {"clusterName": cluster}});
    let source = serde_json::json!({"apiConfigSource": {"grpcServices": [grpc("xds")]}});
    let lrs = serde_json::json!({"name": "a", "type": "EDS", "lrsServer": source,
        "edsClusterConfig": {"edsConfig": source}, "healthChecks": [{"eventLogger": [{"name": "x",
        "typedConfig": {"@type":
            "type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig",
            "grpcService": grpc("logs")}}]}]});
    assert_eq!(links(CLUSTER, &lrs), ["cds logs", "eds a elsewhere"]);
}

#[test]
fn the_places_of_a_reference_are_paths() {
    let route = |cluster: &str| {
        serde_json::json!({"match": {"prefix": "/"},
        "route": {"cluster": cluster}})
    };
    let host = serde_json::json!({"name": "v", "domains": ["*"],
        "routes": [route("a"), route("b"), route("a")]});
    let routes = serde_json::json!({"name": "r", "virtualHosts": [host]});
    let url = TypeUrl::new(ROUTES);
    let message: DynamicMessage =
        Schema::bundled().message(ROUTES).unwrap().deserialize(&routes).unwrap();
    let cds = TypeUrl::new(CLUSTER);
    let target = (&cds, &"a".parse().unwrap());
    let first = "virtual_hosts[0].routes[0].route.cluster";
    let both = [first, "virtual_hosts[0].routes[2].route.cluster"];
    assert_eq!(places_of(&url, &message, target, 9), both);
    assert_eq!(places_of(&url, &message, target, 1), [first]);
    let all = link_places(&url, &message, Api::Cds, 9);
    let all: Vec<_> = all.iter().map(|(path, link)| (&**path, link.name.as_str())).collect();
    let second = "virtual_hosts[0].routes[1].route.cluster";
    assert_eq!(all, [(first, "a"), (second, "b"), (both[1], "a")]);
    assert_eq!(link_places(&url, &message, Api::Cds, 1).len(), 1);
    assert_eq!(link_places(&url, &message, Api::Eds, 9).len(), 0);
    let cluster = serde_json::json!({"name": "a", "type": "EDS", "edsClusterConfig":
        {"edsConfig": ads()}});
    let message: DynamicMessage =
        Schema::bundled().message(CLUSTER).unwrap().deserialize(&cluster).unwrap();
    let eds = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
    let target = (&eds, &"a".parse().unwrap());
    assert_eq!(places_of(&cds, &message, target, 9), ["eds_cluster_config"]);
}

#[test]
fn a_cluster_waits_for_its_load_assignment() {
    // S-099, S-101
    let cluster = |config: serde_json::Value| serde_json::json!({"name": "a", "type": "EDS", "edsClusterConfig": config});
    let of = |config| links(CLUSTER, &cluster(config));
    assert_eq!(of(serde_json::json!({"edsConfig": ads()})), ["eds a"]);
    assert_eq!(of(serde_json::json!({"edsConfig": {"self": {}}, "serviceName": "b"})), ["eds b"]);
    let api = serde_json::json!({"apiConfigSource": {"apiType": "GRPC"}});
    assert_eq!(of(serde_json::json!({"edsConfig": api})), ["eds a elsewhere"]);
    let file = serde_json::json!({"pathConfigSource": {"path": "/a"}});
    assert!(of(serde_json::json!({"edsConfig": file})).is_empty());
    let fixed = serde_json::json!({"name": "a", "type": "STATIC", "edsClusterConfig":
        {"edsConfig": ads()}});
    assert!(links(CLUSTER, &fixed).is_empty());
    let old = serde_json::json!({"name": "a", "type": "EDS", "edsClusterConfig":
        {"edsConfig": ads()}});
    let old = facts_of("envoy.api.v2.Cluster", &old);
    assert_eq!(old.links[0].type_url, TypeUrl::new("envoy.api.v2.ClusterLoadAssignment"));
}

#[test]
fn secrets_are_found_wherever_a_transport_socket_is() {
    let tls = serde_json::json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "commonTlsContext": {
            "tlsCertificateSdsSecretConfigs": [{"name": "own", "sdsConfig": ads()}],
            "combinedValidationContext": {
                "defaultValidationContext": {},
                "validationContextSdsSecretConfig": {"name": "ca", "sdsConfig": ads()}},
            "tlsCertificateCertificateProvider": {"name": "x"}}});
    let socket = serde_json::json!({"name": "tls", "typedConfig": tls});
    let cluster = serde_json::json!({"name": "a", "transportSocketMatches":
        [{"name": "m", "transportSocket": socket}]});
    assert_eq!(links(CLUSTER, &cluster), ["sds ca", "sds own"]);
    let listener = serde_json::json!({"name": "l", "filterChains": [{"transportSocket": socket}]});
    assert_eq!(links(LISTENER, &listener), ["sds ca", "sds own"]);
    let from_bootstrap = serde_json::json!({"name": "own"});
    let secret = "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig";
    assert!(links(secret, &from_bootstrap).is_empty());
}

#[test]
fn a_listener_refers_to_routes_filters_and_clusters() {
    let rds = |name: &str| {
        serde_json::json!({"@type": HCM, "rds":
        {"configSource": ads(), "routeConfigName": name}})
    };
    let chain = |config: serde_json::Value| {
        serde_json::json!({"filters":
        [{"name": "f", "typedConfig": config}]})
    };
    let inline = serde_json::json!({"@type": HCM,
        "routeConfig": {"virtualHosts": [{"name": "v", "domains": ["*"], "routes":
            [{"match": {"prefix": "/"}, "route": {"cluster": "inline"}}]}]},
        "httpFilters": [{"name": "lua", "configDiscovery": {"configSource": ads()}}]});
    let tcp = serde_json::json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "cluster": "tcp"});
    let listener = serde_json::json!({
        "name": "l",
        "filterChains": [chain(rds("in-chain")), chain(inline), chain(tcp)],
        "defaultFilterChain": chain(rds("in-default")),
        "apiListener": {"apiListener": rds("in-api")},
        "listenerFilters": [{"name": "lf", "configDiscovery": {"configSource": ads()}}]});
    assert_eq!(
        links(LISTENER, &listener),
        [
            "cds inline",
            "cds tcp",
            "rds in-api",
            "rds in-chain",
            "rds in-default",
            "ecds lf",
            "ecds lua"
        ]
    );
}

#[test]
fn scoped_routes_are_asked_for_as_a_whole_and_name_their_own() {
    let scoped = serde_json::json!({"@type": HCM, "scopedRoutes": {"name": "s",
        "scopeKeyBuilder": {}, "rdsConfigSource": ads(),
        "scopedRds": {"scopedRdsConfigSource": ads()}}});
    let listener = serde_json::json!({"name": "l", "filterChains":
        [{"filters": [{"name": "f", "typedConfig": scoped}]}]});
    assert!(links(LISTENER, &listener).is_empty());
    let scope = serde_json::json!({"name": "s", "routeConfigurationName": "r"});
    assert_eq!(links("envoy.config.route.v3.ScopedRouteConfiguration", &scope), ["rds r"]);
}

#[test]
fn a_route_configuration_refers_to_each_cluster_once() {
    let route =
        |action: serde_json::Value| serde_json::json!({"match": {"prefix": "/"}, "route": action});
    let routes = [
        route(serde_json::json!({"cluster": "plain", "requestMirrorPolicies":
            [{"cluster": "mirror"}]})),
        route(serde_json::json!({"cluster": "plain"})),
        route(serde_json::json!({"weightedClusters": {"clusters":
            [{"name": "w1", "weight": 1}, {"name": "w2", "weight": 1}]}})),
        route(serde_json::json!({"clusterHeader": "x-cluster"})),
    ];
    let host = serde_json::json!({"name": "v", "domains": ["*", "x.com"], "routes": routes});
    let expected = ["cds mirror", "cds plain", "cds w1", "cds w2"];
    assert_eq!(links(ROUTES, &serde_json::json!({"name": "r", "virtualHosts": [host]})), expected);
    let host = facts_of("envoy.config.route.v3.VirtualHost", &host);
    assert_eq!(host.links.len(), expected.len());
    assert_eq!(host.hosts, [Box::from("*"), Box::from("x.com")]); // S-092
}

#[test]
fn only_a_changed_vhds_field_changes_its_digest() {
    // S-094
    let vhds = |name: &str, source: serde_json::Value| {
        let json = serde_json::json!({"name": name, "vhds": {"configSource": source}});
        facts_of(ROUTES, &json).vhds
    };
    let timed = serde_json::json!({"ads": {}, "initialFetchTimeout": "3s"});
    assert!(vhds("r", ads()).is_some());
    assert_eq!(vhds("r", ads()), vhds("other", ads()));
    assert_ne!(vhds("r", ads()), vhds("r", timed));
    assert_eq!(facts_of(ROUTES, &serde_json::json!({"name": "r"})).vhds, None);
}

/// C-082
#[test]
fn a_cluster_may_report_to_the_server_that_gave_it() {
    let itself = serde_json::json!({"name": "a", "lrsServer": {"self": {}}});
    let other = serde_json::json!({"name": "a", "lrsServer": ads()});
    let none = serde_json::json!({"name": "a"});
    for type_name in [CLUSTER, "envoy.api.v2.Cluster", LISTENER] {
        let descriptor = Schema::bundled().message(type_name).unwrap();
        let for_client = ClientFacts::new(Some(&descriptor));
        for (json, expected) in [(&itself, true), (&other, false), (&none, false)] {
            if type_name == LISTENER && json.get("lrsServer").is_some() {
                continue;
            }
            assert_eq!(facts_of(type_name, json).reports_to_server, expected, "{json}");
            let body = descriptor.clone().deserialize(json).unwrap().encode_to_vec();
            assert_eq!(for_client.of(&body).reports_to_server, expected, "{json}");
        }
    }
    let unknown = ClientFacts::new(None);
    assert_eq!(unknown.of(b"\xff"), Facts::default());
}

#[test]
fn endpoints_and_routes_are_counted_wherever_they_stand() {
    let endpoint = serde_json::json!({"endpoint": {}});
    let assignment = serde_json::json!({"clusterName": "a", "endpoints": [
        {"lbEndpoints": [endpoint, endpoint]},
        {"lbEndpoints": [endpoint]},
        {"ledsClusterLocalityConfig": {"ledsCollectionName": "xdstp://a/b/c/*"}}]});
    let load_assignment = "envoy.config.endpoint.v3.ClusterLoadAssignment";
    assert_eq!(facts_of(load_assignment, &assignment).parts, 4);
    let cluster = serde_json::json!({"name": "a", "loadAssignment": assignment});
    assert_eq!(facts_of(CLUSTER, &cluster).parts, 4);
    let route = serde_json::json!({"match": {"prefix": "/"}, "route": {"cluster": "a"}});
    let host = serde_json::json!({"name": "v", "domains": ["*"], "routes": [route, route]});
    let routes = serde_json::json!({"name": "r", "virtualHosts": [host, host]});
    assert_eq!(facts_of(ROUTES, &routes).parts, 4);
    let manager = serde_json::json!({"@type": HCM, "routeConfig": routes});
    let listener = serde_json::json!({"name": "l", "filterChains":
        [{"filters": [{"name": "f", "typedConfig": manager}]}]});
    assert_eq!(facts_of(LISTENER, &listener).parts, 4);
    let scope = serde_json::json!({"name": "s", "routeConfigurationName": "r"});
    assert_eq!(facts_of("envoy.config.route.v3.ScopedRouteConfiguration", &scope).parts, 0);
}
