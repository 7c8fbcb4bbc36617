//! `chancery diff --server` against a server of this project: what its clients are given now is compared
//! with a directory.

use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::{
    Running, Server, chancery, cluster, dir_write, directory, eventually, finished,
};

const RULES: &str = "\
groups:
- name: canary
  extends: edge
  match: {metadata: {stage: canary}}
- name: edge
  match: {cluster: edge}
- name: far
  match: {id: far-*}
";

fn eds_cluster(name: &str) -> String {
    cluster(name, 1)
        + "type: EDS\neds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}\n"
}

fn endpoints(name: &str, port: u32) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
         cluster_name: {name}\nendpoints:\n- lb_endpoints:\n  - endpoint: {{address: {{socket_address: \
         {{address: 10.0.0.1, port_value: {port}}}}}}}\n"
    )
}

fn secret(name: &str, value: &str) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n\
         name: {name}\ngeneric_secret: {{secret: {{inline_string: {value}}}}}\n"
    )
}

/// A directory with groups, endpoints and a secret.
fn site() -> TempDir {
    directory(&[
        ("base.yaml", &cluster("base", 1)),
        ("web.yaml", &eds_cluster("web")),
        ("endpoints.yaml", &endpoints("web", 80)),
        ("empty.yaml", &eds_cluster("empty")),
        ("secret.yaml", &secret("key", "hush")),
        ("groups/edge/e.yaml", &cluster("of-edge", 1)),
        ("groups/canary/c.yaml", &cluster("of-edge", 2)),
        ("groups/far/f.yaml", &cluster("of-far", 1)),
        ("nodes/one/o.yaml", &cluster("of-one", 1)),
        ("chancery.yaml", RULES),
    ])
}

fn connected(server: &Server, id: &str, flags: &[&str]) -> Running {
    let at = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &at, "--node", id, "--admin", "off"];
    Running::start(chancery(&[&words, flags].concat()).stdout(Stdio::null()).stderr(Stdio::null()))
}

fn are_connected(server: &Server, number: usize) {
    eventually(|| {
        let document: Value = serde_json::from_str(&server.admin("/api/v1/nodes").1).unwrap();
        document["count"] == number
    });
}

/// The exit code, the standard output and the standard error.
fn diff(server: &Server, dir: &TempDir, flags: &[&str]) -> (Option<i32>, String, String) {
    let at = format!("127.0.0.1:{}", server.port);
    let admin = format!("127.0.0.1:{}", server.admin);
    let words = ["diff", dir.path().to_str().unwrap(), "--server", &at, "--admin", &admin];
    let Output { status, stdout, stderr } = finished(&mut chancery(&[&words, flags].concat()));
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.code(), stdout, stderr)
}

#[test]
fn a_directory_that_is_served_changes_nothing() {
    let dir = site();
    let mut server = Server::start(&dir, &[]);
    let _far = connected(&server, "far-1", &[]);
    are_connected(&server, 1);
    let (code, told, trouble) = diff(&server, &dir, &[]);
    assert_eq!(told, "0 added, 0 changed, 0 removed\n", "{trouble}");
    assert_eq!(code, Some(0), "{trouble}");
    // One line of the log says so, and none of its many streams.
    server.log_has("a client looks at what nodes are given");
    dir_write(&dir, "marker.yaml", &cluster("marker", 1));
    server.log_has("+cds marker");
    let log = server.log();
    let count = |words: &str| log.matches(words).count();
    assert_eq!((count("a client looks"), count("stream opened")), (1, 1), "{log}");
    assert_eq!(count("stream closed"), 0, "{log}");
}

#[test]
fn what_clients_of_each_group_are_given_is_compared() {
    let dir = site();
    let server = Server::start(&dir, &[]);
    let after = site();
    dir_write(&after, "endpoints.yaml", &endpoints("web", 81));
    dir_write(&after, "secret.yaml", &secret("key", "other"));
    dir_write(&after, "groups/edge/new.yaml", &cluster("new", 1));
    dir_write(&after, "groups/canary/c.yaml", &cluster("of-edge", 3));
    std::fs::remove_file(after.path().join("nodes/one/o.yaml")).unwrap();
    dir_write(&after, "base.yaml", "[]\n");
    let (code, told, trouble) = diff(&server, &after, &[]);
    assert_eq!((code, trouble.as_str()), (Some(1), ""), "{told}");
    assert!(!told.contains("hush"), "{told}");
    assert_eq!(
        told,
        "\
# nodes without an overlay, node `one`, group `canary`, group `edge`
cds base removed
eds web changed
  @@ -6,4 +6,4 @@
          address:
            socket_address:
              address: 10.0.0.1
  -           port_value: 80
  +           port_value: 81
  > gRPC clients keep connections to endpoints that stay, and drain those that go
sds key changed
  nothing that is shown differs: secrets are left out, and so are TTLs
# node `one`
cds of-one removed
# group `canary`
cds of-edge changed
  @@ -1,3 +1,3 @@
    \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
    name: of-edge
  - connect_timeout: 2s
  + connect_timeout: 3s
# group `canary`, group `edge`
cds new added
left out: group `far`: no node of it is connected, and the rules have no exact values to make one of
1 added, 3 changed, 2 removed
"
    );
    let (_, told, _) = diff(&server, &after, &["--group", "canary", "-o", "json"]);
    let objects = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let changes: Vec<_> = objects.map(|it| it["change"].as_str().unwrap().to_owned()).collect();
    assert_eq!(changes, ["removed", "added", "changed", "changed", "changed"], "{told}");
    assert_eq!(diff(&server, &after, &["--group", "none"]).0, Some(2));
}

#[test]
fn nodes_that_would_move_are_told() {
    let dir = site();
    let server = Server::start(&dir, &[]);
    let _one = connected(&server, "edge-1", &["--cluster", "edge"]);
    let _two = connected(&server, "edge-2", &["--cluster", "edge", "--metadata", "stage=canary"]);
    are_connected(&server, 2);
    let after = site();
    dir_write(&after, "chancery.yaml", &RULES.replace("stage: canary", "stage: cnary"));
    let (code, told, trouble) = diff(&server, &after, &[]);
    assert_eq!(code, Some(1), "{trouble}");
    assert!(
        told.contains("1 node would move from group `canary` to group `edge`: edge-2\n"),
        "{told}"
    );
    let (_, told, _) = diff(&server, &after, &["-o", "json"]);
    let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!((&last["change"], &last["from"]), (&"nodes".into(), &"canary".into()));
    assert_eq!((&last["to"], &last["count"]), (&"edge".into(), &1.into()));
    let stages = RULES.replace("stage: canary", "token: hush");
    dir_write(&after, "chancery.yaml", &stages);
    let _three = connected(&server, "far-1", &["--metadata", "token=hush"]);
    are_connected(&server, 3);
    let (_, told, _) = diff(&server, &after, &[]);
    assert!(!told.contains("hush") && !told.contains("far-1 would"), "{told}");
    assert!(told.contains("asked for as node `far-1` without metadata.token (secret)\n"), "{told}");
    dir_write(&after, "chancery.yaml", &RULES.replace("far-*", "nobody"));
    let (_, told, _) = diff(&server, &after, &[]);
    assert!(told.contains("left out: 1 of the nodes may move: "), "{told}");
    dir_write(&after, "chancery.yaml", "unmatched: refuse\n");
    let (_, told, _) = diff(&server, &after, &["--group", "canary"]);
    assert!(
        told.contains("1 node would move from group `canary` to group `edge`: edge-2\n"),
        "{told}"
    );
}

#[test]
fn what_is_held_back_is_not_what_clients_have() {
    let dir = site();
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "endpoints.yaml", "[]\n");
    server.log_has("held back from");
    let (code, told, _) = diff(&server, &dir, &[]);
    assert_eq!(code, Some(1));
    assert!(told.contains("  -           port_value: 80\n"), "{told}");
}

#[test]
fn a_server_that_cannot_be_asked_is_2() {
    let dir = site();
    let server = Server::start(&dir, &[]);
    let path = dir.path().to_str().unwrap();
    let admin = format!("127.0.0.1:{}", server.admin);
    let away = finished(&mut chancery(&["diff", path, "--server", "127.0.0.1:1"]));
    assert_eq!(away.status.code(), Some(2), "{away:?}");
    let wrong = finished(&mut chancery(&["diff", path, "--server", &admin, "--timeout", "5s"]));
    let trouble = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{trouble}");
    assert!(trouble.contains("not that of the admin interface"), "{trouble}");
    let refusing =
        directory(&[("a.yaml", &cluster("a", 1)), ("chancery.yaml", "unmatched: refuse\n")]);
    let server = Server::start(&refusing, &[]);
    let (code, told, trouble) = diff(&server, &dir, &["--group", "edge"]);
    assert_eq!((code, told.as_str()), (Some(2), ""), "{trouble}");
    let refused = "left out: group `edge`: ";
    assert!(
        trouble.contains(refused) && trouble.contains("nothing that could be compared"),
        "{trouble}"
    );
    let (code, told, _) = diff(&server, &dir, &["--git", "main"]);
    assert_eq!((code, told.as_str()), (Some(64), ""));
}
