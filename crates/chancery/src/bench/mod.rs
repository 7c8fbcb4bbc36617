//! `chancery bench`: flags become the options of a run, and the report of the run is printed.
//!
//! This module has what only a command knows: flags, signals, files of reports and charts, exit
//! codes. Not here: clients, scenarios and measurements, which are in `chancery-bench`.

mod clients;
mod drawing;
mod flags;
mod output;
mod values;

use anyhow::Context;
use chancery_bench::{Error, Options, Report};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) use self::flags::Bench;
use self::flags::Verb;
use crate::exit::Failure;

/// Runs a scenario once for each number of streams and prints the reports, or draws a chart.
pub(crate) fn run(bench: &Bench) -> Result<(), Failure> {
    let flags = match &bench.verb {
        Verb::Run(scenario) => scenario,
        Verb::Chart(chart) => return drawing::run(chart),
    };
    let options = flags.options().map_err(Error::Options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (mut reports, streams) = (Vec::new(), &flags.clients().streams);
    let ran = runtime.context("cannot start")?.block_on(runs(&options, streams, &mut reports));
    // The reports of the runs before a failure are printed all the same.
    if ran.is_ok() || !reports.is_empty() {
        output::write(flags.clients(), &options.scenario.table(&reports), &reports)?;
    }
    ran.and_then(|()| output::verdict(&reports))
}

async fn runs(
    options: &Options,
    streams: &[u32],
    reports: &mut Vec<Report>,
) -> Result<(), Failure> {
    let interrupted = interrupts().map_err(Failure::broken)?;
    for streams in streams {
        reports.push(chancery_bench::run(options, *streams as usize, &interrupted).await?);
        if interrupted.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Returns a token that is cancelled by SIGINT, which ends the run early; its report is printed.
/// The signal is handled from here on, and not from when the task gets its turn: the clients begin on
/// threads of their own.
fn interrupts() -> anyhow::Result<CancellationToken> {
    let interrupted = CancellationToken::new();
    let token = interrupted.clone();
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
    tokio::spawn(async move {
        interrupt.recv().await;
        token.cancel();
    });
    Ok(interrupted)
}
