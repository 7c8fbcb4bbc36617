//! Many clients at once, and how long each of them waits for its complete first answer.

use crate::error::Error;
use crate::report::{Report, Table, maybe, megabytes, short};
use crate::run::{Run, WaitEnd};
use crate::settings::RunSettings;

/// Runs the scenario. The time is measured from before connecting with `connect`.
pub(crate) async fn run(connect: bool, settings: RunSettings<'_>) -> Result<Report, Error> {
    let mut run = Run::open(RunSettings { gated: !connect, ..settings }).await?;
    let start = run.begin(connect).await?;
    let mut waited = start.waited;
    if waited == WaitEnd::Reached {
        waited = run.wait_first_answers().await;
    }
    Ok(run.report_first_answers(start, waited).await)
}

/// One row for each run.
pub(crate) fn table(reports: &[Report]) -> Table {
    let mut table = Table::new(&[
        "streams",
        "MB",
        "messages",
        "median ms",
        "p90 ms",
        "last ms",
        "server ms/stream",
        "peak MB",
        "driver",
        "",
    ]);
    for report in reports {
        let (process, first) = (report.process.as_ref(), report.first_answer_ms);
        let each = report.streams as f64;
        table.row(vec![
            report.streams.to_string(),
            short(megabytes(report.payload_bytes)),
            report.messages.to_string(),
            maybe(first.map(|times| times.p50)),
            maybe(first.map(|times| times.p90)),
            maybe(first.map(|times| times.max)),
            maybe(process.map(|process| process.cpu_s * 1e3 / each)),
            maybe(process.map(|process| megabytes(process.rss_peak))),
            report.driver.percent(),
            report.driver.mark().to_owned(),
        ]);
    }
    table
}
