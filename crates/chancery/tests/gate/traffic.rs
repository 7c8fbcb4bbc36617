//! Changes by which requests get no answer any more, though every client takes them: held back, or told.

use super::{client, clusters, held_count, holds, listener, passes, routes};
use crate::daemon::{Server, dir_write, directory};

/// A cluster that waits for an endpoint set, with more fields.
fn waiting(name: &str, set: &str, more: &str) -> String {
    format!(
        "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n  type: EDS\n  \
         eds_cluster_config: {{service_name: \"{set}\", eds_config: {{ads: {{}}}}}}\n{more}"
    )
}

/// An endpoint set whose endpoints have these versions.
fn versions(name: &str, all: &[&str]) -> String {
    let one = |version: &&str| {
        format!(
            "  - {{endpoint: {{address: {{socket_address: {{address: 10.0.0.1, port_value: 80}}}}}}, \
             metadata: {{filter_metadata: {{envoy.lb: {{version: {version}}}}}}}}}\n"
        )
    };
    let all: String = all.iter().map(one).collect();
    format!(
        "- \"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n  cluster_name: {name}\n  \
         endpoints:\n  - lb_endpoints:\n{}",
        all.replace("  - {", "    - {")
    )
}

#[test]
fn requests_that_had_endpoints_keep_them() {
    let dir = directory(&[
        ("api.yaml", &waiting("api", "pods", "")),
        ("pods.yaml", &versions("pods", &["v1"])),
        ("routes.yaml", &routes(&["api"])),
    ]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "x");
    // Nothing has nearly this name, and the cluster had endpoints.
    dir_write(&dir, "api.yaml", &waiting("api", "", ""));
    holds(&mut server, "cds `api` (eds_cluster_config) refers to eds `api`");
    dir_write(&dir, "api.yaml", &waiting("api", "elsewhere", ""));
    server.log_has("refers to eds `elsewhere`, which does not exist");
    passes(&mut server, &dir, ("api.yaml", &waiting("api", "pods", "")), "no longer held back");
    // A new cluster comes before its endpoints, and a route to it as well.
    let both = waiting("api", "pods", "") + &waiting("later", "", "");
    passes(&mut server, &dir, ("api.yaml", &both), "+cds later");
    let more = routes(&["api", "later"]);
    passes(&mut server, &dir, ("routes.yaml", &more), "~rds r");
    passes(&mut server, &dir, ("routes.yaml", &routes(&["api"])), "has the route");
    // A route that had endpoints leads to one without.
    dir_write(&dir, "api.yaml", &(both.clone() + &waiting("blue", "", "")));
    dir_write(&dir, "routes.yaml", &routes(&["blue"]));
    holds(&mut server, "cds `blue` (eds_cluster_config) refers to eds `blue`");
}

#[test]
fn many_new_clusters_come_before_their_endpoints() {
    let many: String = (0..150).map(|at| waiting(&format!("fresh-{at}"), "", "")).collect();
    let dir = directory(&[
        ("api.yaml", &waiting("api", "pods", "")),
        ("pods.yaml", &versions("pods", &["v1"])),
        ("routes.yaml", &routes(&["api"])),
    ]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "x");
    passes(&mut server, &dir, ("many.yaml", &many), "+cds fresh-0");
    // One that matters is found among others that do not.
    let more: String = (0..150).map(|at| waiting(&format!("other-{at}"), "", "")).collect();
    dir_write(&dir, "many.yaml", &(many + &more + &waiting("zulu", "", "")));
    dir_write(&dir, "routes.yaml", &routes(&["zulu"]));
    holds(&mut server, "cds `zulu` (eds_cluster_config) refers to eds `zulu`");
}

#[test]
fn a_subset_that_a_route_asks_for_keeps_its_endpoints() {
    let subsets = |key: &str| {
        waiting(
            "api",
            "pods",
            &format!("  lb_subset_config: {{subset_selectors: [{{keys: [{key}]}}]}}\n"),
        )
    };
    let asking = |version: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\nvirtual_hosts:\n- \
             name: v\n  domains: [\"*\"]\n  routes:\n  - match: {{prefix: /}}\n    route: {{cluster: api, \
             metadata_match: {{filter_metadata: {{envoy.lb: {{version: {version}}}}}}}}}\n"
        )
    };
    let pods = versions("pods", &["v1", "v2"]);
    let dir = directory(&[
        ("api.yaml", &subsets("version")),
        ("pods.yaml", &pods),
        ("routes.yaml", &asking("v1")),
    ]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "x");
    let none = "no endpoint of cds `api` has the metadata version: ";
    passes(&mut server, &dir, ("routes.yaml", &asking("v2")), "~rds r");
    dir_write(&dir, "routes.yaml", &asking("v22"));
    holds(
        &mut server,
        &format!("/routes.yaml:1: rds `r`: virtual_hosts[0].routes[0].route: {none}"),
    );
    dir_write(&dir, "routes.yaml", &asking("2"));
    server.log_has(&format!("{none}2 (a number)"));
    passes(&mut server, &dir, ("routes.yaml", &asking("v2")), "no longer held back");
    dir_write(&dir, "pods.yaml", &versions("pods", &["v1", "v3"]));
    holds(&mut server, none);
    passes(&mut server, &dir, ("pods.yaml", &versions("pods", &["v2"])), "no longer held back");
    dir_write(&dir, "api.yaml", &subsets("versions"));
    holds(&mut server, "no element of `subset_selectors` of cds `api` has the keys `version`");
}

#[test]
fn a_route_to_a_subset_comes_before_its_endpoints_wherever_it_stands() {
    let subsets = "  lb_subset_config: {subset_selectors: [{keys: [version]}]}\n";
    let asking = |versions: &[&str]| {
        let one = |version: &&str| {
            format!(
                "  - match: {{prefix: /{version}}}\n    route: {{cluster: api, metadata_match: {{filter_metadata: \
                 {{envoy.lb: {{version: {version}}}}}}}}}\n"
            )
        };
        let all: String = versions.iter().map(one).collect();
        format!("{}{all}", routes(&[]))
    };
    let dir = directory(&[
        ("api.yaml", &waiting("api", "pods", subsets)),
        ("pods.yaml", &versions("pods", &["v1", "v2"])),
        ("routes.yaml", &asking(&["v1", "v2"])),
    ]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "x");
    passes(&mut server, &dir, ("routes.yaml", &asking(&["canary", "v1", "v2"])), "~rds r");
    passes(&mut server, &dir, ("routes.yaml", &asking(&["v1", "v2", "canary"])), "~rds r");
    // Those that found endpoints are held wherever they stand.
    dir_write(&dir, "pods.yaml", &versions("pods", &["v1", "v3"]));
    dir_write(&dir, "routes.yaml", &asking(&["canary", "v1", "v2"]));
    holds(
        &mut server,
        "virtual_hosts[0].routes[2].route: no endpoint of cds `api` has the metadata",
    );
}

#[test]
fn a_route_that_goes_is_told() {
    let with = |matching: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\nvirtual_hosts:\n- \
             name: v\n  domains: [a.example]\n  routes:\n  - {{match: {{prefix: /shop}}, direct_response: \
             {{status: 200}}}}\n  - {{match: {matching}, direct_response: {{status: 200}}}}\n"
        )
    };
    let dir = directory(&[("routes.yaml", &with("{prefix: /}")), ("c.yaml", &clusters("c", 1))]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "x");
    dir_write(&dir, "routes.yaml", &with("{path: /}"));
    server.log_has(
        "/routes.yaml:1: rds `r` has the route prefix \"/\" of `a.example` no more; path \"/\" is new",
    );
    assert_eq!(held_count(&server), 0);
}

#[test]
fn a_listener_goes_on_to_take_connections() {
    let tls = |secret: &str| {
        let text = listener("a", true);
        let of = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
        text.replace(
            "  - filters:",
            &format!(
                "  - transport_socket: {{name: tls, typed_config: {{\"@type\": type.googleapis.com/{of}, \
                 common_tls_context: {{tls_certificate_sds_secret_configs: [{{name: {secret}, sds_config: {{ads: \
                 {{}}}}}}]}}}}}}\n    filters:"
            ),
        )
    };
    let secrets = "- {\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: own, \
                   tls_certificate: {certificate_chain: {filename: /a}, private_key: {filename: /b}}}\n\
                   - {\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: ca, \
                   validation_context: {trusted_ca: {filename: /c}}}\n";
    let dir = directory(&[
        ("listener.yaml", &tls("own")),
        ("secrets.yaml", secrets),
        ("c.yaml", &clusters("c", 1)),
    ]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "x");
    dir_write(&dir, "listener.yaml", &tls("ca"));
    holds(
        &mut server,
        "tls_certificate_sds_secret_configs[0].name: needs a secret with `tls_certificate`, and sds `ca` has \
         `validation_context` (",
    );
    let unbound = tls("own").replace("  name: a\n", "  name: a\n  bind_to_port: false\n");
    dir_write(&dir, "listener.yaml", &unbound);
    holds(&mut server, "/listener.yaml:1: lds `a`: bind_to_port: is false");
    let named = tls("own").replace(
        "  - transport_socket:",
        "  - filter_chain_match: {server_names: [a.example]}\n    transport_socket:",
    );
    dir_write(&dir, "listener.yaml", &named);
    holds(&mut server, "filter_chains[0].filter_chain_match.server_names: no connection matches");
    passes(&mut server, &dir, ("listener.yaml", &tls("own")), "no longer held back");
    // A comment about one thing that answers nothing does not let another one pass.
    let bare = |text: &str| {
        let text = text.replace("http_filters: [{", "http_filters: []\n        #{");
        format!("# chancery: allow no-http-filter: a test\n{text}")
    };
    passes(&mut server, &dir, ("listener.yaml", &bare(&tls("own"))), "~lds a");
    dir_write(&dir, "listener.yaml", &bare(&named));
    holds(&mut server, "filter_chains[0].filter_chain_match.server_names: no connection matches");
}

#[test]
fn a_chain_in_front_of_a_wrong_one_holds_nothing_back() {
    let tls = |secret: &str| {
        let of = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
        format!(
            "transport_socket: {{name: tls, typed_config: {{\"@type\": type.googleapis.com/{of}, \
             common_tls_context: {{tls_certificate_sds_secret_configs: [{{name: {secret}, sds_config: {{ads: \
             {{}}}}}}]}}}}}}"
        )
    };
    let chain = |port: u16, secret: &str| {
        format!(
            "  - filter_chain_match: {{destination_port: {port}}}\n    {}\n    filters: [{{name: f, typed_config: \
             {{\"@type\": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}}}]\n",
            tls(secret)
        )
    };
    let of = |chains: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\nname: a\naddress: {{pipe: {{path: \
             a.sock}}}}\nfilter_chains:\n{chains}"
        )
    };
    let secret = |name: &str, kind: &str| {
        format!(
            "- {{\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: {name}, \
             {kind}}}\n"
        )
    };
    let own = "tls_certificate: {certificate_chain: {filename: /a}, private_key: {filename: /b}}";
    let secrets =
        secret("own", own) + &secret("ca", "validation_context: {trusted_ca: {filename: /c}}");
    let dir = directory(&[
        ("listener.yaml", &of(&chain(1, "ca"))),
        ("secrets.yaml", &secrets),
        ("c.yaml", &clusters("c", 1)),
    ]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "x");
    let moved = of(&(chain(2, "own") + &chain(1, "ca")));
    passes(&mut server, &dir, ("listener.yaml", &moved), "~lds a");
    dir_write(&dir, "listener.yaml", &of(&(chain(2, "ca") + &chain(1, "ca"))));
    holds(&mut server, "needs a secret with `tls_certificate`, and sds `ca` has");
}

#[test]
fn the_first_files_of_a_connected_node_are_judged() {
    let route = |domain: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\nvirtual_hosts:\n- \
             name: v\n  domains: [{domain}]\n  routes:\n  - {{match: {{prefix: /}}, direct_response: {{status: \
             200}}}}\n"
        )
    };
    let dir = directory(&[
        ("groups/edge/c.yaml", &clusters("c", 1)),
        ("groups/edge/routes.yaml", &route("a.example")),
        ("groups/edge/pods.yaml", &versions("pods", &["v1"])),
    ]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "edge");
    // A domain that its own routes lack is told.
    dir_write(&dir, "nodes/n/routes.yaml", &route("b.example"));
    server.log_has("live for node `n`");
    assert!(server.log().contains("rds `r` has the domain `a.example` no more"));
    assert_eq!(held_count(&server), 0);
    std::fs::remove_dir_all(dir.path().join("nodes")).unwrap();
    server.log_has("node `n`: -rds r");
    let none = versions("pods", &[]).replace("endpoints:\n  - lb_endpoints:\n", "endpoints: []\n");
    dir_write(&dir, "nodes/n/pods.yaml", &none);
    holds(&mut server, "held back from node `n` in group `edge`: no endpoints left");
    // Files of a node that nobody has seen are not judged.
    dir_write(&dir, "nodes/m/pods.yaml", &none);
    server.log_has("node `m`: +eds pods");
    assert_eq!(held_count(&server), 1);
}
