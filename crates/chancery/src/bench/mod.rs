//! `chancery bench`: flags become the options of a run, and its report is printed.
//!
//! Not here: clients, scenarios and measurements, which are those of `chancery-bench`. What is here
//! is all that a command alone knows: flags, signals, files, exit codes.

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

/// Runs a scenario, for each number of streams once, and prints what it found; or draws.
pub(crate) fn run(bench: &Bench) -> Result<(), Failure> {
    let flags = match &bench.verb {
        Verb::Run(scenario) => scenario,
        Verb::Chart(chart) => return drawing::run(chart),
    };
    let options = flags.options().map_err(Error::Options)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (mut reports, streams) = (Vec::new(), &flags.clients().streams);
    let ran = runtime.context("cannot start")?.block_on(runs(&options, streams, &mut reports));
    // What was found before something went wrong is told all the same.
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

/// Returns a token that is cancelled when somebody wants to stop; what was found so far is told then.
/// Signals are heard from here on, and not from when the task gets its turn: the clients begin on
/// threads of their own.
fn interrupts() -> anyhow::Result<CancellationToken> {
    let interrupted = CancellationToken::new();
    let told = interrupted.clone();
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen to signals")?;
    tokio::spawn(async move {
        interrupt.recv().await;
        told.cancel();
    });
    Ok(interrupted)
}
