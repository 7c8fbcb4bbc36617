//! `docs/benchmarks.md`, from the stored figures and the texts in `xtask/data/bench`.
//!
//! The same figures give the same text. What the figures say (which goals are missed, and by how
//! much) is derived here; why, and what would be needed, is in the text of each goal, behind a line
//! `---`, and is shown while the goal is missed.

use std::fmt::Write as _;

use serde_json::Value;

use super::figures::list;
use super::goals::COMPARISONS;

mod tables;
mod texts;

use tables::{number, runs, table};

/// Says that nobody should edit the document.
pub(crate) const MARKER: &str = "<!-- Written by `cargo xtask bench`: change xtask/data/bench and \
run `cargo xtask bench document`, or measure again. -->";

/// The document; empty if there are no comparisons.
pub(crate) fn text(figures: &Value) -> String {
    let comparisons = list(&figures["comparisons"]);
    if comparisons.is_empty() {
        return String::new();
    }
    let goals: Vec<&Value> = comparisons.iter().flat_map(|one| list(&one["goals"])).collect();
    let sections = [
        format!("# Benchmarks\n\n{MARKER}\n"),
        texts::INTRO.to_owned(),
        format!("## Goals\n\n{}", goal_table(&goals)),
        format!("## Where we lose\n\n{}", losses(&goals)),
        format!("## The machine\n\n{}", machine(figures)),
        format!("## How it is measured\n\n{}", texts::HOW),
    ];
    let all = sections.into_iter().chain(comparisons.iter().map(comparison));
    all.map(|section| format!("{}\n", section.trim_end())).collect::<Vec<_>>().join("\n")
}

fn goal_table(goals: &[&Value]) -> String {
    let heads = ["goal", "what", "value", "spread", "must", "hope", "met", "Chancery", "beside it"];
    let rows = goals.iter().map(|goal| {
        let unit = goal["unit"].as_str().unwrap_or_default();
        let spread = list(&goal["spread"]);
        let spread: Vec<_> = spread.iter().map(number).collect();
        vec![
            goal["goal"].as_str().unwrap_or_default().to_owned(),
            goal["what"].as_str().unwrap_or_default().to_owned(),
            with_unit(&goal["value"], unit),
            spread.join(" … "),
            format!("≤ {}", with_unit(&goal["must"], unit)),
            if goal["hope"].is_null() {
                String::new()
            } else {
                format!("≤ {}", number(&goal["hope"]))
            },
            verdict(goal).to_owned(),
            runs(goal, "ours"),
            beside(goal),
        ]
    });
    table(&heads, rows.collect())
}

fn with_unit(value: &Value, unit: &str) -> String {
    match value.is_null() {
        true => "none".to_owned(),
        false => format!("{} {unit}", number(value)).trim_end().to_owned(),
    }
}

fn beside(goal: &Value) -> String {
    match runs(goal, "theirs") {
        median if median.is_empty() => String::new(),
        median => format!("{median} ({})", goal["beside"].as_str().unwrap_or_default()),
    }
}

fn verdict(goal: &Value) -> &'static str {
    let reached = |bound: &str| goal[bound].as_f64().zip(goal["value"].as_f64());
    match goal["met"].as_bool().unwrap_or(false) {
        false => "**no**",
        true if reached("hope").is_some_and(|(hope, value)| value <= hope) => "yes, as hoped",
        true => "yes",
    }
}

/// Every goal that is missed, by how much, and why.
fn losses(goals: &[&Value]) -> String {
    let mut text = String::new();
    let missed = goals.iter().filter(|goal| !goal["met"].as_bool().unwrap_or(false));
    for goal in missed {
        let name = goal["goal"].as_str().unwrap_or_default();
        let what = goal["what"].as_str().unwrap_or_default();
        // Writing to a string cannot fail.
        write!(text, "- **{name}**, {what}: {}.", distance(goal)).ok();
        let why = texts::missed(name);
        writeln!(text, "{}", indented(why.unwrap_or("Why is not explained yet."))).ok();
    }
    let count = goals.iter().filter(|goal| goal["met"].as_bool().unwrap_or(false)).count();
    let mut all = format!("{count} of {} goals are met.", goals.len());
    if !text.is_empty() {
        write!(all, " These are not:\n\n{text}").ok();
    }
    let unmeasured = unmeasured(goals);
    if !unmeasured.is_empty() {
        let (named, words) = (unmeasured.join(", "), unmeasured.join(","));
        write!(all, "\nNot measured so far: {named} (`cargo xtask bench --only {words}`).\n").ok();
    }
    let far = unhoped(goals);
    if !far.is_empty() {
        write!(all, "\nMet, but not as far as was hoped: {}.\n", far.join(", ")).ok();
    }
    all
}

/// The goals there are no figures of at all.
fn unmeasured(goals: &[&Value]) -> Vec<&'static str> {
    let all = COMPARISONS.iter().flat_map(|(decides, _)| decides.iter().copied());
    all.filter(|name| !goals.iter().any(|goal| goal["goal"] == **name)).collect()
}

fn distance(goal: &Value) -> String {
    let (value, must) = (goal["value"].as_f64(), goal["must"].as_f64().unwrap_or(0.0));
    let unit = goal["unit"].as_str().unwrap_or_default();
    match value {
        None => format!("not measured: {}", goal["why"].as_str().unwrap_or("nobody says why")),
        Some(value) if must > 0.0 => {
            let above = (value / must - 1.0) * 100.0;
            let (is, may) = (with_unit(&goal["value"], unit), with_unit(&goal["must"], unit));
            format!("{is} where at most {may} may be, {above:.0} % more")
        }
        Some(_) => format!("{} where none may be", with_unit(&goal["value"], unit)),
    }
}

fn indented(text: &str) -> String {
    text.trim().lines().map(|line| format!("\n  {line}").trim_end().to_owned() + "").fold(
        String::new(),
        |mut all, line| {
            if line.trim().is_empty() {
                all.push('\n');
            } else {
                all.push_str(&line);
            }
            all
        },
    )
}

/// Goals that are met and have something better to reach.
fn unhoped(goals: &[&Value]) -> Vec<String> {
    let only_met = goals.iter().filter(|goal| verdict(goal) == "yes" && !goal["hope"].is_null());
    let line = |goal: &&&Value| {
        let name = goal["goal"].as_str().unwrap_or_default();
        format!("{name} ({}, hoped for {})", number(&goal["value"]), number(&goal["hope"]))
    };
    only_met.map(|goal| line(&goal)).collect()
}

fn machine(figures: &Value) -> String {
    let machine = &figures["machine"];
    let said = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
    let joined = |key: &str| {
        let all: Vec<_> = list(&machine[key]).iter().filter_map(Value::as_str).collect();
        all.join(", ")
    };
    let rows = [
        ("processor", format!("{}, {} cores", said("cpu"), machine["cores"])),
        ("memory", said("memory")),
        ("kernel", said("kernel")),
        ("rustc", said("rustc")),
        ("go", said("go")),
        ("crates", joined("crates")),
        ("Go modules", joined("modules")),
        ("measured", measured(list(&figures["comparisons"]))),
    ];
    rows.iter().fold(String::new(), |mut text, (key, value)| {
        writeln!(text, "- {key}: {value}").ok();
        text
    })
}

/// The days and commits, each once.
fn measured(comparisons: &[Value]) -> String {
    let mut all: Vec<String> = Vec::new();
    for at in comparisons.iter().map(|comparison| &comparison["at"]) {
        let changed = if at["changed"].as_bool().unwrap_or(false) { " with changes" } else { "" };
        let (day, commit) = (at["day"].as_str(), at["commit"].as_str());
        let one = format!(
            "{}, commit {}{changed}",
            day.unwrap_or("some day"),
            commit.unwrap_or("unknown")
        );
        if !all.contains(&one) {
            all.push(one);
        }
    }
    let took: u64 = comparisons.iter().filter_map(|one| one["took_s"].as_u64()).sum();
    format!("{}; {} min {} s in all", all.join("; "), took / 60, took % 60)
}

fn comparison(comparison: &Value) -> String {
    let mut names: Vec<&str> =
        list(&comparison["goals"]).iter().filter_map(|goal| goal["goal"].as_str()).collect();
    names.dedup();
    let title = comparison["title"].as_str().unwrap_or_default();
    let mut text = match names.is_empty() {
        true => format!("## Beside the goals: {title}\n"),
        false => format!("## {}: {title}\n", names.join(", ")),
    };
    for name in &names {
        writeln!(text, "\n{}", texts::setup(name).trim()).ok();
    }
    let commands: Vec<_> = list(&comparison["commands"]).iter().filter_map(Value::as_str).collect();
    if !commands.is_empty() {
        writeln!(text, "\n    {}", commands.join("\n    ")).ok();
    }
    write!(text, "\n{}", tables::series(comparison)).ok();
    for note in list(&comparison["notes"]).iter().filter_map(Value::as_str) {
        writeln!(text, "\n{note}").ok();
    }
    for chart in list(&comparison["charts"]) {
        let (file, about) = (chart["file"].as_str(), chart["about"].as_str());
        writeln!(text, "\n![{}]({})", about.unwrap_or_default(), file.unwrap_or_default()).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn goal(value: Value) -> Value {
        let met = value.as_f64().is_some_and(|value| value <= 1.3);
        json!({"goal": "G1", "what": "CPU", "value": value, "must": 1.3, "hope": 1.15, "met": met,
               "unit": "", "why": "no go", "beside": "h2", "runs_unit": "µs",
               "runs": {"ours": [8.0], "theirs": [7.0]}, "spread": [1.0, 1.2]})
    }

    fn figures(value: Value) -> Value {
        json!({"machine": {}, "comparisons": [{"title": "Fan-out", "goals": [goal(value)]}]})
    }

    /// Neither is there before the first full run.
    #[test]
    fn the_document_is_what_the_figures_give() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let read = |path: &str| fs::read_to_string(root.join(path)).ok();
        let (figures, written) = (read(super::super::FIGURES), read(super::super::DOCUMENT));
        assert_eq!(figures.is_some(), written.is_some(), "one of two files is missing");
        let Some((figures, written)) = figures.zip(written) else { return };
        let figures: Value = serde_json::from_str(&figures).unwrap();
        assert!(written.contains(MARKER));
        assert!(written == text(&figures), "run `cargo xtask bench document`");
        for line in written.lines().filter_map(|line| line.strip_prefix("![")) {
            let (_, file) = line.split_once("](").unwrap();
            let file = root.join("docs").join(file.trim_end_matches(')'));
            assert!(file.exists(), "{}", file.display());
        }
    }

    #[test]
    fn a_missed_goal_is_told_with_its_distance() {
        let text = text(&figures(json!(2.6)));
        assert!(text.contains("0 of 1 goals are met"), "{text}");
        assert!(text.contains("Not measured so far: G2, G3"), "{text}");
        assert!(text.contains("2.60 where at most 1.30 may be, 100 % more"), "{text}");
        assert!(text.contains("| **no** |"), "{text}");
    }

    #[test]
    fn a_goal_without_a_value_says_why() {
        let text = text(&figures(Value::Null));
        assert!(text.contains("not measured: no go"), "{text}");
    }

    #[test]
    fn a_goal_that_is_met_shows_how_far() {
        let met = text(&figures(json!(1.2)));
        assert!(met.contains("1 of 1 goals are met.") && met.contains("G1 (1.20, hoped for 1.15)"));
        assert!(text(&figures(json!(1.1))).contains("yes, as hoped"));
    }
}
