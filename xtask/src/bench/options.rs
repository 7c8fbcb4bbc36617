//! The options of `cargo xtask bench`.

use anyhow::{Context, Result, bail};

use super::specs;

/// The help text of `cargo xtask bench`.
pub(crate) const HELP: &str = "\
cargo xtask bench [--only G1,G7] [--json FILE] [--quick] [--runs N]
cargo xtask bench document

Builds Chancery and what it is compared with, runs the comparisons and writes docs/benchmarks.md.

  --only GOALS   only these; the document follows where all goals of a comparison are among them:
                 G1,G2  G3,G4,G5  G6,G7  G9,G10, and every other one alone; or
                 rust-control-plane, which no goal is measured on
  --json FILE    write a list of {goal, what, value, must, hope, met, runs}
  --quick        one run of each, few rounds: shows that it works; writes no document
  --runs N       so many runs of each side, 5 at least for the document
  document       write docs/benchmarks.md again from docs/benchmarks/figures.json

Needs two cores, taskset, and go for the comparison with go-control-plane, which needs 12 GB of
memory for G18. The machine should do nothing else meanwhile. The whole set is meant to take less
than 50 minutes.";

/// The name of the comparison that decides no goal, as `--only` takes it.
const NO_GOAL: &str = "RUST-CONTROL-PLANE";

/// The fewest runs whose median is shown.
pub(crate) const RUNS: usize = 5;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BenchOptions {
    /// The goals that were asked for; all goals if it is empty.
    only: Vec<String>,
    pub(crate) json: Option<String>,
    pub(crate) quick: bool,
    pub(crate) runs: usize,
    pub(crate) document: bool,
}

impl BenchOptions {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self { runs: RUNS, ..Self::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().copied().with_context(|| format!("`{word}` needs a value"));
            match *word {
                "document" => options.document = true,
                "--quick" => options.quick = true,
                "--json" => options.json = Some(value()?.to_owned()),
                "--runs" => options.runs = value()?.parse().context("`--runs`")?,
                "--only" => options.only = known(value()?)?,
                _ => bail!("unknown word `{word}`\n\n{HELP}"),
            }
        }
        if options.quick {
            options.runs = 1;
        } else if options.runs < RUNS {
            bail!(
                "`--runs {}` is too few for a median; {RUNS} or more, or `--quick`",
                options.runs
            );
        }
        Ok(options)
    }

    /// Returns true if a comparison was asked for, by one of its goals or because all were.
    pub(crate) fn wants_any(&self, goals: &[&str]) -> bool {
        let goals = if goals.is_empty() { &[NO_GOAL] } else { goals };
        goals.iter().any(|goal| self.wants(goal))
    }

    /// Returns true if this goal was asked for.
    pub(crate) fn wants(&self, goal: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|asked| asked == goal)
    }
}

fn known(goals: &str) -> Result<Vec<String>> {
    let asked: Vec<String> = goals.split(',').map(|goal| goal.trim().to_uppercase()).collect();
    let is_known =
        |goal: &str| goal == NO_GOAL || specs::SPECS.iter().any(|spec| spec.goal == goal);
    match asked.iter().find(|goal| !is_known(goal)) {
        Some(unknown) => {
            bail!("unknown goal `{unknown}`; there are G1 to G25 and rust-control-plane")
        }
        None => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let options = BenchOptions::parse(&["--only", "g1,G7", "--json", "x", "--quick"]).unwrap();
        assert!(options.wants("G1") && options.wants("G7") && !options.wants("G2"));
        assert_eq!((options.runs, options.json.as_deref()), (1, Some("x")));
        assert!(!options.wants_any(&[]));
        assert!(BenchOptions::parse(&[]).unwrap().wants("G2"));
    }

    #[test]
    fn the_comparison_without_a_goal_has_a_name() {
        let options = BenchOptions::parse(&["--only", "rust-control-plane"]).unwrap();
        assert!(options.wants_any(&[]) && !options.wants_any(&["G1", "G2"]));
        assert!(BenchOptions::parse(&[]).unwrap().wants_any(&[]));
    }

    #[test]
    fn misuse_is_told() {
        for (words, expected) in [
            (&["--only", "G99"][..], "unknown goal `G99`"),
            (&["--runs", "2"], "`--runs 2` is too few"),
            (&["--json"], "`--json` needs a value"),
            (&["fast"], "unknown word `fast`"),
        ] {
            let fault = BenchOptions::parse(words).unwrap_err().to_string();
            assert!(fault.starts_with(expected), "{fault}");
        }
    }
}
