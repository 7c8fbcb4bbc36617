//! Groups that extend others: a canary says only what differs.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod daemon;

use std::fs;
use std::process::Stdio;
use std::sync::mpsc::Receiver;

use daemon::{
    Running, Server, chancery, dir_write, directory, eventually, finished, lines, next_line,
};
use tempfile::TempDir;

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
