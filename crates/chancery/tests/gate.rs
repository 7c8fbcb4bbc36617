//! The gate of the daemon: what a load takes away is held back, told, and let pass by who means it.

mod traffic;

use std::fs;
use std::process::{Output, Stdio};
use std::sync::mpsc::Receiver;

use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::{
    Running, Server, chancery, cluster, dir_write, directory, eventually, exchange, finished,
    lines, next_line,
};

/// A file with the clusters `NAME-0`, `NAME-1` …, which wait for their endpoints.
fn clusters(name: &str, number: usize) -> String {
    let one = |at: usize| {
        format!(
            "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}-{at}\n  \
             connect_timeout: 1s\n"
        )
    };
    (0..number).map(one).collect()
}

/// A file with the one endpoint set `web`.
fn endpoints(number: usize) -> String {
    let one = |at: usize| {
        format!(
            "  - endpoint: {{address: {{socket_address: {{address: 10.0.0.{at}, port_value: 80}}}}}}\n"
        )
    };
    let all: String = (1..=number).map(one).collect();
    let all = if number == 0 { " []".to_owned() } else { format!("\n{all}") };
    format!(
        "\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
         cluster_name: web\nendpoints:\n- lb_endpoints:{all}\n"
    )
}

/// The number of times that a text is in what is served.
fn served(server: &Server, kind: &str, node: &str, text: &str) -> usize {
    let names = if kind == "endpoints" { ", \"resource_names\": [\"web\"]" } else { "" };
    let body = format!("{{\"node\": {{\"id\": \"n\", \"cluster\": \"{node}\"}}{names}}}");
    server.post(kind, &body).1.matches(text).count()
}

fn clusters_of(server: &Server, node: &str) -> usize {
    served(server, "clusters", node, "\"connect_timeout\"")
        + served(server, "clusters", node, "\"connectTimeout\"")
}

fn endpoints_of(server: &Server) -> usize {
    served(server, "endpoints", "x", "10.0.0.")
}

fn config(server: &Server) -> Value {
    serde_json::from_str(&server.admin("/api/v1/config").1).unwrap()
}

fn held_count(server: &Server) -> u64 {
    config(server)["held_count"].as_u64().unwrap()
}

fn metric(server: &Server, line: &str) -> bool {
    server.admin("/metrics").1.lines().any(|it| it == line)
}

fn confirm(server: &Server, words: &[&str]) -> Output {
    let admin = format!("127.0.0.1:{}", server.admin);
    finished(&mut chancery(&[&["confirm", "--admin", &admin], words].concat()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A client of a group, whose stream stays open, and its output.
fn client(server: &Server, group: &str) -> (Running, Receiver<String>) {
    let address = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &address, "--node", "n", "--cluster", group];
    let mut client = Running::start(chancery(&words).args(["-o", "json"]).stderr(Stdio::null()));
    let seen = lines(client.stdout.take().unwrap(), usize::MAX);
    assert!(next_line(&seen).is_some());
    (client, seen)
}

fn settings(dir: &TempDir, gate: &str) {
    dir_write(dir, "chancery.yaml", &format!("gate: {gate}\n"));
}

#[test]
fn a_cut_of_all_clusters_is_held_told_and_let_pass() {
    let dir = directory(&[("clusters.yaml", &clusters("c", 30)), ("other.yaml", &endpoints(1))]);
    let mut server = Server::start(&dir, &[]);
    server.log_has("loss=enforce");
    dir_write(&dir, "clusters.yaml", "[]\n");
    server.log_has("held back from nodes without an overlay: 0 of 30 resources of type `cds` left");
    eventually(|| held_count(&server) == 1);
    assert!(server.log().contains("`chancery confirm --all`"), "{}", server.log());
    assert_eq!(clusters_of(&server, "x"), 30);
    let (status, ready) = server.admin("/ready");
    assert_eq!(status, 200);
    assert!(ready.contains("held back until it is confirmed"), "{ready}");
    assert!(ready.contains("- from nodes without an overlay: 0 of 30 resources"), "{ready}");
    let config = config(&server);
    assert_eq!((&config["held_count"], &config["fault_count"]), (&1.into(), &0.into()));
    assert!(config["held"][0]["reasons"][0].as_str().unwrap().starts_with("0 of 30"));
    eventually(|| metric(&server, "chancery_held_audiences 1"));
    eventually(|| metric(&server, "chancery_held_edits_total{reason=\"type-gone\"} 1"));

    let listed = text(&confirm(&server, &["--list"]).stdout);
    let lost = "  0 of 30 resources of type `cds` left (lost from ";
    assert!(listed.contains(lost) && listed.contains("/clusters.yaml)\n"), "{listed}");
    let (_, token) = listed.trim_end().rsplit_once(" --token ").unwrap();
    let other = confirm(&server, &["--all", "--token", "0123456789abcdef"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("has changed"), "{other:?}");
    assert_eq!(clusters_of(&server, "x"), 30);

    let passed = confirm(&server, &["--all", "--token", token]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert!(text(&passed.stdout).contains("live now:\n\nnodes without an overlay\n  0 of 30"));
    assert_eq!(clusters_of(&server, "x"), 0, "it is live when the command ends");
    assert_eq!((held_count(&server), server.admin("/ready").1), (0, "ready\n".to_owned()));
    server.log_has("confirmed, and live for nodes without an overlay");
    eventually(|| metric(&server, "chancery_held_audiences 0"));
    eventually(|| metric(&server, "chancery_held_passed_total{by=\"confirmation\"} 1"));

    let again = confirm(&server, &["--all"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("nothing is held back"), "{again:?}");
    let listed = confirm(&server, &["--list"]);
    assert_eq!(
        (listed.status.code(), text(&listed.stdout)),
        (Some(0), "nothing is held back\n".into())
    );
}

#[test]
fn a_group_directory_that_nodes_use_stays_and_others_go_on() {
    let files = [
        ("base.yaml", clusters("base", 5)),
        ("groups/edge/own.yaml", clusters("edge", 1)),
        ("groups/unused/own.yaml", clusters("unused", 30)),
    ];
    let dir = directory(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "edge");
    fs::remove_dir_all(dir.path().join("groups/unused")).unwrap();
    server.log_has("loaded files=2");
    assert_eq!((held_count(&server), clusters_of(&server, "unused")), (0, 5));
    fs::remove_dir_all(dir.path().join("groups/edge")).unwrap();
    dir_write(&dir, "base.yaml", &clusters("base", 6));
    server.log_has("the directory of group `edge` is gone, and nodes use it");
    eventually(|| clusters_of(&server, "other") == 6);
    assert_eq!(clusters_of(&server, "edge"), 6, "five and its own, as before");
    let wrong = confirm(&server, &["--group", "unused"]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    let passed = confirm(&server, &["--group", "edge"]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    eventually(|| served(&server, "clusters", "edge", "edge-0") == 0);
    assert_eq!(clusters_of(&server, "edge"), 6);
}

/// The directory of a group and the rule for it get another name together: nobody loses anything.
#[test]
fn a_group_that_is_renamed_with_its_rule_is_not_held() {
    let rule = |name: &str| format!("groups: [{{name: {name}, match: {{cluster: fleet}}}}]\n");
    let files = [
        ("chancery.yaml", rule("edge")),
        ("base.yaml", clusters("base", 1)),
        ("groups/edge/own.yaml", clusters("edge", 2)),
    ];
    let dir = directory(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let server = Server::start(&dir, &[]);
    let _client = client(&server, "fleet");
    fs::rename(dir.path().join("groups/edge"), dir.path().join("groups/front")).unwrap();
    dir_write(&dir, "chancery.yaml", &rule("front"));
    let group = || {
        let nodes: Value = serde_json::from_str(&server.admin("/api/v1/nodes").1).unwrap();
        nodes["nodes"][0]["group"].as_str().map(str::to_owned)
    };
    eventually(|| group().as_deref() == Some("front"));
    eventually(|| held_count(&server) == 0);
    assert_eq!(clusters_of(&server, "fleet"), 3);
}

#[test]
fn a_truncated_endpoints_file_is_held_until_it_is_repaired() {
    let dir = directory(&[("endpoints.yaml", &endpoints(20))]);
    let mut server = Server::start(&dir, &[]);
    assert_eq!(endpoints_of(&server), 20);
    dir_write(&dir, "endpoints.yaml", &endpoints(1));
    server.log_has("1 of 20 endpoints left");
    // A later edit waits behind the slip, and both are told.
    dir_write(&dir, "clusters.yaml", &cluster("web", 1));
    server.log_has("a later edit waits too");
    let waits = "waiting: ";
    eventually(|| server.admin("/ready").1.contains(waits));
    let ready = server.admin("/ready").1;
    let (_, waiting) = ready.split_once(waits).unwrap();
    assert!(waiting.contains("+cds `web` (") && waiting.contains("/clusters.yaml:1)"), "{ready}");
    assert!(waiting.contains("~eds `web` (") && waiting.contains("/endpoints.yaml:1)"), "{ready}");
    assert!(server.log().contains(waiting.trim_end()), "{}", server.log());
    assert_eq!((endpoints_of(&server), clusters_of(&server, "x")), (20, 0));
    dir_write(&dir, "endpoints.yaml", &endpoints(19));
    server.log_has("no longer held back from nodes without an overlay");
    eventually(|| endpoints_of(&server) == 19 && clusters_of(&server, "x") == 1);
}

#[test]
fn an_emptied_endpoint_set_is_held_unless_it_may_be_empty() {
    let dir = directory(&[("endpoints.yaml", &endpoints(2))]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "endpoints.yaml", &endpoints(0));
    server.log_has("no endpoints left in 1 endpoint set: `web`");
    assert_eq!(endpoints_of(&server), 2);
    // The setting is followed, and lets it pass.
    settings(&dir, "{may-be-empty: [w*]}");
    eventually(|| endpoints_of(&server) == 0);
    eventually(|| held_count(&server) == 0);
}

#[test]
fn a_cut_in_three_steps_is_held_and_a_replacement_of_all_is_not() {
    let dir = directory(&[("clusters.yaml", &clusters("blue", 100))]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "clusters.yaml", &clusters("green", 100));
    eventually(|| served(&server, "clusters", "x", "green-99") > 0);
    assert_eq!((held_count(&server), clusters_of(&server, "x")), (0, 100));
    dir_write(&dir, "clusters.yaml", &clusters("green", 70));
    eventually(|| clusters_of(&server, "x") == 70);
    dir_write(&dir, "clusters.yaml", &clusters("green", 49));
    server.log_has("49 of 100 clusters left");
    dir_write(&dir, "clusters.yaml", &clusters("green", 35));
    let reason = || config(&server)["held"][0]["reasons"][0].as_str().map(str::to_owned);
    eventually(|| reason().is_some_and(|it| it.starts_with("35 of 100 clusters left (lost from ")));
    assert_eq!(clusters_of(&server, "x"), 70);
}

#[test]
fn a_first_load_and_one_after_a_restart_are_not_judged() {
    let dir = directory(&[("clusters.yaml", &clusters("c", 100))]);
    drop(Server::start(&dir, &[]));
    dir_write(&dir, "clusters.yaml", &clusters("c", 1));
    let server = Server::start(&dir, &[]);
    assert_eq!((held_count(&server), clusters_of(&server, "x")), (0, 1));
}

/// A listener that answers by itself, or without a filter.
fn listener(name: &str, has_router: bool) -> String {
    let filters = match has_router {
        false => "[]",
        true => {
            "[{name: router, typed_config: {\"@type\": \
             type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]"
        }
    };
    format!(
        "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  name: {name}\n  address: \
         {{pipe: {{path: {name}.sock}}}}\n  filter_chains:\n  - filters:\n    - name: http\n      \
         typed_config:\n        \"@type\": type.googleapis.com/envoy.extensions.filters.network.\
         http_connection_manager.v3.HttpConnectionManager\n        stat_prefix: a\n        route_config: \
         {{name: a, virtual_hosts: [{{name: a, domains: [\"{name}.example\"], routes: [{{match: {{prefix: /}}, \
         direct_response: {{status: 200}}}}]}}]}}\n        http_filters: {filters}\n"
    )
}

#[test]
fn a_file_with_listeners_that_nodes_use_does_not_go_by_itself() {
    let other = ("groups/edge/c.yaml", &*listener("c", true));
    let dir = directory(&[
        ("groups/edge/a.yaml", &(listener("a", true) + &listener("a2", true))),
        ("groups/edge/b.yaml", &listener("b", true)),
        other,
        ("clusters.yaml", &clusters("c", 1)),
    ]);
    let mut server = Server::start(&dir, &[]);
    // Nobody uses it; a poll would, while it is answered.
    fs::remove_file(dir.path().join(other.0)).unwrap();
    server.log_has("-lds c");
    assert_eq!(held_count(&server), 0);
    let open = client(&server, "edge");
    // One of several is retired: that passes, and what goes is told.
    dir_write(&dir, "groups/edge/a.yaml", &listener("a", true));
    server.log_has("no listener has the address unix:a2.sock any more, as `a2` (it was at ");
    // A new file in place of an old one.
    fs::remove_file(dir.path().join("groups/edge/b.yaml")).unwrap();
    dir_write(&dir, "groups/edge/d.yaml", &listener("d", true));
    server.log_has("+lds d, -lds b");
    assert_eq!(held_count(&server), 0);
    fs::remove_file(dir.path().join("groups/edge/d.yaml")).unwrap();
    server
        .log_has("/groups/edge/d.yaml has gone with lds `d`, which nodes use; what they see stays");
    eventually(|| metric(&server, "chancery_held_edits_total{reason=\"file-gone\"} 1"));
    dir_write(&dir, "groups/edge/d.yaml", &listener("d", false));
    server.log_has(
        "/groups/edge/d.yaml:1: lds `d`: filter_chains[0].filters[0].typed_config: has no filter",
    );
    eventually(|| metric(&server, "chancery_held_edits_total{reason=\"unanswered\"} 1"));
    drop(open);
}

/// Listeners `a` and `b` with these paths, and more fields of each.
fn two_listeners(paths: [&str; 2], more: &str) -> String {
    let one = |name: &str, path: &str| {
        let text = listener(name, true).replace(&format!("{name}.sock"), path);
        text.replace("  filter_chains:", &format!("{more}  filter_chains:"))
    };
    one("a", paths[0]) + &one("b", paths[1])
}

/// Something is held back now, and told with these words.
fn holds(server: &mut Server, words: &str) {
    server.log_has(words);
    eventually(|| held_count(server) == 1);
}

/// This edit goes live, and with it all that was held back.
fn passes(server: &mut Server, dir: &TempDir, (file, text): (&str, &str), words: &str) {
    dir_write(dir, file, text);
    server.log_has(words);
    eventually(|| held_count(server) == 0);
}

fn scopes(all: [(&str, &str); 2]) -> String {
    let one = |(name, key): (&str, &str)| {
        format!(
            "- {{\"@type\": type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration, name: {name}, \
             route_configuration_name: r, key: {{fragments: [{{string_key: {key}}}]}}}}\n"
        )
    };
    all.map(one).concat()
}

#[test]
fn a_change_that_running_clients_do_not_follow_is_held_back() {
    let secret = |kind: &str| {
        let of = "envoy.extensions.transport_sockets.tls.v3.Secret";
        format!("{{\"@type\": type.googleapis.com/{of}, name: s, {kind}}}\n")
    };
    let generic =
        |text: &str| secret(&format!("generic_secret: {{secret: {{inline_string: {text}}}}}"));
    let dir = directory(&[
        ("secrets.yaml", &generic("x")),
        ("listeners.yaml", &two_listeners(["1.sock", "2.sock"], "")),
        ("scopes.yaml", &scopes([("a", "one"), ("b", "two")])),
        ("routes.yaml", &routes(&["elsewhere"])),
    ]);
    let mut server = Server::start(&dir, &[]);
    // One of its kind passes.
    passes(&mut server, &dir, ("secrets.yaml", &generic("y")), "~sds s");
    dir_write(&dir, "secrets.yaml", &secret("validation_context: {trusted_ca: {filename: /x}}"));
    holds(&mut server, "/secrets.yaml:1: sds `s`: `generic_secret` becomes `validation_context`");
    eventually(|| metric(&server, "chancery_held_edits_total{reason=\"in-place\"} 1"));
    passes(&mut server, &dir, ("secrets.yaml", &generic("y")), "no longer held back");

    let alone = two_listeners(["1.sock", "2.sock"], "  enable_reuse_port: false\n");
    dir_write(&dir, "listeners.yaml", &alone);
    holds(
        &mut server,
        "lds `b`: `enable_reuse_port` changes: an Envoy that has the listener refuses",
    );
    dir_write(&dir, "listeners.yaml", &two_listeners(["2.sock", "1.sock"], ""));
    holds(&mut server, "lds `a` takes an address that ");
    // `b` comes after `a`, which has moved by then.
    let moved = two_listeners(["3.sock", "1.sock"], "");
    passes(&mut server, &dir, ("listeners.yaml", &moved), "~lds a, ~lds b");

    dir_write(&dir, "scopes.yaml", &scopes([("a", "two"), ("b", "one")]));
    holds(&mut server, "srds `a` takes the key that ");
    dir_write(&dir, "scopes.yaml", &scopes([("a", "one"), ("b", "one")]));
    holds(&mut server, "srds `b` has the key \"one\" of `a`");
    let moved = scopes([("a", "zero"), ("b", "one")]);
    passes(&mut server, &dir, ("scopes.yaml", &moved), "~srds a, ~srds b");
}

#[test]
fn a_group_without_nodes_has_nothing_in_place() {
    let listeners = |more: &str| two_listeners(["1.sock", "2.sock"], more);
    let alone = listeners("  enable_reuse_port: false\n");
    let dir = directory(&[
        ("groups/edge/listeners.yaml", &listeners("")),
        ("clusters.yaml", &clusters("c", 1)),
    ]);
    let mut server = Server::start(&dir, &[]);
    passes(
        &mut server,
        &dir,
        ("groups/edge/listeners.yaml", &alone),
        "group `edge`: ~lds a, ~lds b",
    );
    let _client = client(&server, "edge");
    dir_write(&dir, "groups/edge/listeners.yaml", &listeners(""));
    holds(&mut server, "lds `b`: `enable_reuse_port` changes: an Envoy that has the listener");
}

#[test]
fn a_listener_under_another_name_has_the_socket_of_the_one_before() {
    let alone = "  enable_reuse_port: false\n";
    let one = |name: &str, more: &str| {
        let text = listener(name, true).replace(&format!("{name}.sock"), "one.sock");
        text.replace("  filter_chains:", &format!("{more}  filter_chains:"))
    };
    let dir = directory(&[("listener.yaml", &one("a", alone))]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "listener.yaml", &one("b", &format!("{alone}  freebind: true\n")));
    holds(
        &mut server,
        "lds `b` takes an address of `a`, which goes, and socket options change without",
    );
    passes(&mut server, &dir, ("listener.yaml", &one("b", alone)), "+lds b, -lds a");
}

#[test]
fn a_filter_becomes_one_of_another_type_in_steps() {
    let filter = |kind: &str| {
        format!(
            "{{\"@type\": type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig, name: f, typed_config: \
             {{\"@type\": {kind}}}}}\n"
        )
    };
    let asks = |kinds: &str| {
        let source =
            "config_discovery: {config_source: {ads: {}, resource_api_version: V3}, type_urls: ";
        let filter = format!("http_filters: [{{name: f, {source}[{kinds}]}}}}, ");
        listener("f", true).replace("http_filters: [", &filter)
    };
    let (fault, cors) = (
        "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
        "type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors",
    );
    let dir = directory(&[("filter.yaml", &filter(fault)), ("asks.yaml", &asks(fault))]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "filter.yaml", &filter(cors));
    let is_one =
        "/filter.yaml:1: ecds `f` is a `envoy.extensions.filters.http.cors.v3.Cors`, which lds `f`";
    holds(&mut server, is_one);
    dir_write(&dir, "asks.yaml", &asks(cors));
    server.log_has("a later edit");
    assert_eq!(held_count(&server), 1, "those that have it do not take both at once");
    dir_write(&dir, "filter.yaml", &filter(fault));
    holds(&mut server, "ecds `f` is a `envoy.extensions.filters.http.fault.v3.HTTPFault`");
    let both = asks(&format!("{fault}, {cors}"));
    passes(&mut server, &dir, ("asks.yaml", &both), "~lds f");
    passes(&mut server, &dir, ("filter.yaml", &filter(cors)), "~ecds f");
    // Somebody lets it pass, and then it is an old fault, which holds no later edit back.
    let why = "# chancery: allow filter-type: a test\n";
    passes(&mut server, &dir, ("asks.yaml", &(why.to_owned() + &asks(fault))), "~lds f");
    let edited = asks(fault).replace("stat_prefix: a", "stat_prefix: b");
    passes(&mut server, &dir, ("asks.yaml", &edited), "~lds f");
    assert!(!server.log().contains("remove the comment"), "{}", server.log());
}

/// A route configuration with a route to each of these clusters.
fn routes(clusters: &[&str]) -> String {
    let route =
        |name: &&str| format!("  - {{match: {{prefix: /{name}}}, route: {{cluster: {name}}}}}\n");
    let routes: String = clusters.iter().map(route).collect();
    format!(
        "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration\nname: r\n\
         virtual_hosts:\n- name: v\n  domains: [\"*\"]\n  routes:\n{routes}"
    )
}

#[test]
fn a_reference_that_would_lead_nowhere_is_held_and_one_that_did_before_is_not() {
    let dir = directory(&[
        ("shop.yaml", &cluster("shop-v1", 1)),
        ("pay.yaml", &cluster("pay", 1)),
        ("routes.yaml", &routes(&["shop-v1", "elsewhere"])),
    ]);
    let mut server = Server::start(&dir, &[]);
    assert_eq!(held_count(&server), 0, "a start is not judged");
    // A slip in a route: the place, and the name that may be meant.
    dir_write(&dir, "routes.yaml", &routes(&["shop-v11", "elsewhere"]));
    server.log_has(
        "/routes.yaml:7: rds `r` \
         (virtual_hosts[0].routes[0].route.cluster) refers to cds `shop-v11`, which does not exist; \
         did you mean `shop-v1`?",
    );
    eventually(|| held_count(&server) == 1);
    dir_write(&dir, "routes.yaml", &routes(&["shop-v1", "pay", "elsewhere"]));
    server.log_has("no longer held back");
    eventually(|| held_count(&server) == 0);
    // The target goes.
    fs::remove_file(dir.path().join("pay.yaml")).unwrap();
    server.log_has("refers to cds `pay`, which this takes away (it was at ");
    assert_eq!(clusters_of(&server, "x"), 2);
    // The clients know it from elsewhere.
    dir_write(&dir, "chancery.yaml", "external: [pay]\n");
    eventually(|| clusters_of(&server, "x") == 1 && held_count(&server) == 0);
    dir_write(&dir, "chancery.yaml", "gate: {dangling: warn}\nexternal: [pay]\n");
    server.log_has("dangling=warn");
    dir_write(&dir, "routes.yaml", &routes(&["gone"]));
    server.log_has(
        "routes.yaml:7: rds `r` (virtual_hosts[0].routes[0].route.cluster) refers to cds `gone`",
    );
    server.log_has("with `enforce` in `gate` it would be held back");
    eventually(|| held_count(&server) == 0);
}

#[test]
fn with_warn_and_with_off_everything_goes_live() {
    let dir = directory(&[("clusters.yaml", &clusters("c", 100))]);
    settings(&dir, "{loss: warn}");
    let mut server = Server::start(&dir, &[]);
    server.log_has("loss=warn");
    dir_write(&dir, "clusters.yaml", &clusters("c", 10));
    server.log_has("goes live for nodes without an overlay: 10 of 100 clusters left");
    eventually(|| clusters_of(&server, "x") == 10);
    settings(&dir, "{loss: off}");
    server.log_has("loss=off");
    dir_write(&dir, "clusters.yaml", "[]\n");
    eventually(|| clusters_of(&server, "x") == 0);
    eventually(|| metric(&server, "chancery_held_passed_total{by=\"warn\"} 1"));
    // A gate that is in force again judges from then on.
    settings(&dir, "{loss: enforce, loss-percent: 10}");
    dir_write(&dir, "clusters.yaml", &clusters("c", 100));
    eventually(|| clusters_of(&server, "x") == 100);
    dir_write(&dir, "clusters.yaml", &clusters("c", 89));
    server.log_has("held back from nodes without an overlay: 89 of 100 clusters left");
}

#[test]
fn the_settings_of_the_gate_are_told_when_they_change() {
    let dir = directory(&[("clusters.yaml", &clusters("c", 1))]);
    let mut server = Server::start(&dir, &[]);
    let rules = |more: &str| format!("groups: [{{name: g, match: {{cluster: g}}}}]\n{more}");
    dir_write(&dir, "chancery.yaml", &rules(""));
    server.log_has("group `g` has rules and no files");
    dir_write(&dir, "chancery.yaml", &rules("gate: {loss-percent: 51}\n"));
    server.log_has("loss_percent=51");
    assert_eq!(server.log().matches("the gate: what it enforces").count(), 2, "{}", server.log());
}

#[test]
fn what_stays_as_it_is_passes_after_the_time_that_is_set() {
    let dir = directory(&[("clusters.yaml", &clusters("c", 100))]);
    settings(&dir, "{pass-after: 1ms}");
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "clusters.yaml", &clusters("c", 10));
    server.log_has("after `gate.pass-after`, without a confirmation: 10 of 100 clusters left");
    eventually(|| clusters_of(&server, "x") == 10);
    eventually(|| held_count(&server) == 0);
}

#[test]
fn a_web_page_confirms_nothing() {
    let dir = directory(&[("clusters.yaml", &clusters("c", 30))]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "clusters.yaml", "[]\n");
    server.log_has("held back from");
    let token = config(&server)["held"][0]["token"].as_str().unwrap().to_owned();
    let body = format!("{{\"all\": true, \"token\": \"{token}\"}}");
    let post = |headers: &str| {
        let line = format!("POST /api/v1/confirm HTTP/1.1\r\n{headers}x: y");
        // The helper adds the rest of the first line to the header before it.
        exchange(&mut server.dial(server.admin), &line, &body).0
    };
    assert_eq!(post("origin: http://localhost:18080\r\n"), 403);
    assert_eq!(post("x-forwarded-for: 10.0.0.1\r\n"), 403);
    let mut stream = server.dial(server.admin);
    assert_eq!(exchange(&mut stream, "GET http://rebound.example/api/v1/confirm", "").0, 403);
    assert_eq!(clusters_of(&server, "x"), 30);
    assert_eq!(post(""), 200);
    assert_eq!(clusters_of(&server, "x"), 0);
}

#[test]
fn a_command_that_cannot_ask_says_why() {
    let dir = directory(&[("clusters.yaml", &clusters("c", 1))]);
    let server = Server::start(&dir, &[]);
    let code = |output: &Output| output.status.code();
    assert_eq!(code(&confirm(&server, &[])), Some(64), "neither --all nor --group");
    assert_eq!(code(&confirm(&server, &["--all", "--group", "a"])), Some(64));
    let off = finished(&mut chancery(&["confirm", "--all", "--admin", "off"]));
    assert_eq!(code(&off), Some(64), "{off:?}");
    let discovery = format!("127.0.0.1:{}", server.port);
    let wrong = finished(&mut chancery(&["confirm", "--all", "--admin", &discovery]));
    assert_eq!(code(&wrong), Some(2), "{wrong:?}");
    drop(server);
    let nobody = finished(&mut chancery(&["confirm", "--list", "--admin", &discovery]));
    assert_eq!(code(&nobody), Some(2));
    assert!(text(&nobody.stderr).contains("--admin"), "{nobody:?}");
}

#[test]
fn rules_and_the_load_beside_them_are_confirmed_together() {
    const EDGE: &str = "groups: [{name: edge, match: {id: n}}]\n";
    const BACK: &str = "groups: [{name: back, match: {id: n}}]\n";
    let dir = directory(&[
        ("chancery.yaml", EDGE),
        ("groups/edge/own.yaml", &clusters("edge", 40)),
        ("groups/back/own.yaml", &clusters("back", 30)),
    ]);
    let mut server = Server::start(&dir, &[]);
    let _client = client(&server, "x");
    dir_write(&dir, "chancery.yaml", BACK);
    server.log_has("chancery.yaml moves 1 node (`n`) from group `edge` to group `back`");
    dir_write(&dir, "groups/back/own.yaml", &clusters("back", 1));
    server.log_has("held back from group `back`: 1 of 30 clusters left");
    eventually(|| held_count(&server) == 2);
    let passed = confirm(&server, &["--all"]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert_eq!((held_count(&server), clusters_of(&server, "x")), (0, 1));
}

#[test]
fn an_urgent_edit_passes_a_file_with_a_fault_of_somebody_else() {
    let dir = directory(&[
        ("groups/edge/a.yaml", &clusters("a", 20)),
        ("groups/edge/b.yaml", &clusters("b", 20)),
        ("clusters.yaml", &clusters("base", 1)),
    ]);
    let state = tempfile::tempdir().unwrap();
    let flag = format!("--state={}", state.path().display());
    let mut server = Server::start(&dir, &[&flag]);
    let broken = clusters("a", 19) + "nonsense: 1\n";
    dir_write(&dir, "groups/edge/a.yaml", &broken);
    server.log_has("loaded with faults");
    assert_eq!(held_count(&server), 0, "nothing waits so far");
    dir_write(&dir, "groups/edge/b.yaml", &clusters("b", 21));
    server.log_has(
        "edits wait behind a fault in another file, held back from group `edge`: +cds `b-20`",
    );
    eventually(|| held_count(&server) == 1);
    let ready = server.admin("/ready").1;
    assert!(ready.contains("- from group `edge`: faults in `"), "{ready}");
    assert!(ready.contains("a.yaml`, which stays as it was when the rest passes"), "{ready}");
    assert!(ready.contains("waiting: +cds `b-20` ("), "{ready}");
    assert_eq!(clusters_of(&server, "edge"), 41);
    let passed = confirm(&server, &["--group", "edge"]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert_eq!((clusters_of(&server, "edge"), held_count(&server)), (42, 0));
    server.log_has("confirmed, and live for group `edge`: faults in `");
    let ready = server.admin("/ready").1;
    assert!(ready.contains("- group `edge` is served, but for `"), "{ready}");
    assert_eq!(config(&server)["last_good"][0]["partial"], true);
    // So do later ones. The gate judges them as ever, and what it holds is confirmed by itself.
    dir_write(&dir, "groups/edge/b.yaml", &clusters("b", 22));
    eventually(|| clusters_of(&server, "edge") == 43);
    dir_write(&dir, "groups/edge/b.yaml", "[]\n");
    server.log_has("held back from group `edge`: 21 of 43 clusters left");
    assert_eq!(clusters_of(&server, "edge"), 43);
    dir_write(&dir, "groups/edge/a.yaml", &clusters("a", 20));
    dir_write(&dir, "groups/edge/b.yaml", &clusters("b", 30));
    eventually(|| clusters_of(&server, "edge") == 51 && held_count(&server) == 0);
    assert_eq!(server.admin("/ready").1, "ready\n");
    // Behind a fault there may be a loss. It is judged when it passes, and needs a word of its own.
    dir_write(&dir, "groups/edge/a.yaml", &broken);
    dir_write(&dir, "groups/edge/b.yaml", "[]\n");
    eventually(|| server.admin("/ready").1.contains("waiting: -cds `b-0`"));
    let refused = confirm(&server, &["--group", "edge"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("has changed"), "{refused:?}");
    eventually(|| server.admin("/ready").1.contains("21 of 51 clusters left"));
    assert_eq!(clusters_of(&server, "edge"), 51);
    let token = config(&server)["held"][0]["token"].as_str().unwrap().to_owned();
    fs::write(state.path().join("confirm"), token).unwrap();
    eventually(|| clusters_of(&server, "edge") == 21);
}

#[test]
fn a_finding_that_somebody_let_pass_holds_nothing_back() {
    const WHY: &str = "# chancery: allow dangling-reference: the next release brings it\n";
    let dir = directory(&[
        ("clusters.yaml", &cluster("shop", 1)),
        ("groups/edge/routes.yaml", &routes(&["shop"])),
        ("groups/edge/listeners.yaml", &listener("l", true)),
        // Without a reason it would be malformed; without a finding it is not needed.
        ("other.yaml", &format!("{WHY}{}", cluster("other", 1))),
    ]);
    let mut server = Server::start(&dir, &[]);
    server.log_has("other.yaml:1: nothing here is `dangling-reference`: remove the comment");
    let _client = client(&server, "edge");
    dir_write(&dir, "groups/edge/routes.yaml", &(WHY.to_owned() + &routes(&["shop", "new"])));
    server.log_has("~rds r");
    assert_eq!(held_count(&server), 0, "{}", server.admin("/ready").1);
    // One beside it is held back as ever.
    dir_write(&dir, "groups/edge/more.yaml", &routes(&["gone"]).replace("name: r\n", "name: r2\n"));
    server.log_has("more.yaml:7: rds `r2`");
    assert!(text(&confirm(&server, &["--list"]).stdout).contains("more.yaml:7: rds `r2`"));
    assert!(server.admin("/ready").1.contains("more.yaml:7: rds `r2`"));
    eventually(|| held_count(&server) == 1);
    assert!(!server.log().contains("refers to cds `new`"), "{}", server.log());
    // A comment above one of its lines is about that line, here as in `check`: of another one, and of this one.
    let inside = routes(&["shop", "newer"]).replace("  routes:\n", &format!("  routes:\n  {WHY}"));
    dir_write(&dir, "groups/edge/inside.yaml", &inside.replace("name: r\n", "name: r3\n"));
    server.log_has(
        "inside.yaml:9: rds `r3` (virtual_hosts[0].routes[1].route.cluster) refers to cds `newer`",
    );
    let at_field = inside.replace(&format!("  {WHY}"), "");
    let at_field = at_field.replace(
        "  - {match: {prefix: /newer}",
        &format!("  {WHY}  - {{match: {{prefix: /newer}}"),
    );
    dir_write(&dir, "groups/edge/inside.yaml", &at_field.replace("name: r\n", "name: r3\n"));
    eventually(|| !server.admin("/ready").1.contains("newer"));
    fs::remove_file(dir.path().join("groups/edge/inside.yaml")).unwrap();
    // So does a code that passes everywhere, and other codes do not.
    dir_write(
        &dir,
        "chancery.yaml",
        "allow: {dangling-reference: a test, no-http-filter: a test}\n",
    );
    eventually(|| held_count(&server) == 0);
    dir_write(&dir, "groups/edge/listeners.yaml", &listener("l", false));
    server.log_has("~lds l");
    assert_eq!(held_count(&server), 0, "{}", server.admin("/ready").1);
    settings(&dir, "{loss-percent: 51}");
    server.log_has("loss_percent=51");
    let bare = listener("m", false);
    let (above, field) = bare.split_once("      typed_config:\n").unwrap();
    let allowed = format!(
        "{above}      # chancery: allow no-http-filter: a test\n      typed_config:\n{field}"
    );
    dir_write(&dir, "groups/edge/m.yaml", &allowed);
    server.log_has("+lds m");
    assert_eq!(held_count(&server), 0, "{}", server.admin("/ready").1);
    dir_write(&dir, "groups/edge/n.yaml", &listener("n", false));
    eventually(|| held_count(&server) == 1);
    let told = server.log().matches("remove the comment").count();
    assert_eq!(told, 1, "it is told once, and none that is needed: {}", server.log());
}

#[test]
fn an_edit_that_was_held_back_passes_a_fault_that_came_later() {
    let dir = directory(&[
        ("groups/edge/a.yaml", &clusters("a", 20)),
        ("groups/edge/b.yaml", &clusters("b", 30)),
    ]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "groups/edge/b.yaml", "[]\n");
    server.log_has("held back from group `edge`: 20 of 50 clusters left");
    dir_write(&dir, "groups/edge/a.yaml", "nonsense: 1\n");
    server.log_has("loaded with faults");
    eventually(|| held_count(&server) == 2);
    let ready = server.admin("/ready").1;
    assert!(ready.contains("20 of 50 clusters left") && ready.contains("faults in `"), "{ready}");
    assert!(!server.log().contains("no longer held back"), "{}", server.log());
    let passed = confirm(&server, &["--group", "edge"]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert_eq!((clusters_of(&server, "edge"), held_count(&server)), (20, 0));
}

#[test]
fn a_fault_at_the_top_lets_the_edits_of_groups_pass_like_its_own() {
    let dir = directory(&[
        ("a.yaml", &clusters("a", 20)),
        ("groups/edge/b.yaml", &clusters("b", 30)),
        ("groups/back/c.yaml", &clusters("c", 30)),
    ]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "groups/edge/b.yaml", "[]\n");
    server.log_has("held back from group `edge`: 20 of 50 clusters left");
    dir_write(&dir, "a.yaml", "nonsense: 1\n");
    server.log_has("loaded with faults");
    eventually(|| held_count(&server) == 2);
    // Whoever confirms the group alone is told of the other layer.
    let refused = confirm(&server, &["--group", "edge"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("faults in base hold it back too"), "{refused:?}");
    // An edit of another group waits too, and is told.
    dir_write(&dir, "groups/back/c.yaml", &clusters("c", 31));
    eventually(|| server.admin("/ready").1.contains("+cds `c-30`"));
    assert_eq!(clusters_of(&server, "back"), 50);
    let passed = confirm(&server, &["--all"]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert_eq!((clusters_of(&server, "edge"), clusters_of(&server, "back")), (20, 51));
    assert_eq!(held_count(&server), 0);
    dir_write(&dir, "a.yaml", &clusters("a", 20));
    eventually(|| server.admin("/ready").1 == "ready\n");
    // A loss of a group is judged when it passes, and needs a word of its own.
    dir_write(&dir, "a.yaml", "nonsense: 1\n");
    dir_write(&dir, "groups/back/c.yaml", "[]\n");
    eventually(|| server.admin("/ready").1.contains("-cds `c-0`"));
    let refused = confirm(&server, &["--all"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("what is still held back has changed"), "{refused:?}");
    eventually(|| server.admin("/ready").1.contains("20 of 51 clusters left"));
    let passed = confirm(&server, &["--group", "back"]);
    assert_eq!(passed.status.code(), Some(0), "{passed:?}");
    assert_eq!(clusters_of(&server, "back"), 20);
}
