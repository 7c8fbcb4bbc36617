//! Streams on which nothing happens, and what they cost by being there.

use std::time::Duration;

use crate::error::Error;
use crate::report::Report;
use crate::run::{Run, WaitEnd};
use crate::run_settings::RunSettings;
use crate::table::{Column, DRIVER, MESSAGES, REMARK, STREAMS, maybe, megabytes, short};

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

/// The columns of the scenario's table.
pub(crate) const COLUMNS: &[Column] = &[
    STREAMS,
    ("names", |report| report.names.iter().sum::<u32>().to_string()),
    ("KB/stream", |report| {
        maybe(report.process.as_ref().map(|process| process.rss_per_stream / 1e3))
    }),
    ("before MB", |report| {
        maybe(report.process.as_ref().map(|process| megabytes(process.rss_before)))
    }),
    ("after MB", |report| {
        maybe(report.process.as_ref().map(|process| megabytes(process.rss_after)))
    }),
    ("seconds", |report| short(report.wall_s)),
    ("server CPU ms", |report| maybe(report.process.as_ref().map(|process| process.cpu_s * 1e3))),
    MESSAGES,
    ("bytes", |report| report.wire_bytes.to_string()),
    DRIVER,
    REMARK,
];
