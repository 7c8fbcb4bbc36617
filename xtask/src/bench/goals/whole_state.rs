//! G3, G4 and G5: the whole state of 10,000 clusters, sent to 200 clients at each change.

use anyhow::Result;
use serde_json::{Map, Value};

use super::{CPU_PER_MESSAGE, PEAK, better, go};
use crate::bench::figures::{Comparison, Goal};
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;
use crate::bench::specs::spec;

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let scenario = Scenario {
        verb: "fan-out",
        driver: format!(
            "--protocol sotw --types cds --streams 200 --warmup 1 --rounds {} --timeout 120s",
            lab.or_quick(4, 2)
        ),
        server: "--protocol sotw --types cds --resources 10000 --bytes 264".to_owned(),
        changes: true,
        x: None,
    };
    let mut sides = vec![Side::Chancery, Side::Tcp, Side::H2];
    sides.extend(go(lab, &["G5"]));
    let mut comparison = lab.compare("3.2 MB of whole state to 200 streams", &sides, &scenario);
    comparison.ratio(("G3", ""), 0, 1, CPU_PER_MESSAGE);
    growth(&mut comparison);
    if lab.wants(&["G5"]) {
        let best = better(&comparison.series, &[3, 4], CPU_PER_MESSAGE);
        comparison.ratio(("G5", "cpu"), 0, best, CPU_PER_MESSAGE);
        let best = better(&comparison.series, &[3, 4], PEAK);
        comparison.ratio(("G5", "memory"), 0, best, PEAK);
    }
    Ok(comparison)
}

/// The same comparison at a size that rust-control-plane can hold: it copies all resources for each
/// node.
pub(super) fn small(lab: &Lab) -> Result<Comparison> {
    let scenario = Scenario {
        verb: "fan-out",
        driver: format!(
            "--protocol sotw --types cds --streams 50 --warmup 1 --rounds {} --timeout 120s",
            lab.or_quick(5, 2)
        ),
        server: "--protocol sotw --types cds --resources 1000 --bytes 264".to_owned(),
        changes: true,
        x: None,
    };
    let mut comparison = Comparison::new("0.3 MB of whole state to 50 streams");
    comparison.commands = Lab::commands(Side::RustControlPlane, &scenario);
    let sides = [Side::Chancery, Side::RustControlPlane, Side::GoSnapshot];
    comparison.series = lab.measure(&sides, &scenario);
    comparison.notes.push(
        "No goal is measured on rust-control-plane. This is what it can do: SotW, one node for \
         each stream, a tenth of the clusters."
            .to_owned(),
    );
    Ok(comparison)
}

/// G4: the memory from before the first client to the peak of the rounds, over the bytes sent.
fn growth(comparison: &mut Comparison) {
    let Some(spec) = spec("G4", "") else { return };
    let runs = comparison.series[0].runs.iter();
    comparison.goals.push(Goal::plain(spec, runs.filter_map(share).collect(), ""));
}

/// The growth of memory, as a fraction of the copies that one round would need if every stream had
/// its own.
fn share(run: &Map<String, Value>) -> Option<f64> {
    let number = |name: &str| run.get(name)?.as_f64();
    let round = number("payload_bytes")? / number("rounds")?;
    Some((number("rss_peak")? - number("rss_before")?) / round)
}
