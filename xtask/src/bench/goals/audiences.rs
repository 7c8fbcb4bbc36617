//! G18: nodes that have one resource of their own over what all see.

use anyhow::Result;

use super::{CPU_PER_MESSAGE, PEAK};
use crate::bench::figures::{Comparison, Figure, Goal, Series};
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;
use crate::bench::specs::spec;

/// The number of nodes, each of which has one stream.
const NODES: u32 = 10_000;

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let nodes = lab.or_quick(NODES, NODES / 10);
    let mut jobs = vec![
        (Side::Chancery, scenario(nodes, 0, 3, lab.or_quick(20, 5))),
        (Side::Chancery, scenario(nodes, nodes, 3, lab.or_quick(20, 5))),
    ];
    // go-control-plane needs half a minute and more to make a change, so it makes one each run.
    jobs.push((Side::GoSnapshot, scenario(nodes, nodes, 0, 1)));
    let mut comparison =
        Comparison::new("A change for all of 10,000 nodes, each with a resource of its own");
    comparison.commands = Lab::commands(Side::Chancery, &jobs[1].1);
    comparison.series = lab.measure_each(&jobs);
    comparison.ratio(("G18", "cpu"), 1, 0, CPU_PER_MESSAGE);
    per_node(&mut comparison, f64::from(nodes));
    comparison.ratio(("G18", "go cpu"), 1, 2, CPU_PER_MESSAGE);
    comparison.ratio(("G18", "go memory"), 1, 2, PEAK);
    Ok(comparison)
}

fn scenario(nodes: u32, own: u32, warmup: u32, rounds: u32) -> Scenario {
    Scenario {
        verb: "fan-out",
        driver: format!(
            "--protocol delta --types eds --streams {nodes} --warmup {warmup} --rounds {rounds} \
             --timeout 400s"
        ),
        server: format!("--protocol delta --types eds --resources 1000 --bytes 300 --own {own}"),
        changes: true,
        x: Some(("overlays", f64::from(own))),
    }
}

/// The memory of a node with an overlay, beyond that of a stream of one audience.
fn per_node(comparison: &mut Comparison, nodes: f64) {
    let Some(spec) = spec("G18", "memory") else { return };
    let peak = |series: &Series| series.of_each_run(Figure { unit: "KB", per: 1e3, ..PEAK });
    let [alike, own] = [0, 1].map(|index| peak(&comparison.series[index]));
    let values = own.iter().zip(&alike).map(|(own, alike)| (own - alike) / nodes).collect();
    comparison.goals.push(Goal::plain(spec, values, ""));
}
