//! Resources that gRPC would refuse, one fault at a time.

use serde::de::DeserializeSeed;
use serde_json::{Value as Json, json};

use super::*;
use crate::resource::{Wrapper, resource};
use crate::schema::Schema;

const HCM: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.\
     HttpConnectionManager";

/// The warnings as text.
fn warnings(type_name: &str, json: &Json) -> Vec<String> {
    let message = Schema::bundled().message(type_name).unwrap().deserialize(json).unwrap();
    lint(&TypeUrl::new(type_name), &message).iter().map(ToString::to_string).collect()
}

/// Asserts that there is one warning, which starts with the path and contains the word.
#[track_caller]
fn one(warnings: &[String], path: &str, word: &str) {
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with(&format!("{path}: ")), "{warnings:?}");
    assert!(warnings[0].contains(word), "{warnings:?}");
}

fn api() -> Json {
    json!({"apiConfigSource": {"apiType": "GRPC"}})
}

#[test]
fn a_client_takes_routes_from_the_same_server_only() {
    // S-125
    let listener = |source: Json| {
        let router = json!({"@type": "t/envoy.extensions.filters.http.router.v3.Router"});
        let hcm = json!({"@type": HCM, "rds": {"configSource": source, "routeConfigName": "r"},
            "httpFilters": [{"name": "router", "typedConfig": router}]});
        warnings(
            "envoy.config.listener.v3.Listener",
            &json!({"name": "l", "apiListener": {"apiListener": hcm}}),
        )
    };
    assert_eq!(listener(json!({"ads": {}})), [""; 0]);
    assert_eq!(listener(json!({"self": {}})), [""; 0]);
    one(&listener(api()), "api_listener.api_listener.rds.config_source", "`ads` or `self`");
    let envoy = json!({"@type": HCM, "rds": {"configSource": api(), "routeConfigName": "r"}});
    let envoy = json!({"name": "l", "filterChains":
        [{"filters": [{"name": "hcm", "typedConfig": envoy}]}]});
    assert_eq!(warnings("envoy.config.listener.v3.Listener", &envoy), [""; 0], "not for gRPC");
}

#[test]
fn a_filter_that_a_program_may_have_is_no_error() {
    // S-125
    let fatal = |filter: &str| {
        let router = json!({"@type": "t/envoy.extensions.filters.http.router.v3.Router"});
        let known = json!({"@type": "t/xds.type.v3.TypedStruct", "typeUrl": format!("t/{filter}")});
        let hcm = json!({"@type": HCM, "rds": {"configSource": {"ads": {}}, "routeConfigName": "r"},
            "httpFilters": [{"name": "f", "typedConfig": known}, {"name": "r", "typedConfig": router}]});
        let json = json!({"name": "l", "apiListener": {"apiListener": hcm}});
        let type_name = "envoy.config.listener.v3.Listener";
        let message = Schema::bundled().message(type_name).unwrap().deserialize(&json).unwrap();
        let found = grpc::findings(&TypeUrl::new(type_name), &message);
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert!(found.warning.to_string().ends_with(": rejected by gRPC"), "{found:?}");
        found.is_rejected_by_all
    };
    assert!(fatal("envoy.extensions.filters.http.cors.v3.Cors"));
    assert!(!fatal("example.com.Team"));
}

#[test]
fn a_client_takes_endpoints_from_the_same_server_and_reports_load_to_it() {
    // S-125
    let cluster = |eds: Json, lrs: Json| {
        let json = json!({"name": "a", "type": "EDS", "lrsServer": lrs,
            "edsClusterConfig": {"edsConfig": eds}});
        warnings("envoy.config.cluster.v3.Cluster", &json)
    };
    assert_eq!(cluster(json!({"ads": {}}), json!({"self": {}})), [""; 0]);
    one(&cluster(api(), Json::Null), "eds_cluster_config.eds_config", "`ads` or `self`");
    one(&cluster(json!({"ads": {}}), json!({"ads": {}})), "lrs_server", "`self`");
}

#[test]
fn what_is_for_grpc_is_seen_by_its_listeners() {
    let of = |json: &Json| {
        let (schema, type_url) =
            (Schema::bundled(), TypeUrl::new("envoy.config.listener.v3.Listener"));
        let message = schema.message(type_url.as_str()).unwrap().deserialize(json).unwrap();
        let resource = resource(&type_url, &message, Wrapper::default()).unwrap();
        is_for_grpc(&schema, &type_url, &resource)
    };
    assert!(of(&json!({"name": "hello.test", "apiListener": {}})));
    assert!(of(&json!({"name": "grpc/server?xds.resource.listening_address=0.0.0.0:8080"})));
    assert!(!of(&json!({"name": "ingress", "filterChains": [{}]})));
}

/// A locality with one endpoint.
fn group(zone: &str, priority: u32, weight: u32, address: &str) -> Json {
    json!({
        "locality": {"zone": zone}, "priority": priority, "loadBalancingWeight": weight,
        "lbEndpoints": [{"endpoint": {"address":
            {"socketAddress": {"address": address, "portValue": 80}}}}]})
}

fn endpoints(groups: &[Json]) -> Vec<String> {
    let json = json!({"clusterName": "a", "endpoints": groups});
    warnings("envoy.config.endpoint.v3.ClusterLoadAssignment", &json)
}

#[test]
fn a_sound_load_assignment_is_not_spoken_of() {
    // S-126
    let groups = [
        group("x", 0, u32::MAX - 1, "10.0.0.1"),
        group("y", 0, 1, "10.0.0.2"),
        group("x", 1, 1, "10.0.0.3"),
    ];
    assert_eq!(endpoints(&groups), [""; 0]);
    assert_eq!(endpoints(&[]), [""; 0]);
}

#[test]
fn each_fault_of_a_load_assignment_is_told_with_its_place() {
    // S-126
    let a = || group("x", 0, 1, "10.0.0.1");
    one(&endpoints(&[a(), group("x", 2, 1, "10.0.0.2")]), "endpoints", "priority 1 is missing");
    one(&endpoints(&[group("x", 1, 1, "10.0.0.1")]), "endpoints", "priority 0 is missing");
    let twice = endpoints(&[a(), group("x", 0, 1, "10.0.0.2")]);
    one(&twice, "endpoints[1].locality", "`/x/`");
    let address = endpoints(&[a(), group("y", 0, 1, "10.0.0.1")]);
    one(&address, "endpoints[1].lb_endpoints[0].endpoint", "`10.0.0.1:80`");
    let heavy = endpoints(&[a(), group("y", 0, u32::MAX, "10.0.0.2")]);
    one(&heavy, "endpoints", "add up to 4294967296");
    let mut endpoint = group("x", 0, 1, "10.0.0.1");
    let mut second = endpoint["lbEndpoints"][0].clone();
    second["loadBalancingWeight"] = json!(u32::MAX);
    second["endpoint"]["address"]["socketAddress"]["portValue"] = json!(81);
    endpoint["lbEndpoints"].as_array_mut().unwrap().push(second);
    one(&endpoints(&[endpoint]), "endpoints[0].lb_endpoints", "add up to 4294967296");
}

#[test]
fn a_locality_without_weight_counts_for_nothing_else() {
    // S-126
    let mut skipped = group("x", 0, 1, "10.0.0.1");
    skipped.as_object_mut().unwrap().remove("loadBalancingWeight");
    let all = [skipped.clone(), group("x", 0, 1, "10.0.0.1")];
    one(&endpoints(&all), "endpoints[0]", "`load_balancing_weight`");
    let gap = endpoints(&[skipped, group("x", 1, 1, "10.0.0.1")]);
    assert!(gap.iter().any(|text| text.contains("priority 0 is missing")), "{gap:?}");
}

/// A valid listener of a server, after `change` edited it.
fn server(name: &str, ip: &str, port: u16, change: impl FnOnce(&mut Json)) -> Vec<String> {
    let router = json!({"name": "router", "typedConfig": {
        "@type": "t/envoy.extensions.filters.http.router.v3.Router"}});
    let hcm = json!({"name": "hcm",
        "typedConfig": {"@type": HCM, "routeConfig": {}, "httpFilters": [router]}});
    let mut json = json!({
        "name": name,
        "address": {"socketAddress": {"address": ip, "portValue": port}},
        "filterChains": [{"filters": [hcm]}]});
    change(&mut json);
    warnings("envoy.config.listener.v3.Listener", &json)
}

#[test]
fn the_address_of_a_server_is_that_of_its_name() {
    // S-127
    let plain = "grpc/server?xds.resource.listening_address=0.0.0.0:8080";
    let xdstp = "xdstp://a/envoy.config.listener.v3.Listener/grpc/server/%5B::%5D:80";
    assert_eq!(server(plain, "0.0.0.0", 8080, |_| {}), [""; 0]);
    assert_eq!(server("[::]:80", "::", 80, |_| {}), [""; 0]);
    for name in [xdstp.to_owned(), xdstp.to_lowercase()] {
        assert_eq!(server(&name, "::", 80, |_| {}), [""; 0]);
        one(&server(&name, "::", 81, |_| {}), "address", "`[::]:80`");
    }
    one(&server(plain, "0.0.0.0", 8081, |_| {}), "address", "`0.0.0.0:8080`");
    one(&server(plain, "127.0.0.1", 8080, |_| {}), "address", "`0.0.0.0:8080`");
    assert_eq!(server("ingress", "0.0.0.0", 1, |json| json["filterChains"] = json!([])), [""; 0]);
}

#[test]
fn a_server_accepts_one_connection_manager_and_nothing_around_it() {
    // S-127
    let of = |change: fn(&mut Json)| server("1.2.3.4:5", "1.2.3.4", 5, change);
    let filters = of(|json| json["listenerFilters"] = json!([{"name": "tls_inspector"}]));
    one(&filters, "listener_filters", "rejected by gRPC");
    one(&of(|json| json["useOriginalDst"] = json!(true)), "use_original_dst", "rejected by gRPC");
    let unset = of(|json| json["useOriginalDst"] = json!(false));
    one(&unset, "use_original_dst", "rejected by gRPC Java");
    one(&of(|json| json["filterChains"] = json!([])), "filter_chains", "at least one");
    let chain = "filter_chains[0].filters";
    let after = of(|json| {
        let chain = json["filterChains"][0]["filters"].as_array_mut().unwrap();
        chain.push(json!({"name": "other"}));
    });
    one(&after, chain, "one HTTP connection manager, and no other filter: rejected by gRPC");
    let two = of(|json| {
        let chain = json["filterChains"][0]["filters"].as_array_mut().unwrap();
        let mut second = chain[0].clone();
        second["name"] = json!("second");
        chain.push(second);
    });
    one(&two, chain, "one HTTP connection manager: rejected by gRPC C-core, Java and Node");
    let default = of(|json| json["defaultFilterChain"] = json!({"filters": []}));
    let [filters, chain] = &default[..] else { panic!("{default:?}") };
    assert!(filters.starts_with("default_filter_chain.filters: "), "{filters}");
    assert!(chain.contains("cannot use a default filter chain: rejected by gRPC Node"), "{chain}");
}

#[test]
fn a_connection_manager_without_a_filter_answers_nothing() {
    let told = |field: &str, filters: Json| {
        let manager = json!({"@type": HCM, "statPrefix": "a", "httpFilters": filters});
        let chain = json!({"filters": [{"name": "hcm", "typedConfig": manager}]});
        let json = match field {
            "apiListener" => json!({"name": "l", "apiListener": {"apiListener": manager}}),
            "filterChains" => json!({"name": "l", "filterChains": [chain]}),
            _ => json!({"name": "l", field: chain}),
        };
        let name = "envoy.config.listener.v3.Listener";
        let listener = Schema::bundled().message(name).unwrap().deserialize(&json).unwrap();
        let warnings = lint_traffic(&TypeUrl::new(name), &listener);
        assert!(warnings.iter().all(|it| it.code == NO_HTTP_FILTER), "{warnings:?}");
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let path = "filter_chains[0].filters[0].typed_config";
    one(&told("filterChains", json!([])), path, "no request gets an answer");
    let path = "default_filter_chain.filters[0].typed_config";
    one(&told("defaultFilterChain", json!([])), path, "no request gets an answer");
    let own = json!([{"name": "own", "configDiscovery": {"configSource": {"ads": {}}}}]);
    assert_eq!(told("filterChains", own), [""; 0], "a filter may answer itself");
    let of_type = |kind: &str| {
        let kind = format!("type.googleapis.com/envoy.extensions.filters.http.{kind}");
        let source = json!({"configSource": {"ads": {}}, "typeUrls": [kind]});
        told("filterChains", json!([{"name": "own", "configDiscovery": source}]))
    };
    let path = "filter_chains[0].filters[0].typed_config";
    one(&of_type("header_mutation.v3.HeaderMutation"), path, "`envoy.filters.http.router`");
    assert_eq!(of_type("router.v3.Router"), [""; 0]);
    assert_eq!(told("apiListener", json!([])), [""; 0], "gRPC has rules of its own");
}

/// The warnings about a route configuration with these conditions.
fn shadowed(conditions: &Json) -> Vec<String> {
    let routes = conditions.as_array().unwrap().iter();
    let routes: Vec<_> =
        routes.map(|condition| json!({"match": condition, "route": {"cluster": "c"}})).collect();
    let host = json!({"name": "v", "domains": ["*"], "routes": routes});
    let name = "envoy.config.route.v3.RouteConfiguration";
    let json = json!({"name": "r", "virtualHosts": [host]});
    let body = Schema::bundled().message(name).unwrap().deserialize(&json).unwrap();
    let warnings = lint_traffic(&TypeUrl::new(name), &body);
    assert!(warnings.iter().all(|it| it.code == SHADOWED_ROUTE), "{warnings:?}");
    warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_route_behind_one_that_takes_all_can_never_match() {
    let path = "virtual_hosts[0].routes[1].match";
    for later in [
        json!({"prefix": "/a"}),
        json!({"path": "/"}),
        json!({"pathSeparatedPrefix": "/b", "headers": [{"name": "x", "presentMatch": true}]}),
        json!({"safeRegex": {"regex": "/a+"}}),
        json!({"prefix": "/A", "caseSensitive": false}),
    ] {
        one(&shadowed(&json!([{"prefix": "/"}, later])), path, "`routes[0]` takes all below `/`");
    }
    let both = json!([{"prefix": "/a/b"}, {"prefix": "/a"}, {"path": "/a/b/c"}, {"prefix": "/ab"}]);
    let told = shadowed(&both);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("routes[2].match: can never match: `routes[1]`"), "{told:?}");
    let any_case = json!([{"prefix": "/1", "caseSensitive": false}, {"path": "/1/a"}]);
    assert_eq!(shadowed(&any_case).len(), 1);
    let no_slash = json!([{"prefix": ""}, {"path": "*"}]);
    one(&shadowed(&no_slash), path, "`routes[0]` takes all below ``");
    let no_slash = json!([{"path": "*"}, {"prefix": "api"}, {"prefix": "/"}]);
    one(&shadowed(&no_slash), path, "can never match: a path begins with `/`, and `api` does not");
}

#[test]
fn a_route_that_may_still_match_is_not_told() {
    for conditions in [
        json!([{"prefix": "/a"}, {"prefix": "/"}]),
        json!([{"prefix": "/", "headers": [{"name": "x", "presentMatch": true}]}, {"prefix": "/a"}]),
        json!([{"prefix": "/", "runtimeFraction": {"defaultValue": {"numerator": 1}}}, {"prefix": "/"}]),
        json!([{"path": "/a"}, {"path": "/a"}]),
        json!([{"prefix": "/a"}, {"prefix": "/ab", "caseSensitive": false}]),
        json!([{"prefix": "/a", "caseSensitive": false}, {"prefix": "/ab"}]),
        json!([{"prefix": "/"}, {"connectMatcher": {}}]),
        json!([{"prefix": "/"}, {"safeRegex": {"regex": "/a|.*"}}]),
        json!([{"prefix": "/"}, {"safeRegex": {"regex": "/?"}}]),
        json!([{"prefix": "/"}, {"safeRegex": {"regex": ".*"}}]),
    ] {
        assert_eq!(shadowed(&conditions), [""; 0], "{conditions}");
    }
}

#[test]
fn of_many_shadowed_routes_the_first_are_told() {
    let mut conditions = vec![json!({"prefix": "/"})];
    conditions.extend((0..500).map(|at| json!({"prefix": format!("/{at}")})));
    let told = shadowed(&Json::from(conditions));
    assert_eq!(told.len(), 21);
    assert_eq!(told[20], "virtual_hosts[0].routes: 480 more routes can never match");
}

/// The warnings about traffic of a resource of this type.
fn traffic(name: &str, json: &Json) -> Vec<(&'static str, String)> {
    let body = Schema::bundled().message(name).unwrap().deserialize(json).unwrap();
    let warnings = lint_traffic(&TypeUrl::new(name), &body);
    warnings.iter().map(|it| (it.code, it.to_string())).collect()
}

#[test]
fn what_is_there_twice_is_told() {
    let at = |port: u32| json!({"endpoint": {"address": {"socketAddress": {"address": "::1", "portValue": port}}}});
    let set = json!({"clusterName": "e", "endpoints": [
        {"lbEndpoints": [at(1), at(2)]}, {"priority": 1, "lbEndpoints": [at(3), at(2)]}]});
    let told = traffic("envoy.config.endpoint.v3.ClusterLoadAssignment", &set);
    assert_eq!(told.len(), 1, "{told:?}");
    let path =
        "endpoints[1].lb_endpoints[1].endpoint: `::1:2` is `endpoints[0].lb_endpoints[1]` as well";
    assert!(told[0].0 == "duplicate-endpoint" && told[0].1.starts_with(path), "{told:?}");
    let cluster = json!({"name": "c", "loadAssignment": set});
    let told = traffic("envoy.config.cluster.v3.Cluster", &cluster);
    assert!(told[0].1.contains("it gets the requests of both"), "{told:?}");

    let hosts = json!({"name": "r", "virtualHosts": [{"name": "a"}, {"name": "b"}, {"name": "a"}]});
    let told = traffic("envoy.config.route.v3.RouteConfiguration", &hosts);
    assert!(told[0].1.starts_with("virtual_hosts[2].name: `virtual_hosts[0]`"), "{told:?}");
}

/// The codes and paths of the warnings about traffic of a listener.
fn of_listener(json: &Json) -> Vec<String> {
    let name = "envoy.config.listener.v3.Listener";
    let message = Schema::bundled().message(name).unwrap().deserialize(json).unwrap();
    let all = lint_traffic(&TypeUrl::new(name), &message);
    all.iter().map(|it| format!("{} {}", it.code, it.path)).collect()
}

#[test]
fn chains_need_filters_and_somebody_who_reads_names() {
    let tls = json!({"name": "tls"});
    let tcp = json!([{"name": "f"}]);
    let chain = json!({"filterChainMatch": {"serverNames": ["a"]}, "filters": tcp});
    let at = "no-tls-inspector filter_chains[0].filter_chain_match.server_names";
    assert_eq!(of_listener(&json!({"filterChains": [chain]})), [at]);
    let filter = |name: &str| {
        let kind = format!("t/envoy.extensions.filters.listener.{name}");
        json!({"name": name, "typedConfig": {"@type": kind}})
    };
    let with =
        |filter: Json| of_listener(&json!({"filterChains": [chain], "listenerFilters": [filter]}));
    assert_eq!(with(filter("proxy_protocol.v3.ProxyProtocol")), [at]);
    assert_eq!(with(filter("tls_inspector.v3.TlsInspector")), [""; 0]);
    assert_eq!(with(json!({"name": "f", "configDiscovery": {}})), [""; 0], "nobody knows");
    let quic = json!({"filterChains": [chain], "udpListenerConfig": {"quicOptions": {}}});
    assert_eq!(of_listener(&quic), [""; 0]);

    let lost = json!([{"transportSocket": tls}, {"filters": tcp}]);
    assert_eq!(of_listener(&json!({"filterChains": lost})), ["no-filters filter_chains[0]"]);
    let default =
        json!({"filterChains": [{"filters": tcp}], "defaultFilterChain": {"transportSocket": tls}});
    assert_eq!(of_listener(&default), ["no-filters default_filter_chain"]);
    let raw = json!({"@type": "t/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer"});
    let raw = json!([{"transportSocket": {"name": "raw", "typedConfig": raw}}]);
    assert_eq!(of_listener(&json!({"filterChains": raw})), [""; 0], "it has no TLS");
    let whole = json!([{"transportSocket": tls, "filters": tcp}]);
    assert_eq!(of_listener(&json!({"filterChains": whole})), [""; 0]);
}

#[test]
fn routes_have_a_name_and_an_authorization_has_a_server() {
    let manager = |rds: Json, authz: Json| {
        let typed = |name: &str, mut json: Json| {
            json["@type"] = format!("t/envoy.extensions.filters.{name}").into();
            json!({"name": name, "typedConfig": json})
        };
        let filters =
            [typed("http.ext_authz.v3.ExtAuthz", authz), typed("http.router.v3.Router", json!({}))];
        let hcm = "network.http_connection_manager.v3.HttpConnectionManager";
        let filter = typed(hcm, json!({"rds": rds, "httpFilters": filters}));
        of_listener(&json!({"filterChains": [{"filters": [filter]}]}))
    };
    let (named, asked) =
        (json!({"routeConfigName": "r"}), json!({"serverUri": {"uri": "http://a"}}));
    let at = "filter_chains[0].filters[0].typed_config";
    assert_eq!(manager(named.clone(), json!({"httpService": asked})), [""; 0]);
    assert_eq!(
        manager(json!({}), json!({"httpService": asked})),
        [format!("no-route-name {at}.rds.route_config_name")]
    );
    let lacks = format!("no-authorization-server {at}.http_filters[0].typed_config.http_service");
    assert_eq!(manager(named.clone(), json!({"httpService": {}})), [lacks]);
    let open = json!({"httpService": {}, "failureModeAllow": true});
    assert_eq!(manager(named, open), [""; 0]);
}
