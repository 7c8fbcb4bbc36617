//! `chancery get` and `chancery watch` against servers whose resources cannot be used, or that die
//! when there is no value: something is said, and the exit code is true.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_testkit::TestServer;
use serde_json::Value;

use crate::daemon;
use crate::daemon::{Running, chancery, directory};
use crate::raw::RawServer;

/// A server of the one cluster `good`.
async fn served() -> TestServer {
    let mut snapshot = Snapshot::new();
    let resource = Resource::new("good".parse().unwrap(), GOOD.1.into());
    snapshot.insert(&TypeUrl::new(CLUSTER), resource);
    TestServer::start(snapshot).await.unwrap()
}

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const GOOD: (&str, &[u8]) = (CLUSTER, b"\x0a\x04good");

/// Resources without a name: one does not decode, one is of another type, one has an empty body.
const NAMELESS: [(&str, &[u8]); 3] =
    [(CLUSTER, b"\xff\xff"), ("envoy.config.listener.v3.Listener", b"\x0a\x01a"), (CLUSTER, b"")];

const WAYS: [&[&str]; 2] = [&[], &["--per-type"]];

/// Runs a command to its end, which its flags bound.
async fn run(words: &[&str]) -> Output {
    let mut command = chancery(words);
    let output = move || command.stdin(Stdio::null()).output().unwrap();
    tokio::task::spawn_blocking(output).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The name, the event and the error of each line.
fn events(run: &Output) -> Vec<(String, String, String)> {
    let word = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let lines = text(&run.stdout);
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (word(&line, "name"), word(&line, "event"), word(&line, "error"))).collect()
}

/// C-063, C-064
#[tokio::test(flavor = "multi_thread")]
async fn everything_is_answered_with_a_rejection_and_what_is_good() {
    for nameless in NAMELESS {
        for way in WAYS {
            let server = RawServer::start(&[nameless, GOOD]).await;
            let got = run(&[&["get", "cds", "--server", &server.address], way].concat()).await;
            let told = text(&got.stderr);
            assert_eq!(got.status.code(), Some(2), "{told}");
            assert!(told.contains("rejected") && !told.contains("no resources"), "{told}");
            assert!(text(&got.stdout).contains("good"), "{got:?}");
        }
    }
}

/// C-063, C-064
#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_a_rejection_is_no_empty_answer() {
    for nameless in NAMELESS {
        let server = RawServer::start(&[nameless]).await;
        let got = run(&["get", "cds", "--server", &server.address]).await;
        assert_eq!((got.status.code(), text(&got.stdout).as_str()), (Some(2), ""));
        assert!(text(&got.stderr).contains("rejected"), "{got:?}");
    }
}

/// C-063, C-064, C-065: and it does not wait out its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_answered_with_a_rejection() {
    for nameless in NAMELESS {
        for way in WAYS {
            let server = RawServer::start(&[nameless]).await;
            let words = ["get", "cds", "a", "--server", &server.address, "--timeout", "60s"];
            let got = run(&[&words, way].concat()).await;
            let told = text(&got.stderr);
            assert_eq!((got.status.code(), text(&got.stdout).as_str()), (Some(2), ""), "{told}");
            assert!(told.contains("`a`") && told.contains("rejected"), "{told}");
        }
    }
}

/// C-063
#[tokio::test(flavor = "multi_thread")]
async fn who_rejects_everything_is_told_so_by_an_empty_server_too() {
    let mut server = RawServer::start(&[]).await;
    let words = ["get", "cds", "--server", &server.address, "--nack", "a test"];
    let got = run(&words).await;
    let told = text(&got.stderr);
    assert_eq!(got.status.code(), Some(1), "{told}");
    assert!(told.contains("a test"), "{told}");
    let rejected = tokio::time::timeout(daemon::PATIENCE, server.rejected.recv()).await.unwrap();
    assert_eq!(rejected.as_deref(), Some("a test"));
}

/// C-063, C-064
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_of_a_rejection_without_a_name() {
    for nameless in NAMELESS {
        let server = RawServer::start(&[nameless]).await;
        for (name, event) in [("*", "ambient"), ("a", "error")] {
            let address = &server.address;
            let words = ["watch", "cds", name, "--server", address, "-o", "json", "--count", "1"];
            let watched = run(&[&words[..], &["--for", "60s"]].concat()).await;
            let events = events(&watched);
            assert_eq!(events.len(), 1, "{watched:?}");
            assert_eq!((events[0].0.as_str(), events[0].1.as_str()), (name, event));
            assert!(events[0].2.contains("rejected"), "{events:?}");
        }
    }
}

/// C-067
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_what_is_missing_tells_that_its_server_died() {
    for protocol in ["sotw", "delta"] {
        let server = served().await;
        let address = server.address().to_string();
        let words = ["watch", "cds", "gone", "--server", &address, "-o", "json", "--count", "2"];
        let bounds = ["--protocol", protocol, "--timeout", "500ms", "--for", "60s"];
        let mut command = chancery(&[&words[..], &bounds].concat());
        let mut child = Running::start(command.stdout(Stdio::piped()));
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(event(&mut lines), "removed");
        server.stop().await;
        assert_eq!(event(&mut lines), "error");
    }
}

/// The event of the next line; the flags say how long it may take to come.
fn event(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    tokio::task::block_in_place(|| lines.read_line(&mut line)).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    event["event"].as_str().unwrap().to_owned()
}

/// C-043, C-067
#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_resources_are_of_another_type_is_no_empty_answer() {
    let listener =
        "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  name: l\n";
    let dir = directory(&[("cds.yaml", listener)]);
    let file = format!("file:{}", dir.path().join("cds.yaml").display());
    for words in [&["get", "cds", "--server", &file][..], &["get", "cds", "a", "--server", &file]] {
        let got = run(words).await;
        assert!(got.status.code() == Some(2) && !got.stderr.is_empty(), "{got:?}");
    }
}
