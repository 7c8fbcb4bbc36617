//! The number of instructions of the hot paths of the core and of calls, compared with the record.
//!
//! ```text
//!   chancery-core/benches/hot_paths.rs PATH TIMES     under valgrind, twice: few times, more times
//!   chancery-calls/benches/picks.rs PATH TIMES
//!   (more - few) / TIMES                              what one pass takes; what sets up falls out
//! ```
//!
//! The number is the same on every run of the same program, however busy the machine is, so a path
//! that grew is noticed at once and nothing else fails. Other compilers and C libraries change it
//! by a few percent, for which there is a tolerance. Not here: time (`bench`), and how a message's
//! cost grows with its size (`growth`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::instructions::CountedProgram;

/// The tolerance in percent: a path may take this much more, or less, than recorded.
const TOLERANCE: u64 = 15;

/// The number of passes in each of the two runs.
const FEW: u64 = 5;
const MORE: u64 = 25;

const RECORD: &str = "xtask/data/counts.txt";

/// Instructions of one pass, by path.
type InstructionCounts = BTreeMap<String, u64>;

/// Counts the instructions, and compares them with the record.
pub(crate) fn counts(root: &Path) -> Result<()> {
    let recorded = parse(&fs::read_to_string(root.join(RECORD)).context(RECORD)?)?;
    let counted = count_all(root)?;
    println!("{:<20} {:>12} {:>12}", "path", "recorded", "counted");
    for path in recorded.keys().chain(counted.keys().filter(|path| !recorded.contains_key(*path))) {
        let shown = |counts: &InstructionCounts| {
            counts.get(path).map_or_else(|| "-".to_owned(), u64::to_string)
        };
        println!("{path:<20} {:>12} {:>12}", shown(&recorded), shown(&counted));
    }
    let faults = compare(&recorded, &counted);
    if !faults.is_empty() {
        bail!(
            "{}; if that is meant, say why in the commit and run `cargo xtask counts --record`",
            faults.join("; ")
        );
    }
    Ok(())
}

/// Counts the instructions, and writes them as the record.
pub(crate) fn record(root: &Path) -> Result<()> {
    let counted = count_all(root)?;
    let mut text = String::from(
        "# Instructions that one pass of a hot path takes (chancery-core/benches/hot_paths.rs,\n\
         # chancery-calls/benches/picks.rs: a thousand picks).\n\
         # Written by `cargo xtask counts --record`, compared by `cargo xtask ci`.\n",
    );
    for (path, count) in &counted {
        writeln!(text, "{path} {count}")?;
    }
    fs::write(root.join(RECORD), text).context(RECORD)
}

/// The programs that have the paths, with their packages. No two paths have the same name.
const PROGRAMS: [(&str, &str); 2] = [("chancery-core", "hot_paths"), ("chancery-calls", "picks")];

fn count_all(root: &Path) -> Result<InstructionCounts> {
    let mut counts = InstructionCounts::new();
    for (package, program) in PROGRAMS {
        counts.extend(count_program(root, package, program)?);
    }
    Ok(counts)
}

fn count_program(root: &Path, package: &str, program: &str) -> Result<InstructionCounts> {
    let paths = CountedProgram::build(root, package, program)?;
    let count = |path: String| {
        let count = |times: u64| paths.instructions(&[&path, &times.to_string()]);
        let [few, more] = [FEW, MORE].map(count);
        let passes = MORE - FEW;
        Ok((path, more?.saturating_sub(few?) / passes))
    };
    paths.names()?.into_iter().map(count).collect()
}

fn compare(recorded: &InstructionCounts, counted: &InstructionCounts) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, &count) in counted {
        let Some(&was) = recorded.get(path) else {
            faults.push(format!("`{path}` is not recorded"));
            continue;
        };
        let change = count.abs_diff(was) * 100;
        if change > was * TOLERANCE {
            let word = if count > was { "more" } else { "fewer" };
            let percent = change / was.max(1);
            faults.push(format!("`{path}` takes {percent} % {word} instructions than recorded"));
        }
    }
    let gone = recorded.keys().filter(|path| !counted.contains_key(*path));
    faults.extend(gone.map(|path| format!("`{path}` is recorded and is no path")));
    faults
}

fn parse(text: &str) -> Result<InstructionCounts> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &str| {
        let (path, count) = line.split_once(' ')?;
        Some((path.to_owned(), count.parse().ok()?))
    };
    lines
        .map(|line| pair(line).with_context(|| format!("{RECORD}: `{line}` is no path and count")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> InstructionCounts {
        parse(text).unwrap()
    }

    #[test]
    fn a_path_may_differ_by_the_tolerance_and_no_more() {
        let recorded = counts("# note\none 1000\n");
        for within in ["one 1150", "one 850"] {
            assert!(compare(&recorded, &counts(within)).is_empty(), "{within}");
        }
        let faults = compare(&recorded, &counts("one 1151"));
        assert_eq!(faults, ["`one` takes 15 % more instructions than recorded"]);
        let faults = compare(&recorded, &counts("one 100"));
        assert_eq!(faults, ["`one` takes 90 % fewer instructions than recorded"]);
    }

    #[test]
    fn the_record_and_the_paths_are_the_same_paths() {
        let faults = compare(&counts("one 1\nold 1"), &counts("one 1\nnew 1"));
        assert_eq!(faults, ["`new` is not recorded", "`old` is recorded and is no path"]);
    }

    #[test]
    fn a_broken_record_is_refused() {
        assert!(parse("one").is_err());
        assert!(parse("one many").is_err());
    }
}
