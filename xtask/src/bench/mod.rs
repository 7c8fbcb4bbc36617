//! `cargo xtask bench`: Chancery beside other servers and beside the limits of the machine.
//!
//! ```text
//!   programs   built into target/bench       goals/*    one comparison each: what is run, what
//!        |                                      |        its figures mean for the goals
//!        v                                      v
//!   server, driver   processes, pinned --> lab: interleaved runs --> figures --> document
//! ```
//!
//! A run has a fresh server on the first core and `chancery bench` on the second. The sides take
//! turns, so that a slow phase of the machine affects all of them. Figures are kept in
//! `docs/benchmarks/figures.json`. The document `docs/benchmarks.md` is made from them and from the
//! texts in `xtask/data/bench` alone, and a test compares it.
//!
//! Not here: measuring, which the driver and the kernel do.

mod charts;
mod directory;
mod document;
mod driver;
mod figures;
mod fleet;
mod goals;
mod lab;
mod machine;
mod options;
mod programs;
mod readers;
mod server;
mod side;
mod specs;
mod usage;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use figures::Comparison;
use lab::Lab;
use options::{BenchOptions, RUNS};

/// The file of the figures, and the document that is made from them.
const FIGURES: &str = "docs/benchmarks/figures.json";
const DOCUMENT: &str = "docs/benchmarks.md";

/// The help text of `cargo xtask bench`.
pub(crate) const HELP: &str = options::HELP;

/// Makes the comparisons that were asked for, prints their results, and writes the document.
pub(crate) fn bench(root: &Path, words: &[&str]) -> Result<()> {
    let options = BenchOptions::parse(words)?;
    if options.document {
        return write_document(root, &stored(root)?);
    }
    machine::require()?;
    let begin = Instant::now();
    let programs = programs::build(root)?;
    let lab = Lab::new(root, programs, &options)?;
    let mut done = Vec::new();
    for (goals, compare) in goals::COMPARISONS {
        if options.wants_any(goals) {
            let comparison = compared(&lab, goals, compare);
            if lab.is_documented(&comparison) {
                store(root, &comparison)?;
            }
            done.push(comparison);
        }
    }
    let took = begin.elapsed().as_secs();
    println!("\n{}\nmeasured in {} min {} s", summary(&done), took / 60, took % 60);
    if let Some(path) = &options.json {
        std::fs::write(path, pretty(&goals_of(&done))).with_context(|| path.clone())?;
    }
    if !done.iter().any(|comparison| lab.is_documented(comparison)) {
        println!("{DOCUMENT} stays as it is: that takes whole comparisons and {RUNS} runs");
        return Ok(());
    }
    let mut figures = stored(root)?;
    charts::draw(root, &lab.programs.chancery, &lab.dir, &mut figures)?;
    write_figures(root, &figures)?;
    write_document(root, &figures)
}

/// Stores one comparison at once, so that an interrupted run loses only the comparisons that are
/// left.
fn store(root: &Path, comparison: &Comparison) -> Result<()> {
    let figures = figures::merged(
        stored(root).ok(),
        machine::described(root)?,
        std::slice::from_ref(comparison),
    );
    write_figures(root, &figures)?;
    write_document(root, &figures)
}

/// Makes one comparison. If it cannot be made at all, its goals are missed, with the reason.
fn compared(lab: &Lab, goals: &[&str], compare: goals::Compare) -> Comparison {
    let begin = Instant::now();
    println!("== {}", if goals.is_empty() { "no goal".to_owned() } else { goals.join(", ") });
    let mut comparison =
        compare(lab).unwrap_or_else(|fault| Comparison::impossible(goals, &format!("{fault:#}")));
    comparison.mark_missed();
    comparison.retain_goals(|goal| lab.options.wants(goal));
    comparison.complete = goals.iter().all(|goal| lab.options.wants(goal));
    comparison.took = begin.elapsed().as_secs();
    comparison.at = machine::now(&lab.root);
    for goal in &comparison.goals {
        println!("   {}", goal.summary());
    }
    comparison
}

fn summary(done: &[Comparison]) -> String {
    let lines = done.iter().flat_map(|comparison| &comparison.goals).map(figures::Goal::summary);
    lines.collect::<Vec<_>>().join("\n")
}

/// The list that `--json` prints.
fn goals_of(done: &[Comparison]) -> Value {
    done.iter().flat_map(|comparison| &comparison.goals).map(figures::Goal::json).collect()
}

fn stored(root: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(root.join(FIGURES)).context(FIGURES)?;
    serde_json::from_str(&text).context(FIGURES)
}

fn write_figures(root: &Path, figures: &Value) -> Result<()> {
    let path = root.join(FIGURES);
    std::fs::create_dir_all(path.parent().context("it is in a directory")?)?;
    std::fs::write(&path, pretty(figures)).context(FIGURES)
}

fn write_document(root: &Path, figures: &Value) -> Result<()> {
    let text = document::text(figures);
    if text.is_empty() {
        bail!("`{FIGURES}` holds no comparison");
    }
    std::fs::write(root.join(DOCUMENT), text).context(DOCUMENT)?;
    println!("wrote {DOCUMENT}");
    Ok(())
}

/// The figures as JSON, with one line for each run and for everything at the same depth.
fn pretty(value: &Value) -> String {
    format!("{}\n", folded(value, 0))
}

/// The depth down to which each value has lines of its own: comparisons, their series, the runs of
/// each.
const BROKEN: usize = 6;

fn folded(value: &Value, depth: usize) -> String {
    let (open, close, members) = match value {
        Value::Array(list) if !list.is_empty() => {
            ('[', ']', list.iter().map(|one| folded(one, depth + 1)).collect::<Vec<_>>())
        }
        Value::Object(map) if depth < BROKEN && !map.is_empty() => {
            let member = |(key, one)| format!("{}: {}", Value::from(key), folded(one, depth + 1));
            ('{', '}', map.iter().map(|(key, one)| member((key.as_str(), one))).collect())
        }
        _ => return value.to_string(),
    };
    if depth >= BROKEN {
        return value.to_string();
    }
    let (indent, end) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    format!("{open}\n{indent}{}\n{end}{close}", members.join(&format!(",\n{indent}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_a_line() {
        let run = json!({"a": 1, "b": [2, 3]});
        let figures = json!({"comparisons": [{"series": [{"runs": [run, run]}]}]});
        let text = pretty(&figures);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), figures);
        assert_eq!(text.matches(r#"{"a":1,"b":[2,3]}"#).count(), 2);
    }
}
