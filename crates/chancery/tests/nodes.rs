//! The nodes that are connected: what the admin interface tells of them, and what commands make of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod daemon;

use std::process::Stdio;

use daemon::{Running, Server, chancery, cluster, directory, eventually, exchange};
use serde_json::{Value, json};
use tempfile::TempDir;

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
        found["count"] == 3 && found["nodes"][1]["streams"] == 2
    });
    let (_, text) = server.admin("/api/v1/nodes?id=edge-1");
    assert!(!text.contains("hush"), "{text}");
    let mut found = nodes(&server, "?id=edge-1")["nodes"][0].clone();
    assert!(found["since"].as_u64().unwrap() > 1_700_000_000);
    assert!(found["peers"][0].as_str().unwrap().starts_with("127.0.0.1:"), "{found}");
    assert!(found["user_agent"].as_str().unwrap().contains("hancery"), "{found}");
    for key in ["since", "peers", "user_agent", "user_agent_version"] {
        found.as_object_mut().unwrap().remove(key);
    }
    let expected = json!({
        "id": "edge-1", "cluster": "edge",
        "locality": {"region": "r", "zone": "z", "sub_zone": ""},
        "group": "canary", "audience": "group `canary`",
        "layers": ["base", "group `edge`", "group `canary`"],
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
