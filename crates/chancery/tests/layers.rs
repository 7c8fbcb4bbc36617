//! Groups that extend others: a canary says only what differs.

use std::fs;
use std::process::Stdio;
use std::sync::mpsc::Receiver;

use tempfile::TempDir;

use crate::daemon::{
    Running, Server, chancery, dir_write, directory, eventually, finished, lines, next_line,
};

/// A file with clusters that wait so many seconds for a connection.
fn clusters(names: &[String], seconds: u8) -> String {
    let one = |name: &String| {
        format!(
            "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n  \
             connect_timeout: {seconds}s\n"
        )
    };
    names.iter().map(one).collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("c-{at:02}")).collect()
}

/// The rules of `edge`, and of a canary that extends it: the node `canary` first.
const RULES: &str = "groups:\n- name: canary\n  extends: edge\n  match: {id: canary}\n\
                     - name: edge\n  match: {cluster: edge}\n";

/// Base has one cluster, `edge` twelve, and `canary` another form of one of them.
fn fleet() -> TempDir {
    directory(&[
        ("chancery.yaml", RULES),
        ("base.yaml", &clusters(&["base".to_owned()], 1)),
        ("groups/edge/clusters.yaml", &clusters(&names(12), 1)),
        ("groups/canary/one.yaml", &clusters(&names(1), 7)),
    ])
}

/// The number of clusters that a node gets, and of those that the canary has another form of.
fn seen(server: &Server, id: &str) -> (usize, usize) {
    let body = format!("{{\"node\": {{\"id\": \"{id}\", \"cluster\": \"edge\"}}}}");
    let answer = server.post("clusters", &body).1;
    (answer.matches("\"@type\"").count(), answer.matches("\"7s\"").count())
}

/// A client whose stream stays open, and its output.
fn client(server: &Server, id: &str) -> (Running, Receiver<String>) {
    let address = format!("127.0.0.1:{}", server.port);
    let words = ["watch", "cds", "--server", &address, "--node", id, "--cluster", "edge"];
    let mut client = Running::start(chancery(&words).args(["-o", "json"]).stderr(Stdio::null()));
    let seen = lines(client.stdout.take().unwrap(), usize::MAX);
    assert!(next_line(&seen).is_some());
    (client, seen)
}

#[test]
fn a_canary_is_what_differs() {
    let dir = fleet();
    let mut server = Server::start(&dir, &[]);
    assert_eq!((seen(&server, "canary"), seen(&server, "other")), ((13, 1), (13, 0)));
    let _open = client(&server, "canary");

    // A change of the group reaches its canary.
    dir_write(&dir, "groups/edge/more.yaml", &clusters(&["more".to_owned()], 1));
    eventually(|| seen(&server, "canary") == (14, 1));
    assert_eq!(seen(&server, "other"), (14, 0));

    // Its end is no loss, though its node is there.
    fs::remove_dir_all(dir.path().join("groups/canary")).unwrap();
    eventually(|| seen(&server, "canary") == (14, 0));
    dir_write(&dir, "base.yaml", &clusters(&["base".to_owned(), "last".to_owned()], 1));
    eventually(|| seen(&server, "canary") == (15, 0));
    server.log_has("base: +cds last");
    assert!(!server.log().contains("held back from"), "{}", server.log());
}

#[test]
fn a_rule_that_extends_no_more_is_held_as_a_loss() {
    let dir = fleet();
    let mut server = Server::start(&dir, &[]);
    let _open = client(&server, "canary");
    dir_write(&dir, "chancery.yaml", &RULES.replace("  extends: edge\n", ""));
    server.log_has("held back from group `canary`: 2 of 13 clusters left");
    assert_eq!(seen(&server, "canary"), (13, 1));
    let admin = format!("127.0.0.1:{}", server.admin);
    let confirmed = finished(&mut chancery(&["confirm", "--admin", &admin, "--group", "canary"]));
    assert!(confirmed.status.success());
    assert_eq!(seen(&server, "canary"), (2, 1));
    dir_write(&dir, "chancery.yaml", RULES);
    eventually(|| seen(&server, "canary") == (13, 1));
}

#[test]
fn groups_in_a_circle_are_refused_and_a_slip_in_a_name_is_told() {
    let dir = fleet();
    let circle = RULES.replace("- name: edge\n", "- name: edge\n  extends: canary\n");
    dir_write(&dir, "chancery.yaml", &circle);
    let checked = finished(&mut chancery(&["check", dir.path().to_str().unwrap()]));
    assert_eq!(checked.status.code(), Some(1));
    let told = String::from_utf8(checked.stdout).unwrap();
    assert!(
        told.contains("group `canary` would extend itself: canary -> edge -> canary"),
        "{told}"
    );
    assert!(told.contains("chancery.yaml:"), "{told}");

    dir_write(&dir, "chancery.yaml", &RULES.replace("extends: edge", "extends: egde"));
    let checked = finished(&mut chancery(&["check", dir.path().to_str().unwrap()]));
    let told = String::from_utf8(checked.stdout).unwrap();
    assert!(told.contains("did you mean `edge`?"), "{told}");
}

/// The rules with the two groups in the other order: the canary is for nobody then.
const OTHER_ORDER: &str = "groups:\n- name: edge\n  match: {cluster: edge}\n- name: canary\n  \
                           extends: edge\n  match: {id: canary}\n";

#[test]
fn rules_that_move_a_node_with_loss_wait_until_they_are_confirmed() {
    let dir = fleet();
    dir_write(&dir, "groups/canary/own.yaml", &clusters(&["own".to_owned()], 1));
    let mut server = Server::start(&dir, &[]);
    let _open = client(&server, "canary");
    assert_eq!(seen(&server, "canary"), (14, 1));
    dir_write(&dir, "chancery.yaml", OTHER_ORDER);
    server.log_has(
        "held back from group `canary`: chancery.yaml moves 1 node (`canary`) from group `canary` to \
         group `edge`: 13 of 14 clusters left; what they see stays. If it is meant, let it pass with \
         `chancery confirm --group canary`",
    );
    server.log_has("the rules of its groups wait");
    eventually(|| server.admin("/ready").1.contains("chancery.yaml moves 1 node"));
    assert_eq!(seen(&server, "canary"), (14, 1));

    // The rules come into force when its new group has what it would lose.
    dir_write(&dir, "groups/edge/own.yaml", &clusters(&["own".to_owned()], 1));
    server.log_has("no longer held back from group `canary`");
    eventually(|| seen(&server, "canary") == (14, 0));
    eventually(|| !server.admin("/ready").1.contains("held back"));
}

#[test]
fn rules_that_refuse_a_node_wait_too_and_a_repair_ends_that() {
    let dir = fleet();
    let mut server = Server::start(&dir, &[]);
    let _open = client(&server, "other");
    dir_write(&dir, "chancery.yaml", "groups: []\nunmatched: refuse\n");
    // Without rules, the group of a node is its cluster.
    server.log_has("chancery.yaml changed; its groups, external names and gate are in force");
    assert_eq!(seen(&server, "other"), (13, 0));
    let refused = "groups:\n- name: edge\n  match: {cluster: egde}\nunmatched: refuse\n";
    dir_write(&dir, "chancery.yaml", refused);
    server.log_has("chancery.yaml refuses 1 node (`other`) of group `edge`");
    assert_eq!(seen(&server, "other"), (13, 0));
    dir_write(&dir, "chancery.yaml", RULES);
    server.log_has("no longer held back from group `edge`");
    assert_eq!(seen(&server, "other"), (13, 0));

    dir_write(&dir, "chancery.yaml", refused);
    eventually(|| server.admin("/ready").1.contains("refuses 1 node"));
    let admin = format!("127.0.0.1:{}", server.admin);
    let confirmed = finished(&mut chancery(&["confirm", "--admin", &admin, "--all"]));
    assert!(confirmed.status.success());
    server.log_has("chancery.yaml refuses 1 node (`other`) of group `edge`; if that is not meant");
    eventually(|| seen(&server, "other") == (0, 0));
}

#[test]
fn a_node_that_moves_without_loss_is_told_and_not_held() {
    let dir = fleet();
    let mut server = Server::start(&dir, &[]);
    let _open = client(&server, "other");
    dir_write(&dir, "chancery.yaml", &RULES.replace("{id: canary}", "{id: [canary, other]}"));
    server.log_has(
        "chancery.yaml moves 1 node (`other`) from group `edge` to group `canary`; if that",
    );
    eventually(|| seen(&server, "other") == (13, 1));
    assert!(!server.log().contains("held back from"), "{}", server.log());
}

#[test]
fn a_diff_tells_what_a_rule_that_extends_no_more_takes_away() {
    let (old, new) = (fleet(), fleet());
    dir_write(&new, "chancery.yaml", &RULES.replace("  extends: edge\n", ""));
    let [old, new] = [&old, &new].map(|dir| dir.path().to_str().unwrap().to_owned());
    let compared = finished(&mut chancery(&["diff", &new, &old, "--group", "canary"]));
    assert_eq!(compared.status.code(), Some(1));
    let told = String::from_utf8(compared.stdout).unwrap();
    assert!(told.contains("c-11") && !told.contains("c-00"), "{told}");
}
