//! G19: the cost of judging what goes live: a start and `chancery check` beside a start that judges
//! nothing, and an edit of one endpoint set among many resources.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::bench::directory::Daemon;
use crate::bench::driver;
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::fleet::{self, FleetSize, Gate};
use crate::bench::lab::{Lab, words};
use crate::bench::server::{SERVER_CORE, bound};
use crate::bench::specs::spec;

use super::files;

const FLEET: FleetSize = FleetSize { clusters: 10_000, routes: 1_000 };
const LARGE: FleetSize = FleetSize { clusters: 49_000, routes: 1_000 };
const TIME: Figure = Figure { name: "whole_s", unit: "s", per: 1.0 };
const FIRST: Figure = Figure { name: "first_ms", unit: "ms", per: 1.0 };

/// The sides, in the order of the series.
const SIDES: [&str; 5] = [
    "start, gate off",
    "start, gate on",
    "chancery check",
    "edit, gate off, 100,000 resources",
    "edit, gate on, 100,000 resources",
];

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let settle = files::settle(&lab.root)?;
    let mut comparison = Comparison::new("The gate, and `chancery check`");
    comparison.notes.push(format!(
        "The fleet has 10,000 clusters, 10,000 endpoint sets, 1,000 listeners and 1,000 route \
         configurations of ten routes; for edits 49,000, 49,000, 1,000 and 1,000. `settle`, by default \
         {settle} ms, is in the table, and taken off the value of the goal."
    ));
    comparison.commands.push("taskset -c 0 target/release/chancery serve DIR".to_owned());
    comparison.commands.push("taskset -c 0 target/release/chancery check DIR".to_owned());
    let mut all = SIDES.map(|side| Series { side: side.to_owned(), ..Series::default() });
    let [small, large] = ["fleet", "large-fleet"].map(|name| lab.dir.join(name));
    fleet::write(&small, FLEET, Gate::Off)?;
    let changed = fleet::write(&large, lab.or_quick(LARGE, FLEET), Gate::Off)?;
    for round in 1..=lab.options.runs {
        for (at, series) in all.iter_mut().enumerate() {
            let gate = if matches!(at, 0 | 3) { Gate::Off } else { Gate::Enforced };
            let run = match at {
                0 | 1 => started(lab, &small, gate)?,
                2 => checked(lab, &small, gate)?,
                _ => edited(lab, &large, &changed, gate)?,
            };
            println!("   run {round} {}: {}", series.side, Value::from(run.clone()));
            series.runs.push(run);
        }
    }
    comparison.series = all.to_vec();
    comparison.ratio(("G19", "start"), 1, 0, TIME);
    comparison.ratio(("G19", "check"), 2, 0, TIME);
    if let Some(spec) = spec("G19", "edit") {
        let values = all[4].of_each_run(FIRST).iter().map(|first| first - settle).collect();
        comparison.goals.push(Goal::plain(spec, values, ""));
    }
    Ok(comparison)
}

/// Starts a daemon until it is ready.
fn started(lab: &Lab, dir: &Path, gate: Gate) -> Result<Map<String, Value>> {
    fleet::write_gate(dir, gate)?;
    let mut daemon = Daemon::start(&lab.programs.chancery, dir)?;
    let seconds = daemon.ready()?.as_secs_f64();
    Ok(Map::from_iter([(TIME.name.to_owned(), Value::from(seconds))]))
}

/// Runs `chancery check`, which finds nothing.
fn checked(lab: &Lab, dir: &Path, gate: Gate) -> Result<Map<String, Value>> {
    fleet::write_gate(dir, gate)?;
    let all = ["check".to_owned(), dir.display().to_string()];
    let begin = Instant::now();
    let output = bound(SERVER_CORE, &lab.programs.chancery, &all).output()?;
    let seconds = begin.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("`chancery check` found: {}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(Map::from_iter([(TIME.name.to_owned(), Value::from(seconds))]))
}

/// Changes one endpoint set some times, which ten clients follow.
fn edited(lab: &Lab, dir: &Path, changed: &Path, gate: Gate) -> Result<Map<String, Value>> {
    fleet::write_gate(dir, gate)?;
    let text = fs::read_to_string(changed)?;
    let template = lab.dir.join("endpoints-template.yaml");
    fs::write(&template, one_differs(&text).context("the endpoint set has a known port")?)?;
    let mut daemon = Daemon::start(&lab.programs.chancery, dir)?;
    daemon.ready()?;
    let mut all = words("fan-out --server");
    all.extend([daemon.server.xds.clone(), "--pid".to_owned(), daemon.server.pid().to_string()]);
    all.extend(["--trigger".to_owned(), format!("file:{}", changed.display())]);
    all.extend(["--template".to_owned(), template.display().to_string()]);
    all.extend(words(&format!(
        "--protocol delta --types eds --names 1 --name-pattern service-{{:06}} --streams 10 \
         --warmup 2 --rounds {} --timeout 60s",
        lab.or_quick(20, 3)
    )));
    let (_, figures) = driver::run(&lab.programs.chancery, &lab.dir, &all)?;
    fs::write(changed, text)?;
    Ok(figures)
}

/// The text of the endpoint set with a port that differs at each change.
pub(super) fn one_differs(text: &str) -> Option<String> {
    text.contains("port_value: 8000")
        .then(|| text.replacen("port_value: 8000", "port_value: 1{n}", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_one_port_that_differs() {
        let text = "a: {port_value: 8000}\nb: {port_value: 8000}\n";
        assert_eq!(one_differs(text).unwrap(), "a: {port_value: 1{n}}\nb: {port_value: 8000}\n");
        assert_eq!(one_differs("nothing"), None);
    }
}
