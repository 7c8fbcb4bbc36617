//! The scenario in which clients come back with the versions of everything they had, and should be
//! sent nothing.
//!
//! An answer that does not come cannot be measured. So each client also asks for another type,
//! whose answer shows that the requests before were handled. Not here: the steps that all scenarios
//! have (`run`), and the requests (`xds::plan`).

use std::time::{Duration, Instant};

use crate::activity::IdleLooks;
use crate::error::Error;
use crate::options::Reconnect;
use crate::report::Report;
use crate::run::{Run, WaitEnd};
use crate::run_settings::RunSettings;
use crate::table::{
    CPU_PER_STREAM, Column, DRIVER, FIRST_LAST, FIRST_MEDIAN, MESSAGES, PEAK, REMARK, STREAMS,
};
use crate::xds::{Expect, PlannedSubscription, Protocol, parse_type};

/// Runs the scenario: one client records names and versions, and then all clients connect with
/// them.
pub(crate) async fn run(again: &Reconnect, settings: RunSettings<'_>) -> Result<Report, Error> {
    if settings.protocol == Protocol::Sotw || settings.clients.per_type {
        let why = "clients come back with versions on aggregated delta streams only";
        return Err(Error::Options(why.to_owned()));
    }
    let recorder = RunSettings { streams: 1, recording: true, gated: false, ..settings.clone() };
    let Some(mut subscriptions) = recorded(recorder).await? else {
        return Err(Error::Unanswered);
    };
    let held = subscriptions.iter().map(|subscription| subscription.initial_versions.len()).sum();
    subscriptions.push(probe(again, &settings)?);
    let gated = !again.connect;
    let mut run = Run::open(RunSettings { gated, subscriptions, ..settings }).await?;
    let start = run.begin(again.connect).await?;
    let mut waited = start.waited;
    if waited == WaitEnd::Reached {
        waited = wait_probes(&mut run).await;
    }
    let mut report = run.report_first_answers(start, waited).await;
    report.held = Some(held);
    Ok(report)
}

/// The columns of the scenario's table.
pub(crate) const COLUMNS: &[Column] = &[
    STREAMS,
    ("held", |report| report.held.unwrap_or(0).to_string()),
    ("resource bytes", |report| report.resource_bytes.to_string()),
    MESSAGES,
    FIRST_MEDIAN,
    FIRST_LAST,
    ("seconds", |report| format!("{:.3}", report.wall_s)),
    CPU_PER_STREAM,
    PEAK,
    DRIVER,
    REMARK,
];

/// The subscriptions with the versions of all that the server has of them; nothing if the server
/// did not answer in time.
async fn recorded(settings: RunSettings<'_>) -> Result<Option<Vec<PlannedSubscription>>, Error> {
    let mut subscriptions = settings.subscriptions.clone();
    let mut run = Run::open(settings).await?;
    if run.wait_connected().await? != WaitEnd::Reached
        || run.wait_first_answers().await != WaitEnd::Reached
    {
        return Ok(None);
    }
    // A server may send everything in several responses.
    run.wait_idle().await;
    let versions = run.measurements.state().take_versions();
    for (subscription, versions) in subscriptions.iter_mut().zip(versions) {
        subscription.initial_versions = versions.into_iter().collect();
        subscription.expect = Expect::Nothing;
    }
    Ok(Some(subscriptions))
}

/// The subscription whose answer shows that the server has handled the ones before.
fn probe(again: &Reconnect, settings: &RunSettings<'_>) -> Result<PlannedSubscription, Error> {
    let asked = |url: &_| settings.subscriptions.iter().any(|other| other.url == *url);
    let usual = ["cds", "lds", "rtds"].iter().filter_map(|short| parse_type(short).ok());
    let url = again.probe.clone().or_else(|| usual.into_iter().find(|url| !asked(url)));
    let Some(url) = url.filter(|url| !asked(url)) else {
        let why = "`--probe` has to be a type that is not in `--types`";
        return Err(Error::Options(why.to_owned()));
    };
    let (names, initial_versions) = (Vec::new(), Vec::new());
    Ok(PlannedSubscription { url, names, initial_versions, expect: Expect::Response, probe: true })
}

/// Waits until every probe is answered; or, if the server does not answer them, until it is idle.
async fn wait_probes(run: &mut Run) -> WaitEnd {
    let deadline = Instant::now() + run.workload.timeout;
    let mut looks = IdleLooks::new(run.activity());
    while looks.idle() < IDLE_LOOKS && Instant::now() < deadline {
        let waited = run
            .wait(
                LOOK_INTERVAL,
                |state| state.unanswered == 0,
                |state| format!("{} to settle", state.unanswered),
            )
            .await;
        if waited != WaitEnd::TimedOut {
            return waited;
        }
        looks.look(run.activity());
    }
    if looks.idle() == IDLE_LOOKS {
        return WaitEnd::Reached;
    }
    let unanswered = run.measurements.state().unanswered;
    let timeout = run.workload.timeout;
    run.errors.push(format!("{unanswered} streams were still busy after {timeout:?}"));
    WaitEnd::TimedOut
}

/// The time between two looks at a server that does not answer.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The number of looks, in a row, by which a server is known to be idle.
const IDLE_LOOKS: u32 = 10;
