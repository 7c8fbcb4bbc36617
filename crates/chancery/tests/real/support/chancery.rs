//! The daemon under test, and the directory it serves.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::http;
use super::ports::Port;
use super::process::Process;
use super::wait;

/// A directory of resources. Files are replaced in one step, as careful editors do.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Beside the directory, not in it: what is half written is never seen.
    scratch: PathBuf,
}

/// The program, to be started with words and a bound.
pub(crate) fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_chancery"))
}

impl Directory {
    /// Makes an empty one below the test's own directory.
    pub(crate) fn new(test: &Path, name: &str) -> Self {
        let path = test.join(name);
        let scratch = test.join(format!("{name}.scratch"));
        fs::create_dir_all(&path).expect("the test's directory can be written");
        Self { path, scratch }
    }

    /// Writes or replaces a file.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(&self.scratch, text).expect("the test's directory can be written");
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("as above");
        fs::rename(&self.scratch, path).expect("as above");
    }

    /// The output of `chancery check` about it.
    pub(crate) fn check(&self, flags: &[&str]) -> String {
        let mut command = program();
        command.arg("check").arg(&self.path).args(flags);
        let test = self.path.parent().expect("it is below the test's directory");
        let mut check = Process::start(test, "check", &mut command);
        wait::until("the check to end", || check.ended());
        check.output()
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes a file that is there.
    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path.join(name)).expect("the test wrote it");
    }
}

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Chancery {
    listen: Port,
    admin: Port,
    process: Process,
}

impl Chancery {
    /// Serves a directory without TLS, and returns once it is ready.
    pub(crate) fn serve(directory: &Directory) -> Self {
        Self::serve_with(directory, &[] as &[&str])
    }

    /// Serves a directory with more flags, and returns once it is ready.
    pub(crate) fn serve_with(directory: &Directory, flags: &[impl AsRef<OsStr>]) -> Self {
        Self::serve_on([Port::reserve(), Port::reserve()], directory, flags)
    }

    /// Serves on these ports, discovery first, and returns once it is ready.
    pub(crate) fn serve_on(
        [listen, admin]: [Port; 2],
        directory: &Directory,
        flags: &[impl AsRef<OsStr>],
    ) -> Self {
        let test = directory.path.parent().expect("it is below the test's directory");
        let mut command = program();
        command.arg("serve").arg(&directory.path);
        command.args(["--listen", &listen.address(), "--admin", &admin.address()]).args(flags);
        let name = format!("chancery-{}", listen.number());
        let mut process = Process::start(test, &name, &mut command);
        wait::holds("the daemon to be ready", || {
            if let Some(status) = process.ended() {
                panic!("the daemon ended: {status}\n{}", process.output());
            }
            http::get(admin.number(), "/ready", &[]).is_some_and(|reply| reply.status == 200)
        });
        Self { listen, admin, process }
    }

    /// Waits for a log line with these words.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        self.process.says(words);
    }

    /// The length of its log so far; see [`Self::said_since`].
    pub(crate) fn mark(&self) -> usize {
        self.process.mark()
    }

    /// Waits for a log line with these words after a mark.
    #[track_caller]
    pub(crate) fn says_after(&self, mark: usize, words: &str) {
        self.process.says_after(mark, words);
    }

    /// The lines of its log after the mark.
    pub(crate) fn said_since(&self, mark: usize) -> Vec<String> {
        let output = self.process.output();
        output.get(mark..).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The text of a page of its admin interface.
    pub(crate) fn page(&self, path: &str) -> String {
        http::get(self.admin.number(), path, &[]).map(|reply| reply.body).unwrap_or_default()
    }

    /// Where discovery is served, as clients write it.
    pub(crate) fn address(&self) -> String {
        self.listen.address()
    }

    /// The port of that.
    pub(crate) const fn port(&self) -> u16 {
        self.listen.number()
    }

    /// The rows of the load reports that a query asks for.
    pub(crate) fn load(&self, query: &str) -> Vec<Value> {
        let reply = http::get(self.admin.number(), &format!("/api/v1/load{query}"), &[]);
        let text = reply.map(|reply| reply.body).unwrap_or_default();
        let mut document: Value = serde_json::from_str(&text).unwrap_or_default();
        serde_json::from_value(document["rows"].take()).unwrap_or_default()
    }

    /// The exit code and the output of a command that asks it, as what it knows of a node.
    pub(crate) fn asked_by(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = program();
        let (server, admin) = (self.address(), self.admin.address());
        command.args(words).args(["--server", &server, "--admin", &admin]).env("NO_COLOR", "1");
        let done = command.output().expect("it can be run");
        let told = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8_lossy(&told).into_owned())
    }

    /// The exit code and the output of a command that asks its admin interface.
    pub(crate) fn told_by(&self, words: &[&str]) -> (Option<i32>, String) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut command = program();
        command.args(words).env("CHANCERY_ADMIN", self.admin.address()).env("NO_COLOR", "1");
        let name = format!("{}-{}", words[0], NEXT.fetch_add(1, Ordering::Relaxed));
        let mut asking = Process::start(self.process.dir(), &name, &mut command);
        let ended = wait::until(&format!("{words:?} to end"), || asking.ended());
        (ended.code(), asking.output())
    }

    /// The document at a path of its API.
    #[track_caller]
    pub(crate) fn api(&self, path: &str) -> Value {
        let page = self.page(&format!("/api/v1/{path}"));
        serde_json::from_str(&page).unwrap_or_else(|fault| panic!("{path}: {fault}: {page}"))
    }

    /// A connection to its admin interface.
    pub(crate) fn connection(&self) -> http::Connection {
        http::Connection::open(self.admin.number()).expect("it is up")
    }

    /// The answer by CSDS about the clients that a question is about.
    #[track_caller]
    pub(crate) fn client_status(&self, question: &Value) -> Value {
        let reply =
            http::post(self.admin.number(), "/v3/discovery:client_status", &question.to_string());
        let body = reply.map(|reply| reply.body).unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_else(|fault| panic!("{question}: {fault}: {body}"))
    }

    /// The events that a query asks for, from now on.
    pub(crate) fn events(&self, query: &str) -> Events {
        self.read_events(query, "")
    }

    /// The events after one of this id. One of another start of a server stands before all events of this one.
    pub(crate) fn events_after(&self, id: &str) -> Events {
        self.read_events("", &format!("last-event-id: {id}\r\n"))
    }

    fn read_events(&self, query: &str, header: &str) -> Events {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin.number())).expect("it is up");
        stream.set_read_timeout(Some(wait::BOUND)).expect("a bound is one");
        let line = format!("GET /api/v1/events{query} HTTP/1.1\r\nhost: localhost\r\n");
        stream.write_all(format!("{line}{header}\r\n").as_bytes()).expect("it is up");
        let mut events = Events { lines: BufReader::new(stream) };
        // From here on the answer has begun.
        events.line("HTTP/1.1 200");
        if header.is_empty() {
            events.line("id: ");
        }
        events
    }

    /// The value of a metric with these labels; 0 if it is not there.
    pub(crate) fn metric(&self, line: &str) -> f64 {
        let page = self.page("/metrics");
        let value = |it: &str| it.strip_prefix(line)?.strip_prefix(' ')?.parse().ok();
        page.lines().find_map(value).unwrap_or_default()
    }

    /// The address of its admin interface.
    pub(crate) fn admin_address(&self) -> String {
        self.admin.address()
    }

    /// The number of load reports that it has taken.
    pub(crate) fn load_reports(&self) -> u64 {
        let page = http::get(self.admin.number(), "/metrics", &[]);
        let page = page.map(|reply| reply.body).unwrap_or_default();
        let value = |line: &str| line.strip_prefix("chancery_load_reports_total ")?.parse().ok();
        page.lines().find_map(value).unwrap_or_default()
    }

    /// Lets everything pass that it holds back.
    #[track_caller]
    pub(crate) fn confirm(&self) {
        let mut command = program();
        command.args(["confirm", "--all", "--admin", &self.admin.address()]);
        let done = command.output().expect("it can be run");
        assert!(done.status.success(), "{done:?}");
    }

    /// Waits until it holds something back, and lets that pass.
    #[track_caller]
    pub(crate) fn confirm_once_held(&self) {
        wait::holds("something to be held back", || self.page("/ready").contains("held back"));
        self.confirm();
    }

    /// Lets everything pass that it holds back, if that is something.
    pub(crate) fn confirm_if_held(&self) {
        if self.page("/ready").contains("held back") {
            let mut command = program();
            command.args(["confirm", "--all", "--admin", &self.admin.address()]);
            // Nothing may be held back any more by then.
            command.output().expect("it can be run");
        }
    }

    /// Ends it as a crash would, and hands over its ports: another one may start on them.
    pub(crate) fn stop(self) -> [Port; 2] {
        let Self { listen, admin, process } = self;
        drop(process);
        [listen, admin]
    }

    /// Ends it as a crash would; what is done then happens while there is none. Another one
    /// starts on the same port.
    pub(crate) fn crash(self, directory: &Directory, meanwhile: impl FnOnce()) -> Self {
        let ports = self.stop();
        meanwhile();
        Self::serve_on(ports, directory, &[] as &[&str])
    }
}

/// The events of the daemon as they happen.
#[derive(Debug)]
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    /// The next line that begins so, without the beginning.
    #[track_caller]
    fn line(&mut self, begin: &str) -> String {
        for _ in 0..MOST_LINES {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).expect("a line in time");
            assert_ne!(read, 0, "the end before `{begin}`");
            if let Some(rest) = line.trim_end().strip_prefix(begin) {
                return rest.to_owned();
            }
        }
        panic!("{MOST_LINES} lines, and none begins with `{begin}`")
    }

    /// The kind and the document of the next event.
    #[track_caller]
    pub(crate) fn next(&mut self) -> (String, Value) {
        let kind = self.line("event: ");
        let data = self.line("data: ");
        (kind, serde_json::from_str(&data).unwrap_or_else(|fault| panic!("{fault}: {data}")))
    }
}

/// The most lines that are read for one event.
const MOST_LINES: usize = 1000;
