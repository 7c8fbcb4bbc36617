//! Many clients at once, and how long each of them waits for its complete first answer.

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::options::Clients;
use crate::percentiles::Percentiles;
use crate::report::{Report, Table, maybe, megabytes, short};
use crate::run::{Run, RunSettings, WaitEnd};

/// Starts so many clients.
pub(crate) async fn run(
    connect: bool,
    clients: &Clients,
    settings: RunSettings,
    interrupted: &CancellationToken,
) -> Result<Report, Error> {
    let settings = RunSettings { gated: !connect, ..settings };
    let mut run = Run::open(clients, settings, interrupted).await?;
    let (mut waited, mut meter, began) = run.begin(connect).await?;
    if waited == WaitEnd::Reached {
        waited = run.wait_first_answers().await;
    }
    meter.stop_clock();
    run.wait_idle().await;
    let firsts = run.measurements.state().take_first_answers();
    let mut report = run.report(waited, &meter, 1);
    report.first_answer_ms =
        Percentiles::of(firsts.iter().map(|at| at.saturating_sub(began)).collect());
    Ok(report)
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
