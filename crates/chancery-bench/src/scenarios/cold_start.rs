//! Many clients at once, and how long each of them waits for its complete first answer.

use crate::error::Error;
use crate::report::Report;
use crate::run::{Run, WaitEnd};
use crate::run_settings::RunSettings;
use crate::table::{
    CPU_PER_STREAM, Column, DRIVER, FIRST_LAST, FIRST_MEDIAN, MESSAGES, PAYLOAD, PEAK, REMARK,
    STREAMS, maybe,
};

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

/// The columns of the scenario's table.
pub(crate) const COLUMNS: &[Column] = &[
    STREAMS,
    PAYLOAD,
    MESSAGES,
    FIRST_MEDIAN,
    ("p90 ms", |report| maybe(report.first_answer_ms.map(|times| times.p90))),
    FIRST_LAST,
    CPU_PER_STREAM,
    PEAK,
    DRIVER,
    REMARK,
];
