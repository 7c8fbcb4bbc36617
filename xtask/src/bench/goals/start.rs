//! G17: the time from the start of `chancery serve` to its readiness.

use anyhow::Result;
use serde_json::{Map, Value};

use crate::bench::directory::{self, Daemon, Layout};
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::lab::Lab;
use crate::bench::specs::spec;

const CLUSTERS: usize = 10_000;
const READY: Figure = Figure { name: "ready_s", unit: "s", per: 1.0 };

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let mut comparison = Comparison::new("From the start to `/ready` with 10,000 clusters");
    comparison.commands.push("taskset -c 0 target/release/chancery serve DIR".to_owned());
    comparison.notes.push("The value is that of the layout that does worse.".to_owned());
    let dir = lab.dir.join("served");
    for layout in [Layout::FileEach, Layout::HundredFiles] {
        directory::write(&dir, layout, CLUSTERS)?;
        let mut series = Series { side: layout.name(), ..Series::default() };
        for round in 1..=lab.options.runs {
            let mut daemon = Daemon::start(&lab.programs.chancery, &dir)?;
            let seconds = daemon.ready()?.as_secs_f64();
            println!("   run {round} {}: {seconds:.3} s", series.side);
            let run = Map::from_iter([(READY.name.to_owned(), Value::from(seconds))]);
            series.runs.push(run);
        }
        comparison.series.push(series);
    }
    if let Some(spec) = spec("G17", "") {
        let slower = |one: &&Series, other: &&Series| {
            let median = |series: &Series| series.median(READY).unwrap_or(f64::INFINITY);
            median(one).total_cmp(&median(other))
        };
        let worst = comparison.series.iter().max_by(slower);
        let values = worst.map(|series| series.of_each_run(READY)).unwrap_or_default();
        comparison.goals.push(Goal::plain(spec, values, ""));
    }
    Ok(comparison)
}
