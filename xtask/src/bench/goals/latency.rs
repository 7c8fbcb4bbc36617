//! G12 and G16: the time to the last client, and the effect of stalled clients on the others.

use anyhow::Result;

use crate::bench::figures::{Comparison, Figure};
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;

const LAST: Figure = Figure { name: "last_ms", unit: "ms", per: 1.0 };
const P99: Figure = Figure { name: "receipt_p99_ms", unit: "ms", per: 1.0 };

/// Each change comes after a pause, when caches are cold and all threads sleep.
pub(super) fn after_idle(lab: &Lab) -> Result<Comparison> {
    let scenario = fan_out(lab.or_quick(30, 5), "--gap 30");
    let sides = [Side::Chancery, Side::TcpDraining, Side::H2];
    let mut comparison =
        lab.compare("From a publish to the last of 1,000 clients, after idle", &sides, &scenario);
    comparison.ratio(("G12", ""), 0, 1, LAST);
    Ok(comparison)
}

/// The same server with and without clients that stop reading after their first answer.
///
/// There are so many rounds that one disturbed round does not decide the slowest of a hundred.
pub(super) fn stalled(lab: &Lab) -> Result<Comparison> {
    let job = |stalled: u32| {
        let scenario = fan_out(lab.or_quick(300, 5), &format!("--stalled {stalled}"));
        let x = Some(("stalled", f64::from(stalled)));
        (Side::Chancery, Scenario { x, ..scenario })
    };
    let jobs = [job(10), job(0)];
    let mut comparison = Comparison::new("10 stalled readers among 1,000");
    comparison.commands = Lab::commands(Side::Chancery, &jobs[0].1);
    comparison.series = lab.measure_each(&jobs);
    comparison.ratio(("G16", ""), 0, 1, P99);
    Ok(comparison)
}

fn fan_out(rounds: u32, more: &str) -> Scenario {
    Scenario {
        verb: "fan-out",
        driver: format!(
            "--protocol delta --types eds --streams 1000 --warmup 5 --rounds {rounds} {more}"
        ),
        server: "--protocol delta --types eds --resources 100 --bytes 900".to_owned(),
        changes: true,
        x: None,
    }
}
