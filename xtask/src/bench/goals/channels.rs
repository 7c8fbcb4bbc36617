//! G24 and G25: the memory of a channel with many endpoints, and the cost of their updates beside gRPC for Go.

use anyhow::{Context, Result};
use serde_json::Value;

use super::calls::{answer, go_client};
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::lab::Lab;
use crate::bench::specs::spec;

/// The sides, with their names in the answer of the bench.
const SIDES: [(&str, &str); 2] = [("Chancery", "chancery-grpc"), ("grpc-go", "grpc-go")];

pub(super) fn memory(lab: &Lab) -> Result<Comparison> {
    let figure = Figure { name: "beyond", unit: "MB", per: 1e6 };
    measured(lab, "Memory of an idle channel", ("G24", &["memory"]), &SIDES[..1], figure)
}

pub(super) fn updates(lab: &Lab) -> Result<Comparison> {
    let figure = Figure { name: "beyond", unit: "", per: 1.0 };
    let go = go_client(lab)?;
    let words = ["updates", &go];
    let title = "Updates of endpoints under calls";
    let mut comparison = measured(lab, title, ("G25", &words), &SIDES, figure)?;
    comparison.ratio(("G25", "go"), 0, 1, figure);
    Ok(comparison)
}

/// Measures some sides, by words of the bench of channels.
fn measured(
    lab: &Lab,
    title: &str,
    (goal, words): (&str, &[&str]),
    sides: &[(&str, &str)],
    of: Figure,
) -> Result<Comparison> {
    let mut comparison = Comparison::new(title);
    let root = format!("{}/", lab.root.display());
    let command = format!("cargo bench -p chancery-grpc --bench calls -- {}", words.join(" "));
    comparison.commands.push(command.replace(&root, ""));
    let of_side =
        |(side, _): &(&str, &str)| Series { side: (*side).to_owned(), ..Series::default() };
    comparison.series = sides.iter().map(of_side).collect();
    for round in 1..=lab.options.runs {
        let figures = answer(lab, words)?;
        println!("   run {round}: {}", Value::from(figures.clone()));
        for (series, (_, name)) in comparison.series.iter_mut().zip(sides) {
            let run = figures.get(*name).and_then(Value::as_object);
            series.runs.push(run.context("the bench tells no figures")?.clone());
        }
    }
    if let Some(spec) = spec(goal, "") {
        let ours = comparison.series[0].of_each_run(of);
        comparison.goals.push(Goal::plain(spec, ours, ""));
    }
    Ok(comparison)
}
