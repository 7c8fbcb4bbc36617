//! The log of the daemon: nobody waits for its reader, and no peer fills it.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod daemon;

use std::io::Read;
use std::net::TcpStream;
use std::process::Stdio;

use daemon::ports::Port;
use daemon::{PATIENCE, Pipe, Running, chancery, cluster, directory, eventually, exchange};
use tempfile::TempDir;

/// More than a pipe takes that nobody reads, several times over.
const MUCH: usize = 400 * 1024;

/// A daemon whose log nobody reads, until the test does.
struct Unread {
    child: Running,
    log: Pipe,
    port: Port,
    admin: Port,
}

impl Unread {
    fn start(dir: &TempDir, flags: &[&str]) -> Self {
        let (port, admin) = (Port::reserve(), Port::reserve());
        let mut command = chancery(&["serve", dir.path().to_str().unwrap()]);
        command.args(["--listen", &port.address(), "--admin", &admin.address()]);
        let mut child = Running::start(command.args(flags).stderr(Stdio::piped()));
        let log = child.stderr.take().unwrap();
        let unread = Self { child, log, port, admin };
        eventually(|| dial(&unread.admin).is_some_and(|mut io| get(&mut io, "/ready").0 == 200));
        unread
    }

    /// Polls until more has been logged than this, a line of at least a hundred bytes for each.
    fn logs(&self, bytes: usize) {
        for number in 0..bytes / 100 {
            let mut io = dial(&self.port).unwrap();
            // The same client would be held when it asks again.
            let body = format!("{{\"node\": {{\"id\": \"{number}\"}}}}");
            let (status, answer) = exchange(&mut io, "POST /v3/discovery:clusters", &body);
            assert!(status == 200 && answer.contains("\"a\""), "{status} {answer}");
        }
    }

    fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = get(&mut dial(&self.admin).unwrap(), "/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }
}

fn dial(port: &Port) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port.number())).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Some(stream)
}

fn get(io: &mut TcpStream, page: &str) -> (u16, String) {
    exchange(io, &format!("GET {page}"), "")
}

#[test]
fn a_log_that_nobody_reads_stops_neither_answers_nor_the_end() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let mut daemon = Unread::start(&dir, &["--log-level", "debug"]);
    daemon.logs(MUCH);
    daemon.child.signal("TERM");
    assert!(daemon.child.wait().unwrap().success());
}

#[test]
fn lines_without_room_are_counted_and_the_log_says_how_many() {
    let files =
        [("a.yaml", cluster("a", 1)), ("chancery.yaml", "log: {buffer: 64KiB}\n".to_owned())];
    let dir = directory(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let mut daemon = Unread::start(&dir, &["--log-level", "debug", "--log-format", "json"]);
    daemon.logs(MUCH);
    let dropped = daemon.metric("chancery_log_lines_dropped_total");
    assert!(dropped > 100, "{dropped}");
    daemon.child.signal("TERM");
    let mut log = String::new();
    daemon.log.read_to_string(&mut log).unwrap();
    assert!(daemon.child.wait().unwrap().success());
    let told: u64 = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["level"] == "WARN")
        .map(|line| line["dropped"].as_u64().unwrap())
        .sum();
    assert!(told >= dropped, "{told} of {dropped} in {log}");
    assert!(log.contains("\"message\":\"stopped\""), "what is logged last is written too: {log}");
}

#[test]
fn a_failure_is_told_after_the_log() {
    let dir = directory(&[("a.yaml", "nonsense: 1\n")]);
    let mut command = chancery(&["serve", dir.path().to_str().unwrap(), "--log-level", "debug"]);
    let ended = command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).output();
    let told = String::from_utf8(ended.unwrap().stderr).unwrap();
    let logged = told.find("admin interface on").unwrap();
    assert!(logged < told.find("chancery: the configuration has 1 fault").unwrap(), "{told}");
}
