//! Charts: the JSON of runs is read from files, and the SVG is written to one.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use chancery_bench::{Chart, Report};
use serde_json::Value;

use super::flags;
use crate::exit::Failure;

/// Draws the runs of some files.
pub(super) fn run(flags: &flags::ChartArgs) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for path in &flags.runs {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
        match serde_json::from_str(&text) {
            Ok(Value::Array(list)) => runs.extend(list),
            Ok(run) => runs.push(run),
            Err(error) => {
                let error = anyhow!(error).context(format!("`{}` holds no runs", path.display()));
                return Err(Failure::broken(error));
            }
        }
    }
    let title = flags.title.clone().unwrap_or_else(|| format!("{} over {}", flags.y, flags.x));
    let (x, y) = (flags.x.clone(), flags.y.clone());
    let Some(svg) = (Chart { title, x, y, log: !flags.linear }).draw(&runs) else {
        let error = anyhow!("none of the runs has both `{}` and `{}`", flags.x, flags.y);
        let hint = "figures are named as in the JSON, as in `latency_ms.last.p50`";
        return Err(Failure::negative(error).hint(hint));
    };
    write(&flags.out, &svg)
}

/// Draws the runs of one command, over the number of streams.
pub(super) fn of_reports(path: &Path, reports: &[Report]) -> Result<(), Failure> {
    let Some(first) = reports.first() else { return Ok(()) };
    let runs: Result<Vec<_>, _> = reports.iter().map(serde_json::to_value).collect();
    let chart = Chart::over_streams(first);
    match chart.draw(&runs.context("cannot write the chart")?) {
        Some(svg) => write(path, &svg),
        None => {
            let error = anyhow!("there is nothing to draw: no run has `{}`", chart.y);
            Err(Failure::broken(error))
        }
    }
}

fn write(path: &Path, svg: &str) -> Result<(), Failure> {
    fs::write(path, svg).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(())
}
