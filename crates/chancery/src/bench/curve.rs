//! Scaling curves out of runs: which figures, over what, in how many series.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde_json::Value;

use super::chart::{Curve, Series, draw};
use super::options::Chart;
use super::report::Report;
use crate::exit::Failure;

/// Draws the runs of some files.
pub(super) fn run(flags: &Chart) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for path in &flags.runs {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
        match serde_json::from_str(&text) {
            Ok(Value::Array(list)) => runs.extend(list),
            Ok(run) => runs.push(run),
            Err(error) => {
                let told = anyhow!(error).context(format!("`{}` holds no runs", path.display()));
                return Err(Failure::broken(told));
            }
        }
    }
    let series = series(&runs, &flags.x, &flags.y);
    if series.is_empty() {
        let told = anyhow!("none of the runs has both `{}` and `{}`", flags.x, flags.y);
        let hint = "figures are named as in the JSON, as in `latency_ms.last.p50`";
        return Err(Failure::negative(told).hint(hint));
    }
    let title = flags.title.clone().unwrap_or_else(|| format!("{} over {}", flags.y, flags.x));
    let (x, y) = (flags.x.clone(), flags.y.clone());
    write(&flags.out, &Curve { title, x, y, log: !flags.linear, series })
}

/// Draws the runs of one command, over the number of streams.
pub(super) fn of_reports(path: &Path, reports: &[Report]) -> Result<(), Failure> {
    let Some(first) = reports.first() else { return Ok(()) };
    let y = match first.scenario {
        "idle" => "process.rss_per_stream",
        "cold-start" | "reconnect" => "first_answer_ms.max",
        "churn" => "receipt_ms.p99",
        _ => "latency_ms.last.p50",
    };
    let runs: Result<Vec<_>, _> = reports.iter().map(serde_json::to_value).collect();
    let series = series(&runs.context("cannot write the chart")?, "streams", y);
    if series.is_empty() {
        return Err(Failure::broken(anyhow!("there is nothing to draw: no run has `{y}`")));
    }
    let (title, x) = (format!("{} at {}", first.scenario, first.server), "streams".to_owned());
    write(path, &Curve { title, x, y: y.to_owned(), log: true, series })
}

/// The points of each label, in the order of their labels; runs at the same place become their
/// median.
fn series(runs: &[Value], x: &str, y: &str) -> Vec<Series> {
    let mut found: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for run in runs {
        let text = |key: &str| run.get(key).and_then(Value::as_str);
        let label = text("label").or_else(|| text("server")).unwrap_or("runs");
        if let Some(point) = figure(run, x).zip(figure(run, y)) {
            found.entry(label.to_owned()).or_default().push(point);
        }
    }
    let one = |(label, points)| Series { label, points: medians(points) };
    found.into_iter().map(one).collect()
}

/// A figure by its name in the JSON, as in `latency_ms.last.p50` or `names.0`.
fn figure(run: &Value, name: &str) -> Option<f64> {
    run.pointer(&format!("/{}", name.replace('.', "/")))?.as_f64()
}

fn medians(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let same = points.chunk_by(|one, other| one.0 == other.0);
    same.map(|runs| runs[(runs.len() - 1) / 2]).collect()
}

fn write(path: &Path, curve: &Curve) -> Result<(), Failure> {
    let wrote = fs::write(path, draw(curve));
    wrote.with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_series_by_label_and_medians_by_place() {
        let run = |label: &str, streams: u32, p50: f64| serde_json::json!({"label": label, "streams": streams, "l": {"p50": p50}});
        let runs = [run("b", 10, 3.0), run("b", 1, 9.0), run("b", 10, 1.0), run("b", 10, 2.0)];
        let found = series(&[&runs[..], &[run("a", 1, 1.0)]].concat(), "streams", "l.p50");
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[1].label.as_str(), &found[1].points),
            ("b", &vec![(1.0, 9.0), (10.0, 2.0)])
        );
        assert!(series(&runs, "streams", "l.p51").is_empty());
    }
}
