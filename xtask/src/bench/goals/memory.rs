//! G6, G7 and G8: the memory of a client that does nothing, and of a name.

use anyhow::Result;

use super::{better, go};
use crate::bench::figures::{Comparison, Figure, Goal};
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;
use crate::bench::specs::spec;

const PER_STREAM: Figure = Figure { name: "rss_per_stream", unit: "KB", per: 1_000.0 };

/// Four types, as Envoy subscribes to them: clusters and listeners all, the others by name.
pub(super) fn idle(lab: &Lab) -> Result<Comparison> {
    let scenario = Scenario {
        verb: "idle",
        driver: format!(
            "--protocol delta --types cds,eds,lds,rds --names eds=10,rds=10 --streams 2000 \
             --duration {}",
            lab.or_quick("3s", "1s")
        ),
        server: "--types cds,eds,lds,rds --resources 10 --bytes 300".to_owned(),
        changes: false,
        x: None,
    };
    let mut sides = vec![Side::Chancery];
    sides.extend(go(lab, &["G7"]));
    let mut comparison =
        lab.compare("Memory of 2,000 idle streams with four types", &sides, &scenario);
    if let Some(spec) = spec("G6", "") {
        let ours = comparison.series[0].of_each_run(PER_STREAM);
        comparison.goals.push(Goal::plain(spec, ours, ""));
    }
    if lab.wants(&["G7"]) {
        let best = better(&comparison.series, &[1, 2], PER_STREAM);
        comparison.ratio(("G7", ""), 0, best, PER_STREAM);
    }
    Ok(comparison)
}

/// The number of clients for the memory of names, and the two numbers of names.
const STREAMS: f64 = 200.0;
const FEW: f64 = 100.0;
const MANY: f64 = 10_100.0;

/// The difference between many names and few. All names exist, and all were answered.
pub(super) fn names(lab: &Lab) -> Result<Comparison> {
    let job = |names: f64| {
        let scenario = Scenario {
            verb: "idle",
            driver: format!(
                "--protocol delta --types eds --names {names} --streams {STREAMS} --duration {} \
                 --timeout 120s",
                lab.or_quick("3s", "1s")
            ),
            server: "--protocol delta --types eds --resources 10100 --bytes 100".to_owned(),
            changes: false,
            x: Some(("names", names)),
        };
        (Side::Chancery, scenario)
    };
    let jobs = [job(FEW), job(MANY)];
    let mut comparison = Comparison::new("Memory of a subscribed name");
    comparison.commands = Lab::commands(Side::Chancery, &jobs[1].1);
    comparison.series = lab.measure_each(&jobs);
    let each = Figure { unit: "B", per: 1.0, ..PER_STREAM };
    let [few, many] = [0, 1].map(|index| comparison.series[index].of_each_run(each));
    let pairs = many.iter().zip(&few);
    let values = pairs.map(|(many, few)| (many - few) / (MANY - FEW)).collect();
    if let Some(spec) = spec("G8", "") {
        comparison.goals.push(Goal::plain(spec, values, ""));
    }
    Ok(comparison)
}
