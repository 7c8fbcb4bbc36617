//! docs/mesh.md is followed step by step: its commands in a shell, with the programs of `examples/mesh`, and its
//! outputs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Instant;

use tempfile::TempDir;

use crate::daemon;
use crate::daemon::ports::Port;
use crate::daemon::{PATIENCE, PAUSE, Program, Running, lines, next_line};
use crate::page::{Step, alike, blocks, steps};

const PAGE: &str = include_str!("../../../docs/mesh.md");

/// The ports of the page. The first two are those that the control plane has by default.
const PORTS: [&str; 8] = ["18000", "18080", "18001", "15099", "10001", "10002", "10003", "10004"];

/// The words for the program of the example, which this test plays.
const WORDS: &str = "SHOP_WORDS";

/// A copy of the example with ports of its own, and both terminals of the reader.
struct Reader {
    root: TempDir,
    ports: Vec<Port>,
    _shell: Running,
    typed: std::io::PipeWriter,
    printed: Receiver<String>,
    /// The programs that the shell has started in the background.
    background: Vec<String>,
    storefront: Option<(Running, Receiver<String>)>,
}

impl Reader {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let ports: Vec<_> = PORTS.iter().map(|_| Port::reserve()).collect();
        copy(&example(), &root.path().join("examples/mesh"), &ports);
        let bin = root.path().join("target/debug");
        fs::create_dir_all(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_chancery"), bin.join("chancery")).unwrap();
        let this = std::env::current_exe().unwrap();
        let this = format!("'{}' --exact {PLAYED} --nocapture --quiet", this.display());
        fs::write(bin.join("shop"), format!("#!/bin/sh\n{WORDS}=\"$*\" exec {this}\n")).unwrap();
        fs::set_permissions(bin.join("shop"), fs::Permissions::from_mode(0o755)).unwrap();
        let (input, typed) = std::io::pipe().unwrap();
        let mut program = terminal("exec 2>&1; exec sh -s", root.path(), &ports);
        let mut shell = Running::start(program.stdin(input));
        let printed = lines(shell.stdout.take().unwrap(), 1_000_000);
        let (background, storefront) = (Vec::new(), None);
        Self { root, ports, _shell: shell, typed, printed, background, storefront }
    }

    /// Types a command, and returns what it prints.
    fn types(&mut self, command: &str) -> Vec<String> {
        writeln!(self.typed, "{command}\necho '<end>'").unwrap();
        let printed = std::iter::from_fn(|| next_line(&self.printed));
        let printed = printed.take_while(|line| line != "<end>").filter(|line| is_of_program(line));
        printed.collect()
    }

    /// Does what a command of the page says, and sees what the page shows.
    fn follow(&mut self, words: &str, shown: &[String]) {
        if words.starts_with("cargo build ") {
            return;
        }
        if words.starts_with("shop storefront ") {
            assert!(self.storefront.is_none(), "the storefront runs already");
            let run = self.root.path().join("examples/mesh/run");
            let mut program = terminal(&format!("exec {words}"), &run, &self.ports);
            let path = format!("{}:{}", self.bin().display(), std::env::var("PATH").unwrap());
            program.env("PATH", path).env("GRPC_XDS_BOOTSTRAP", "bootstrap.json");
            let mut running = Running::start(&mut program);
            let lines = lines(running.stdout.take().unwrap(), 1_000_000);
            self.storefront = Some((running, lines));
            return;
        }
        let shown = alike(shown.iter().map(String::as_str));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = self.types(words);
            if alike(printed.iter().map(String::as_str)) == shown {
                break;
            }
            // A reader who only looks can look again: programs that were told of a change need a moment.
            let looks = words.starts_with("chancery call ") || words.starts_with("chancery status");
            // The page says how to wait where it matters.
            let looks = looks && !words.contains("--wait-for-ready");
            if !looks || Instant::now() > deadline {
                panic!("$ {words}\nprints\n{}\n{}", printed.join("\n"), self.logs());
            }
            thread::park_timeout(PAUSE);
        }
        if words.contains(" & ") {
            let started = self.types("echo $!");
            self.background.extend(started);
        }
    }

    /// Waits until the storefront prints such a line. Some are rare: one in ten is.
    fn sees(&self, line: &str) {
        let (_, lines) = self.storefront.as_ref().expect("the storefront runs");
        let same = |one: &str, other: &str| without_number(one) == without_number(other);
        let mut printed = std::iter::from_fn(|| next_line(lines)).take(300);
        assert!(printed.any(|printed| same(&printed, line)), "no `{line}`\n{}", self.logs());
    }

    fn interrupts(&mut self) {
        let (mut storefront, _) = self.storefront.take().expect("the storefront runs");
        storefront.signal("INT");
        storefront.wait().unwrap();
    }

    fn bin(&self) -> PathBuf {
        self.root.path().join("target/debug")
    }

    /// The logs that the page writes.
    fn logs(&self) -> String {
        let Ok(files) = fs::read_dir(self.root.path().join("examples/mesh/run")) else {
            return String::new();
        };
        let paths = files.map(|file| file.unwrap().path());
        let logs = paths.filter(|path| path.extension().is_some_and(|it| it == "log"));
        logs.map(|path| format!("{}\n{}", path.display(), fs::read_to_string(&path).unwrap()))
            .collect()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The page ends what it has started, if it comes so far.
        if thread::panicking() && !self.background.is_empty() {
            let _ = Program::new("kill").args(&self.background).status();
        }
    }
}

/// A shell that runs this script, in the environment of a reader.
fn terminal(script: &str, at: &Path, ports: &[Port]) -> Program {
    let mut program = daemon::without_settings(Program::new("sh"));
    program.args(["-c", script]).current_dir(at).stdin(Stdio::null()).stdout(Stdio::piped());
    program.env("CHANCERY_LISTEN", ports[0].address()).env("CHANCERY_ADMIN", ports[1].address());
    program
}

/// Returns true unless the line is of the test that plays the program.
fn is_of_program(line: &str) -> bool {
    !line.is_empty() && line != "running 1 test"
}

/// A line of the storefront without the number of the order.
fn without_number(line: &str) -> String {
    line.split(' ')
        .map(|word| word.trim_end_matches(':'))
        .filter(|word| word.parse::<u64>().is_err())
        .collect()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mesh")
}

fn ours(text: &str, ports: &[Port]) -> String {
    PORTS.iter().zip(ports).fold(text.to_owned(), |text, (theirs, ours)| {
        text.replace(theirs, &ours.number().to_string())
    })
}

/// Copies the directories of the steps.
fn copy(from: &Path, to: &Path, ports: &[Port]) {
    fs::create_dir_all(to).unwrap();
    // Somebody may have followed the page there.
    let entries = fs::read_dir(from).unwrap().map(Result::unwrap);
    for entry in entries.filter(|entry| entry.file_name() != "run") {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to, ports);
        } else {
            fs::write(to, ours(&fs::read_to_string(path).unwrap(), ports)).unwrap();
        }
    }
}

#[test]
fn the_page_is_what_happens() {
    let mut reader = Reader::start();
    for step in steps(&ours(PAGE, &reader.ports), "order ") {
        match step {
            Step::Command { words, printed } => reader.follow(&words, &printed),
            Step::Seen(line) => reader.sees(&line),
            Step::Interrupt => reader.interrupts(),
        }
    }
    assert!(!reader.root.path().join("examples/mesh/run").exists());
}

/// The parts of files that the page shows are in the files of the steps.
#[test]
fn the_page_shows_what_is_in_the_files() {
    let mut files = Vec::new();
    texts(&example(), &mut files);
    let is_there = |part: &str| files.iter().any(|text| text.contains(part));
    for block in [blocks(PAGE, "yaml"), blocks(PAGE, "json")].concat() {
        assert!(is_there(block), "in no file:\n{block}");
    }
    let added = blocks(PAGE, "diff").into_iter().flat_map(str::lines);
    for line in added.filter_map(|line| line.strip_prefix('+')) {
        let (call, _) = line.split_once('(').unwrap();
        let call = call.rsplit(' ').next().unwrap();
        assert!(is_there(&format!("{call}(")), "the programs do not have `{call}`");
    }
}

fn texts(dir: &Path, all: &mut Vec<String>) {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    for entry in entries.filter(|entry| entry.file_name() != "run") {
        let path = entry.path();
        match path.is_dir() {
            true => texts(&path, all),
            false => all.push(fs::read_to_string(path).unwrap()),
        }
    }
}

/// The name of the test that plays the program.
const PLAYED: &str = "mesh::the_program_of_the_example_runs";

/// The program of the example, if this process is started for it: a program of another crate cannot be had here.
/// Without words it tells how it is used.
#[test]
#[expect(clippy::exit, reason = "the test would add words of its own to those of the program")]
fn the_program_of_the_example_runs() {
    let words = std::env::var(WORDS).unwrap_or_default();
    let words: Vec<_> = words.split(' ').collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ended = runtime.block_on(shop::run(&words));
    if words == [""] {
        assert!(ended.unwrap_err().to_string().starts_with("usage:"));
        return;
    }
    ended.unwrap();
    std::process::exit(0);
}
