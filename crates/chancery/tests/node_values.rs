//! Values that differ by node: a port from metadata, nodes that do not state it, and loads that ask for more.

use std::process::Stdio;
use std::sync::mpsc::Receiver;

use tempfile::TempDir;

use crate::daemon::{
    Running, Server, all_lines, chancery, cluster, dir_write, directory, eventually, finished,
    lines, next_line,
};

const LISTENER: &str = "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: ingress
address: {socket_address: {address: 127.0.0.1, port_value: 1}}
filter_chains:
- filters:
  - name: tcp
    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      stat_prefix: ingress
      cluster: shop
";

const VALUES: &str = "---
values:
- type: lds
  name: ingress
  set:
    address.socket_address.port_value: ${node.metadata.port}
    filter_chains[0].filters[0].typed_config.stat_prefix: in-${node.id}
";

const RULES: &str = "groups: [{name: edge, match: {cluster: edge}}]\n";

/// The group `edge` has a listener whose port is that of the node.
fn fleet(values: &str) -> TempDir {
    directory(&[
        ("chancery.yaml", RULES),
        ("shop.yaml", &cluster("shop", 1)),
        ("groups/edge/listeners.yaml", &format!("{LISTENER}{values}")),
    ])
}

/// The answer to a node that asks for listeners, with this metadata.
fn listeners(server: &Server, id: &str, metadata: &str) -> (u16, String) {
    let node = format!("\"id\": \"{id}\", \"cluster\": \"edge\", \"metadata\": {{{metadata}}}");
    server.post("listeners", &format!("{{\"node\": {{{node}}}}}"))
}

/// A client whose stream stays open, and its output.
fn client(server: &Server, id: &str, metadata: &[&str]) -> (Running, Receiver<String>) {
    let address = format!("127.0.0.1:{}", server.port);
    let mut words = vec!["watch", "lds", "--server", &address, "--node", id, "--cluster", "edge"];
    metadata.iter().for_each(|one| words.extend(["--metadata", one]));
    let mut client = Running::start(chancery(&words).args(["-o", "json"]).stderr(Stdio::null()));
    let seen = lines(client.stdout.take().unwrap(), usize::MAX);
    assert!(next_line(&seen).is_some());
    (client, seen)
}

#[test]
fn each_node_gets_the_values_that_it_states() {
    let dir = fleet(VALUES);
    let server = Server::start(&dir, &[]);
    let (_, a) = listeners(&server, "a", "\"port\": 8001");
    let (_, b) = listeners(&server, "b", "\"port\": \"8002\"");
    assert!(a.contains("\"portValue\":8001") && a.contains("\"in-a\""), "{a}");
    assert!(b.contains("\"portValue\":8002") && b.contains("\"in-b\""), "{b}");
    // Replicas agree, because a version is of the content (S-031).
    let version = |answer: &str| answer.split_once("versionInfo\":\"").unwrap().1[..16].to_owned();
    let other = Server::start(&dir, &[]);
    let (_, again) = listeners(&other, "a", "\"port\": 8001.0");
    assert_eq!(version(&again), version(&a));
    assert_ne!(version(&b), version(&a));

    // A change of what all nodes share reaches each of them, and the values stay.
    dir_write(&dir, "groups/edge/listeners.yaml", &format!("{LISTENER}stat_prefix: new\n{VALUES}"));
    eventually(|| listeners(&server, "a", "\"port\": 8001").1.contains("\"statPrefix\":\"new\""));
    let (_, a) = listeners(&server, "a", "\"port\": 8001");
    assert!(a.contains("\"portValue\":8001") && a.contains("\"in-a\""), "{a}");
}

#[test]
fn a_node_that_does_not_state_a_value_is_refused_and_its_neighbours_are_not() {
    let dir = fleet(VALUES);
    let mut server = Server::start(&dir, &[]);
    let (status, told) = listeners(&server, "a", "");
    let why = "node `a` cannot be served: `node.metadata.port` is not stated, and lds `ingress` needs it for \
               `address.socket_address.port_value`; set it in the `node` of its bootstrap";
    assert!(status == 400 && told.contains(why), "{status} {told}");
    server.log_has("node `a` cannot be served: `node.metadata.port` is not stated");
    let (status, told) = listeners(&server, "c", "\"port\": 70000");
    assert!(status == 400 && told.contains("`node.metadata.port` must be"), "{told}");
    assert!(!told.contains("70000"), "values of metadata are not told (S-138): {told}");
    let (status, told) = listeners(&server, "d", "\"port\": \"http\"");
    assert!(status == 400 && told.contains("is not a whole number (uint32), as lds"), "{told}");
    assert_eq!(listeners(&server, "b", "\"port\": 8002").0, 200);
    let in_no_group = server.post("listeners", "{\"node\": {\"id\": \"x\"}}");
    assert_eq!(in_no_group.0, 200, "its layers need nothing: {}", in_no_group.1);
    let metrics = server.admin("/metrics").1;
    assert!(metrics.contains("chancery_clients_refused_total{reason=\"unstated\"} 3"), "{metrics}");
}

#[test]
fn a_load_that_asks_for_more_is_held_until_it_is_confirmed() {
    let dir = fleet("");
    let mut server = Server::start(&dir, &[]);
    let (_one, with_port) = client(&server, "a", &["port=8001"]);
    let (mut two, without) = client(&server, "b", &[]);
    dir_write(&dir, "groups/edge/listeners.yaml", &format!("{LISTENER}{VALUES}"));
    server.log_has(
        "held back from group `edge`: 1 connected node would be refused: node `b`: `node.metadata.port` is \
         not stated, and lds `ingress` needs it for `address.socket_address.port_value` (",
    );
    server.log_has("groups/edge/listeners.yaml:16); what they see stays");
    let (_, seen) = listeners(&server, "c", "");
    assert!(seen.contains("\"portValue\":1"), "the last good state needs nothing: {seen}");
    assert!(server.admin("/metrics").1.contains("reason=\"unstated\"} 1"));
    assert!(server.admin("/api/v1/config").1.contains("~values of lds `ingress`"));
    let admin = format!("127.0.0.1:{}", server.admin);
    let words = ["confirm", "--admin", &admin, "--group", "edge"];
    assert!(finished(&mut chancery(&words)).status.success());
    let line = next_line(&with_port).unwrap();
    assert!(line.contains("8001") && !line.contains("refused"), "{line}");
    server.log_has("node `b` cannot be served: `node.metadata.port` is not stated");
    two.kill();
    assert!(!all_lines(&without).contains("in-b"));
    assert_eq!(listeners(&server, "c", "").0, 400);
}

/// A second listener, with a port of its own in the metadata, and a cluster whose name has the id in it.
const SECOND: &str = "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: second
address: {socket_address: {address: 127.0.0.1, port_value: 1}}
filter_chains:
- filters:
  - name: tcp
    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      stat_prefix: second
      cluster: placeholder
---
values:
- type: lds
  name: second
  set:
    address.socket_address.port_value: ${node.metadata.second}
    filter_chains[0].filters[0].typed_config.cluster: ${node.metadata.cluster}
";

#[test]
fn what_stands_in_a_filled_field_is_no_fault() {
    let dir = fleet(VALUES);
    dir_write(&dir, "groups/edge/second.yaml", SECOND);
    let canary = "groups: [{name: canary, extends: edge, match: {id: c}}, {name: edge, match: {cluster: edge}}]\n";
    dir_write(&dir, "chancery.yaml", canary);
    let patch = "patch:\n- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  name: second\n  stat_prefix: canary\n";
    dir_write(&dir, "groups/canary/edits.yaml", patch);
    let checked = finished(&mut chancery(&["check", dir.path().to_str().unwrap()]));
    let told = String::from_utf8(checked.stdout).unwrap();
    assert!(told.contains("0 errors, 0 warnings"), "{told}");
}

#[test]
fn what_is_wrong_for_those_alone_who_state_it_is_held_back() {
    let dir = fleet(VALUES);
    let mut server = Server::start(&dir, &[]);
    let _one = client(&server, "a", &["port=8001", "second=8002", "cluster=shop"]);
    dir_write(&dir, "groups/edge/second.yaml", SECOND);
    eventually(|| {
        listeners(&server, "b", "\"port\": 1, \"second\": 2, \"cluster\": \"shop\"")
            .1
            .contains("second")
    });
    let _two = client(&server, "b", &["port=9001", "second=9002", "cluster=shop"]);

    let same_port = SECOND.replace("metadata.second", "metadata.port");
    dir_write(&dir, "groups/edge/second.yaml", &same_port);
    server.log_has("lds `second` has the address 127.0.0.1:8001 of `ingress` (");
    server.log_has("Envoy refuses the second one; what they see stays");
    dir_write(&dir, "groups/edge/second.yaml", SECOND);
    eventually(|| server.admin("/ready").1 == "ready\n");

    let moved = format!("{LISTENER}{VALUES}").replace("node.metadata.port", "node.metadata.second");
    dir_write(&dir, "groups/edge/listeners.yaml", &moved);
    server.log_has("lds `second` has the address 127.0.0.1:8002 of `ingress` (");
    dir_write(&dir, "groups/edge/listeners.yaml", &format!("{LISTENER}{VALUES}"));
    eventually(|| server.admin("/ready").1 == "ready\n");

    let other = SECOND.replace("metadata.cluster", "id");
    dir_write(&dir, "groups/edge/second.yaml", &other);
    server.log_has("refers to cds `${node.id}`, which does not exist for some nodes");
    let (_, seen) = listeners(&server, "b", "\"port\": 1, \"second\": 2, \"cluster\": \"shop\"");
    assert!(seen.contains("\"cluster\":\"shop\"") && seen.contains("\"second\""), "{seen}");
}

#[test]
fn what_is_filled_no_more_is_held_back_unless_a_value_takes_its_place() {
    let dir = fleet(VALUES);
    let mut server = Server::start(&dir, &[]);
    let file = "groups/edge/listeners.yaml";
    // Nobody has such a value yet.
    dir_write(&dir, file, LISTENER);
    server.log_has("edits=\"group `edge`: ~lds ingress\"");
    dir_write(&dir, file, &format!("{LISTENER}{VALUES}"));
    eventually(|| listeners(&server, "a", "\"port\": 8001").1.contains("8001"));
    let (_one, seen) = client(&server, "a", &["port=8001"]);
    dir_write(&dir, file, LISTENER);
    server.log_has(
        "listeners.yaml:1: lds `ingress`: `address.socket_address.port_value` is filled with \
         `${node.metadata.port}` no more, and keeps what stands there in place of it; write a value for all nodes \
         there; ",
    );
    server.log_has(
        "lds `ingress`: `filter_chains[0].filters[0].typed_config.stat_prefix` is filled with `in-${node.id}` no more",
    );
    assert!(server.admin("/metrics").1.contains("reason=\"unfilled\"} 1"));
    let (_, seen_by_others) = listeners(&server, "b", "\"port\": 8002");
    assert!(seen_by_others.contains("8002"), "{seen_by_others}");
    // Values of their own take the place.
    let own = LISTENER.replace("port_value: 1", "port_value: 7000");
    let own = own.replace("stat_prefix: ingress", "stat_prefix: all");
    dir_write(&dir, file, &own);
    server.log_has("no longer held back");
    assert!(next_line(&seen).unwrap().contains("7000"));
    server.log_has("no listener has the address 127.0.0.1:8001 any more, as `ingress` (");
}

#[test]
fn nobody_is_told_of_what_nodes_lack_that_are_about_to_state_more() {
    let dir = fleet(VALUES);
    let mut server = Server::start(&dir, &[]);
    let _one = client(&server, "a", &["port=8001"]);
    let stat =
        "---\nvalues:\n- {type: cds, name: shop, set: {alt_stat_name: \"${node.cluster}\"}}\n";
    dir_write(&dir, "shop.yaml", &format!("{}{stat}", cluster("shop", 1)));
    server.log_has("edits=\"base: ~cds shop\"");
    assert!(!server.log().contains("does not exist"), "{}", server.log());
}

#[test]
fn a_reference_that_a_connected_node_chooses_counts() {
    let values = "---\nvalues:\n- type: lds\n  name: ingress\n  set:\n    \
                  filter_chains[0].filters[0].typed_config.cluster: shop-${node.metadata.side}\n";
    let dir = fleet(values);
    for side in ["shop-red", "shop-blue"] {
        dir_write(&dir, &format!("{side}.yaml"), &cluster(side, 1));
    }
    let mut server = Server::start(&dir, &[]);
    let (_open, _) = client(&server, "a", &["side=blue"]);
    std::fs::remove_file(dir.path().join("shop-red.yaml")).unwrap();
    eventually(|| !server.admin("/api/v1/config").1.contains("shop-red"));
    std::fs::remove_file(dir.path().join("shop-blue.yaml")).unwrap();
    server.log_has(
        "refers to cds `shop-${node.metadata.side}`, which this takes away from some nodes",
    );
    let (_, told) = server.admin("/api/v1/config");
    assert!(!told.contains("refers to cds `shop-blue`"), "S-138: {told}");
}

#[test]
fn nodes_that_share_an_id_are_each_looked_at() {
    let dir = fleet("");
    let mut server = Server::start(&dir, &[]);
    let (_one, _) = client(&server, "a", &["port=8001"]);
    let (_two, _) = client(&server, "a", &["port=8002"]);
    let (_three, _) = client(&server, "a", &["port=none"]);
    dir_write(&dir, "groups/edge/listeners.yaml", &format!("{LISTENER}{VALUES}"));
    server.log_has(
        "held back from group `edge`: 1 connected node would be refused: node `a`: `node.metadata.port` is not",
    );
}

#[test]
fn hostile_metadata_has_a_bound() {
    let dir = fleet(VALUES);
    dir_write(&dir, "chancery.yaml", &format!("{RULES}limits: {{max-node-values: 2}}\n"));
    let mut server = Server::start(&dir, &[]);
    // A client that only polls leaves nothing behind.
    for port in 1000..1100 {
        assert_eq!(listeners(&server, "poll", &format!("\"port\": {port}")).0, 200);
    }
    let first = client(&server, "a", &["port=8001"]);
    let _second = client(&server, "b", &["port=8002"]);
    let (status, told) = listeners(&server, "c", "\"port\": 8003");
    assert!(status == 503 && told.contains("2 different sets of values already"), "{told}");
    server.log_has("a larger `limits.max-node-values` would let in node `c`");
    assert_eq!(listeners(&server, "a", "\"port\": 8001").0, 200, "this one is known");
    drop(first);
    eventually(|| listeners(&server, "c", "\"port\": 8003").0 == 200);
    for odd in [
        format!("\"port\": \"{}\"", "9".repeat(5000)),
        "\"port\": \"80\\n01\"".to_owned(),
        "\"port\": [8001]".to_owned(),
        "\"port\": 1e300".to_owned(),
        "\"port\": {\"port\": {\"port\": {}}}".to_owned(),
    ] {
        assert_eq!(listeners(&server, "odd", &odd).0, 400, "{}", &odd[..12]);
    }
}

#[test]
fn a_slip_is_found_before_it_is_served_with_its_line() {
    let check = |dir: &TempDir| {
        let checked = finished(&mut chancery(&["check", dir.path().to_str().unwrap()]));
        (checked.status.code(), String::from_utf8(checked.stdout).unwrap())
    };
    assert_eq!(check(&fleet(VALUES)).0, Some(0));
    let typo = VALUES.replace("port_value", "prot_value");
    let (code, told) = check(&fleet(&typo));
    assert!(code == Some(1) && told.contains("unknown field `prot_value`"), "{told}");
    assert!(told.contains("listeners.yaml:16:5"), "{told}");

    // Its values stand beside the resource.
    let dir = fleet("");
    dir_write(&dir, "groups/edge/values.yaml", &VALUES.replace("---\n", ""));
    let (code, told) = check(&dir);
    assert!(
        code == Some(1) && told.contains("values of lds `ingress` stand in another file"),
        "{told}"
    );
    assert!(told.contains("put `values` into the file of the resource"), "{told}");

    // A canary has other values of the resource below it.
    let canary = VALUES.replace("---\n", "").replace("[0].filters", "[1].filters");
    let dir = fleet("");
    let rules = "groups: [{name: canary, extends: edge, match: {id: c}}, {name: edge, match: {cluster: edge}}]\n";
    dir_write(&dir, "chancery.yaml", rules);
    dir_write(&dir, "groups/canary/values.yaml", &canary);
    let (code, told) = check(&dir);
    assert_eq!(code, Some(1));
    assert!(
        told.contains(
            "lds `ingress` cannot have this value of nodes: `filter_chains[1].filters[0].typed_config.stat_prefix` \
             `filter_chains` has 1 items"
        ),
        "{told}"
    );
    assert!(told.contains("groups/canary/values.yaml:6:"), "{told}");
}

#[test]
fn explain_node_tells_the_values() {
    let dir = fleet(VALUES);
    let explained = |metadata: &[&str]| {
        let path = dir.path().to_str().unwrap();
        let mut words = vec!["explain-node", "a", path, "--cluster", "edge", "--type", "lds"];
        words.extend(metadata);
        let told = finished(&mut chancery(&words));
        let text = String::from_utf8(told.stdout).unwrap().replace(path, "DIR");
        (told.status.code(), text)
    };
    let (code, told) = explained(&["--metadata", "port=8001"]);
    let expected = "\
values of the node:
  lds ingress address.socket_address.port_value: ${node.metadata.port}  DIR/groups/edge/listeners.yaml:16
    node.metadata.port: 8001
  lds ingress filter_chains[0].filters[0].typed_config.stat_prefix: in-${node.id}  \
                    DIR/groups/edge/listeners.yaml:17
    node.id: a
";
    assert!(code == Some(0) && told.ends_with(expected), "{told}");
    let (code, told) = explained(&[]);
    assert!(code == Some(1) && told.contains("    node.metadata.port: is not stated\n"), "{told}");
    assert!(told.contains("the node is refused: `node.metadata.port` is not stated"), "{told}");
    let (_, told) = explained(&["--metadata", "port=8001", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(json["values"][0]["values"]["node.metadata.port"], "8001");
    assert_eq!(json["values"][1]["origin"]["line"], 17);
}

#[test]
fn a_group_that_comes_and_rules_that_move_nodes_are_held_as_well() {
    let dir = fleet(VALUES);
    let listeners = dir.path().join("groups/edge/listeners.yaml");
    let text = std::fs::read_to_string(&listeners).unwrap();
    dir_write(&dir, "chancery.yaml", "{}\n");
    dir_write(&dir, "lds.yaml", LISTENER);
    std::fs::remove_dir_all(dir.path().join("groups")).unwrap();
    let mut server = Server::start(&dir, &[]);
    let (_open, _) = client(&server, "a", &[]);

    // No rule is about `edge`: the directory is for the nodes of that cluster.
    dir_write(&dir, "groups/edge/listeners.yaml", &text);
    server.log_has("held back from group `edge`: 1 connected node would be refused: node `a`");
    std::fs::remove_dir_all(dir.path().join("groups")).unwrap();
    server.log_has("no longer held back from group `edge`");

    dir_write(&dir, "groups/other/listeners.yaml", &text);
    eventually(|| server.admin("/api/v1/config").1.contains("other"));
    dir_write(&dir, "chancery.yaml", "groups: [{name: other, match: {id: a}}]\n");
    server.log_has("chancery.yaml refuses 1 node (`a`)");
}

#[test]
fn check_and_diff_know_of_values() {
    let dir = fleet(VALUES);
    let path = dir.path().to_str().unwrap().to_owned();
    let run = |words: &[&str]| {
        let done = finished(&mut chancery(words));
        (done.status.code(), String::from_utf8(done.stdout).unwrap())
    };
    let (_, told) = run(&["check", &path]);
    assert!(
        told.ends_with("group `edge`: a node has to state `node.id`, `node.metadata.port`\n"),
        "{told}"
    );

    // Of two directories the resources are the same.
    let other = fleet(&VALUES.replace("in-${node.id}", "on-${node.cluster}"));
    let (code, told) = run(&["diff", other.path().to_str().unwrap(), &path]);
    let prefix = "filter_chains[0].filters[0].typed_config.stat_prefix";
    let line = format!(
        "group `edge`: values of lds `ingress` that differ by node: -{prefix}: in-${{node.id}}, \
         +{prefix}: on-${{node.cluster}}\n"
    );
    assert!(code == Some(1) && told.contains(&line), "{told}");

    // A server gives a node what the directory has for it, with its values.
    let server = Server::start(&dir, &[]);
    let _open = client(&server, "a", &["port=8001"]);
    let (at, admin) = (format!("127.0.0.1:{}", server.port), format!("127.0.0.1:{}", server.admin));
    let with_server = |dir: &str, flags: &[&str]| {
        run(&[&["diff", dir, "--server", &at, "--admin", &admin], flags].concat())
    };
    let (code, told) = with_server(&path, &["--group", "edge"]);
    assert!(code == Some(0) && told.contains("0 added, 0 changed, 0 removed"), "{told}");
    let (code, told) = with_server(other.path().to_str().unwrap(), &["--group", "edge"]);
    assert!(code == Some(1) && told.contains("on-edge"), "{told}");
    let more = fleet(&VALUES.replace("node.metadata.port", "node.metadata.prot"));
    let (_, told) = with_server(more.path().to_str().unwrap(), &[]);
    assert!(
        told.contains(
            "left out: group `edge`: node `a` would be refused: `node.metadata.prot` is not stated"
        ),
        "{told}"
    );
    let (code, told) = run(&[
        "get", "lds", "ingress", "--server", &at, "--admin", &admin, "--node", "a", "-o", "yaml",
    ]);
    assert!(code == Some(0) && told.contains("8001"), "{told}");
}
