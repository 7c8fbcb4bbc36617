//! go-control-plane: its snapshot cache and its linear cache over each of the four kinds of streams,
//! and its snapshot cache through its HTTP gateway (the linear one does not answer polls).

use serde_json::json;

use super::{PATIENCE, Rig, clusters, with_endpoints};
use crate::support::ask::{Get, WAYS, WatchProcess, get};
use crate::support::go_server::GoServer;

/// A server and all ways to reach it, each as flags.
fn ways(server: &GoServer, cache: &str) -> Vec<Vec<String>> {
    let flags = |uri: String, way: &[&str]| {
        let way = way.iter().map(|&word| word.to_owned());
        ["--server".to_owned(), uri].into_iter().chain(way).collect()
    };
    let mut all: Vec<_> = WAYS.iter().map(|way| flags(server.address(), way)).collect();
    if cache == "snapshot" {
        all.push(flags(server.rest(), &[]));
    }
    all
}

fn is_poll(way: &[String]) -> bool {
    way[1].starts_with("http:")
}

/// The words of a question, asked this way.
fn words<'a>(way: &'a [String], question: &[&'a str]) -> Vec<&'a str> {
    question.iter().copied().chain(way.iter().map(String::as_str)).collect()
}

fn what_is_there_is_got(cache: &str) {
    let Some(rig) = Rig::new() else { return };
    let all = with_endpoints(clusters(&[("a", 1), ("b", 2)]), &["a"]);
    let server = GoServer::serve(&rig.clients, rig.path(), cache, &all);
    for way in ways(&server, cache) {
        let ask = |question: &[&str]| get(rig.path(), &words(&way, question));
        assert_eq!(ask(&["cds"]).whole(), ["a 1s", "b 2s"], "{way:?}");
        assert_eq!(ask(&["cds", "b"]).whole(), ["b 2s"], "{way:?}");
        assert_eq!(ask(&["cds", "b", "a"]).whole(), ["b 2s", "a 1s"], "{way:?}");
        assert_eq!(ask(&["eds", "a"]).whole(), ["a -"], "{way:?}");
        assert_eq!(ask(&["cds,eds", "a"]).whole(), ["a 1s", "a -"], "{way:?}");
    }
}

#[test]
fn what_is_in_a_snapshot_is_got() {
    // C-042
    what_is_there_is_got("snapshot");
}

#[test]
fn what_is_in_a_linear_cache_is_got() {
    // C-042
    what_is_there_is_got("linear");
}

/// Over no stream does this server say that there is no such resource.
fn what_is_not_there_is_told(cache: &str) {
    let Some(rig) = Rig::new() else { return };
    let all = with_endpoints(clusters(&[("a", 1)]), &["a"]);
    let server = GoServer::serve(&rig.clients, rig.path(), cache, &all);
    let ways = ways(&server, cache);
    for (short, found) in [("cds", "a 1s"), ("eds", "a -")] {
        let question = [short, "a", "gone", PATIENCE[0], PATIENCE[1]];
        let asked = ways.iter().map(|way| Get::start(rig.path(), &words(way, &question)));
        for (way, asked) in ways.iter().zip(asked.collect::<Vec<_>>()) {
            let answer = asked.answer();
            answer.misses(short, "gone", &way[1]);
            assert_eq!(answer.found, [found], "{way:?}");
        }
    }
}

// C-065
#[test]
fn what_is_not_in_a_snapshot_is_told() {
    what_is_not_there_is_told("snapshot");
}

// C-065
#[test]
fn what_is_not_in_a_linear_cache_is_told() {
    what_is_not_there_is_told("linear");
}

/// Whoever watches all, and whoever watches by name, hears the same.
fn changes_and_removals_are_heard(cache: &str) {
    let Some(rig) = Rig::new() else { return };
    let first = clusters(&[("a", 1), ("b", 1)]);
    let mut server = GoServer::serve(&rig.clients, rig.path(), cache, &first);
    let questions = [&["cds"][..], &["cds", "a", "b"]];
    let mut watches: Vec<_> = ways(&server, cache)
        .iter()
        .flat_map(|way| questions.map(|question| words(way, question)))
        .map(|words| WatchProcess::start(rig.path(), &words))
        .collect();
    let mut all_hear = |expected: &[&str]| {
        watches.iter_mut().for_each(|watch| watch.hears(expected));
    };
    all_hear(&["a changed 1s", "b changed 1s"]);
    server.publish(&clusters(&[("a", 1), ("b", 2)]));
    all_hear(&["b changed 2s"]);
    server.publish(&clusters(&[("b", 2)]));
    all_hear(&["a removed"]);
    server.publish(&clusters(&[("a", 3), ("b", 2)]));
    all_hear(&["a changed 3s"]);
    server.publish(&clusters(&[]));
    all_hear(&["a removed", "b removed"]);
}

// C-044, C-056
#[test]
fn a_snapshot_is_followed() {
    changes_and_removals_are_heard("snapshot");
}

// C-041, C-056
#[test]
fn a_linear_cache_is_followed() {
    changes_and_removals_are_heard("linear");
}

/// A poll carries the answer to the one before, so that only who goes on polling rejects anything.
fn a_rejection_is_heard(cache: &str) {
    let Some(rig) = Rig::new() else { return };
    let server = GoServer::serve(&rig.clients, rig.path(), cache, &clusters(&[("a", 1)]));
    for (number, way) in ways(&server, cache).iter().enumerate() {
        let why = format!("reason {number}");
        let question = words(way, &["cds", "--nack", &why]);
        let answer = get(rig.path(), &question);
        assert_eq!((answer.code, answer.found.len()), (Some(1), 0), "{way:?}: {answer:?}");
        assert!(answer.told.contains(&why), "{way:?}: {}", answer.told);
        let polling = is_poll(way).then(|| WatchProcess::start(rig.path(), &question));
        server.is_refused(&format!("`a`: {why}"));
        drop(polling);
    }
}

// C-063
#[test]
fn a_snapshot_cache_hears_of_rejections() {
    a_rejection_is_heard("snapshot");
}

// C-063
#[test]
fn a_linear_cache_hears_of_rejections() {
    a_rejection_is_heard("linear");
}

/// Of a type that this server holds and has none of.
#[test]
fn nothing_is_no_failure() {
    let Some(rig) = Rig::new() else { return };
    for cache in ["snapshot", "linear"] {
        let server = GoServer::serve(&rig.clients, rig.path(), cache, &json!([]));
        for way in ways(&server, cache) {
            let answer = get(rig.path(), &words(&way, &["cds"]));
            assert_eq!((answer.code, answer.told.as_str()), (Some(0), "no resources\n"), "{way:?}");
        }
    }
}

/// A server that crashed comes back with other content, and is asked again by itself.
// C-068, C-069
#[test]
fn a_server_that_comes_back_is_followed_on() {
    let Some(rig) = Rig::new() else { return };
    let first = clusters(&[("a", 1), ("b", 1)]);
    let server = GoServer::serve(&rig.clients, rig.path(), "snapshot", &first);
    let ways = ways(&server, "snapshot");
    let start = |way: &Vec<String>| WatchProcess::start(rig.path(), &words(way, &["cds"]));
    let mut watches: Vec<_> = ways.iter().map(start).collect();
    watches.iter_mut().for_each(|watch| watch.hears(&["a changed 1s", "b changed 1s"]));
    let ports = server.stop();
    watches.iter_mut().for_each(|watch| watch.comes_to(&["* ambient"]));
    // Its first version has the name of the one before, and polls are answered by that alone.
    let mut server = GoServer::serve_on(ports, &rig.clients, rig.path(), "snapshot", &first);
    server.publish(&clusters(&[("a", 2)]));
    for watch in &mut watches {
        watch.comes_to(&["a changed 2s"]);
        assert_eq!(watch.values(), ["a 1s", "b 1s", "a 2s"]);
    }
}
