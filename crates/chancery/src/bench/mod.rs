//! `chancery bench`: puts load on an xDS server and measures it, this one or any other.
//!
//! A run has a *board* on which the clients report, a *crew* of threads that hold the clients'
//! connections, and a *stage* that brings them up and takes the figures down; a scenario says what
//! happens in between. The clients speak HTTP/2 by code of their own ([`http2`]), because the
//! driver has to be cheaper than what it measures. Nothing of the server's code is used but the
//! table of types: that would measure a mistake against itself.

mod board;
mod chart;
mod churn;
mod clients;
mod cold_start;
mod connection;
mod crew;
mod curve;
mod drawing;
mod error;
mod fan_out;
mod figures;
mod flags;
mod http2;
mod idle;
mod meter;
mod names;
mod options;
mod output;
mod process;
mod progress;
mod reconnect;
mod report;
mod stage;
mod target;
mod tls;
mod trigger;
mod values;
mod xds;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::error::Error;
pub(crate) use self::flags::Bench;
use self::flags::Verb;
use self::options::{Clients, Options, Scenario};
use self::report::Report;
use self::stage::Scene;
use self::xds::Protocol;
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
        reports.push(measure(options, *streams as usize, &interrupted).await?);
        if interrupted.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Makes one run with so many clients and reports what was measured.
///
/// # Errors
/// The run could not be made.
async fn measure(
    options: &Options,
    streams: usize,
    interrupted: &CancellationToken,
) -> Result<Report, Error> {
    let Options { scenario, clients } = options;
    let scene = scene(scenario, clients, streams)?;
    match scenario {
        Scenario::FanOut(rounds)
        | Scenario::WholeState(rounds)
        | Scenario::SlowReaders(rounds)
        | Scenario::FileChange(rounds) => fan_out::run(rounds, clients, scene, interrupted).await,
        Scenario::Churn(churn) => churn::run(churn, clients, scene, interrupted).await,
        Scenario::ColdStart { connect } => {
            cold_start::run(*connect, clients, scene, interrupted).await
        }
        Scenario::Reconnect(again) => reconnect::run(again, clients, scene, interrupted).await,
        Scenario::Idle { duration } => idle::run(*duration, clients, scene, interrupted).await,
    }
}

impl Scenario {
    fn name(&self) -> &'static str {
        match self {
            Self::FanOut(_) => "fan-out",
            Self::WholeState(_) => "whole-state",
            Self::SlowReaders(_) => "slow-readers",
            Self::FileChange(_) => "file-change",
            Self::Churn(_) => "churn",
            Self::ColdStart { .. } => "cold-start",
            Self::Reconnect(_) => "reconnect",
            Self::Idle { .. } => "idle",
        }
    }

    /// Returns the reports of such runs as a table for people, one row for each.
    #[must_use]
    pub(crate) fn table(&self, reports: &[Report]) -> String {
        let table = match self {
            Self::Churn(_) => churn::table(reports),
            Self::ColdStart { .. } => cold_start::table(reports),
            Self::Reconnect(_) => reconnect::table(reports),
            Self::Idle { .. } => idle::table(reports),
            _ => fan_out::table(reports),
        };
        table.text()
    }
}

fn scene(scenario: &Scenario, clients: &Clients, streams: usize) -> Result<Scene, Error> {
    let usual = match scenario {
        Scenario::WholeState(_) => Protocol::Sotw,
        _ => Protocol::Delta,
    };
    let protocol = clients.protocol.unwrap_or(usual);
    let wishes = stage::wishes(clients, protocol).map_err(Error::Options)?;
    let scenario = scenario.name();
    Ok(Scene { scenario, streams, protocol, gated: false, wishes, learning: false })
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
