//! A chart of two figures of several runs: their points, in a series for each label.
//!
//! Not here: the drawing (`svg.rs`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::report::Report;
use super::svg::{Drawing, Series, draw};

/// A chart of two figures of several runs.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The text above the chart.
    pub title: String,
    /// The figure across, by its name in the JSON of a report.
    pub x: String,
    /// The figure upwards, by its name in the JSON of a report.
    pub y: String,
    /// Both axes are logarithmic, or both begin at zero.
    pub log: bool,
}

impl Chart {
    /// A chart of the figure that matters most in runs of this scenario, over the number of streams.
    #[must_use]
    pub fn over_streams(run: &Report) -> Self {
        let y = match run.scenario {
            "idle" => "process.rss_per_stream",
            "cold-start" | "reconnect" => "first_answer_ms.max",
            "churn" => "receipt_ms.p99",
            _ => "latency_ms.last.p50",
        };
        let title = format!("{} at {}", run.scenario, run.server);
        Self { title, x: "streams".to_owned(), y: y.to_owned(), log: true }
    }

    /// Returns the chart of these runs as SVG, or nothing if none of them has both figures.
    #[must_use]
    pub fn draw(&self, runs: &[Value]) -> Option<String> {
        let series = series(runs, &self.x, &self.y);
        let Self { title, x, y, log } = self.clone();
        (!series.is_empty()).then(|| draw(&Drawing { title, x, y, log, series }))
    }
}

/// The series of each label, in the order of the labels; runs at the same place become their
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

/// The figure with this name in the JSON of a run, as in `latency_ms.last.p50` or `names.0`.
fn figure(run: &Value, name: &str) -> Option<f64> {
    run.pointer(&format!("/{}", name.replace('.', "/")))?.as_f64()
}

fn medians(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let same = points.chunk_by(|one, other| one.0 == other.0);
    same.map(|runs| runs[(runs.len() - 1) / 2]).collect()
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
