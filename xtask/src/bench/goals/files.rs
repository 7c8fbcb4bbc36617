//! G14: the time from the rename of a file to the first client, with `chancery serve` on a
//! directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::directory::{self, Daemon, Layout};
use crate::bench::driver;
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::lab::{Lab, words};
use crate::bench::specs::spec;

const CLUSTERS: usize = 10_000;

/// The age of files from which on a read of them is sure to see all: those that are younger are read again
/// in the first seconds of a server, which would be measured with the edits.
const SURE: Duration = Duration::from_secs(4);

const FIRST: Figure = Figure { name: "first_ms", unit: "ms", per: 1.0 };
const LAYOUTS: [Layout; 2] = [Layout::FileEach, Layout::HundredFiles];

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let settle = settle(&lab.root)?;
    let mut comparison = Comparison::new("From the rename of a file to the first client");
    comparison.notes.push(format!(
        "The server waits until the directory has been quiet for `settle`, by default {settle} ms; \
         that is in the table, and taken off the value of the goal."
    ));
    comparison.notes.push("The value is that of the layout that does worse.".to_owned());
    let mut all = LAYOUTS.map(|layout| Series { side: layout.name(), ..Series::default() });
    for round in 1..=lab.options.runs {
        for (series, layout) in all.iter_mut().zip(LAYOUTS) {
            if series.failed.is_some() {
                continue;
            }
            match measure_daemon(lab, layout, &mut comparison.commands) {
                Ok(run) => {
                    println!("   run {round} {}: first {} ms", series.side, run["first_ms"]);
                    series.runs.push(run);
                }
                Err(fault) => {
                    println!("   run {round} {}: FAILED: {fault:#}", series.side);
                    series.failed = Some(format!("{fault:#}"));
                }
            }
        }
    }
    if let Some(spec) = spec("G14", "") {
        comparison.goals.push(worse(spec, &all, settle));
    }
    comparison.series = all.to_vec();
    Ok(comparison)
}

/// The goal, decided by the layout with the greater median, without the time of `settle`.
fn worse(spec: &'static crate::bench::specs::Spec, all: &[Series], settle: f64) -> Goal {
    if let Some((series, why)) = all.iter().find_map(|one| Some((one, one.failed.as_ref()?))) {
        return Goal::unmeasured(spec, format!("{}: {why}", series.side));
    }
    let slower = |one: &&Series, other: &&Series| {
        let median = |series: &Series| series.median(FIRST).unwrap_or(f64::INFINITY);
        median(one).total_cmp(&median(other))
    };
    let values =
        all.iter().max_by(slower).map(|series| series.of_each_run(FIRST)).unwrap_or_default();
    Goal::plain(spec, values.iter().map(|first| first - settle).collect(), "")
}

/// Runs a fresh daemon on a fresh directory, and changes one file some times.
fn measure_daemon(
    lab: &Lab,
    layout: Layout,
    commands: &mut Vec<String>,
) -> Result<serde_json::Map<String, serde_json::Value>> {
    let dir = lab.dir.join("served");
    let changed = directory::write(&dir, layout, CLUSTERS)?;
    let template = template(lab, &changed)?;
    sleep(SURE);
    let mut daemon = Daemon::start(&lab.programs.chancery, &dir)?;
    daemon.ready()?;
    let flags = format!(
        "--protocol delta --types cds --streams 10 --warmup 2 --rounds {} --timeout 30s",
        lab.or_quick(20, 3)
    );
    let mut all = words("fan-out --server");
    all.extend([daemon.server.xds.clone(), "--pid".to_owned(), daemon.server.pid().to_string()]);
    all.extend(["--trigger".to_owned(), format!("file:{}", changed.display())]);
    all.extend(["--template".to_owned(), template.display().to_string()]);
    all.extend(words(&flags));
    let (_, figures) = driver::run(&lab.programs.chancery, &lab.dir, &all)?;
    if commands.is_empty() {
        commands.push("taskset -c 0 target/release/chancery serve DIR".to_owned());
        commands.push(format!(
            "taskset -c 1 target/release/chancery bench fan-out --server ADDR --pid PID \
             --trigger file:FILE --template TEMPLATE {flags}"
        ));
    }
    Ok(figures)
}

/// The file with one cluster that differs each time.
fn template(lab: &Lab, changed: &Path) -> Result<PathBuf> {
    let text = fs::read_to_string(changed)?;
    let path = lab.dir.join("template.yaml");
    fs::write(&path, text.replacen("alt_stat_name: before", "alt_stat_name: change-{n}", 1))?;
    Ok(path)
}

/// The time that the daemon waits on purpose, in milliseconds: the default in its documentation.
pub(super) fn settle(root: &Path) -> Result<f64> {
    let text = fs::read_to_string(root.join("docs/configuration.md"))?;
    documented_settle(&text).context("docs/configuration.md has no row of `settle` in ms")
}

fn documented_settle(text: &str) -> Option<f64> {
    let row = text.lines().find(|line| line.starts_with("| `settle` |"))?;
    let default = row.split('|').nth(2)?.trim().trim_matches('`');
    default.strip_suffix("ms")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settling_time_is_read_where_it_is_documented() {
        let text = "| key | default | |\n| `settle` | `100ms` | How long. |\n";
        assert_eq!(documented_settle(text), Some(100.0));
        assert_eq!(documented_settle("nothing"), None);
    }

    #[test]
    fn the_worse_layout_decides() {
        let series = |side: &str, first: f64| {
            let run = serde_json::json!({"first_ms": first}).as_object().unwrap().clone();
            Series { side: side.to_owned(), runs: vec![run], ..Series::default() }
        };
        let spec = spec("G14", "").unwrap();
        let goal = worse(spec, &[series("a", 104.0), series("b", 112.0)], 100.0);
        assert_eq!(goal.value, Some(12.0));
    }
}
