//! G22: load reports of 10,000 clients.

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use crate::bench::directory::Daemon;
use crate::bench::driver;
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::fleet::{self, FleetSize, Gate};
use crate::bench::lab::{Lab, words};
use crate::bench::specs::spec;

const CLIENTS: u32 = 10_000;
const FLEET: FleetSize = FleetSize { clusters: 100, routes: 100 };
const SHARE: Figure = Figure { name: "core_share", unit: "", per: 1.0 };

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let mut comparison = Comparison::new("Load reports of 10,000 clients");
    let clients = lab.or_quick(CLIENTS, CLIENTS / 20);
    // Two streams share a connection, so that 20,000 open files are enough for each process.
    let connections = clients / 2;
    let duration = lab.or_quick("10s", "1s");
    let flags = format!(
        "load-reports --clusters 20 --name-pattern service-{{:06}} --streams {clients} \
         --connections {connections} --duration {duration} --timeout 120s"
    );
    comparison.commands.push("taskset -c 0 target/release/chancery serve DIR".to_owned());
    comparison.commands.push(format!(
        "taskset -c 1 target/release/chancery bench {flags} --server ADDR --pid PID"
    ));
    let dir = lab.dir.join("load-fleet");
    fleet::write(&dir, FLEET, Gate::Enforced)?;
    let mut series = Series { side: "Chancery".to_owned(), ..Series::default() };
    for round in 1..=lab.options.runs {
        let run = reported(lab, &dir, &flags)?;
        println!("   run {round} {}: {}", series.side, Value::from(run.clone()));
        series.runs.push(run);
    }
    if let Some(spec) = spec("G22", "") {
        comparison.goals.push(Goal::plain(spec, series.of_each_run(SHARE), ""));
    }
    comparison.series = vec![series];
    Ok(comparison)
}

/// Runs the clients once, and checks that the server has counted their reports.
fn reported(lab: &Lab, dir: &std::path::Path, flags: &str) -> Result<Map<String, Value>> {
    let mut daemon = Daemon::start(&lab.programs.chancery, dir)?;
    daemon.ready()?;
    let mut all = words(flags);
    all.extend(["--server".to_owned(), daemon.server.xds.clone()]);
    all.extend(["--pid".to_owned(), daemon.server.pid().to_string()]);
    let (_, figures) = driver::run(&lab.programs.chancery, &lab.dir, &all)?;
    let sent = figures.get("reports").and_then(Value::as_f64).unwrap_or(f64::INFINITY);
    let counted = daemon.metric("chancery_load_reports_total")?;
    if counted < sent {
        bail!("the server counted {counted} reports of at least {sent}");
    }
    Ok(figures)
}
