//! G13: 200 clients that connect at the same time and subscribe to everything.

use anyhow::Result;
use serde_json::Value;

use crate::bench::figures::{Comparison, Goal};
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;
use crate::bench::specs::spec;

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let scenario = Scenario {
        verb: "cold-start",
        driver: "--protocol sotw --types cds --streams 200 --timeout 120s".to_owned(),
        server: "--protocol sotw --types cds --resources 10000 --bytes 264".to_owned(),
        changes: false,
        x: None,
    };
    let sides = [Side::Chancery, Side::H2, Side::Tcp, Side::GoSnapshot];
    let mut comparison =
        lab.compare("Cold start: 200 clients of 3.2 MB at once", &sides, &scenario);
    let part = |run: &serde_json::Map<String, Value>| {
        Some(run.get("answer_p50_ms")?.as_f64()? / run.get("answer_last_ms")?.as_f64()?)
    };
    if let Some(spec) = spec("G13", "") {
        let values = comparison.series[0].runs.iter().filter_map(part).collect();
        comparison.goals.push(Goal::plain(spec, values, ""));
    }
    Ok(comparison)
}
