//! G24 and G25: the memory of a channel with many endpoints, and the cost of their updates.

use anyhow::{Context, Result};
use serde_json::Value;

use super::calls::answer;
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::lab::Lab;
use crate::bench::specs::spec;

pub(super) fn memory(lab: &Lab) -> Result<Comparison> {
    let figure = Figure { name: "beyond", unit: "MB", per: 1e6 };
    measured(lab, "Memory of an idle channel", ("G24", "memory"), figure)
}

pub(super) fn updates(lab: &Lab) -> Result<Comparison> {
    let figure = Figure { name: "beyond", unit: "", per: 1.0 };
    measured(lab, "Updates of endpoints under calls", ("G25", "updates"), figure)
}

/// Measures one side alone, by a word of the bench of channels.
fn measured(lab: &Lab, title: &str, (goal, word): (&str, &str), of: Figure) -> Result<Comparison> {
    let mut comparison = Comparison::new(title);
    comparison.commands.push(format!("cargo bench -p chancery-grpc --bench calls -- {word}"));
    let mut series = Series { side: "Chancery".to_owned(), ..Series::default() };
    for round in 1..=lab.options.runs {
        let figures = answer(lab, &[word])?;
        println!("   run {round}: {}", Value::from(figures.clone()));
        let run = figures.get("chancery-grpc").and_then(Value::as_object);
        series.runs.push(run.context("the bench tells no figures")?.clone());
    }
    if let Some(spec) = spec(goal, "") {
        comparison.goals.push(Goal::plain(spec, series.of_each_run(of), ""));
    }
    comparison.series = vec![series];
    Ok(comparison)
}
