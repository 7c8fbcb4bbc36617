//! `chancery wait`: it ends when a load has landed, and says why if that cannot be.

use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::ports::Port;
use crate::daemon::{
    Program, Running, Server, chancery, cluster, dir_write, directory, eventually, finished,
};

fn fleet() -> TempDir {
    let rules = "\
gate: {loss: enforce}
groups:
- {name: canary, extends: edge, match: {id: canary}}
- {name: edge, match: {cluster: edge}}
- {name: bare, match: {cluster: bare}}
";
    directory(&[
        ("chancery.yaml", rules),
        ("base.yaml", &cluster("base", 1)),
        ("groups/edge/orders.yaml", &cluster("orders", 1)),
        ("groups/canary/other.yaml", &cluster("other", 1)),
    ])
}

fn connected(server: &Server, id: &str, flags: &[&str]) -> Running {
    let at = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &at, "--node", id];
    let client = Running::start(
        chancery(&[&words, flags].concat()).stdout(Stdio::null()).stderr(Stdio::null()),
    );
    eventually(|| state(server, id) == "in-step");
    client
}

fn state(server: &Server, id: &str) -> String {
    let (_, text) = server.admin(&format!("/api/v1/nodes/{id}?resources=none"));
    let node: Value = serde_json::from_str(&text).unwrap();
    node["node"]["state"].as_str().unwrap_or_default().to_owned()
}

fn wait(server: &Server, words: &[&str]) -> Program {
    let at = format!("127.0.0.1:{}", server.admin);
    let mut program = chancery(&[&["wait", "--admin", &at], words].concat());
    program.stderr(Stdio::piped());
    program
}

/// The code, the output and the errors of a wait.
fn waited(server: &Server, words: &[&str]) -> (Option<i32>, String, String) {
    let output = finished(&mut wait(server, words));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn load(server: &Server) -> u64 {
    let (_, text) = server.admin("/api/v1/loads?limit=1");
    let loads: Value = serde_json::from_str(&text).unwrap();
    loads["loads"][0]["number"].as_u64().unwrap()
}

const EDGE: [&str; 2] = ["--cluster", "edge"];

#[test]
fn a_file_that_is_written_has_landed_when_the_command_ends() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let _one = connected(&server, "edge-1", &EDGE);
    let path = dir.path().join("groups/edge/orders.yaml");
    let file = format!("file={}", path.display());
    let version = |server: &Server| {
        let (_, text) = server.admin("/api/v1/resources/cds/orders");
        let resource: Value = serde_json::from_str(&text).unwrap();
        resource["nodes"][0].clone()
    };
    for seconds in 2..8 {
        let before = load(&server);
        dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", seconds));
        let (code, told, trouble) = waited(&server, &["--group", "edge", "--for", &file]);
        assert_eq!((code, trouble.as_str()), (Some(0), ""), "{told}");
        assert_eq!(load(&server), before + 1);
        assert_eq!(version(&server)["state"], "acknowledged");
        assert_eq!(told, format!("load {} has landed on all 1 node\n", before + 1));
    }
    // A file that has not changed is loaded already.
    assert_eq!(waited(&server, &["--for", &file]).0, Some(0));

    dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", 2).replace("timeout", "timout"));
    let (code, _, trouble) = waited(&server, &["--group", "edge", "--for", &file]);
    assert_eq!(code, Some(1));
    assert!(
        trouble.contains("it is not loaded: ") && trouble.contains("connect_timout"),
        "{trouble}"
    );
    let (code, _, trouble) = waited(&server, &["--for", "file=/etc/passwd"]);
    assert_eq!(code, Some(2));
    assert!(trouble.contains("in the directory of the server"), "{trouble}");
}

#[test]
fn a_client_that_does_not_answer_is_waited_for_until_something_newer_comes() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let (one, _two) = (connected(&server, "edge-1", &EDGE), connected(&server, "web-1", &[]));
    one.signal("STOP");
    let next = load(&server) + 1;
    dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", 2));
    eventually(|| load(&server) == next);
    let (code, told, trouble) = waited(&server, &["--group", "edge", "--timeout", "1s"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("edge-1") && told.contains("pending"), "{told}");
    assert!(trouble.contains("has not landed on all nodes: 0 of 1 node have it"), "{trouble}");
    // Others have it already.
    assert_eq!(waited(&server, &["--node", "web-1"]).0, Some(0));
    let revision = format!("revision={next}");
    let mut fixed = Running::start(&mut wait(&server, &["--for", &revision, "-o", "json"]));
    let mut latest = Running::start(&mut wait(&server, &["--latest"]));
    dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", 3));
    let (code, told) = fixed.ended();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(&format!("load {next} was superseded by load {}", next + 1)), "{told}");
    assert!(latest.try_wait().unwrap().is_none());
    one.signal("CONT");
    assert_eq!(latest.ended().0, Some(0));
}

#[test]
fn a_client_that_is_stopped_is_silent_in_the_end() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let one = connected(&server, "edge-1", &EDGE);
    one.signal("STOP");
    let next = load(&server) + 1;
    dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", 2));
    eventually(|| load(&server) == next);
    let (code, told, trouble) = waited(&server, &["--timeout", "50s"]);
    assert_eq!(code, Some(1), "{told}{trouble}");
    assert!(told.contains("silent") && told.contains("no answer for 3"), "{told}");
    assert!(trouble.contains("rejected by 0, 1 silent, 0 of 1 have it"), "{trouble}");
    let at = format!("127.0.0.1:{}", server.admin);
    let shown = || {
        let output = finished(&mut chancery(&["status", "edge-1", "--admin", &at]));
        String::from_utf8(output.stdout).unwrap()
    };
    let waits = "cds waits for the answer of the client; what is newer is sent without it\n";
    assert!(shown().contains(waits), "{}", shown());
    one.signal("CONT");
    eventually(|| shown().contains(" answered after 3"));
    assert_eq!(state(&server, "edge-1"), "in-step");
}

#[test]
fn a_rejection_ends_it_with_who_and_why() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let _one = connected(&server, "edge-1", &["--cluster", "edge", "--as-grpc"]);
    let _two = connected(&server, "canary", &EDGE);
    let file = dir.path().join("groups/edge/orders.yaml");
    let bad = cluster("orders", 2) + "type: EDS\neds_cluster_config: {eds_config: {path: /a}}\n";
    dir_write(&dir, "groups/edge/orders.yaml", &bad);
    let target = format!("file={}", file.display());
    let (code, told, trouble) = waited(&server, &["--for", &target]);
    assert_eq!(code, Some(1), "{told}{trouble}");
    assert!(told.contains("edge-1") && told.contains("cds (orders)"), "{told}");
    assert!(!told.contains("canary"), "{told}");
    let (code, told, _) = waited(&server, &["-o", "json"]);
    let found: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &found["outcome"]), (Some(1), &"never".into()));
    assert_eq!((&found["counted"], &found["landed"]), (&2.into(), &1.into()));
    // A canary sees the files of the group that it extends; those of others do not count.
    assert_eq!(waited(&server, &["--group", "canary"]).0, Some(0));
    assert_eq!(waited(&server, &["--group", "edge"]).0, Some(1));
}

#[test]
fn what_the_gate_holds_back_has_not_landed() {
    let many = |count: usize| {
        let one = |at: usize| format!("- {}", cluster(&format!("c{at}"), 1).replace('\n', "\n  "));
        (0..count).map(one).map(|it| it.trim_end().to_owned() + "\n").collect::<String>()
    };
    let dir = fleet();
    dir_write(&dir, "groups/edge/orders.yaml", &many(30));
    let server = Server::start(&dir, &[]);
    let _one = connected(&server, "edge-1", &EDGE);
    dir_write(&dir, "groups/edge/orders.yaml", &many(2));
    let file = format!("file={}", dir.path().join("groups/edge/orders.yaml").display());
    let (code, _, trouble) = waited(&server, &["--group", "edge", "--for", &file]);
    assert_eq!(code, Some(1), "{trouble}");
    assert!(trouble.contains("held back from group `edge` until it is confirmed"), "{trouble}");
    let loads: Value = serde_json::from_str(&server.admin("/api/v1/loads").1).unwrap();
    let [held, whole] = [0, 1].map(|at| &loads["loads"][at]);
    let [number, before] = [held, whole].map(|load| format!("revision={}", load["number"]));
    let hash = format!("hash={}", held["hash"].as_str().unwrap());
    for target in [&number, &hash] {
        let (code, _, trouble) = waited(&server, &["--group", "edge", "--for", target]);
        assert_eq!(code, Some(1), "{target}: {trouble}");
        assert!(trouble.contains("until it is confirmed"), "{target}: {trouble}");
    }
    // A later load has it no more than this one; one before was never held back.
    dir_write(&dir, "groups/canary/other.yaml", &cluster("other", 2));
    let next = held["number"].as_u64().unwrap() + 1;
    eventually(|| load(&server) == next);
    let later = format!("revision={next}");
    assert_eq!(waited(&server, &["--group", "edge", "--for", &later]).0, Some(1));
    assert_eq!(waited(&server, &["--group", "edge", "--for", &before]).0, Some(0));
    let at = format!("127.0.0.1:{}", server.admin);
    assert!(finished(&mut chancery(&["confirm", "--all", "--admin", &at])).status.success());
    assert_eq!(waited(&server, &["--group", "edge", "--for", &file]).0, Some(0));
}

#[test]
fn a_node_that_went_is_waited_for_in_a_group_without_files_too() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let one = connected(&server, "bare-1", &["--cluster", "bare"]);
    one.signal("STOP");
    let next = load(&server) + 1;
    dir_write(&dir, "base.yaml", &cluster("base", 2));
    eventually(|| load(&server) == next);
    drop(one);
    eventually(|| state(&server, "bare-1") == "gone");
    let (code, told, trouble) = waited(&server, &["--group", "bare", "--timeout", "100ms"]);
    assert_eq!(code, Some(2), "{told}{trouble}");
    assert!(told.contains("bare-1") && told.contains("gone"), "{told}");
    assert_eq!(waited(&server, &["--group", "edge", "--timeout", "100ms"]).0, Some(0));
}

/// A stream that went is waited for, and both commands say so though the node is in step by another one.
#[test]
fn a_stream_that_went_is_told_of_while_it_is_waited_for() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let (one, _other) = (connected(&server, "edge-1", &EDGE), connected(&server, "edge-1", &EDGE));
    one.signal("STOP");
    let next = load(&server) + 1;
    dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", 2));
    eventually(|| load(&server) == next && state(&server, "edge-1") == "pending");
    drop(one);
    eventually(|| state(&server, "edge-1") == "in-step");
    let (code, told, trouble) = waited(&server, &["--timeout", "100ms"]);
    assert_eq!(code, Some(2), "{told}{trouble}");
    let begin = format!("chancery: load {next} has not landed on all nodes: 0 of 1 node have it; ");
    assert!(trouble.starts_with(&begin), "{trouble}");
    assert!(trouble.contains("it waits for a stream of edge-1 that went "), "{trouble}");
    assert!(trouble.contains("s ago, 1") && trouble.contains("s more within"), "{trouble}");
    assert!(told.contains("  a stream is waited for that went "), "{told}");
    let at = format!("127.0.0.1:{}", server.admin);
    let status = |words: &[&str]| {
        let output = finished(&mut chancery(&[&["status", "--admin", &at], words].concat()));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = status(&["edge-1"]);
    let line = format!("\nload {next} waits for a stream of it that went ");
    assert!(shown.contains(&line), "{shown}");
    assert!(status(&[]).contains("a stream is waited for that went "), "{}", status(&[]));
    let (_, text) = server.admin("/api/v1/nodes/edge-1");
    let node: Value = serde_json::from_str(&text).unwrap();
    let awaited = &node["node"]["awaited"];
    let [at, until] = ["at", "until"].map(|key| awaited[key].as_u64().unwrap());
    assert_eq!((awaited["load"].as_u64(), until - at), (Some(next), 15), "{text}");
}

#[test]
fn a_load_keeps_its_digest_where_another_process_counts_anew() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    dir_write(&dir, "base.yaml", &cluster("base", 2));
    eventually(|| load(&server) == 2);
    let loads: Value = serde_json::from_str(&server.admin("/api/v1/loads").1).unwrap();
    let hash = |at: usize| loads["loads"][at]["hash"].as_str().unwrap();
    let asked = |target: String| {
        let (_, text) = server.admin(&format!("/api/v1/wait?timeout=0&{target}"));
        let found: Value = serde_json::from_str(&text).unwrap();
        (found["outcome"].as_str().unwrap_or_default().to_owned(), found["load"].as_u64())
    };
    let landed = |load| ("landed".to_owned(), Some(load));
    assert_eq!(asked(format!("revision=1&hash={}", hash(1))), landed(1));
    assert_eq!(asked(format!("revision=1&hash={}", hash(0))), landed(2));
    assert_eq!(asked(format!("revision=9&hash={}", hash(0))), landed(2));
    assert_eq!(asked("revision=1&hash=0".to_owned()), ("waiting".to_owned(), None));
    assert_eq!(asked(format!("revision=1&file=/a&hash={}", hash(0))).0, "");
}

#[test]
fn nodes_that_have_to_be_there_are_waited_for() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let (code, told, _) = waited(&server, &["--group", "edge"]);
    assert_eq!((code, told.contains("no node counts")), (Some(0), true), "{told}");
    let (code, _, trouble) = waited(&server, &["--node", "edge-1", "--timeout", "100ms"]);
    assert_eq!(code, Some(2));
    assert!(trouble.contains("node `edge-1` is not connected"), "{trouble}");
    let mut waiting = Running::start(&mut wait(&server, &["--min-nodes", "2"]));
    let _clients = [connected(&server, "edge-1", &EDGE), connected(&server, "edge-2", &EDGE)];
    assert_eq!(waiting.ended().0, Some(0));
}

#[test]
fn each_end_has_its_code() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let (code, _, trouble) = waited(&server, &["--group", "egde"]);
    assert_eq!(code, Some(2));
    assert!(trouble.contains("did you mean `edge`?"), "{trouble}");
    assert_eq!(finished(&mut chancery(&["wait", "--admin", "127.0.0.1:1"])).status.code(), Some(2));
    for words in [
        &["wait", "--for", "7"][..],
        &["wait", "--for", "revision=1", "--latest"],
        &["wait", "--min-nodes", "x"],
        &["wait", "--timeout", "60"],
    ] {
        assert_eq!(finished(&mut chancery(words)).status.code(), Some(64), "{words:?}");
    }
    let hash: Value = serde_json::from_str(&server.admin("/api/v1/loads").1).unwrap();
    let hash = format!("hash={}", hash["loads"][0]["hash"].as_str().unwrap());
    assert_eq!(waited(&server, &["--for", &hash]).0, Some(0));
    assert_eq!(waited(&server, &["--for", "hash=0", "--timeout", "100ms"]).0, Some(2));
}

/// A file with a fault is not in any load, so nobody may be told that everything has landed.
#[test]
fn edits_that_wait_behind_a_fault_have_not_landed() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let _one = connected(&server, "edge-1", &EDGE);
    let _two = connected(&server, "web-1", &[]);
    let faulty = cluster("orders", 2).replace("timeout", "timout");
    dir_write(&dir, "groups/edge/orders.yaml", &faulty);
    eventually(|| server.admin("/ready").1.contains("group `edge`"));
    for words in [&["--group", "edge"][..], &["--node", "edge-1"], &[]] {
        let (code, told, trouble) = waited(&server, words);
        assert_eq!((code, told.as_str()), (Some(1), ""), "{words:?}: {trouble}");
        assert!(trouble.contains("the newest edits are not loaded: group `edge`"), "{trouble}");
        assert!(trouble.contains("orders.yaml"), "{trouble}");
    }
    assert_eq!(waited(&server, &["--node", "web-1"]).0, Some(0), "the group is not its own");
    let number = load(&server).to_string();
    let (code, _, trouble) = waited(&server, &["--for", &format!("revision={number}")]);
    assert_eq!((code, trouble.as_str()), (Some(0), ""), "that load has landed");
    let shown = |words: &[&str]| {
        let at = format!("127.0.0.1:{}", server.admin);
        let output = finished(&mut chancery(&[&["status", "--admin", &at], words].concat()));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(shown(&[]).contains("not live: group `edge` is served as it was"), "{}", shown(&[]));
    assert!(shown(&["edge-1"]).contains("not live: group `edge`"), "{}", shown(&["edge-1"]));
    assert!(!shown(&["web-1"]).contains("not live"), "{}", shown(&["web-1"]));

    // A fault at the top concerns everybody.
    dir_write(&dir, "base.yaml", &cluster("base", 2).replace("timeout", "timout"));
    dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", 2));
    eventually(|| shown(&[]).contains("base.yaml"));
    for words in [["--group", "edge"], ["--node", "web-1"]] {
        let (code, _, trouble) = waited(&server, &words);
        assert_eq!(code, Some(1), "{words:?}: {trouble}");
        assert!(trouble.contains("base.yaml"), "{trouble}");
    }
}

/// Somebody who looks with `get` or `diff` is no node that comes and goes.
#[test]
fn a_look_is_not_waited_for() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let _one = connected(&server, "edge-1", &EDGE);
    let at = format!("127.0.0.1:{}", server.port);
    let admin = format!("127.0.0.1:{}", server.admin);
    let get = ["get", "cds", "--server", &at, "--admin", &admin, "--node", "edge-1"];
    let output = finished(&mut chancery(&get));
    assert!(output.status.success(), "{output:?}");
    dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", 3));
    let file = format!("file={}", dir.path().join("groups/edge/orders.yaml").display());
    let (code, told, trouble) = waited(&server, &["--for", &file, "--timeout", "10s"]);
    assert_eq!((code, trouble.as_str()), (Some(0), ""), "{told}");
    let (_, events) = server.admin("/api/v1/nodes/edge-1");
    let node: Value = serde_json::from_str(&events).unwrap();
    let kinds = node["history"].as_array().unwrap().iter().map(|event| event["event"].clone());
    let appeared = kinds.filter(|kind| kind == "appeared").count();
    assert_eq!(appeared, 1, "{events}");
}

/// A poll by hand is waited for no longer than a node that may come back.
#[test]
fn one_poll_is_not_waited_for_longer_than_the_grace() {
    let dir = fleet();
    dir_write(&dir, "chancery.yaml", "status: {grace: 1s}\n");
    let server = Server::start(&dir, &[]);
    let poll = r#"{"node": {"id": "me"}, "type_url": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}"#;
    let (status, _) = server.post("clusters", poll);
    assert_eq!(status, 200);
    dir_write(&dir, "base.yaml", &cluster("base", 2));
    let file = format!("file={}", dir.path().join("base.yaml").display());
    let (code, told, trouble) = waited(&server, &["--for", &file, "--timeout", "30s"]);
    assert_eq!((code, trouble.as_str()), (Some(0), ""), "{told}");
}

/// The server is started again while a command waits: the command asks again, and waits for the nodes
/// that were there.
#[test]
fn a_restart_of_the_server_does_not_end_a_wait() {
    let dir = fleet();
    let (port, admin) = (Port::reserve(), Port::reserve());
    let mut server = Server::start_on(&dir, &port, &admin);
    let one = connected(&server, "edge-1", &EDGE);
    one.signal("STOP");
    dir_write(&dir, "groups/edge/orders.yaml", &cluster("orders", 5));
    let file = format!("file={}", dir.path().join("groups/edge/orders.yaml").display());
    let mut waiting = Running::start(&mut wait(&server, &["--for", &file]));
    eventually(|| state(&server, "edge-1") == "pending");
    server.child.kill();
    let server = Server::start_on(&dir, &port, &admin);
    one.signal("CONT");
    let (code, told) = waiting.ended();
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(state(&server, "edge-1"), "in-step");
}
