//! The daemon under test: the binary on free ports, its log lines, and what it answers over HTTP.

#![allow(dead_code, reason = "each of the test programs uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

use tempfile::TempDir;

/// A program that ends with the test, also with one that fails.
pub(crate) struct Running(Child);

/// A server on free ports.
pub(crate) struct Server {
    pub(crate) child: Running,
    lines: Receiver<String>,
    seen: Vec<String>,
    pub(crate) admin: u16,
    pub(crate) port: u16,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let arguments = [format!("-{name}"), self.id().to_string()];
        assert!(Command::new("kill").args(arguments).status().unwrap().success());
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Server {
    pub(crate) fn start(dir: &TempDir, flags: &[&str]) -> Self {
        Self::start_at(dir.path(), flags)
    }

    pub(crate) fn start_at(dir: &Path, flags: &[&str]) -> Self {
        let free = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let mut command = chancery(&["serve", dir.to_str().unwrap()]);
        let mut child = Running::start(command.args(free).args(flags).stderr(Stdio::piped()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut server = Self { child, lines, seen: Vec::new(), admin: 0, port: 0 };
        server.admin = server.port_after("admin interface on 127.0.0.1:");
        server.port = server.port_after("serving on 127.0.0.1:");
        server
    }

    fn port_after(&mut self, told: &str) -> u16 {
        let line = self.line_with(told).unwrap_or_else(|| panic!("{told}: {:?}", self.seen));
        let (_, rest) = line.split_once(told).unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    }

    /// Waits for a log line; looks at those that were read before too.
    fn line_with(&mut self, part: &str) -> Option<String> {
        if let Some(line) = self.seen.iter().find(|line| line.contains(part)) {
            return Some(line.clone());
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).ok()?;
            self.seen.push(line.clone());
            if line.contains(part) {
                return Some(line);
            }
        }
    }

    pub(crate) fn log_has(&mut self, part: &str) -> bool {
        let found = self.line_with(part).is_some();
        assert!(found, "{part}: {:#?}", self.seen);
        found
    }

    /// Waits until the process has ended, and with success.
    pub(crate) fn ends_well(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it goes on: {:#?}", self.seen),
            }
        }
        assert!(self.child.wait().unwrap().success());
    }

    /// All that was logged so far.
    pub(crate) fn log(&self) -> String {
        self.seen.join("\n")
    }

    pub(crate) fn dial(&self, port: u16) -> TcpStream {
        TcpStream::connect(("127.0.0.1", port)).unwrap()
    }

    pub(crate) fn admin(&self, page: &str) -> (u16, String) {
        exchange(&mut self.dial(self.admin), &format!("GET {page}"), "")
    }

    pub(crate) fn post(&self, kind: &str, body: &str) -> (u16, String) {
        let line = format!("POST /v3/discovery:{kind}");
        exchange(&mut self.dial(self.port), &line, body)
    }

    pub(crate) fn clusters(&self, node: &str) -> String {
        self.post("clusters", &format!("{{\"node\": {{\"id\": \"{node}\"}}}}")).1
    }

    pub(crate) fn signal(&self, name: &str) {
        self.child.signal(name);
    }
}

/// One request and its answer over HTTP/1.1: status and body.
pub(crate) fn exchange(stream: &mut (impl Read + Write), line: &str, body: &str) -> (u16, String) {
    let request = format!(
        "{line} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head[9..12].parse().unwrap(), body.to_owned())
}

pub(crate) fn chancery(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::piped());
    for (name, _) in std::env::vars()
        .filter(|(name, _)| name.starts_with("CHANCERY_") || name.starts_with("GRPC_"))
    {
        command.env_remove(name);
    }
    command
}

pub(crate) fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        dir_write(&dir, name, text);
    }
    dir
}

pub(crate) fn dir_write(dir: &TempDir, name: &str, text: &str) {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn cluster(name: &str, seconds: u32) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\n\
         connect_timeout: {seconds}s\n"
    )
}

/// Asks again and again: each asking is an exchange over the network, so this does not spin.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it never held");
    }
}

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
