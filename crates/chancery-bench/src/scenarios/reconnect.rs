//! Clients that come back and have everything: what is sent to them, which should be nothing.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::options::{Clients, Reconnect};
use crate::percentiles::Percentiles;
use crate::report::{Report, Table, maybe, megabytes};
use crate::run::{Run, RunSettings, WaitEnd, busy};
use crate::xds::{Expect, Protocol, Subscription, types};

/// Learns what there is, then lets so many clients come back with it.
pub(crate) async fn run(
    again: &Reconnect,
    clients: &Clients,
    settings: RunSettings,
    interrupted: &CancellationToken,
) -> Result<Report, Error> {
    if settings.protocol == Protocol::Sotw || clients.per_type {
        let why = "clients come back with versions on aggregated delta streams only";
        return Err(Error::Options(why.to_owned()));
    }
    let learner = RunSettings { streams: 1, recording: true, gated: false, ..settings.clone() };
    let Some(mut subscriptions) = record_versions(clients, learner, interrupted).await? else {
        return Err(Error::Unanswered);
    };
    let held = subscriptions.iter().map(|subscription| subscription.initial_versions.len()).sum();
    subscriptions.push(probe(again, &settings)?);
    let settings = RunSettings { gated: !again.connect, subscriptions, ..settings };
    let mut run = Run::open(clients, settings, interrupted).await?;
    let (mut waited, mut meter, began) = run.begin(again.connect).await?;
    if waited == WaitEnd::Reached {
        waited = wait_probes(&mut run).await;
    }
    meter.stop_clock();
    run.wait_idle().await;
    let firsts = run.measurements.state().take_first_answers();
    let mut report = run.report(waited, &meter, 1);
    report.first_answer_ms =
        Percentiles::of(firsts.iter().map(|at| at.saturating_sub(began)).collect());
    report.held = Some(held);
    Ok(report)
}

/// One row for each run.
pub(crate) fn table(reports: &[Report]) -> Table {
    let mut table = Table::new(&[
        "streams",
        "held",
        "resource bytes",
        "messages",
        "median ms",
        "last ms",
        "seconds",
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
            report.held.unwrap_or(0).to_string(),
            report.resource_bytes.to_string(),
            report.messages.to_string(),
            maybe(first.map(|times| times.p50)),
            maybe(first.map(|times| times.max)),
            format!("{:.3}", report.wall_s),
            maybe(process.map(|process| process.cpu_s * 1e3 / each)),
            maybe(process.map(|process| megabytes(process.rss_peak))),
            report.driver.percent(),
            report.driver.mark().to_owned(),
        ]);
    }
    table
}

/// What there is of each type, with versions; nothing if it was not told.
async fn record_versions(
    clients: &Clients,
    settings: RunSettings,
    interrupted: &CancellationToken,
) -> Result<Option<Vec<Subscription>>, Error> {
    let mut subscriptions = settings.subscriptions.clone();
    let mut run = Run::open(clients, settings, interrupted).await?;
    if run.wait_connected().await? != WaitEnd::Reached
        || run.wait_first_answers().await != WaitEnd::Reached
    {
        return Ok(None);
    }
    // A server may give everything in several responses.
    run.wait_idle().await;
    let learned = run.measurements.state().take_versions();
    for (subscription, known) in subscriptions.iter_mut().zip(learned) {
        subscription.initial_versions = known.into_iter().collect();
        subscription.expect = Expect::Nothing;
    }
    run.threads.stop();
    Ok(Some(subscriptions))
}

/// The question whose answer tells that the one before was handled.
fn probe(again: &Reconnect, settings: &RunSettings) -> Result<Subscription, Error> {
    let asked =
        |url: &_| settings.subscriptions.iter().any(|subscription| subscription.url == *url);
    let usual = ["cds", "lds", "rtds"].iter().filter_map(|short| types::parse_type(short).ok());
    let url = again.probe.clone().or_else(|| usual.into_iter().find(|url| !asked(url)));
    let Some(url) = url.filter(|url| !asked(url)) else {
        let why = "`--probe` has to be a type that is not in `--types`";
        return Err(Error::Options(why.to_owned()));
    };
    let (names, initial_versions) = (Vec::new(), Vec::new());
    Ok(Subscription { url, names, initial_versions, expect: Expect::Response, probe: true })
}

/// Waits until every probe is answered; or, with a server that does not, until it does nothing.
async fn wait_probes(run: &mut Run) -> WaitEnd {
    let deadline = Instant::now() + run.workload.timeout;
    let (mut last, mut still) = (run.activity(), 0);
    while still < QUIET && Instant::now() < deadline {
        let waited = run
            .wait(LOOK, |state| (state.unanswered == 0, format!("{} to settle", state.unanswered)))
            .await;
        if waited != WaitEnd::TimedOut {
            return waited;
        }
        let now = run.activity();
        still = if busy(last, now) { 0 } else { still + 1 };
        last = now;
    }
    if still == QUIET {
        return WaitEnd::Reached;
    }
    let unanswered = run.measurements.state().unanswered;
    let timeout = run.workload.timeout;
    run.errors.push(format!("{unanswered} streams were still busy after {timeout:?}"));
    WaitEnd::TimedOut
}

/// So often is looked, and so many looks without any activity are quiet.
const LOOK: Duration = Duration::from_millis(200);
const QUIET: u32 = 10;
