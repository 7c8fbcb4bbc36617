//! G11: the cost of a change, depending on the number of streams that get it.

use anyhow::Result;

use super::changes::{exponents, per_change};
use crate::bench::figures::{Comparison, Goal};
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;
use crate::bench::specs::spec;

const SIZES: [u32; 5] = [100, 300, 1_000, 3_000, 10_000];

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let mut comparison = Comparison::new("A 1.1 KB delta to 100 to 10,000 streams");
    let sides = [Side::Chancery, Side::H2, Side::TcpDraining];
    let jobs: Vec<_> = sides
        .iter()
        .flat_map(|side| SIZES.map(|streams| (*side, scenario(streams, lab.or_quick(10, 2)))))
        .collect();
    comparison.commands = Lab::commands(Side::Chancery, &jobs[0].1);
    comparison.series = lab.measure_each(&jobs);
    per_change(&mut comparison.series);
    if let Some(spec) = spec("G11", "") {
        let ours = exponents(&comparison.series[..SIZES.len()]);
        comparison.goals.push(Goal::plain(spec, ours, ""));
    }
    for (side, sizes) in sides.iter().zip(comparison.series.chunks(SIZES.len())) {
        let values = exponents(sizes);
        if let Some(median) = crate::bench::figures::median(&values) {
            comparison.notes.push(format!("Exponent of {}: {median:.3}.", side.name()));
        }
    }
    Ok(comparison)
}

/// Few streams make more rounds, so that each run has enough to count.
fn scenario(streams: u32, rounds: u32) -> Scenario {
    let rounds = rounds * (3_000 / streams).clamp(1, 20);
    Scenario {
        verb: "fan-out",
        driver: format!(
            "--protocol delta --types eds --streams {streams} --warmup 3 --rounds {rounds} \
             --timeout 120s"
        ),
        server: "--protocol delta --types eds --resources 100 --bytes 900".to_owned(),
        changes: true,
        x: Some(("streams", f64::from(streams))),
    }
}
