//! Layers that change some fields of a resource below, and take others away.

use std::process::{Output, Stdio};
use std::sync::mpsc::Receiver;

use tempfile::TempDir;

use crate::daemon::{
    Running, Server, chancery, dir_write, directory, eventually, finished, lines, next_line,
};

const RULES: &str = "groups:\n- name: canary\n  extends: edge\n  match: {id: canary}\n\
                     - name: edge\n  match: {cluster: edge}\n";

const CLUSTER: &str = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// The clusters of `edge`: `shop`, with this text in a field of its own, and others.
fn edge(stat: &str, others: &[&str]) -> String {
    let others = others.iter().map(|name| format!("- {CLUSTER}\n  name: {name}\n"));
    let shop =
        format!("- {CLUSTER}\n  name: shop\n  connect_timeout: 1s\n  alt_stat_name: {stat}\n");
    std::iter::once(shop).chain(others).collect()
}

/// The edits of the canary: another timeout of a cluster, and no cluster `old`.
fn edits(name: &str, seconds: u8) -> String {
    format!(
        "# A canary\npatch:\n- {CLUSTER}\n  name: {name}\n  connect_timeout: {seconds}s\nremove:\n  \
         cds: [old]\n"
    )
}

fn fleet() -> TempDir {
    directory(&[
        ("chancery.yaml", RULES),
        ("groups/edge/clusters.yaml", &edge("first", &["old", "more"])),
        ("groups/canary/edits.yaml", &edits("shop", 7)),
    ])
}

/// The clusters of a node: names, and what the cluster `shop` has, in the order of the text.
fn seen(server: &Server, id: &str) -> String {
    let body = format!("{{\"node\": {{\"id\": \"{id}\", \"cluster\": \"edge\"}}}}");
    let answer = server.post("clusters", &body).1;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let mut told: Vec<_> = answer["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let text = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}{}", text("name"), text("connectTimeout"), text("altStatName"))
        })
        .collect();
    told.sort();
    told.join(", ")
}

/// A client whose stream stays open.
fn client(server: &Server, id: &str) -> (Running, Receiver<String>) {
    let address = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &address, "--node", id, "--cluster", "edge"];
    let mut client = Running::start(chancery(&words).args(["-o", "json"]).stderr(Stdio::null()));
    let seen = lines(client.stdout.take().unwrap(), usize::MAX);
    assert!(next_line(&seen).is_some());
    (client, seen)
}

/// The code and the output of `chancery check`.
fn checked(dir: &TempDir, flags: &[&str]) -> (Option<i32>, String) {
    let path = dir.path().to_str().unwrap();
    let Output { status, stdout, .. } =
        finished(&mut chancery(&[&["check", path], flags].concat()));
    (status.code(), String::from_utf8(stdout).unwrap().replace(path, "DIR"))
}

#[test]
fn a_canary_says_only_which_fields_differ_and_what_is_not_there() {
    let dir = fleet();
    let mut server = Server::start(&dir, &[]);
    eventually(|| seen(&server, "canary") == "more , shop 7sfirst");
    assert_eq!(seen(&server, "other"), "more , old , shop 1sfirst");
    let _open = client(&server, "canary");
    let config = server.admin("/api/v1/config").1;
    for edit in ["\"edit\": \"patch\"", "\"edit\": \"remove\""] {
        assert!(config.contains(edit), "{config}");
    }

    // A change below reaches the canary, in the fields that it does not have another form of.
    dir_write(&dir, "groups/edge/clusters.yaml", &edge("second", &["old", "more"]));
    eventually(|| seen(&server, "canary") == "more , shop 7ssecond");
    // A patch whose fields only stand elsewhere is no other one.
    let moved = edits("shop", 7).replace("  connect", "  # a comment\n  connect");
    dir_write(&dir, "groups/canary/edits.yaml", &format!("# one more line\n{moved}"));
    eventually(|| server.admin("/api/v1/config").1.contains("\"line\": 4"));
    dir_write(&dir, "groups/canary/edits.yaml", &edits("shop", 8));
    eventually(|| seen(&server, "canary") == "more , shop 8ssecond");
    server.log_has("group `canary`: ~cds shop");
    let changes = server.log().matches("~cds shop").count();
    assert_eq!(changes, 2, "one in edge and one in the canary: {}", server.log());

    // The removal was good, and takes place below too: nothing is lost by that.
    dir_write(&dir, "groups/edge/clusters.yaml", &edge("third", &["more"]));
    eventually(|| seen(&server, "canary") == "more , shop 8sthird");
    server.log_has("for group `canary`: no layer below has cds `old`, which this removes");
    assert!(!server.log().contains("held back from"), "{}", server.log());
    dir_write(&dir, "groups/canary/edits.yaml", "[]");
    eventually(|| seen(&server, "canary") == "more , shop 1sthird");
}

#[test]
fn a_patch_of_what_goes_below_keeps_its_nodes_as_they_are() {
    let dir = fleet();
    let mut server = Server::start(&dir, &[]);
    let _open = client(&server, "canary");
    let all = edge("first", &["old", "more"]);
    dir_write(&dir, "groups/edge/clusters.yaml", &all.replace("name: shop", "name: shop-v2"));
    server.log_has("held back from group `canary`: ");
    server.log_has("edits.yaml:3: no layer below has cds `shop`, which this patches");
    eventually(|| seen(&server, "other") == "more , old , shop-v2 1sfirst");
    assert_eq!(seen(&server, "canary"), "more , shop 7sfirst");
    assert!(server.admin("/ready").1.contains("which this patches"));

    dir_write(&dir, "groups/canary/edits.yaml", &edits("shop-v2", 7));
    server.log_has("no longer held back from group `canary`");
    eventually(|| seen(&server, "canary") == "more , shop-v2 7sfirst");
}

#[test]
fn a_new_patch_that_cannot_be_applied_is_held_back_with_its_place() {
    let dir = fleet();
    let mut server = Server::start(&dir, &[]);
    let _open = client(&server, "canary");
    dir_write(&dir, "groups/canary/edits.yaml", &edits("shpo", 7));
    server.log_has("which this patches (did you mean `shop`?); what they see");
    assert_eq!(seen(&server, "canary"), "more , shop 7sfirst");

    dir_write(&dir, "groups/canary/edits.yaml", &edits("shop", 0));
    server.log_has("edits.yaml:5: cds `shop` cannot be patched so: `connect_timeout` must be");
    assert_eq!(seen(&server, "canary"), "more , shop 7sfirst");
    dir_write(&dir, "groups/canary/edits.yaml", &edits("shop", 9));
    eventually(|| seen(&server, "canary") == "more , shop 9sfirst");
}

#[test]
fn a_start_serves_the_layers_below_without_an_edit_that_cannot_be_applied() {
    let dir = fleet();
    dir_write(&dir, "groups/canary/edits.yaml", &edits("shop", 0));
    let mut server = Server::start(&dir, &[]);
    eventually(|| seen(&server, "canary") == "more , shop 1sfirst");
    server.log_has("cannot be patched so: `connect_timeout` must be greater than 0s; it stays as");
}

#[test]
fn the_edits_of_a_node_are_those_of_what_its_group_has() {
    let dir = fleet();
    dir_write(
        &dir,
        "nodes/canary/own.yaml",
        &format!("patch:\n- {CLUSTER}\n  name: shop\n  alt_stat_name: own\n"),
    );
    let server = Server::start(&dir, &[]);
    eventually(|| seen(&server, "canary") == "more , shop 7sown");
    let (code, told) = checked(&dir, &[]);
    assert_eq!(code, Some(0), "{told}");

    // Without its group, the node has nothing to patch.
    dir_write(&dir, "nodes/canary/own.yaml", &format!("patch:\n- {CLUSTER}\n  name: shpo\n"));
    let (code, told) = checked(&dir, &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("error[layer/unapplied]: for node `canary`"), "{told}");
    assert!(told.contains("nodes/canary/own.yaml:2:"), "{told}");
}

#[test]
fn an_edit_of_nothing_for_a_node_that_nobody_has_seen_is_told_once() {
    let dir = fleet();
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "nodes/unseen/own.yaml", "remove: {cds: [shpo]}");
    server.log_has(
        "for node `unseen`: no layer below has cds `shpo`, which this removes; did you mean `shop`?",
    );
    // The node comes, and the next load looks at what it sees.
    let _open = client(&server, "unseen");
    dir_write(&dir, "groups/edge/last.yaml", &format!("{CLUSTER}\nname: last\n"));
    server.log_has("group `edge`: +cds last");
    let told = server.log().matches("which this removes").count();
    assert_eq!(told, 1, "{}", server.log());
}

#[test]
fn check_has_an_error_where_an_edit_stands() {
    let dir = fleet();
    let (code, told) = checked(&dir, &[]);
    assert_eq!(code, Some(0), "{told}");
    dir_write(&dir, "groups/canary/edits.yaml", &edits("shpo", 7).replace("old", "oldd"));
    let (code, told) = checked(&dir, &[]);
    assert_eq!(code, Some(1), "{told}");
    for expected in [
        "error[layer/unapplied]: for group `canary`: no layer below has cds `shpo`, which this \
         patches; did you mean `shop`?",
        "--> DIR/groups/canary/edits.yaml:3:",
        "warning[layer/nothing-to-remove]: for group `canary`: no layer below has cds `oldd`, which \
         this removes; did you mean `old`?",
        "--> DIR/groups/canary/edits.yaml:7:9",
    ] {
        assert!(told.contains(expected), "{expected} in {told}");
    }

    // A rule that the result breaks is told with the field of the patch.
    dir_write(&dir, "groups/canary/edits.yaml", &edits("shop", 0));
    let (code, told) = checked(&dir, &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("--> DIR/groups/canary/edits.yaml:5:20"), "{told}");
    assert!(told.contains("`connect_timeout` must be greater than 0s"), "{told}");

    // Below the files at the top is nothing.
    dir_write(&dir, "groups/canary/edits.yaml", "[]");
    dir_write(&dir, "top.yaml", &edits("shop", 7));
    let (code, told) = checked(&dir, &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("nothing is below the files at the top"), "{told}");
}

#[test]
fn a_diff_has_the_fields_that_a_patch_changes() {
    let (old, new) = (fleet(), fleet());
    dir_write(&new, "groups/canary/edits.yaml", &edits("shop", 8));
    let [old, new] = [&old, &new].map(|dir| dir.path().to_str().unwrap().to_owned());
    let compared = finished(&mut chancery(&["diff", &new, &old]));
    assert_eq!(compared.status.code(), Some(1));
    let told = String::from_utf8(compared.stdout).unwrap();
    for expected in ["group `canary`\n", "- connect_timeout: 7s\n", "+ connect_timeout: 8s\n"] {
        assert!(told.contains(expected), "{told}");
    }
    assert!(told.ends_with("0 added, 1 changed, 0 removed\n"), "{told}");

    // One that has no effect would be no difference, and is an error.
    std::fs::write(format!("{new}/groups/canary/edits.yaml"), edits("shpo", 7)).unwrap();
    let compared = finished(&mut chancery(&["diff", &new, &old]));
    assert_eq!(compared.status.code(), Some(2));
    let told = String::from_utf8(compared.stderr).unwrap();
    assert!(told.contains("error[layer/unapplied]") && told.contains("`shop`?"), "{told}");
}

#[test]
fn a_reference_that_a_patch_brings_has_its_place() {
    let route = |cluster: &str| {
        format!("routes: [{{match: {{prefix: /}}, route: {{cluster: {cluster}}}}}]")
    };
    let rds = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
    let dir = fleet();
    dir_write(
        &dir,
        "groups/edge/routes.yaml",
        &format!(
            "{rds}\nname: web\nvirtual_hosts:\n- {{name: all, domains: ['*'], {}}}\n",
            route("more")
        ),
    );
    dir_write(
        &dir,
        "groups/canary/routes.yaml",
        &format!(
            "patch:\n- {rds}\n  name: web\n  virtual_hosts:\n  - {{name: all, domains: ['*'], {}}}\n",
            route("moer")
        ),
    );
    let (_, told) = checked(&dir, &["--only", "dangling-reference"]);
    assert!(told.contains("did you mean `more`?"), "{told}");
    // Not at the start of the patch, but at the field.
    let line = "--> DIR/groups/canary/routes.yaml:5:80\n";
    assert!(told.contains(line), "{told}");
    assert!(told.contains("virtual_hosts[0].routes[0].route.cluster: "), "{told}");
}

#[test]
fn the_messages_in_the_lists_of_a_patch_are_looked_at_like_others() {
    let rds = "\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
    let to =
        |prefix: &str| format!("{{match: {{prefix: {prefix}}}, direct_response: {{status: 200}}}}");
    let dir = fleet();
    dir_write(
        &dir,
        "groups/edge/routes.yaml",
        &format!("{rds}\nname: web\nvirtual_hosts: [{{name: all, domains: ['*']}}]\n"),
    );
    let patch = |routes: &str| {
        format!(
            "patch:\n- {rds}\n  name: web\n  virtual_hosts:\n  - name: all\n    domains: ['*']\n    \
             routes:\n    - {}\n    - {routes}\n",
            to("/")
        )
    };
    dir_write(&dir, "groups/canary/routes.yaml", &patch(&to("/shop")));
    let (code, told) = checked(&dir, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("warning[shadowed-route]"), "{told}");
    assert!(told.contains("--> DIR/groups/canary/routes.yaml:9:"), "{told}");

    // Where a broken rule is a warning, it is one here too.
    dir_write(&dir, "chancery.yaml", &format!("{RULES}gate: {{messages: warn}}\n"));
    dir_write(&dir, "groups/canary/routes.yaml", &patch("{match: {prefix: /shop}}"));
    let (code, told) = checked(&dir, &["--only", "rule"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("warning[rule/oneof-required]"), "{told}");
    assert!(told.contains("--> DIR/groups/canary/routes.yaml:9:"), "{told}");
}
