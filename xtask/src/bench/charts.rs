//! Charts of the comparisons that vary a quantity, drawn by `chancery bench chart`.
//!
//! A chart is made of the figures alone, so it can be drawn again without measuring. Not here: the
//! drawing itself (`chancery_bench`), and the text around the charts (`document`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::figures::{list, median};
use crate::steps::{program, run};

/// The directory of the charts, below the root and below the directory of the document.
const BELOW: &str = "docs/benchmarks";
const BESIDE: &str = "benchmarks";

/// The definition of one chart: its comparison, and the quantities on its axes.
struct ChartSpec {
    file: &'static str,
    title: &'static str,
    /// The varied quantity. If there is none, the chart shows the share of clients that have their
    /// first answer.
    x: Option<&'static str>,
    y: &'static str,
    /// The name of the figure on the axis.
    axis: &'static str,
}

const CHARTS: [ChartSpec; 4] = [
    ChartSpec {
        file: "cpu-over-streams.svg",
        title: "CPU of one change, over streams",
        x: Some("streams"),
        y: "cpu_ms_per_change",
        axis: "CPU, ms",
    },
    ChartSpec {
        file: "last-over-streams.svg",
        title: "A change until the last client, over streams",
        x: Some("streams"),
        y: "last_ms",
        axis: "last client, ms",
    },
    ChartSpec {
        file: "cpu-over-resources.svg",
        title: "CPU of one change, over resources",
        x: Some("resources"),
        y: "cpu_ms_per_change",
        axis: "CPU, ms",
    },
    ChartSpec {
        file: "cold-start.svg",
        title: "Cold start: share of clients that have everything",
        x: None,
        y: "",
        axis: "time, ms",
    },
];

/// Draws all charts that have points, and adds their paths to the figures.
pub(crate) fn draw(
    root: &Path,
    chancery: &Path,
    scratch: &Path,
    figures: &mut Value,
) -> Result<()> {
    let dir = root.join(BELOW);
    fs::create_dir_all(&dir).with_context(|| BELOW.to_owned())?;
    let comparisons = figures["comparisons"].as_array_mut().context("no comparisons")?;
    for comparison in comparisons {
        let mut drawn = Vec::new();
        for chart in &CHARTS {
            let points = chart.points(comparison);
            if points.is_empty() {
                continue;
            }
            let runs = scratch.join("chart.json");
            fs::write(&runs, Value::Array(points).to_string())?;
            let out = dir.join(chart.file);
            let words = ["bench", "chart", "--x", chart.across(), "--y", chart.axis];
            let mut command = program(root, chancery, &words);
            if chart.x.is_none() {
                command.arg("--linear");
            }
            run(command.args(["--title", chart.title]).arg(&out).arg(&runs))?;
            drawn.push(json!({"file": format!("{BESIDE}/{}", chart.file), "about": chart.title}));
        }
        comparison["charts"] = drawn.into();
    }
    Ok(())
}

impl ChartSpec {
    /// The label of the horizontal axis.
    fn across(&self) -> &'static str {
        self.x.unwrap_or("clients, %")
    }

    /// The points, as runs of the driver have them; none if this is no chart of the comparison.
    fn points(&self, comparison: &Value) -> Vec<Value> {
        let all = list(&comparison["series"]).iter();
        match self.x {
            Some(x) => all
                .filter(|series| series["x_name"] == x)
                .filter_map(|series| {
                    Some(self.point(series, &series["x"], figure(series, self.y)?))
                })
                .collect(),
            None => all.flat_map(|series| self.shares(series)).collect(),
        }
    }

    fn point(&self, series: &Value, x: &Value, y: f64) -> Value {
        json!({"label": series["side"], self.across(): x, self.axis: y})
    }

    /// The times at which half, nine tenths and all of the clients had their first answer.
    fn shares(&self, series: &Value) -> Vec<Value> {
        let shares = [(50, "answer_p50_ms"), (90, "answer_p90_ms"), (100, "answer_last_ms")];
        // A reconnect tells of answers too, and is about something else.
        let sent = figure(series, "resource_bytes").is_some_and(|bytes| bytes > 0.0);
        let known = shares.iter().filter(|_| sent).filter_map(|(share, name)| {
            Some(self.point(series, &json!(share), figure(series, name)?))
        });
        known.collect()
    }
}

fn figure(series: &Value, name: &str) -> Option<f64> {
    let runs = list(&series["runs"]).iter();
    median(&runs.filter_map(|run| run[name].as_f64()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_the_median_of_a_side() {
        let comparison = json!({"series": [
            {"side": "a", "x_name": "streams", "x": 100.0, "runs": [
                {"cpu_ms_per_change": 1.0}, {"cpu_ms_per_change": 3.0}, {"cpu_ms_per_change": 2.0}]},
            {"side": "b", "x_name": "names", "x": 1.0, "runs": [{"cpu_ms_per_change": 1.0}]}]});
        let expected = json!({"label": "a", "streams": 100.0, "CPU, ms": 2.0});
        assert_eq!(CHARTS[0].points(&comparison), [expected]);
        assert!(
            CHARTS[1].points(&comparison).is_empty() && CHARTS[3].points(&comparison).is_empty()
        );
    }

    #[test]
    fn a_cold_start_is_shown_by_share_of_clients() {
        let run = json!({"resource_bytes": 9, "answer_p50_ms": 4.0, "answer_last_ms": 8.0});
        let comparison = json!({"series": [{"side": "a", "runs": [run]}]});
        let points = CHARTS[3].points(&comparison);
        assert_eq!(points[1], json!({"label": "a", "clients, %": 100, "time, ms": 8.0}));
        assert_eq!(points.len(), 2);
    }
}
