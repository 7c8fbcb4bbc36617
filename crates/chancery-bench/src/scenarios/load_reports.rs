//! Clients that report their calls (LRS), each once in every interval of the server.
//!
//! The measured part begins when every client has reported once, so that what the server keeps of
//! each is there. Not here: the reports (`load`), and the steps that all scenarios have (`run`).

use crate::error::Error;
use crate::load;
use crate::options::{LoadClients, SlowClients};
use crate::report::{LoadFigures, Report};
use crate::run::{Run, WaitEnd};
use crate::run_settings::RunSettings;
use crate::table::{Column, DRIVER, PEAK, REMARK, STREAMS, maybe, short};

/// Runs the scenario: all clients report for a while.
pub(crate) async fn run(load: &LoadClients, settings: RunSettings<'_>) -> Result<Report, Error> {
    let clients = settings.clients;
    let slow = clients.slow.is_some_and(|SlowClients { count, .. }| count > 0);
    if clients.stalled > 0 || clients.nack > 0 || slow || clients.no_ack || clients.per_type {
        let why = "clients that report their calls have one stream and one manner";
        return Err(Error::Options(why.to_owned()));
    }
    let settings = RunSettings { subscriptions: Vec::new(), load: Some(load), ..settings };
    let (mut run, mut waited) = Run::subscribed(settings).await?;
    if waited == WaitEnd::Reached {
        waited = wait_reports(&mut run).await;
    }
    let mut meter = run.start_meter();
    let before = run.measurements.traffic().reports;
    if waited == WaitEnd::Reached {
        run.progress.show("reporting");
        waited = run.pause(load.duration).await;
    }
    meter.stop_clock();
    let reports = run.measurements.traffic().reports - before;
    let mut report = run.report(waited, &meter, 0);
    let cpu_s = report.process.as_ref().map(|process| process.cpu_s);
    report.load = Some(LoadFigures {
        clusters: load.clusters,
        localities: load.localities,
        calls_per_row: load::CALLS,
        reports,
        reports_per_s: reports as f64 / report.wall_s.max(f64::EPSILON),
        cpu_us_per_report: cpu_s.filter(|_| reports > 0).map(|cpu_s| cpu_s * 1e6 / reports as f64),
        core_share: cpu_s.map(|cpu_s| cpu_s / report.wall_s.max(f64::EPSILON)),
    });
    Ok(report)
}

/// The columns of the scenario's table.
pub(crate) const COLUMNS: &[Column] = &[
    STREAMS,
    ("clusters", |report| of(report, |load| f64::from(load.clusters))),
    ("reports", |report| of(report, |load| load.reports as f64)),
    ("reports/s", |report| of(report, |load| load.reports_per_s)),
    ("server µs/report", |report| {
        maybe(report.load.as_ref().and_then(|load| load.cpu_us_per_report))
    }),
    ("server core %", |report| {
        maybe(report.load.as_ref().and_then(|load| Some(load.core_share? * 100.0)))
    }),
    ("seconds", |report| short(report.wall_s)),
    PEAK,
    DRIVER,
    REMARK,
];

fn of(report: &Report, figure: fn(&LoadFigures) -> f64) -> String {
    maybe(report.load.as_ref().map(figure))
}

/// Waits until every client has reported once, and notes who has not.
async fn wait_reports(run: &mut Run) -> WaitEnd {
    let clients = run.workload.readers.clients;
    let waited = run
        .wait(
            run.workload.timeout,
            |state| state.reporting + (clients - state.alive) >= clients,
            |state| format!("{} of {clients} clients have reported", state.reporting),
        )
        .await;
    if waited == WaitEnd::TimedOut {
        let reporting = run.measurements.state().reporting;
        let timeout = run.workload.timeout;
        run.errors.push(format!("{reporting} of {clients} clients reported within {timeout:?}"));
    }
    waited
}
