//! References that lead nowhere and resources that nothing refers to, as the log and `/api/v1/config` tell of
//! them.

use serde_json::Value;

use crate::daemon::{Server, chancery, cluster, dir_write, directory, eventually, finished};

/// A route configuration `r` with a route to each of these clusters.
fn routes(clusters: &[&str]) -> String {
    let route = |name: &&str| {
        format!("  - {{match: {{prefix: /{name}}}, route: {{cluster: \"{name}\"}}}}\n")
    };
    let routes: String = clusters.iter().map(route).collect();
    format!(
        "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\n\
         virtual_hosts:\n- name: v\n  domains: [\"*\"]\n  routes:\n{routes}"
    )
}

/// A listener that takes the routes `r`.
const LISTENER: &str = r#"
"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: l
api_listener:
  api_listener:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: l
    rds: {route_config_name: r, config_source: {ads: {}}}
    http_filters:
    - {name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
"#;

/// A cluster of type EDS, and endpoints under a name.
fn eds(name: &str, endpoints: &str) -> String {
    format!(
        "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n  \
         type: EDS\n  eds_cluster_config: {{eds_config: {{ads: {{}}}}}}\n\
         - \"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n  \
         cluster_name: {endpoints}\n"
    )
}

/// A server with this serves references that lead nowhere.
const UNJUDGED: &str = "gate: {dangling: off}\n";

/// The present warnings, without the directory.
fn warnings(server: &Server, dir: &tempfile::TempDir) -> Vec<String> {
    let config: Value = serde_json::from_str(&server.admin("/api/v1/config").1).unwrap();
    let warnings = config["warnings"].as_array().unwrap();
    assert_eq!(config["warning_count"], warnings.len());
    let top = format!("{}/", dir.path().display());
    let text = |row: &Value| {
        let file = row["file"].as_str().unwrap_or("-").replace(&top, "");
        format!("{file}:{}: {}", row["line"], row["message"].as_str().unwrap())
    };
    warnings.iter().map(text).collect()
}

#[test]
fn a_missing_cluster_is_told_with_its_place_the_near_miss_and_what_to_write() {
    let dir = directory(&[
        ("clusters.yaml", &cluster("shop-v1", 1)),
        ("routes.yaml", &routes(&["shop-v11"])),
        ("listener.yaml", LISTENER),
        ("chancery.yaml", UNJUDGED),
    ]);
    let mut server = Server::start(&dir, &[]);
    let told = "rds `r` refers to cds `shop-v11`, which does not exist; did you mean `shop-v1`? If \
                the clients have it from elsewhere, write `external: [shop-v11]` in chancery.yaml";
    server.log_has(&format!("routes.yaml:7: {told}"));
    assert_eq!(warnings(&server, &dir), [format!("routes.yaml:7: {told}")]);

    dir_write(&dir, "chancery.yaml", &format!("{UNJUDGED}external: [shop-v11]\n"));
    eventually(|| warnings(&server, &dir).is_empty());
    dir_write(&dir, "routes.yaml", &routes(&["shop-v11", "other"]));
    let told = "rds `r` refers to cds `other`, which does not exist; if the clients have it from \
                elsewhere, add `other` to `external` in chancery.yaml";
    server.log_has(told);
    eventually(|| warnings(&server, &dir) == [format!("routes.yaml:8: {told}")]);

    // A line more, another external name and other advice are no news.
    dir_write(&dir, "routes.yaml", &format!("# one\n{}", routes(&["shop-v11", "other"])));
    let other = format!("{UNJUDGED}external: shop-*\ncontrol-plane: other\n");
    dir_write(&dir, "chancery.yaml", &other);
    server.log_has("a restart brings these keys into force");
    eventually(|| warnings(&server, &dir) == [format!("routes.yaml:9: {told}")]);
    // A comment at the field lets it pass, and nothing else changes with it.
    let comment = "  # chancery: allow dangling-reference: soon\n  - {match: {prefix: /other}";
    let allowed = routes(&["shop-v11", "other"]).replace("  - {match: {prefix: /other}", comment);
    dir_write(&dir, "routes.yaml", &format!("# one\n{allowed}"));
    eventually(|| warnings(&server, &dir).is_empty());
    dir_write(&dir, "routes.yaml", &format!("# one\n{}", allowed.replace(": soon", " soon")));
    eventually(|| {
        warnings(&server, &dir).iter().any(|it| *it == format!("routes.yaml:10: {told}"))
    });
    dir_write(&dir, "routes.yaml", &format!("# one\n{}", routes(&["shop-v11", "other"])));
    dir_write(&dir, "marker.txt", "");
    server.log_has("marker.txt");
    assert_eq!(server.log().matches("cds `other`").count(), 2, "{}", server.log());
}

#[test]
fn a_name_that_looks_like_another_one_is_spelled_out() {
    let dir = directory(&[
        ("clusters.yaml", &cluster("shop-v1", 1)),
        ("routes.yaml", &routes(&["sh\u{43e}p-v1"])),
        ("listener.yaml", LISTENER),
    ]);
    let mut server = Server::start(&dir, &[]);
    let told = "which does not exist; did you mean `shop-v1` in place of `sh\\u{43e}p-v1`? If the";
    server.log_has(told);
    assert!(warnings(&server, &dir)[0].contains(told));
}

#[test]
fn names_that_are_declared_together_with_their_use_are_never_warned_of() {
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("listener.yaml", LISTENER)]);
    dir_write(&dir, "routes.yaml", &routes(&["a"]));
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "chancery.yaml", "external: \"local_*\"\n");
    dir_write(&dir, "routes.yaml", &routes(&["a", "local_agent"]));
    server.log_has("chancery.yaml changed");
    dir_write(&dir, "routes.yaml", &routes(&["a", "local_agent", "gone"]));
    server.log_has("refers to cds `gone`");
    assert!(!server.log().contains("local_agent`"), "{}", server.log());
}

#[test]
fn a_group_has_its_own_external_names() {
    let rule = |name: &str, more: &str| format!("- name: {name}\n  match: {{id: {name}}}\n{more}");
    let config = |more: &str| format!("groups:\n{}{}", rule("edge", more), rule("core", ""));
    let dir = directory(&[
        ("routes.yaml", &routes(&["xds_cluster"])),
        ("listener.yaml", LISTENER),
        ("groups/edge/a.yaml", &cluster("a", 1)),
        ("groups/core/xds.yaml", &cluster("xds_cluster", 1)),
        ("chancery.yaml", &config("")),
    ]);
    let mut server = Server::start(&dir, &[]);
    let told = "for group `edge`: rds `r` refers to cds `xds_cluster`, which does not exist; if the \
                clients have it from elsewhere, write `external: [xds_cluster]` at the rule of group \
                `edge` in chancery.yaml";
    server.log_has(told);
    assert_eq!(warnings(&server, &dir), [format!("routes.yaml:7: {told}")]);
    dir_write(&dir, "chancery.yaml", &config("  external: [xds_cluster]\n"));
    eventually(|| warnings(&server, &dir).is_empty());
}

#[test]
fn endpoints_under_a_wrong_name_are_one_warning_that_names_both() {
    let dir = directory(&[("shop.yaml", &eds("shop-v1", "shop-v11"))]);
    let mut server = Server::start(&dir, &[]);
    let told = "cds `shop-v1` refers to eds `shop-v1`, which does not exist: clients get an empty \
                one, so that the cluster has no endpoints; did you mean eds `shop-v11`, to which \
                nothing refers? If it is to have none, write one without endpoints";
    server.log_has(&format!("shop.yaml:4: {told}"));
    assert_eq!(warnings(&server, &dir), [format!("shop.yaml:4: {told}")]);
    dir_write(&dir, "shop.yaml", &(eds("shop-v1", "shop-v1") + &eds("pay", "pay")));
    eventually(|| warnings(&server, &dir).is_empty());
    dir_write(&dir, "shop.yaml", &eds("shop-v1", "shop-v1"));
    dir_write(
        &dir,
        "pay.yaml",
        &eds("pay", "pay")[eds("pay", "")
            .find("- \"@type\": type.googleapis.com/envoy.config.endpoint")
            .unwrap()..],
    );
    let told = "nothing refers to eds `pay`; remove it, or, if the clients refer to it themselves, write \
                `external: [pay]` in chancery.yaml";
    server.log_has(&format!("pay.yaml:1: {told}"));
    eventually(|| warnings(&server, &dir) == [format!("pay.yaml:1: {told}")]);
}

#[test]
fn the_configuration_with_external_names_can_be_printed_and_is_checked() {
    let config =
        "external: [xds_cluster, \"local_*\"]\ngroups: [{name: a, match: {id: a}, external: b}]\n";
    let dir = directory(&[("chancery.yaml", config)]);
    let words = ["serve", dir.path().to_str().unwrap(), "--print-config"];
    let printed = finished(&mut chancery(&words));
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed["external"], serde_json::json!(["xds_cluster", "local_*"]));
    assert_eq!(printed["groups"][0]["external"], serde_json::json!(["b"]));
    dir_write(&dir, "chancery.yaml", "external: {a: b}\n");
    let refused = finished(chancery(&words).stderr(std::process::Stdio::piped()));
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("expected a pattern such as `edge-*`, or a list of patterns"), "{told}");
}

/// A listener `name` on this port of 127.0.0.1, as an Envoy has it.
fn listener(name: &str, port: u16) -> String {
    let filters = "type.googleapis.com/envoy.extensions.filters.network";
    format!(
        "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  name: {name}\n  \
         address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}\n  \
         filter_chains:\n  - filters:\n    - name: tcp\n      typed_config:\n        \
         {{\"@type\": {filters}.tcp_proxy.v3.TcpProxy, stat_prefix: s, cluster: web}}\n"
    )
}

#[test]
fn a_listener_with_an_address_of_another_one_is_held_and_was_told_if_it_is_there_already() {
    let dir = directory(&[
        ("clusters.yaml", &cluster("web", 1)),
        ("a.yaml", &listener("a", 1001)),
        ("groups/edge/b.yaml", &listener("b", 1002)),
        ("groups/old/b.yaml", &listener("b", 1001)),
    ]);
    let mut server = Server::start(&dir, &[]);
    server.log_has("for group `old`: lds `b` has the address 127.0.0.1:1001 of `a`");
    let told = warnings(&server, &dir);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("groups/old/b.yaml:1: for group `old`: lds `b`"), "{told:?}");
    assert!(told[0].contains("a.yaml:1): Envoy refuses the one that comes second"), "{told:?}");

    dir_write(&dir, "groups/edge/b.yaml", &listener("b", 1001));
    server.log_has("/b.yaml:1: lds `b` has the address 127.0.0.1:1001 of `a` (");
    let config: Value = serde_json::from_str(&server.admin("/api/v1/config").1).unwrap();
    assert_eq!(config["held_count"], 1, "that of `old` was there before");

    // Another one in place of both, and the same address one after the other, are no clash.
    dir_write(&dir, "groups/edge/b.yaml", &listener("b", 1003));
    eventually(|| server.admin("/api/v1/config").1.contains("\"held_count\": 0"));
}

#[test]
fn a_clash_is_an_error_of_check() {
    let dir = directory(&[
        ("clusters.yaml", &cluster("web", 1)),
        (
            "a.yaml",
            &(listener("a", 1001) + &listener("b", 1001) + &listener("c", 0) + &listener("d", 0)),
        ),
    ]);
    let path = dir.path().to_str().unwrap();
    let checked = finished(&mut chancery(&["check", path]));
    let told = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(1), "{told}");
    assert!(told.contains("error[envoy/duplicate-address]: "), "{told}");
    assert!(told.contains("lds `b` has the address 127.0.0.1:1001 of `a` ("), "{told}");
    assert!(told.contains("1 error"), "{told}");
    dir_write(&dir, "chancery.yaml", "gate: {messages: warn}\n");
    assert_eq!(finished(&mut chancery(&["check", path])).status.code(), Some(0));
}

/// A cluster that aggregates others.
fn aggregate(name: &str, members: &str) -> String {
    format!(
        "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n  \
         lb_policy: CLUSTER_PROVIDED\n  cluster_type:\n    name: envoy.clusters.aggregate\n    typed_config: \
         {{\"@type\": type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig, \
         clusters: [{members}]}}\n"
    )
}

#[test]
fn a_circle_of_clusters_is_held_where_it_is_new_and_told_where_it_was() {
    let dir = directory(&[
        ("clusters.yaml", &cluster("web", 1)),
        ("a.yaml", &aggregate("a", "b, web")),
        ("groups/edge/b.yaml", &aggregate("b", "web")),
        ("groups/old/b.yaml", &aggregate("b", "a")),
        ("groups/other/b.yaml", &cluster("b", 2)),
    ]);
    let mut server = Server::start(&dir, &[]);
    server.log_has("for group `old`: cds `a` aggregates itself through `b`");
    let told = warnings(&server, &dir);
    let told: Vec<_> = told.iter().filter(|line| line.contains("aggregates")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("a.yaml:1: for group `old`: cds `a` aggregates"), "{told:?}");

    dir_write(&dir, "groups/edge/b.yaml", &aggregate("b", "web, a"));
    server.log_has("/a.yaml:1: cds `a` aggregates itself through `b`: Envoy finds no endpoint");
    let config: Value = serde_json::from_str(&server.admin("/api/v1/config").1).unwrap();
    assert_eq!(config["held_count"], 1, "that of `old` was there before");
    dir_write(&dir, "groups/edge/b.yaml", &aggregate("b", "web, web2"));
    dir_write(&dir, "groups/edge/web2.yaml", &cluster("web2", 3));
    eventually(|| server.admin("/api/v1/config").1.contains("\"held_count\": 0"));
}

#[test]
fn an_aggregate_of_aggregates_alone_is_a_fault_for_envoys() {
    let for_grpc = |name: &str, members: &str| {
        aggregate(name, members).replace("  lb_policy: CLUSTER_PROVIDED\n", "")
    };
    let rules =
        "groups: [{name: mesh, match: {id: m}, clients: grpc}, {name: edge, match: {id: e}}]\n";
    let dir = directory(&[
        ("web.yaml", &cluster("web", 1)),
        ("groups/edge/a.yaml", &aggregate("a", "b, web")),
        ("groups/edge/b.yaml", &aggregate("b", "web")),
        ("groups/mesh/a.yaml", &for_grpc("a", "b, web")),
        ("groups/mesh/b.yaml", &for_grpc("b", "web")),
        ("chancery.yaml", rules),
    ]);
    let mut server = Server::start(&dir, &[]);
    assert!(!server.log().contains("aggregates nothing"), "it has an endpoint: {}", server.log());
    dir_write(&dir, "groups/mesh/a.yaml", &for_grpc("a", "b"));
    server.log_has("edits=\"group `mesh`: ~cds a\"");
    dir_write(&dir, "groups/edge/a.yaml", &aggregate("a", "b"));
    server.log_has("groups/edge/a.yaml:1: cds `a` aggregates nothing but aggregates: `b`: Envoy finds no endpoint");
    let config: Value = serde_json::from_str(&server.admin("/api/v1/config").1).unwrap();
    assert_eq!(config["held_count"], 1, "gRPC takes it");
    let checked = finished(&mut chancery(&["check", dir.path().to_str().unwrap()]));
    let told = String::from_utf8(checked.stdout).unwrap();
    let line = "warning[aggregate-nested]: for group `edge`: cds `a` aggregates nothing but aggregates: `b`";
    assert!(told.contains(line) && !told.contains("`mesh`"), "{told}");
    assert_eq!(told.matches("aggregate-nested").count(), 1, "{told}");
}

#[test]
fn a_circle_of_clusters_is_a_warning_of_check() {
    let dir = directory(&[(
        "a.yaml",
        &(aggregate("a", "b") + &aggregate("b", "c") + &aggregate("c", "a")),
    )]);
    let path = dir.path().to_str().unwrap();
    let checked = finished(&mut chancery(&["check", path]));
    let told = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{told}");
    assert!(told.contains("warning[aggregate-cycle]: "), "{told}");
    assert!(told.contains("cds `a` aggregates itself through `b` and `c`: Envoy finds"), "{told}");
    assert!(told.contains("1 warning"), "{told}");
    dir_write(&dir, "a.yaml", &aggregate("a", "a"));
    let told = String::from_utf8(finished(&mut chancery(&["check", path])).stdout).unwrap();
    assert!(told.contains("cds `a` aggregates itself: Envoy"), "{told}");
}
