//! G9 and G10: the cost of one change, depending on the number of resources that did not change.

use anyhow::Result;

use super::CPU;
use crate::bench::figures::{Comparison, Figure, Goal, Series, exponent};
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;
use crate::bench::specs::spec;

const SIZES: [u32; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];
const LARGEST: u32 = 100_000;

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let mut comparison = Comparison::new("One change among many resources, 100 delta streams");
    let rounds = lab.or_quick(50, 10);
    let mut jobs = Vec::new();
    if lab.wants(&["G9"]) {
        jobs.extend(SIZES.map(|size| (Side::Chancery, scenario(size, 5, rounds))));
    } else {
        jobs.push((Side::Chancery, scenario(LARGEST, 5, rounds)));
    }
    // A change takes go-control-plane half a minute here, so it makes one each run.
    if lab.wants(&["G10"]) {
        jobs.push((Side::GoSnapshot, scenario(LARGEST, 1, 1)));
        jobs.push((Side::GoLinear, scenario(LARGEST, 1, 1)));
    }
    comparison.commands =
        jobs.last().map_or_else(Vec::new, |(side, job)| Lab::commands(*side, job));
    comparison.series = lab.measure_each(&jobs);
    per_change(&mut comparison.series);
    if lab.wants(&["G9"]) {
        growth(&mut comparison);
    }
    if lab.wants(&["G10"]) {
        let ours = comparison.series.len() - 3;
        comparison.ratio(("G10", "snapshot"), ours, ours + 1, PER_CHANGE);
        comparison.ratio(("G10", "linear"), ours, ours + 2, PER_CHANGE);
    }
    Ok(comparison)
}

fn scenario(resources: u32, warmup: u32, rounds: u32) -> Scenario {
    Scenario {
        verb: "fan-out",
        driver: format!(
            "--protocol delta --types cds --streams 100 --warmup {warmup} --rounds {rounds} \
             --timeout 240s"
        ),
        server: format!("--protocol delta --types cds --resources {resources} --bytes 100"),
        changes: true,
        x: Some(("resources", f64::from(resources))),
    }
}

const PER_CHANGE: Figure = Figure { name: "cpu_ms_per_change", unit: "ms", per: 1.0 };

/// Adds the figure to each run: all of its CPU over its rounds.
pub(super) fn per_change(all: &mut [Series]) {
    for run in all.iter_mut().flat_map(|series| &mut series.runs) {
        let number = |name: &str| run.get(name)?.as_f64();
        if let (Some(cpu), Some(rounds)) = (number(CPU.name), number("rounds")) {
            run.insert(PER_CHANGE.name.to_owned(), (cpu * 1e3 / rounds).into());
        }
    }
}

/// G9: the exponent of each turn of runs through all sizes.
fn growth(comparison: &mut Comparison) {
    let sizes = &comparison.series[..SIZES.len()];
    let values = exponents(sizes);
    let Some(spec) = spec("G9", "") else { return };
    comparison.goals.push(Goal::plain(spec, values, ""));
}

/// The exponent in x of the CPU of a change, for each turn through all series that is complete.
pub(super) fn exponents(all: &[Series]) -> Vec<f64> {
    let turns = all.iter().map(|series| series.of_each_run(PER_CHANGE).len()).min().unwrap_or(0);
    let of_turn = |turn: usize| {
        let points: Option<Vec<_>> = all
            .iter()
            .map(|series| Some((series.x?.1, *series.of_each_run(PER_CHANGE).get(turn)?)))
            .collect();
        exponent(&points?)
    };
    (0..turns).filter_map(of_turn).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_exponent_is_that_of_each_turn() {
        let series = |x: f64, seconds: [f64; 2]| {
            let run = |cpu: f64| json!({"cpu_s": cpu, "rounds": 2}).as_object().unwrap().clone();
            Series { x: Some(("n", x)), runs: seconds.map(run).to_vec(), ..Series::default() }
        };
        let mut all = [series(10.0, [1.0, 1.0]), series(100.0, [10.0, 1.0])];
        per_change(&mut all);
        let found = exponents(&all);
        assert!((found[0] - 1.0).abs() < 1e-9 && found[1].abs() < 1e-9, "{found:?}");
    }
}
