//! The outcomes as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::attack::Outcome;
use crate::innocent::Waits;

/// The line of a table about one attack.
pub(crate) fn line(outcome: &Outcome) -> String {
    let held = if outcome.faults.is_empty() { "held" } else { "NOT HELD" };
    let wait = match outcome.longest() {
        Some((kind, wait)) => format!("{:.0} ms {kind}", wait.as_secs_f64() * 1e3),
        None => "-".to_owned(),
    };
    let told = match outcome.faults.is_empty() {
        true => outcome.answer.clone(),
        false => outcome.faults.join("; "),
    };
    let told: String = told.chars().filter(|char| !char.is_control()).take(150).collect();
    format!("{:<26} {held:<9} {wait:>16} {:>7} MB  {told}", outcome.name, outcome.peak >> 20)
}

/// The head of the table.
pub(crate) fn head() -> String {
    let (name, held, wait, rss) = ("attack", "", "longest wait", "peak RSS");
    format!("{name:<26} {held:<9} {wait:>16} {rss:>10}  answer, or what does not hold")
}

/// The last lines: those about attacks that are not held once more, for whoever reads only the end,
/// the counts, and the waits of each kind of question.
pub(crate) fn summary(outcomes: &[Outcome]) -> String {
    let held = outcomes.iter().filter(|outcome| outcome.faults.is_empty()).count();
    let bound = match outcomes.iter().all(|outcome| outcome.has_cgroup) {
        true => "a cgroup bounds the memory",
        false => "no cgroup could be made or entered: memory is sampled alone",
    };
    let waits = all_waits(outcomes).into_iter().map(|(kind, all)| {
        let [p50, p99] = [0.5, 0.99].map(|part| milliseconds(all.percentile(part)));
        format!("{kind} p50 {p50} ms, p99 {p99} ms, longest {} ms", milliseconds(all.longest()))
    });
    let all = format!("{held} of {} attacks are held; {bound}", outcomes.len());
    let not_held = outcomes.iter().filter(|outcome| !outcome.faults.is_empty()).map(line);
    let lines: Vec<_> = waits.chain(not_held).chain([all]).collect();
    lines.join("\n")
}

/// The longest wait of 99 of 100 questions of a kind, over all attacks.
const MOST: Duration = Duration::from_millis(100);

/// The kinds of questions of which more than one of 100 waited too long over all attacks. An edit
/// is none of them: the time for which a directory must be quiet is a part of its wait.
pub(crate) fn too_late(outcomes: &[Outcome]) -> Vec<String> {
    let late = all_waits(outcomes).into_iter().filter(|(kind, _)| *kind != "edit");
    let late = late.map(|(kind, waits)| (kind, waits.percentile(0.99)));
    let told = late.filter(|(_, p99)| *p99 > MOST).map(|(kind, p99)| {
        format!("one of 100 `{kind}` over all attacks waited {} ms or more", milliseconds(p99))
    });
    told.collect()
}

/// The waits of each kind of question over all attacks.
fn all_waits(outcomes: &[Outcome]) -> BTreeMap<&'static str, Waits> {
    let mut all = BTreeMap::<_, Waits>::new();
    for (kind, waits) in outcomes.iter().flat_map(|outcome| &outcome.waits) {
        all.entry(*kind).or_default().add(waits);
    }
    all
}

/// A wait in milliseconds, to a tenth.
fn milliseconds(wait: Duration) -> f64 {
    (wait.as_secs_f64() * 1e4).round() / 10.0
}

/// The outcomes with all figures.
pub(crate) fn json(outcomes: &[Outcome]) -> Value {
    outcomes.iter().map(one).collect()
}

fn one(outcome: &Outcome) -> Value {
    let waits: serde_json::Map<String, Value> = outcome
        .waits
        .iter()
        .map(|(kind, waits)| {
            let figures = json!({
                "questions": waits.count(),
                "p50_ms": milliseconds(waits.percentile(0.5)),
                "p99_ms": milliseconds(waits.percentile(0.99)),
                "max_ms": milliseconds(waits.longest()),
                "refused": waits.refused,
                "unanswered": waits.unanswered,
            });
            ((*kind).to_owned(), figures)
        })
        .collect();
    json!({
        "attack": outcome.name,
        "held": outcome.faults.is_empty(),
        "faults": outcome.faults,
        "answer": outcome.answer,
        "waits": waits,
        "rss_before": outcome.before,
        "rss_peak": outcome.peak,
        "seconds": outcome.took.as_secs_f64(),
        "cgroup": outcome.has_cgroup,
    })
}
