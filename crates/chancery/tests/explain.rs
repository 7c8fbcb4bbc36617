//! `chancery explain-node`: why a node gets what it gets.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::{Running, Server, chancery, dir_write, directory, finished, lines, next_line};

const RULES: &str = "\
unmatched: refuse
groups:
- name: canary
  extends: edge
  match: {id: edge-1, metadata: {role: canary}}
- name: edge
  match: {cluster: edge, region: eu}
- name: old
  match: {user-agent: envoy, user-agent-version: \"<1.30\"}
";

const CLUSTER: &str = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster";

fn cluster(name: &str) -> String {
    format!("{CLUSTER}, name: {name}")
}

fn fleet() -> TempDir {
    let base = format!("- {{{}}}\n- {{{}}}\n", cluster("shop"), cluster("base"));
    let edge = format!("- {{{}}}\n- {{{}}}\n", cluster("shop"), cluster("legacy"));
    let canary = format!(
        "patch:\n- {{{}, connect_timeout: 1s}}\nremove: {{cds: [legacy, nothing]}}\n",
        cluster("shop")
    );
    let eds = format!(
        "- {{{}, type: EDS, eds_cluster_config: {{eds_config: {{ads: {{}}}}}}}}\n",
        cluster("lonely")
    );
    directory(&[
        ("chancery.yaml", RULES),
        ("base.yaml", &base),
        ("groups/edge/clusters.yaml", &edge),
        ("groups/canary/edits.yaml", &canary),
        ("nodes/edge-1/own.yaml", &eds),
    ])
}

/// The exit code and the output, on both streams.
fn explained(dir: &TempDir, words: &[&str]) -> (Option<i32>, String) {
    let path = dir.path().to_str().unwrap();
    let id = words[0];
    let Output { status, stdout, stderr } =
        finished(&mut chancery(&[&["explain-node", id, path], &words[1..]].concat()));
    let told = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.code(), told.concat().replace(path, "DIR"))
}

#[test]
fn every_place_that_a_node_has_something_from_is_told() {
    let told = explained(&fleet(), &["edge-1", "--metadata", "role=canary"]);
    let expected = "\
node `edge-1` is in group `canary`: rule 1 of `groups` is the first that matches (DIR/chancery.yaml:3)
layers, the strongest first:
  node `edge-1`: DIR/nodes/edge-1/own.yaml
  group `canary`: DIR/groups/canary/edits.yaml
  group `edge`: DIR/groups/edge/clusters.yaml
  base: DIR/base.yaml
resources:
  cds base  DIR/base.yaml:2
  cds legacy  removed by DIR/groups/canary/edits.yaml:3
    hides DIR/groups/edge/clusters.yaml:2
  cds lonely  DIR/nodes/edge-1/own.yaml:1
  cds nothing  not there
    not applied: DIR/groups/canary/edits.yaml:3: no layer below has it
  cds shop  DIR/groups/edge/clusters.yaml:1
    patched by DIR/groups/canary/edits.yaml:2
    hides DIR/base.yaml:1
  eds lonely  made up without endpoints, for its cluster
";
    assert_eq!(told, (Some(0), expected.to_owned()));
}

#[test]
fn the_rules_ask_for_what_a_node_says_about_itself() {
    let dir = fleet();
    let first_line = |words: &[&str]| {
        let (code, told) = explained(&dir, words);
        (code, told.lines().next().unwrap_or_default().to_owned())
    };
    let edge = &["edge-1", "--cluster", "edge", "--locality", "eu/a"][..];
    let told = "node `edge-1` is in group `edge`: rule 2 of `groups` is the first that matches \
                (DIR/chancery.yaml:6)";
    assert_eq!(first_line(edge), (Some(0), told.to_owned()));
    let old = &["x", "--user-agent", "envoy/1.29.3"][..];
    let (code, told) = first_line(old);
    assert_eq!(code, Some(0));
    assert!(told.starts_with("node `x` is in group `old`: rule 3 of"), "{told}");
    let told =
        "node `x` is refused: no rule matches, and `unmatched` says so (DIR/chancery.yaml:1)";
    assert_eq!(first_line(&["x"]), (Some(1), told.to_owned()));

    dir_write(&dir, "chancery.yaml", "{}");
    let told =
        "node `x` is in group `edge`: no rule matches, and the group is called like its cluster";
    assert_eq!(first_line(&["x", "--cluster", "edge"]), (Some(0), told.to_owned()));
    let told = "node `x` is in no group: no rule matches, and `unmatched` says so";
    assert_eq!(first_line(&["x"]), (Some(0), told.to_owned()));
}

#[test]
fn programs_get_an_object() {
    let dir = fleet();
    let words = ["edge-1", "--metadata", "role=canary", "--name", "shop", "-o", "json"];
    let (code, told) = explained(&dir, &words);
    assert_eq!(code, Some(0), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let place = |file: &str, line: u32| json!({"file": file, "line": line, "column": 3});
    let shop = json!({
        "type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        "name": "shop",
        "origin": place("DIR/groups/edge/clusters.yaml", 1),
        "patched_by": [place("DIR/groups/canary/edits.yaml", 2)],
        "removed_by": null,
        "hides": [place("DIR/base.yaml", 1)],
        "not_applied": [],
        "made_up": false,
    });
    assert_eq!(told["resources"], json!([shop]));
    assert_eq!(
        told["layers"][1],
        json!({
            "group": "canary", "node": null, "files": ["DIR/groups/canary/edits.yaml"],
        })
    );
    let decided =
        [&told["group"], &told["decided_by"], &told["rule"], &told["line"], &told["refused"]];
    assert_eq!(json!(decided), json!(["canary", "rule", 1, 3, null]));

    let (code, told) = explained(&dir, &["x", "-o", "json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(code, Some(1));
    let refused = told["refused"].as_str().unwrap();
    assert!(refused.starts_with("no group of this server is for node `x`"), "{refused}");
}

#[test]
fn the_exit_code_says_how_it_ended() {
    let dir = fleet();
    let of_node = ["edge-1", "--metadata", "role=canary", "--type", "cds", "--name"];
    let code = |words: &[&str]| explained(&dir, words).0;
    assert_eq!(code(&[&of_node[..], &["shop"]].concat()), Some(0));
    assert_eq!(code(&[&of_node[..], &["legacy"]].concat()), Some(1), "it is removed");
    assert_eq!(code(&[&of_node[..], &["unknown"]].concat()), Some(1));
    assert_eq!(code(&["x", "--metadata", "role"]), Some(64));
    assert_eq!(code(&[""]), Some(64));
    dir_write(&dir, "chancery.yaml", "gruops: []");
    let (code, told) = explained(&dir, &["x"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("did you mean `groups`?"), "{told}");
}

#[test]
fn a_server_may_know_the_node() {
    let dir = fleet();
    let server = Server::start(&dir, &[]);
    let admin = format!("127.0.0.1:{}", server.admin);
    assert_eq!(explained(&dir, &["edge-1", "--admin", &admin]).0, Some(2), "it is not connected");
    let at = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &at, "--node", "edge-1", "--metadata", "role=canary"];
    let mut open = Running::start(chancery(&words).stdout(Stdio::piped()).stderr(Stdio::null()));
    let seen = lines(open.stdout.take().unwrap(), usize::MAX);
    assert!(next_line(&seen).is_some());
    let (code, told) = explained(&dir, &["edge-1", "--admin", &admin]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("node `edge-1` is in group `canary`"), "{told}");
}
