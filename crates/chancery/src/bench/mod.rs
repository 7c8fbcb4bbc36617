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
mod cold_start;
mod connection;
mod crew;
mod curve;
mod error;
mod fan_out;
mod figures;
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
mod xds;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::error::Error;
pub(crate) use self::options::Bench;
use self::options::{Clients, Scenario, Verb};
use self::report::{Report, Table};
use self::stage::Scene;
use self::xds::Protocol;
use crate::exit::Failure;

/// Runs a scenario, for each number of streams once, and prints what it found; or draws.
pub(crate) fn run(bench: &Bench) -> Result<(), Failure> {
    let scenario = match &bench.verb {
        Verb::Run(scenario) => scenario,
        Verb::Chart(chart) => return curve::run(chart),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut reports = Vec::new();
    let ran = runtime.context("cannot start")?.block_on(runs(scenario, &mut reports));
    // What was found before something went wrong is told all the same.
    if ran.is_ok() || !reports.is_empty() {
        output::write(scenario.clients(), &scenario.table(&reports), &reports)?;
    }
    ran.and_then(|()| output::verdict(&reports))
}

async fn runs(scenario: &Scenario, reports: &mut Vec<Report>) -> Result<(), Failure> {
    let interrupted = interrupts().map_err(Failure::broken)?;
    for streams in &scenario.clients().streams {
        let scene = scene(scenario, *streams as usize)?;
        reports.push(one(scenario, scene, &interrupted).await?);
        if interrupted.is_cancelled() {
            break;
        }
    }
    Ok(())
}

async fn one(
    scenario: &Scenario,
    scene: Scene,
    interrupted: &CancellationToken,
) -> Result<Report, Error> {
    match scenario {
        Scenario::FanOut(rounds)
        | Scenario::WholeState(rounds)
        | Scenario::SlowReaders(rounds)
        | Scenario::FileChange(rounds) => fan_out::run(rounds, scene, interrupted).await,
        Scenario::Churn(churn) => churn::run(churn, scene, interrupted).await,
        Scenario::ColdStart(start) => cold_start::run(start, scene, interrupted).await,
        Scenario::Reconnect(again) => reconnect::run(again, scene, interrupted).await,
        Scenario::Idle(idle) => idle::run(idle, scene, interrupted).await,
    }
}

impl Scenario {
    fn clients(&self) -> &Clients {
        match self {
            Self::FanOut(rounds)
            | Self::WholeState(rounds)
            | Self::SlowReaders(rounds)
            | Self::FileChange(rounds) => &rounds.clients,
            Self::Churn(churn) => &churn.clients,
            Self::ColdStart(start) => &start.clients,
            Self::Reconnect(again) => &again.clients,
            Self::Idle(idle) => &idle.clients,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::FanOut(_) => "fan-out",
            Self::WholeState(_) => "whole-state",
            Self::SlowReaders(_) => "slow-readers",
            Self::FileChange(_) => "file-change",
            Self::Churn(_) => "churn",
            Self::ColdStart(_) => "cold-start",
            Self::Reconnect(_) => "reconnect",
            Self::Idle(_) => "idle",
        }
    }

    fn table(&self, reports: &[Report]) -> Table {
        match self {
            Self::Churn(_) => churn::table(reports),
            Self::ColdStart(_) => cold_start::table(reports),
            Self::Reconnect(_) => reconnect::table(reports),
            Self::Idle(_) => idle::table(reports),
            _ => fan_out::table(reports),
        }
    }
}

fn scene(scenario: &Scenario, streams: usize) -> Result<Scene, Error> {
    let clients = scenario.clients();
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
