//! G21: readers of events, and a change that a thousand clients reject ten times a second.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::guard::one_differs;
use crate::bench::directory::Daemon;
use crate::bench::driver;
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::fleet::{self, FleetSize, Gate};
use crate::bench::lab::{Lab, words};
use crate::bench::readers::Readers;
use crate::bench::specs::spec;

const FLEET: FleetSize = FleetSize { clusters: 100, routes: 100 };
const READERS: [u32; 2] = [10, 0];
const LAST: Figure = Figure { name: "last_ms", unit: "ms", per: 1.0 };
const MISSED: Figure = Figure { name: "events_missed", unit: "", per: 1.0 };

/// So many rejections of a client are noted at once that none of these is left out.
const WARMUP: u32 = 2;
const ROUNDS: u32 = 30;

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let mut comparison = Comparison::new("10 readers of 10,000 events in a second");
    let flags = format!(
        "fan-out --protocol delta --types eds --names 1 --name-pattern service-{{:06}} --streams 1000 \
         --nack 1000 --warmup {WARMUP} --rounds {} --gap 80ms --timeout 60s",
        lab.or_quick(ROUNDS, 5)
    );
    comparison.commands.push("taskset -c 0 target/release/chancery serve DIR".to_owned());
    comparison.commands.push(
        "taskset -c 1 nice -n 19 target/release/bench-events --admin ADMIN --readers 10".to_owned(),
    );
    comparison.commands.push(format!(
        "taskset -c 1 target/release/chancery bench {flags} --server ADDR --pid PID \
         --trigger file:FILE --template TEMPLATE"
    ));
    comparison.notes.push("`settle` is 1 ms in these runs, and in the figures.".to_owned());
    let dir = lab.dir.join("events-fleet");
    let changed = fleet::write(&dir, FLEET, Gate::Enforced)?;
    fs::write(dir.join("chancery.yaml"), "limits: {settle: 1ms}\n")?;
    let of = |readers: u32| Series {
        side: "Chancery".to_owned(),
        x: Some(("readers", f64::from(readers))),
        ..Series::default()
    };
    let mut all = READERS.map(of);
    for round in 1..=lab.options.runs {
        for (series, readers) in all.iter_mut().zip(READERS) {
            let run = rejected(lab, (&dir, &changed), &flags, readers)?;
            println!("   run {round} {readers} readers: {}", Value::from(run.clone()));
            series.runs.push(run);
        }
    }
    comparison.series = all.to_vec();
    comparison.ratio(("G21", "push"), 0, 1, LAST);
    if let Some(spec) = spec("G21", "missed") {
        let missed = comparison.series[0].of_each_run(MISSED);
        comparison.goals.push(Goal::plain(spec, missed, ""));
    }
    Ok(comparison)
}

/// Makes the changes, which all clients reject.
fn rejected(
    lab: &Lab,
    (dir, changed): (&Path, &Path),
    flags: &str,
    readers: u32,
) -> Result<Map<String, Value>> {
    let text = fs::read_to_string(changed)?;
    let template = lab.dir.join("rejected-template.yaml");
    fs::write(&template, one_differs(&text).context("the endpoint set has a known port")?)?;
    let mut daemon = Daemon::start(&lab.programs.chancery, dir)?;
    daemon.ready()?;
    let reading = match readers {
        0 => None,
        _ => Some(Readers::start(&lab.programs.events, daemon.admin(), readers)?),
    };
    let mut all = words(flags);
    all.extend(["--server".to_owned(), daemon.server.xds.clone()]);
    all.extend(["--pid".to_owned(), daemon.server.pid().to_string()]);
    all.extend(["--trigger".to_owned(), format!("file:{}", changed.display())]);
    all.extend(["--template".to_owned(), template.display().to_string()]);
    let begin = Instant::now();
    let (_, mut figures) = driver::run(&lab.programs.chancery, &lab.dir, &all)?;
    let seconds = figures.get("wall_s").and_then(Value::as_f64);
    let seconds = seconds.unwrap_or_else(|| begin.elapsed().as_secs_f64());
    fs::write(changed, text)?;
    if let Some(reading) = reading {
        let seen = reading.end()?;
        let each = seen.events as f64 / f64::from(readers);
        figures.insert("events_per_s".to_owned(), Value::from(each / seconds));
        figures.insert(MISSED.name.to_owned(), Value::from(seen.missed));
    }
    Ok(figures)
}
