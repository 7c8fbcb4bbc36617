//! All steps of CI. The steps that fail soonest come first, the tests and their totals last.
//!
//! The first failure ends the run, so a run that ends well has run everything. Not here: the
//! printing and the times of steps (`steps`), the end of a program that hangs (`supervise`), and
//! the checks themselves (`tidy`, `deny`, `counts`).

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::steps::{Steps, cargo, run};
use crate::supervise::{self, BOUNDS};
use crate::{client_table, counts, deny, fetch, growth, tidy};

/// The variable that makes missing real clients a failure, and not a reason to skip a test.
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
    steps.run("client-table", || client_table::compare(root))?;
    steps.run("counts", || counts::counts(root))?;
    steps.run("growth", || growth::growth(root))?;
    steps.run("build", || {
        run(&mut cargo(root, &["test", "--workspace", "--all-features", "--no-run", "--quiet"]))
    })?;
    steps.run("loom", || loom(root))?;
    steps.run("fuzz", || fuzz(root))?;
    let mut totals = Totals::default();
    let outcome = steps.run("test", || {
        totals = run_tests(root, None)?;
        totals.verdict()
    });
    println!("{}\n{}", steps.summary(), totals.summary());
    outcome
}

/// Runs the tests whose name contains the filter, or all of them.
pub(crate) fn test(root: &Path, filter: Option<&str>) -> Result<()> {
    fetch::fetch(root)?;
    let totals = run_tests(root, filter)?;
    println!("{}", totals.summary());
    totals.verdict()
}

/// All tests in one run of the test runner, doc tests and real clients among them.
fn run_tests(root: &Path, filter: Option<&str>) -> Result<Totals> {
    let mut command = cargo(root, &["test", "--workspace", "--all-features", "--no-fail-fast"]);
    command.env(CI, "1").args(filter);
    let (mut totals, mut place) = (Totals::default(), TestProgress::default());
    let status = supervise::run_with_lines(&mut command, BOUNDS, |_, line| {
        totals.count(line);
        place.note(line);
    });
    totals.failed_run = !status.with_context(|| place.to_string())?.success();
    Ok(totals)
}

/// Tries all orders in which threads can wake the streams of a connection. With a target directory of
/// its own: the flag would have everything else built again.
fn loom(root: &Path) -> Result<()> {
    let words =
        ["test", "--package", "chancery-server-loom", "--target-dir", "target/loom", "--quiet"];
    run(cargo(root, &words).env("RUSTFLAGS", "--cfg loom"))
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

    fn summary(&self) -> String {
        let word = if self.failed_run || self.failed > 0 { "FAILED" } else { "ok" };
        let Self { programs, passed, failed, ignored, .. } = self;
        format!(
            "all tests: {word}. {passed} passed; {failed} failed; {ignored} ignored; {programs} test programs"
        )
    }
}

/// The progress of a run of tests: the program that runs, and those of its tests that have not
/// ended.
#[derive(Debug, Default)]
struct TestProgress {
    program: String,
    running: Vec<String>,
}

impl TestProgress {
    /// Takes in a line of cargo or of a test program. A program prints the name of a test when the
    /// test has ended, or has run for a minute. A program that runs its tests one by one prints the
    /// name before each.
    fn note(&mut self, line: &str) {
        let words = line.trim_start();
        if words.starts_with("Running ") || words.starts_with("Doc-tests ") {
            *self = Self { program: words.to_owned(), running: Vec::new() };
        }
        let Some(rest) = line.strip_prefix("test ") else { return };
        let name = |end| rest.strip_suffix(end).map(str::to_owned);
        match name(" has been running for over 60 seconds").or_else(|| name(" ... ")) {
            Some(name) => self.running.push(name),
            None => self.running.retain(|name| !rest.starts_with(&format!("{name} ... "))),
        }
    }
}

impl fmt::Display for TestProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, running } = self;
        match running.is_empty() {
            true => write!(f, "in `{program}`, none of whose tests is known to run"),
            false => write!(f, "in `{program}`, still running: {}", running.join(", ")),
        }
    }
}

/// Runs some seconds of mutations: more than the tests make by default, and far from all there are.
fn fuzz(root: &Path) -> Result<()> {
    let own = ["test", "--workspace", "--all-features", "--quiet", "--test", "fuzz"];
    // The configuration of the daemon is a part of a program, whose tests are with its code.
    let of_daemon =
        ["test", "--package", "chancery", "--all-features", "--quiet", "--bins", MUTATIONS];
    for words in [&own[..], &of_daemon[..]] {
        run(cargo(root, words).env("CHANCERY_FUZZ_RUNS", "10000"))?;
    }
    Ok(())
}

/// The word in the names of tests that make mutations.
const MUTATIONS: &str = "mutations";

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
    fn the_tests_that_hang_are_named() {
        let mut place = TestProgress::default();
        for line in [
            "     Running tests/get.rs (target/debug/deps/get-1)",
            "test old has been running for over 60 seconds",
            "     Running tests/watch.rs (target/debug/deps/watch-1)",
            "running 3 tests",
            "test quick ... ok",
            "test slow has been running for over 60 seconds",
            "test stuck has been running for over 60 seconds",
            "test slow ... FAILED",
        ] {
            place.note(line);
        }
        let expected =
            "in `Running tests/watch.rs (target/debug/deps/watch-1)`, still running: stuck";
        assert_eq!(place.to_string(), expected);
        place.note("   Doc-tests chancery_core");
        place.note("test src/lib.rs - x (line 3) ... ");
        let expected = "in `Doc-tests chancery_core`, still running: src/lib.rs - x (line 3)";
        assert_eq!(place.to_string(), expected);
    }

    #[test]
    fn a_test_program_that_dies_without_a_summary_is_a_failure() {
        let totals = Totals { failed_run: true, ..Totals::default() };
        assert!(totals.verdict().is_err());
        assert!(totals.summary().contains("FAILED"));
    }
}
