//! Programs that run beside a test and end with it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use super::wait;

/// The number of lines of its output that a program leaves behind when its test fails.
const LAST_LINES: usize = 60;

/// A running program; it is killed and its end awaited when the value goes.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program whose output, of both kinds, goes to `NAME.log` in the directory.
    pub(crate) fn start(dir: &Path, name: &str, command: &mut Command) -> Self {
        Self::together(dir, name, command.stdin(Stdio::null()))
    }

    /// Starts a program that is told lines ([`Self::tell`]), and can end with the last of them.
    pub(crate) fn start_told(dir: &Path, name: &str, command: &mut Command) -> Self {
        Self::together(dir, name, command.stdin(Stdio::piped()))
    }

    /// Starts a program whose data goes to `NAME.out`, and what else it says to `NAME.log`.
    pub(crate) fn start_apart(dir: &Path, name: &str, command: &mut Command) -> Self {
        let log = dir.join(format!("{name}.log"));
        let (data, errors) = (create(&log.with_extension("out")), create(&log));
        Self::spawn(name, log, command.stdin(Stdio::null()).stdout(data).stderr(errors))
    }

    fn together(dir: &Path, name: &str, command: &mut Command) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = create(&log);
        let errors = file.try_clone().expect("a file can be shared");
        Self::spawn(name, log, command.stdout(file).stderr(errors))
    }

    fn spawn(name: &str, log: PathBuf, command: &mut Command) -> Self {
        let child = command.spawn().unwrap_or_else(|fault| panic!("cannot start {name}: {fault}"));
        Self { name: name.to_owned(), child, log }
    }

    /// Tells it a line.
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("it was started to be told");
        if let Err(fault) = writeln!(input, "{line}") {
            panic!("cannot tell {} anything: {fault}\n{}", self.name, self.output());
        }
    }

    /// The directory of its output.
    pub(crate) fn dir(&self) -> &Path {
        self.log.parent().expect("it is in a directory")
    }

    /// Sends it a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().expect("it can be run");
        assert!(sent.success(), "{} cannot be sent {name}", self.name);
    }

    /// All it has said so far.
    pub(crate) fn output(&self) -> String {
        text(&self.log)
    }

    /// All the data of a program that was started apart.
    pub(crate) fn data(&self) -> String {
        text(&self.log.with_extension("out"))
    }

    /// The length of its output so far; see [`Self::says_after`].
    pub(crate) fn mark(&self) -> usize {
        self.output().len()
    }

    /// Waits for a line with these words in it.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        self.says_after(0, words);
    }

    /// Waits for a line with these words in it among what it says after the mark.
    #[track_caller]
    pub(crate) fn says_after(&self, mark: usize, words: &str) {
        wait::holds(&format!("{} to say `{words}`", self.name), || {
            self.output()
                .get(mark..)
                .is_some_and(|new| new.lines().any(|line| line.contains(words)))
        });
    }

    /// Its end, once it has come.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        // Both fail only if it has ended already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let output = self.data() + &self.output();
            let lines: Vec<&str> = output.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            println!("--- the last of {}:\n{}", self.name, last.join("\n"));
        }
    }
}

fn create(path: &Path) -> File {
    File::create(path).expect("the test's directory can be written")
}

/// The content of a file so far.
fn text(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
