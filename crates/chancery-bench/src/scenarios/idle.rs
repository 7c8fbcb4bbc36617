//! Streams on which nothing happens, and what they cost by being there.

use std::time::Duration;

use crate::error::Error;
use crate::report::{Report, Table, maybe, megabytes, short};
use crate::run::{Run, WaitEnd};
use crate::settings::RunSettings;

/// Runs the scenario: all clients subscribe, and then nothing is done for a while.
pub(crate) async fn run(duration: Duration, settings: RunSettings<'_>) -> Result<Report, Error> {
    let (mut run, mut waited) = Run::subscribed(settings).await?;
    let meter = run.start_meter();
    if waited == WaitEnd::Reached {
        run.progress.show("idle");
        waited = run.pause(duration).await;
    }
    Ok(run.report(waited, &meter, 0))
}

/// One row for each run.
pub(crate) fn table(reports: &[Report]) -> Table {
    let mut table = Table::new(&[
        "streams",
        "names",
        "KB/stream",
        "before MB",
        "after MB",
        "seconds",
        "server CPU ms",
        "messages",
        "bytes",
        "driver",
        "",
    ]);
    for report in reports {
        let process = report.process.as_ref();
        table.row(vec![
            report.streams.to_string(),
            report.names.iter().sum::<u32>().to_string(),
            maybe(process.map(|process| process.rss_per_stream / 1e3)),
            maybe(process.map(|process| megabytes(process.rss_before))),
            maybe(process.map(|process| megabytes(process.rss_after))),
            short(report.wall_s),
            maybe(process.map(|process| process.cpu_s * 1e3)),
            report.messages.to_string(),
            report.wire_bytes.to_string(),
            report.driver.percent(),
            report.driver.mark().to_owned(),
        ]);
    }
    table
}
