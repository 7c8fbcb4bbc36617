//! Our client, as the commands `chancery get` and `chancery watch`, and what it prints as few words.
//!
//! A resource is shown by its name and a number that tells its versions apart: the timeout of a
//! cluster, or the text that a server which knows no timeouts puts elsewhere.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::process::Process;
use super::wait;

/// All ways to ask over gRPC.
pub(crate) const WAYS: [&[&str]; 4] = [
    &["--protocol", "sotw"],
    &["--protocol", "delta"],
    &["--protocol", "sotw", "--per-type"],
    &["--protocol", "delta", "--per-type"],
];

/// A question on its way.
pub(crate) struct Get {
    process: Process,
}

/// The outcome of a `get`.
#[derive(Debug)]
pub(crate) struct GetOutcome {
    pub(crate) code: Option<i32>,
    /// `NAME NUMBER` of each resource.
    pub(crate) found: Vec<String>,
    /// The text on stderr.
    pub(crate) told: String,
}

/// Asks, and waits for the answer.
pub(crate) fn get(dir: &Path, words: &[&str]) -> GetOutcome {
    Get::start(dir, words).answer()
}

/// The exit code of `chancery status`, the clients that it tells of, and its errors.
pub(crate) fn status(dir: &Path, words: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let mut command = chancery("status", words);
    if !words.contains(&"--admin") {
        command.args(["--admin", "off"]);
    }
    let mut process = Process::start_apart(dir, &fresh("status"), &mut command);
    let ended = wait::until("`chancery status` to end", || process.ended());
    let clients = process.data().lines().map(object).collect();
    (ended.code(), clients, process.output())
}

impl Get {
    pub(crate) fn start(dir: &Path, words: &[&str]) -> Self {
        let mut command = chancery("get", words);
        Self { process: Process::start_apart(dir, &fresh("get"), &mut command) }
    }

    pub(crate) fn answer(mut self) -> GetOutcome {
        let status = wait::until("`chancery get` to end", || self.process.ended());
        let found = self.process.data().lines().map(|line| resource(&object(line))).collect();
        GetOutcome { code: status.code(), found, told: self.process.output() }
    }
}

impl GetOutcome {
    /// The resources of an answer that is whole.
    #[track_caller]
    pub(crate) fn whole(&self) -> Vec<&str> {
        assert_eq!((self.code, self.told.as_str()), (Some(0), ""), "{self:?}");
        self.found.iter().map(String::as_str).collect()
    }

    /// It says that there is no such resource, and of whom it was asked.
    #[track_caller]
    pub(crate) fn misses(&self, short: &str, name: &str, server: &str) {
        assert_eq!(self.code, Some(1), "{self:?}");
        let words = format!("{short} `{name}` from {server} ");
        assert!(self.told.contains(&words), "`{words}` in {}", self.told);
    }
}

/// A watch that goes on.
pub(crate) struct WatchProcess {
    process: Process,
    /// The number of bytes of its data that were read.
    read: usize,
}

impl WatchProcess {
    pub(crate) fn start(dir: &Path, words: &[&str]) -> Self {
        let mut command = chancery("watch", words);
        Self { process: Process::start_apart(dir, &fresh("watch"), &mut command), read: 0 }
    }

    /// The next event, as `NAME EVENT NUMBER`.
    #[track_caller]
    pub(crate) fn event(&mut self) -> String {
        let data = wait::until("an event", || {
            let data = self.process.data();
            let is_whole = data.get(self.read..).is_some_and(|new| new.contains('\n'));
            if !is_whole && let Some(status) = self.process.ended() {
                panic!("the watch ended: {status}\n{}", self.process.output());
            }
            is_whole.then_some(data)
        });
        let line = data[self.read..].lines().next().unwrap_or_default();
        self.read += line.len() + 1;
        shown(&object(line))
    }

    /// These events come next, in any order.
    #[track_caller]
    pub(crate) fn hears(&mut self, expected: &[&str]) {
        let mut events: Vec<_> = expected.iter().map(|_| self.event()).collect();
        events.sort();
        assert_eq!(events, expected);
    }

    /// These events come, each after the one before, and maybe others between them.
    #[track_caller]
    pub(crate) fn comes_to(&mut self, expected: &[&str]) {
        for event in expected {
            while self.event() != *event {}
        }
    }

    /// All values that it has told of so far, in their order.
    pub(crate) fn values(&self) -> Vec<String> {
        let events = self.process.data();
        let events = events.lines().map(object);
        events.filter(|event| event["event"] == "changed").map(|event| resource(&event)).collect()
    }
}

/// The command, with nothing from the environment of the test.
fn chancery(verb: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.args([verb, "-o", "json"]).args(words);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CHANCERY_") || text.starts_with("GRPC_") {
            command.env_remove(&name);
        }
    }
    command
}

/// A name that no other process of the test has.
fn fresh(verb: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{verb}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn object(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}"))
}

fn shown(event: &Value) -> String {
    let word = |key: &str| event[key].as_str().unwrap_or_default();
    match word("event") {
        "changed" => {
            let resource = resource(event);
            let (name, number) = resource.split_once(' ').unwrap_or((&resource, ""));
            format!("{name} changed {number}")
        }
        "ambient" if event["error"].is_null() => format!("{} over", word("name")),
        what => format!("{} {what}", word("name")),
    }
}

/// `NAME NUMBER`
fn resource(event: &Value) -> String {
    let body = &event["resource"];
    let number = body["connect_timeout"].as_str().or_else(|| body["alt_stat_name"].as_str());
    let name = event["name"].as_str().unwrap_or_default();
    format!("{name} {}", number.unwrap_or("-"))
}
