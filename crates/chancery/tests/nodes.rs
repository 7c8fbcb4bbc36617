//! The nodes that are connected: what the admin interface tells of them, and what commands make of it.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::{
    Running, Server, chancery, cluster, dir_write, directory, eventually, exchange, finished,
};

/// A directory with two groups, of which one extends the other.
fn groups() -> TempDir {
    let rules = "\
groups:
- name: canary
  extends: edge
  match: {metadata: {stage: canary}}
- name: edge
  match: {cluster: edge}
";
    directory(&[
        ("base.yaml", &cluster("base", 1)),
        ("groups/edge/e.yaml", &cluster("of-edge", 1)),
        ("groups/canary/c.yaml", &cluster("of-canary", 1)),
        ("chancery.yaml", rules),
    ])
}

/// A client whose stream stays open.
fn connected(server: &Server, id: &str, flags: &[&str]) -> Running {
    let at = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &at, "--node", id];
    Running::start(chancery(&[&words, flags].concat()).stdout(Stdio::null()).stderr(Stdio::null()))
}

fn nodes(server: &Server, query: &str) -> Value {
    let (status, text) = server.admin(&format!("/api/v1/nodes{query}"));
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn ids(document: &Value) -> Vec<&str> {
    document["nodes"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect()
}

#[test]
fn the_nodes_with_open_streams_are_listed() {
    let dir = groups();
    let server = Server::start(&dir, &[]);
    assert_eq!(nodes(&server, ""), json!({"count": 0, "nodes": [], "next": null, "anonymous": 0}));
    let canary = ["--cluster", "edge", "--locality", "r/z", "--metadata", "stage=canary"];
    let secrets =
        ["--metadata", "token=hush", "--metadata", "a={\"password\": \"hush\", \"b\": [1]}"];
    let _canary = connected(&server, "edge-1", &[&canary[..], &secrets].concat());
    let _edge = connected(&server, "edge-2", &["--cluster", "edge"]);
    let _again = connected(&server, "edge-2", &["--cluster", "edge"]);
    let _other = connected(&server, "other", &[]);
    eventually(|| {
        let found = nodes(&server, "");
        found["count"] == 3
            && found["nodes"][1]["streams"] == 2
            && nodes(&server, "?state=in-step")["count"] == 3
    });
    assert_eq!(nodes(&server, "?state=rejected")["count"], 0);
    let (_, text) = server.admin("/api/v1/nodes?id=edge-1");
    assert!(!text.contains("hush"), "{text}");
    let mut found = nodes(&server, "?id=edge-1")["nodes"][0].clone();
    assert!(found["since"].as_u64().unwrap() > 1_700_000_000);
    assert!(found["peers"][0].as_str().unwrap().starts_with("127.0.0.1:"), "{found}");
    assert!(found["user_agent"].as_str().unwrap().contains("hancery"), "{found}");
    assert_eq!((&found["state"], &found["landed"]), (&json!("in-step"), &json!(1)));
    for key in
        ["since", "peers", "user_agent", "user_agent_version", "state", "state_since", "landed"]
    {
        found.as_object_mut().unwrap().remove(key);
    }
    let expected = json!({
        "id": "edge-1", "cluster": "edge",
        "locality": {"region": "r", "zone": "z", "sub_zone": ""},
        "group": "canary", "audience": "group `canary`",
        "own_files": false, "layers": ["base", "group `edge`", "group `canary`"],
        "streams": 1, "polls": 0,
        "metadata": {"stage": "canary", "a": {"b": [1]}},
        "left_out": [
            {"part": "metadata.a.password", "why": "secret"},
            {"part": "metadata.token", "why": "secret"},
        ],
    });
    assert_eq!(found, expected);
    assert_eq!(ids(&nodes(&server, "?group=edge")), ["edge-2"]);
    assert_eq!(ids(&nodes(&server, "?group=")), ["other"]);
    assert_eq!(ids(&nodes(&server, "?group=none")), [""; 0]);
    let first = nodes(&server, "?limit=2");
    assert_eq!((ids(&first), &first["count"]), (vec!["edge-1", "edge-2"], &json!(3)));
    let next = first["next"].as_str().unwrap().replace(' ', "%20");
    let last = nodes(&server, &format!("?limit=2&after={next}"));
    assert_eq!((ids(&last), &last["next"]), (vec!["other"], &Value::Null));
}

#[test]
fn nodes_are_told_to_the_same_machine_and_not_to_web_pages() {
    let dir = groups();
    let server = Server::start(&dir, &[]);
    for query in ["?limit=0", "?limit=x", "?limit=1001", "?node=a", "?id=%", "?id=a&id=b"] {
        assert_eq!(server.admin(&format!("/api/v1/nodes{query}")).0, 400, "{query}");
    }
    for header in ["origin: http://a", "via: 1.1 a", "x-forwarded-for: 10.1.2.3", "host: a.example"]
    {
        let line = format!("GET /api/v1/nodes HTTP/1.1\r\n{header}\r\nx-rest:");
        let (status, text) = exchange(&mut server.dial(server.admin), &line, "");
        assert_eq!(status, 403, "{header}: {text}");
    }
    let line = "POST /api/v1/nodes";
    assert_eq!(exchange(&mut server.dial(server.admin), line, "").0, 405);
}

/// The exit code, the standard output and the standard error of `chancery get cds`.
fn get(server: &Server, flags: &[&str]) -> (Option<i32>, String, String) {
    let at = format!("127.0.0.1:{}", server.port);
    let Output { status, stdout, stderr } =
        finished(&mut chancery(&[&["get", "cds", "--server", &at], flags].concat()));
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.code(), stdout, stderr)
}

#[test]
fn a_node_that_is_connected_need_not_be_described() {
    let dir = groups();
    let server = Server::start(&dir, &[]);
    let admin = format!("127.0.0.1:{}", server.admin);
    let canary = ["--cluster", "edge", "--metadata", "stage=canary", "--metadata", "token=hush"];
    let _canary = connected(&server, "edge-1", &canary);
    eventually(|| nodes(&server, "")["count"] == 1);
    let (code, told, trouble) = get(&server, &["--node", "edge-1", "--admin", &admin]);
    assert_eq!(code, Some(0), "{trouble}");
    assert!(told.contains("of-canary") && told.contains("of-edge"), "{told}");
    let left_out = "the server does not tell these parts of the node: metadata.token (secret)";
    assert!(trouble.contains(left_out), "{trouble}");
    let over = ["--node", "edge-1", "--admin", &admin, "--metadata", "stage=none"];
    let (_, told, _) = get(&server, &over);
    assert!(!told.contains("of-canary") && told.contains("of-edge"), "{told}");
    let (code, told, trouble) = get(&server, &["--node", "edge-2", "--admin", &admin]);
    assert_eq!((code, told.as_str()), (Some(2), ""));
    let unknown = format!("no node `edge-2` is connected to the server at `{admin}`");
    assert!(trouble.contains(&unknown) && trouble.contains("hint: "), "{trouble}");
    let (_, told, _) = get(&server, &["--node", "edge-1", "--admin", "off"]);
    assert!(!told.contains("of-edge"), "{told}");
    assert_eq!(get(&server, &["--node", "edge-1", "--admin", "127.0.0.1:1"]).0, Some(2));
    assert_eq!(get(&server, &["--admin", &admin]).0, Some(64));
}

#[test]
fn a_server_on_this_machine_is_asked_without_being_told_to() {
    let dir = groups();
    let server = Server::start(&dir, &[]);
    let (at, admin) = (format!("127.0.0.1:{}", server.port), format!("127.0.0.1:{}", server.admin));
    let _edge = connected(&server, "edge-1", &["--cluster", "edge"]);
    eventually(|| nodes(&server, "")["count"] == 1);
    for (node, is_known) in [("edge-1", true), ("edge-2", false)] {
        let words = ["get", "cds", "--server", &at, "--node", node];
        let output = finished(chancery(&words).env("CHANCERY_ADMIN", &admin));
        let [told, trouble] =
            [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        assert_eq!(told.contains("of-edge"), is_known, "{told}{trouble}");
        let note = format!("node `edge-1` as {admin} knows it, of cluster `edge`");
        assert_eq!(trouble.contains(&note), is_known, "{trouble}");
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn nodes_that_a_directory_moves_are_in_the_line_of_the_load() {
    let dir = groups();
    let mut server = Server::start(&dir, &[]);
    let _other = connected(&server, "one", &["--cluster", "front"]);
    let _another = connected(&server, "two", &["--cluster", "front"]);
    eventually(|| nodes(&server, "")["count"] == 2);
    dir_write(&dir, "groups/front/f.yaml", &cluster("of-front", 1));
    server.log_has("moved=\"2 from nodes without an overlay to group `front`\"");
    server.log_has("no rule names group `front`: it is for nodes whose cluster has this name");
    let log = server.log();
    assert!(!log.contains("no rule names group `edge`") && !log.contains("did you mean"), "{log}");
}

#[test]
fn a_group_that_no_node_is_in_and_that_is_nearly_a_cluster_is_told() {
    let dir = groups();
    dir_write(&dir, "groups/frnot/f.yaml", &cluster("of-front", 1));
    let mut server = Server::start(&dir, &[]);
    let _one = connected(&server, "one", &["--cluster", "front"]);
    server.log_has(
        "group `frnot` has files and no node, and nodes of cluster `front` are in no group; did you mean \
         `groups/front/`?",
    );
}

#[test]
fn a_slip_in_the_name_of_a_group_is_told_in_one_line() {
    let dir = groups();
    dir_write(&dir, "chancery.yaml", "groups: [{name: edge, match: {cluster: edge}}]\n");
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "groups/egde/f.yaml", &cluster("of-egde", 1));
    dir_write(&dir, "groups/other/f.yaml", &cluster("of-other", 1));
    server.log_has("`groups/egde/`: no rule of chancery.yaml names group `egde`");
    server.log_has("no rule names group `other`");
    let lines: Vec<_> =
        server.log().lines().filter(|it| it.contains("egde")).map(str::to_owned).collect();
    let lines: Vec<_> = lines.iter().filter(|line| !line.contains("+cds")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn the_client_of_a_node_is_stated_too() {
    let dir = directory(&[
        ("base.yaml", &cluster("base", 1)),
        ("groups/envoys/e.yaml", &cluster("of-envoys", 1)),
        (
            "chancery.yaml",
            "groups: [{name: envoys, match: {user-agent: envoy, user-agent-version: '1.40'}}]",
        ),
    ]);
    let server = Server::start(&dir, &[]);
    let node = r#""node": {"id": "e", "user_agent_name": "envoy", "user_agent_version": "1.40.0"}"#;
    let (_, first) = server.post("clusters", &format!("{{{node}}}"));
    let first: Value = serde_json::from_str(&first).unwrap();
    let version = first["versionInfo"].as_str().unwrap();
    // A poll that is current is held.
    let body = format!("{{{node}, \"version_info\": \"{version}\"}}");
    let mut poll = server.dial(server.port);
    let head =
        "POST /v3/discovery:clusters HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n";
    write!(poll, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    eventually(|| nodes(&server, "")["nodes"][0]["polls"] == 1);
    let found = nodes(&server, "?group=envoys")["nodes"][0].clone();
    assert_eq!((&found["streams"], &found["user_agent"]), (&json!(0), &json!("envoy")));
    let admin = format!("127.0.0.1:{}", server.admin);
    let (code, told, trouble) = get(&server, &["--node", "e", "--admin", &admin]);
    assert_eq!(code, Some(0), "{trouble}");
    assert!(told.contains("of-envoys"), "{told}");
}
