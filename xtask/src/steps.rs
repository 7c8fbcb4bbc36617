//! Steps of a run, each with a name and a time, and the programs that they run. The first failure
//! ends the run.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::supervise::{self, shown};

/// The steps that have run, with their times.
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    pub(crate) const fn new() -> Self {
        Self { done: Vec::new() }
    }

    /// Runs one step under a heading.
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        println!("==> {name}");
        let start = Instant::now();
        let outcome = step();
        let took = start.elapsed();
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("<== {name}: {word} after {}", seconds(took));
        self.done.push((name, took));
        outcome.with_context(|| format!("step `{name}`"))
    }

    /// All steps and their times on one line.
    pub(crate) fn summary(&self) -> String {
        let total: Duration = self.done.iter().map(|(_, took)| *took).sum();
        let each: Vec<_> =
            self.done.iter().map(|(name, took)| format!("{name} {}", seconds(*took))).collect();
        format!("{} in all: {}", seconds(total), each.join(", "))
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

/// A program to run in `dir`.
pub(crate) fn program(dir: &Path, name: impl AsRef<OsStr>, words: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.current_dir(dir).args(words);
    command
}

/// `cargo` as it was called, in the root of the repository.
pub(crate) fn cargo(root: &Path, words: &[&str]) -> Command {
    program(root, std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), words)
}

/// Runs a program to its end, which has a bound; anything but success is an error that shows the
/// command line.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let mut child = command.spawn().with_context(|| shown(command))?;
    let status = supervise::wait(&mut child, command, supervise::BOUNDS.whole)?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a program to its end and returns what it printed on stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = supervise::collect(command).with_context(|| shown(command))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` ended with {}: {}", shown(command), output.status, stderr.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}`: stdout", shown(command)))
}

/// Returns true if a program exists and does not fail.
pub(crate) fn exists(command: &mut Command) -> bool {
    match supervise::collect(command) {
        Ok(output) => output.status.success(),
        Err(fault) => {
            let fault = fault.downcast_ref::<io::Error>();
            fault.is_none_or(|fault| fault.kind() != io::ErrorKind::NotFound)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_names_its_step() {
        let mut steps = Steps::new();
        steps.run("good", || Ok(())).unwrap();
        let fault = steps.run("bad", || bail!("broken")).unwrap_err();
        assert_eq!(format!("{fault:#}"), "step `bad`: broken");
    }

    #[test]
    fn the_summary_lists_every_step() {
        let mut steps = Steps::new();
        steps.run("one", || Ok(())).unwrap();
        steps.run("two", || Ok(())).unwrap();
        let summary = steps.summary();
        assert!(summary.contains("one 0.0 s, two 0.0 s"), "{summary}");
    }

    #[test]
    fn a_program_that_fails_is_shown() {
        let mut command = program(Path::new("."), "false", &["with", "words"]);
        let fault = run(&mut command).unwrap_err();
        assert!(format!("{fault:#}").starts_with("`false with words` ended with"), "{fault:#}");
    }
}
