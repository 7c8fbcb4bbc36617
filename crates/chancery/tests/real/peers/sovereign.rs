//! Sovereign: polls of a template over a file, which it reads every second.
//!
//! Its versions are of all it has, whoever asks for what; and it has a status of HTTP for having
//! nothing of what was asked for.

use std::fs;

use serde_json::{Value, json};

use super::{PATIENCE, Rig, clusters};
use crate::support::ask::{WatchProcess, get};
use crate::support::chancery::Directory;
use crate::support::http;
use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::wait;

/// A running server.
struct Sovereign {
    port: Port,
    directory: Directory,
    _process: Process,
}

impl Sovereign {
    /// Serves clusters, and returns once it does.
    fn serve(rig: &Rig, clusters: &Value) -> Self {
        let directory = Directory::new(rig.path(), "sovereign");
        let file = |name: &str| rig.path().join("sovereign").join(name);
        directory.write("clusters.json", &clusters.to_string());
        directory.write("clusters.jinja", "resources: {{ clusters | tojson }}\n");
        let from = |name: &str, how: &str| json!({"protocol": "file", "serialization": how, "path": file(name)});
        // JSON is YAML too.
        let config = json!({
            "templates": {
                "default": [{"type": "clusters", "spec": from("clusters.jinja", "jinja")}],
            },
            "template_context": {
                "refresh_rate": 1,
                "context": {"clusters": from("clusters.json", "json")},
            },
        });
        let path = rig.path().join("sovereign.yaml");
        fs::write(&path, config.to_string()).expect("the directory is ours");
        let port = Port::reserve();
        let mut command = rig.clients.python("sovereign_server.py");
        command.arg(port.number().to_string());
        command.env("SOVEREIGN_CONFIG", format!("file://{}", path.display()));
        let mut process = Process::start(rig.path(), "sovereign-server", &mut command);
        wait::holds("Sovereign to serve", || {
            if let Some(status) = process.ended() {
                panic!("it ended: {status}\n{}", process.output());
            }
            http::get(port.number(), "/healthcheck", &[]).is_some_and(|reply| reply.status == 200)
        });
        Self { port, directory, _process: process }
    }

    fn write(&self, clusters: &Value) {
        self.directory.write("clusters.json", &clusters.to_string());
    }

    fn uri(&self) -> String {
        format!("http://{}", self.port.address())
    }
}

// C-044
#[test]
fn what_a_template_makes_is_got() {
    let Some(rig) = Rig::new() else { return };
    let server = Sovereign::serve(&rig, &clusters(&[("a", 1), ("b", 2)]));
    let uri = server.uri();
    let ask = |question: &[&str]| get(rig.path(), &[question, &["--server", &uri]].concat());
    assert_eq!(ask(&["cds"]).whole(), ["a 1s", "b 2s"]);
    assert_eq!(ask(&["cds", "--cluster", "edge", "b"]).whole(), ["b 2s"]);
    let gone = ["gone", PATIENCE[0], PATIENCE[1]];
    for question in [&["cds", "a"][..], &["cds"]] {
        let answer = ask(&[question, &gone].concat());
        answer.misses("cds", "gone", &uri);
        assert_eq!(answer.found.len(), question.len() - 1, "{answer:?}");
    }
    // It has no template for them.
    let answer = ask(&["lds", PATIENCE[0], PATIENCE[1]]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.told.contains("500"), "{}", answer.told);
}

// C-044, C-056
#[test]
fn what_becomes_of_a_template_is_heard() {
    let Some(rig) = Rig::new() else { return };
    let server = Sovereign::serve(&rig, &clusters(&[("a", 1), ("b", 1)]));
    let uri = server.uri();
    let questions = [&["cds"][..], &["cds", "a", "b"]];
    let mut watches = questions
        .map(|question| WatchProcess::start(rig.path(), &[question, &["--server", &uri]].concat()));
    let mut all_hear = |expected: &[&str]| {
        watches.iter_mut().for_each(|watch| watch.hears(expected));
    };
    all_hear(&["a changed 1s", "b changed 1s"]);
    server.write(&clusters(&[("a", 1), ("b", 2)]));
    all_hear(&["b changed 2s"]);
    server.write(&clusters(&[("b", 2)]));
    all_hear(&["a removed"]);
    server.write(&clusters(&[]));
    all_hear(&["b removed"]);
    server.write(&clusters(&[("a", 3)]));
    all_hear(&["a changed 3s"]);
}

/// It reads rejections, and goes on to answer who rejects.
#[test]
fn a_rejection_changes_nothing() {
    let Some(rig) = Rig::new() else { return };
    let server = Sovereign::serve(&rig, &clusters(&[("a", 1)]));
    let uri = server.uri();
    let question = ["cds", "--server", &uri, "--nack", "a test"];
    let mut watch = WatchProcess::start(rig.path(), &question);
    watch.hears(&["a error"]);
    server.write(&clusters(&[("a", 1), ("b", 1)]));
    watch.hears(&["b error"]);
}
