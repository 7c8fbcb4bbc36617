//! The outcomes as a table for people and as JSON for programs.

use std::collections::BTreeSet;
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

/// The last line.
pub(crate) fn summary(outcomes: &[Outcome]) -> String {
    let held = outcomes.iter().filter(|outcome| outcome.faults.is_empty()).count();
    let bound = match outcomes.iter().all(|outcome| outcome.has_cgroup) {
        true => "a cgroup bounds the memory",
        false => "no cgroup could be made: memory is sampled and not bounded",
    };
    let kinds: BTreeSet<_> = outcomes.iter().flat_map(|outcome| outcome.waits.keys()).collect();
    let waits = kinds.into_iter().map(|kind| {
        let all = outcomes.iter().filter_map(|outcome| outcome.waits.get(kind));
        let all = all.fold(Waits::default(), |all, waits| all.and(waits));
        let [p50, p99] = [0.5, 0.99].map(|part| milliseconds(all.percentile(part)));
        format!("{kind} p50 {p50} ms, p99 {p99} ms, longest {} ms", milliseconds(all.longest()))
    });
    let waits: Vec<_> = waits.collect();
    format!("{held} of {} attacks are held; {bound}\n{}", outcomes.len(), waits.join("\n"))
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
