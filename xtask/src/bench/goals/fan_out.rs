//! G1 and G2: one change of one endpoint set to 1,000 clients.

use anyhow::Result;

use super::{CPU_PER_MESSAGE, better, go};
use crate::bench::figures::Comparison;
use crate::bench::lab::{Lab, Scenario};
use crate::bench::side::Side;

pub(super) fn compare(lab: &Lab) -> Result<Comparison> {
    let scenario = Scenario {
        verb: "fan-out",
        driver: format!(
            "--protocol delta --types eds --streams 1000 --warmup 5 --rounds {}",
            lab.or_quick(30, 5)
        ),
        server: "--protocol delta --types eds --resources 100 --bytes 900".to_owned(),
        changes: true,
        x: None,
    };
    let mut sides = vec![Side::Chancery, Side::H2, Side::TcpDraining];
    sides.extend(go(lab, &["G2"]));
    let mut comparison = lab.compare("A 1.1 KB delta to 1,000 streams", &sides, &scenario);
    comparison.ratio(("G1", ""), 0, 1, CPU_PER_MESSAGE);
    if lab.wants(&["G2"]) {
        let best = better(&comparison.series, &[3, 4], CPU_PER_MESSAGE);
        comparison.ratio(("G2", ""), 0, best, CPU_PER_MESSAGE);
    }
    Ok(comparison)
}
