//! Everything CI runs: what fails soonest first, the tests and their totals last.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::steps::{Steps, cargo, run};
use crate::{counts, deny, fetch, tidy};

/// Tells the tests that missing real clients are a failure, not a reason to skip.
const CI: &str = "CHANCERY_CI";

/// Runs every step; the first that fails ends the run.
pub(crate) fn ci(root: &Path) -> Result<()> {
    let mut steps = Steps::new();
    steps.run("fetch", || fetch::fetch(root))?;
    steps.run("fmt", || run(&mut cargo(root, &["fmt", "--all", "--check"])))?;
    steps.run("tidy", || tidy::tidy(root))?;
    steps.run("clippy", || {
        let words = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ];
        run(&mut cargo(root, &words))
    })?;
    steps.run("doc", || {
        let words = ["doc", "--workspace", "--all-features", "--no-deps", "--quiet"];
        run(cargo(root, &words).env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    steps.run("deny", || deny::deny(root))?;
    steps.run("counts", || counts::counts(root))?;
    steps.run("build", || {
        run(&mut cargo(root, &["test", "--workspace", "--all-features", "--no-run", "--quiet"]))
    })?;
    steps.run("fuzz", || fuzz(root))?;
    let mut totals = Totals::default();
    let outcome = steps.run("test", || {
        totals = run_tests(root, None)?;
        totals.verdict()
    });
    println!("{}\n{}", steps.summary(), totals.line());
    outcome
}

/// Runs the tests whose name contains the filter, or all of them.
pub(crate) fn test(root: &Path, filter: Option<&str>) -> Result<()> {
    fetch::fetch(root)?;
    let totals = run_tests(root, filter)?;
    println!("{}", totals.line());
    totals.verdict()
}

/// All tests in one run of the test runner, doc tests and real clients among them.
fn run_tests(root: &Path, filter: Option<&str>) -> Result<Totals> {
    let mut command = cargo(root, &["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.env(CI, "1").args(filter).stdout(Stdio::piped());
    let mut child = command.spawn().context("`cargo test`")?;
    let stdout = child.stdout.take().expect("it was asked for a line above");
    let mut totals = Totals::default();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        totals.count(&line);
    }
    totals.failed_run = !child.wait()?.success();
    Ok(totals)
}

/// The summaries of all test programs, added up.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    programs: u64,
    passed: u64,
    failed: u64,
    ignored: u64,
    failed_run: bool,
}

impl Totals {
    /// Counts a line `test result: ok. 3 passed; 0 failed; 0 ignored; ...`; others are passed over.
    fn count(&mut self, line: &str) {
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|summary| summary.split_once(". "))
        else {
            return;
        };
        self.programs += 1;
        for part in counts.split("; ") {
            match part.split_once(' ').map(|(count, word)| (count.parse::<u64>(), word)) {
                Some((Ok(count), "passed")) => self.passed += count,
                Some((Ok(count), "failed")) => self.failed += count,
                Some((Ok(count), "ignored")) => self.ignored += count,
                _ => {}
            }
        }
    }

    fn verdict(&self) -> Result<()> {
        if self.failed_run || self.failed > 0 {
            bail!("{} tests failed", self.failed);
        }
        Ok(())
    }

    fn line(&self) -> String {
        let word = if self.failed_run || self.failed > 0 { "FAILED" } else { "ok" };
        let Self { programs, passed, failed, ignored, .. } = self;
        format!(
            "all tests: {word}. {passed} passed; {failed} failed; {ignored} ignored; {programs} test programs"
        )
    }
}

/// Some seconds of mutations: more than the tests make, and far from all there are.
fn fuzz(root: &Path) -> Result<()> {
    let words = ["test", "--workspace", "--all-features", "--quiet", "--test", "fuzz"];
    run(cargo(root, &words).env("CHANCERY_FUZZ_RUNS", "10000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_add_up_the_summaries() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
        ] {
            totals.count(line);
        }
        let expected = Totals { programs: 2, passed: 7, failed: 2, ignored: 1, failed_run: false };
        assert_eq!(totals, expected);
        assert!(totals.verdict().is_err());
    }

    #[test]
    fn a_test_program_that_dies_without_a_summary_is_a_failure() {
        let totals = Totals { failed_run: true, ..Totals::default() };
        assert!(totals.verdict().is_err());
        assert!(totals.line().contains("FAILED"));
    }
}
