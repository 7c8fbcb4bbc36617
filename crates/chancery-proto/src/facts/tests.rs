//! The facts in bodies of every type, v3 and v2.

use serde::de::DeserializeSeed;

use super::*;
use crate::schema::Schema;

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
fn every_message_that_is_looked_for_exists() {
    let schema = Schema::bundled();
    let names = include_str!("mod.rs").split('"').skip(1).step_by(2);
    let names: Vec<_> = names.filter(|text| text.starts_with("envoy.")).collect();
    assert!(names.len() > 20);
    for name in names.into_iter().filter(|name| !name.ends_with('.')) {
        assert!(schema.message(name).is_some(), "{name}");
    }
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
