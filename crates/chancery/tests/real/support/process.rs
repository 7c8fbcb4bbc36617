//! Programs that run beside a test and end with it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use super::wait;

/// How much of its output a program leaves behind when its test fails.
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
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log).expect("the test's directory can be written");
        let errors = file.try_clone().expect("a file can be shared");
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|fault| panic!("cannot start {name}: {fault}"));
        Self { name: name.to_owned(), child, log }
    }

    /// All it has said so far.
    pub(crate) fn output(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// How much it has said so far; see [`Self::says_after`].
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
            let output = self.output();
            let lines: Vec<&str> = output.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            println!("--- the last of {}:\n{}", self.name, last.join("\n"));
        }
    }
}
