//! The daemon under test: the binary on free ports, its log lines, and what it answers over HTTP.

#[path = "../ports/mod.rs"]
pub(crate) mod ports;
mod program;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;
use std::{fs, thread};

use tempfile::TempDir;

use ports::Port;
pub(crate) use program::{PATIENCE, PAUSE, Pipe, Program, Running};

/// A server on free ports.
pub(crate) struct Server {
    pub(crate) child: Running,
    lines: Receiver<String>,
    seen: Vec<String>,
    pub(crate) admin: u16,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(dir: &TempDir, flags: &[&str]) -> Self {
        Self::start_at(dir.path(), flags)
    }

    pub(crate) fn start_at(dir: &Path, flags: &[&str]) -> Self {
        Self::start_by(&mut chancery(&["serve", dir.to_str().unwrap()]), flags)
    }

    /// Starts it by a command that lacks nothing but flags.
    pub(crate) fn start_by(command: &mut Program, flags: &[&str]) -> Self {
        let free = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        Self::started(command.args(free).args(flags))
    }

    /// Starts it on ports that stay its own when it has ended.
    pub(crate) fn start_on(dir: &TempDir, listen: &Port, admin: &Port) -> Self {
        let (listen, admin) = (listen.address(), admin.address());
        let dir = dir.path().to_str().unwrap();
        Self::started(&mut chancery(&["serve", dir, "--listen", &listen, "--admin", &admin]))
    }

    fn started(command: &mut Program) -> Self {
        let mut child = Running::start(command.stderr(Stdio::piped()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || pass_on(stderr, &sender));
        let mut server = Self { child, lines, seen: Vec::new(), admin: 0, port: 0 };
        server.admin = server.port_after("admin interface on 127.0.0.1:");
        server.port = server.port_after("serving on 127.0.0.1:");
        server
    }

    fn port_after(&mut self, told: &str) -> u16 {
        let line = self.line_with(told).unwrap_or_else(|| {
            panic!("no line with `{told}` in {PATIENCE:?}; so far: {:#?}", self.seen)
        });
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
        assert!(found, "no line with `{part}` in {PATIENCE:?}; so far: {:#?}", self.seen);
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
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it has not ended in {PATIENCE:?}; so far: {:#?}", self.seen)
                }
            }
        }
        assert!(self.child.wait().unwrap().success());
    }

    /// All that was logged so far.
    pub(crate) fn log(&self) -> String {
        self.seen.join("\n")
    }

    /// A connection whose reads are bounded.
    pub(crate) fn dial(&self, port: u16) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
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

/// Sends each line of the log to the test, for as long as there is one.
fn pass_on(mut log: BufReader<Pipe>, to: &Sender<String>) {
    loop {
        let mut line = Vec::new();
        let ended = loop {
            match log.read_until(b'\n', &mut line) {
                Ok(_) => break line.is_empty(),
                // A daemon may be silent for as long as it likes; the test bounds its own waits.
                Err(fault) if fault.kind() == io::ErrorKind::TimedOut => {}
                Err(_) => break true,
            }
        };
        let line = String::from_utf8_lossy(&line);
        if ended || to.send(line.trim_end_matches('\n').to_owned()).is_err() {
            return;
        }
    }
}

/// One request and its answer over HTTP/1.1: status and body. The stream bounds its reads.
pub(crate) fn exchange(stream: &mut (impl Read + Write), line: &str, body: &str) -> (u16, String) {
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    assert!(read.is_ok(), "no end of the answer to `{line}`: {read:?}; so far: {answer:?}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head[9..12].parse().unwrap(), body.to_owned())
}

pub(crate) fn chancery(args: &[&str]) -> Program {
    let mut command = without_settings(Program::new(env!("CARGO_BIN_EXE_chancery")));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// A program that is not told of settings in the environment of the test.
pub(crate) fn without_settings(mut program: Program) -> Program {
    program.env("NO_COLOR", "1");
    for (name, _) in std::env::vars()
        .filter(|(name, _)| name.starts_with("CHANCERY_") || name.starts_with("GRPC_"))
    {
        program.env_remove(&name);
    }
    program
}

/// The output of a command that ends by itself.
pub(crate) fn finished(command: &mut Program) -> Output {
    command.output().unwrap()
}

/// Lines as they come, and that there will be none any more; so many at most, after which the pipe is
/// closed.
pub(crate) fn lines(from: impl Read + Send + 'static, most: usize) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let all = BufReader::new(from).lines().map_while(Result::ok).take(most);
        all.map(|line| sender.send(line)).all(|sent| sent.is_ok())
    });
    lines
}

/// The next line; `None` if there is none any more.
pub(crate) fn next_line(lines: &Receiver<String>) -> Option<String> {
    match lines.recv_timeout(PATIENCE) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("no line within {PATIENCE:?}"),
    }
}

/// All lines until there is none any more.
pub(crate) fn all_lines(lines: &Receiver<String>) -> String {
    std::iter::from_fn(|| next_line(lines)).map(|line| line + "\n").collect()
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

/// Asks again and again, with a pause that leaves the machine to the server.
#[track_caller]
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "what is waited for does not hold in {PATIENCE:?}");
        thread::park_timeout(PAUSE);
    }
}
