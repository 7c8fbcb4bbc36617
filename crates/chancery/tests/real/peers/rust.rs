//! rust-control-plane: state of the world over an aggregated stream, to nodes it knows by name.

use super::{PATIENCE, Rig};
use crate::support::ask::{WatchProcess, get};
use crate::support::rust_server::RustServer;

const UNCHANGED: &str = "0000000000";

#[test]
fn what_it_has_is_got() {
    let Some(rig) = Rig::new() else { return };
    let server = RustServer::serve(&rig.clients, rig.path(), 2);
    let address = server.address();
    let (one, two) = (format!("bench-000000 {UNCHANGED}"), format!("bench-000001 {UNCHANGED}"));
    let ask = |node: &str, question: &[&str]| {
        let who = ["--server", &address, "--node", node];
        get(rig.path(), &[question, &who].concat())
    };
    assert_eq!(ask("bench-0", &["cds"]).whole(), [one.as_str(), &two]);
    assert_eq!(ask("bench-1", &["cds", "bench-000001"]).whole(), [two.as_str()]);
    let question = ["cds", "bench-000000", "gone", PATIENCE[0], PATIENCE[1]];
    let answer = ask("bench-2", &question);
    answer.misses("cds", "gone", &address);
    assert_eq!(answer.found, [one]);
}

/// It says nothing to nodes it does not know, and comes to grief over delta.
#[test]
fn what_it_cannot_answer_is_told() {
    let Some(rig) = Rig::new() else { return };
    let server = RustServer::serve(&rig.clients, rig.path(), 1);
    let address = server.address();
    let ask = |node: &str, way: &[&str]| {
        let question = ["cds", "--server", &address, "--node", node, PATIENCE[0], PATIENCE[1]];
        get(rig.path(), &[&question, way].concat())
    };
    let silent = ask("stranger", &[]);
    assert_eq!(silent.code, Some(2), "{silent:?}");
    assert!(silent.told.contains("gave no answer within 2s"), "{}", silent.told);
    for way in [&["--protocol", "delta"][..], &["--per-type"]] {
        let refused = ask("bench-0", way);
        assert_eq!(refused.code, Some(2), "{way:?}: {refused:?}");
        assert!(refused.told.contains(&address), "{way:?}: {}", refused.told);
    }
    // The others are served all the same.
    assert_eq!(ask("bench-1", &[]).whole(), [format!("bench-000000 {UNCHANGED}")]);
}

#[test]
fn its_changes_are_heard() {
    let Some(rig) = Rig::new() else { return };
    let server = RustServer::serve(&rig.clients, rig.path(), 2);
    let address = server.address();
    let watch = |node: &str, question: &[&str]| {
        let who = ["--server", &address, "--node", node];
        WatchProcess::start(rig.path(), &[question, &who].concat())
    };
    let mut all = watch("bench-3", &["cds"]);
    let mut named = watch("bench-4", &["cds", "bench-000000", "bench-000001"]);
    for watch in [&mut all, &mut named] {
        watch.hears(&["bench-000000 changed 0000000000", "bench-000001 changed 0000000000"]);
    }
    server.change();
    for watch in [&mut all, &mut named] {
        watch.hears(&["bench-000001 changed 0000000001"]);
    }
    server.change();
    for watch in [&mut all, &mut named] {
        watch.hears(&["bench-000000 changed 0000000002"]);
    }
}
