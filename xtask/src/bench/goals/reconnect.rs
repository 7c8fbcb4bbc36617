//! G15: 1,000 clients reconnect with all resources they hold, and nothing has changed.

use anyhow::Result;

use super::{CPU, better, go};
use crate::bench::figures::{Comparison, Figure, Goal};
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;
use crate::bench::specs::spec;

const SENT: Figure = Figure { name: "resource_bytes", unit: "B", per: 1.0 };

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let streams = lab.or_quick(1_000, 100);
    let scenario = Scenario {
        verb: "reconnect",
        driver: format!(
            "--protocol delta --types eds --names 10000 --streams {streams} --timeout 120s"
        ),
        server: "--protocol delta --types eds --resources 10000 --bytes 100".to_owned(),
        changes: false,
        x: None,
    };
    let mut sides = vec![Side::Chancery];
    sides.extend(go(lab, &["G15"]));
    let mut comparison =
        lab.compare("1,000 clients return with 10,000 names each", &sides, &scenario);
    if let Some(spec) = spec("G15", "bytes") {
        let sent = comparison.series[0].of_each_run(SENT);
        comparison.goals.push(Goal::plain(spec, sent, ""));
    }
    let best = better(&comparison.series, &[1, 2], CPU);
    comparison.ratio(("G15", "cpu"), 0, best, CPU);
    Ok(comparison)
}
