//! A run from the first connection to the report: the steps that all scenarios have in common.
//!
//! ```text
//!   open -> wait_connected -> wait_first_answers -> wait_idle -> start_meter ... -> report
//! ```
//!
//! Not here: what is done and measured between the first answers and the report, which is the
//! scenario's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::activity::{Activity, IdleLooks};
use super::client_threads::ClientThreads;
use super::error::Error;
use super::measurements::{ClientStates, Measurements};
use super::meter::Meter;
use super::percentiles::Percentiles;
use super::process::Process;
use super::progress::Progress;
use super::report::Report;
use super::run_settings::RunSettings;
use super::workload::Workload;

/// A run in progress. The clients are disconnected when it is dropped.
pub(crate) struct Run {
    pub(crate) measurements: Arc<Measurements>,
    pub(crate) workload: Workload,
    pub(crate) progress: Progress,
    /// The faults so far, besides those that the clients have reported.
    pub(crate) errors: Vec<String>,
    threads: ClientThreads,
    server: Option<Process>,
    /// The memory of the server before any client connected.
    rss_before: u64,
    /// A meter that was started before any client connected.
    opening: Option<Meter>,
    interrupted: CancellationToken,
    report: Report,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The condition holds.
    Reached,
    /// The condition did not hold in time.
    TimedOut,
    /// The run has to end.
    Interrupted,
}

/// The beginning of the measured part of a run.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) waited: WaitEnd,
    pub(crate) meter: Meter,
    /// The time of the run in nanoseconds.
    at: u64,
}

impl Run {
    /// Lets the clients begin to connect.
    ///
    /// # Errors
    /// The options contradict each other, or this machine or the server cannot be used.
    pub(crate) async fn open(settings: RunSettings<'_>) -> Result<Self, Error> {
        let address = settings.address().await?;
        let server = settings.clients.pid.map(Process::of).transpose()?;
        let workload = settings.workload(address)?;
        enough_files(workload.connection_count())?;
        let (streams, types) = (workload.plan.streams.len(), workload.plan.subscriptions.len());
        let measurements = Arc::new(Measurements::new(workload.readers, streams, types));
        let rss_before = server.as_ref().and_then(Process::rss).unwrap_or(0);
        let opening = Some(Meter::start(&measurements, server.clone(), workload.threads));
        let threads = ClientThreads::start(&workload, &measurements, settings.gated)?;
        Ok(Self {
            measurements,
            workload,
            progress: Progress::new(),
            errors: Vec::new(),
            threads,
            server,
            rss_before,
            opening,
            interrupted: settings.interrupted.clone(),
            report: settings.report(),
        })
    }

    /// Connects all clients and waits until they have their first answers and the server is idle.
    ///
    /// # Errors
    /// As [`Self::open`], or no client can connect.
    pub(crate) async fn subscribed(settings: RunSettings<'_>) -> Result<(Self, WaitEnd), Error> {
        let mut run = Self::open(settings).await?;
        let mut waited = run.wait_connected().await?;
        if waited == WaitEnd::Reached {
            waited = run.wait_first_answers().await;
        }
        run.wait_idle().await;
        Ok((run, waited))
    }

    /// Waits until all clients are connected.
    ///
    /// # Errors
    /// No client is connected.
    pub(crate) async fn wait_connected(&mut self) -> Result<WaitEnd, Error> {
        let clients = self.workload.readers.clients;
        let waited = self
            .wait(
                self.workload.timeout,
                |state| state.connected + (clients - state.alive) >= clients,
                |state| format!("{} of {clients} connected", state.connected),
            )
            .await;
        let connected = self.measurements.state().connected;
        match (waited, connected) {
            (WaitEnd::Reached | WaitEnd::TimedOut, 0) => Err(self.unreachable()),
            (WaitEnd::TimedOut, some) => {
                self.errors.push(format!("{some} of {clients} streams connected in time"));
                Ok(WaitEnd::TimedOut)
            }
            _ => Ok(waited),
        }
    }

    /// Waits until all clients have their first answers, and notes who has not.
    pub(crate) async fn wait_first_answers(&mut self) -> WaitEnd {
        let clients = self.workload.readers.clients;
        let waited = self
            .wait(
                self.workload.timeout,
                |state| state.unanswered == 0,
                |state| {
                    let answered = clients - state.unanswered;
                    format!("{answered} of {clients} streams have their first answers")
                },
            )
            .await;
        if waited == WaitEnd::TimedOut {
            let missing = self.measurements.state().unanswered_clients();
            let timeout = self.workload.timeout;
            self.errors.push(format!("{} within {timeout:?}", got_nothing(&missing, clients)));
        }
        waited
    }

    /// Waits until all clients have received the last change, and notes who has not.
    pub(crate) async fn wait_receipts(&mut self, when: &str) -> WaitEnd {
        let clients = self.workload.readers.clients;
        let waited = self
            .wait(
                self.workload.timeout,
                |state| state.behind == 0,
                |state| format!("{when}: {} of {clients} streams wait", state.behind),
            )
            .await;
        if waited == WaitEnd::TimedOut {
            let missing = got_nothing(&self.measurements.state().clients_behind(), clients);
            self.errors.push(format!("{when} {missing} within {:?}", self.workload.timeout));
        }
        waited
    }

    /// Waits until the clients' states are as wanted, and shows the progress meanwhile.
    pub(crate) async fn wait(
        &mut self,
        timeout: Duration,
        reached: impl Fn(&ClientStates) -> bool,
        progress: impl Fn(&ClientStates) -> String,
    ) -> WaitEnd {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let until = self.measurements.until(left.min(PROGRESS_INTERVAL), &reached);
            let is_reached = tokio::select! {
                biased;
                () = self.interrupted.cancelled() => return WaitEnd::Interrupted,
                is_reached = until => is_reached,
            };
            if is_reached {
                return WaitEnd::Reached;
            }
            let text = progress(&self.measurements.state());
            self.progress.show(&text);
            if left <= PROGRESS_INTERVAL {
                return WaitEnd::TimedOut;
            }
        }
    }

    /// Does nothing for a while.
    pub(crate) async fn pause(&self, duration: Duration) -> WaitEnd {
        tokio::select! {
            biased;
            () = self.interrupted.cancelled() => WaitEnd::Interrupted,
            () = tokio::time::sleep(duration) => WaitEnd::Reached,
        }
    }

    /// Waits until the server is idle, but not longer than two seconds: it uses no CPU time, if
    /// that can be seen, and sends nothing.
    pub(crate) async fn wait_idle(&self) {
        let deadline = Instant::now() + LONGEST_IDLE_WAIT;
        let mut looks = IdleLooks::new(self.activity());
        while looks.idle() < 3 && Instant::now() < deadline {
            if self.pause(LOOK_INTERVAL).await == WaitEnd::Interrupted {
                return;
            }
            looks.look(self.activity());
        }
    }

    /// Begins to measure.
    pub(crate) fn start_meter(&self) -> Meter {
        Meter::start(&self.measurements, self.server.clone(), self.workload.threads)
    }

    /// Waits until all clients are connected, and lets them send their first requests. The time is
    /// measured from before connecting with `connecting`, and from the first requests otherwise.
    ///
    /// # Errors
    /// No client is connected.
    pub(crate) async fn begin(&mut self, connecting: bool) -> Result<Start, Error> {
        let opening = self.opening.take().filter(|_| connecting);
        let waited = self.wait_connected().await?;
        if let Some(meter) = opening {
            return Ok(Start { waited, meter, at: 0 });
        }
        self.wait_idle().await;
        let (meter, at) = (self.start_meter(), self.measurements.now());
        self.threads.open_gate();
        Ok(Start { waited, meter, at })
    }

    /// Ends the run and reports what was measured.
    pub(crate) fn report(mut self, waited: WaitEnd, meter: &Meter, rounds: usize) -> Report {
        self.progress.clear();
        let traffic = self.measurements.traffic().since(meter.traffic());
        let mut errors = self.errors;
        errors.extend(self.measurements.state().failures());
        let clients = self.workload.readers.clients;
        let mut report = self.report;
        report.connections = self.workload.connection_count();
        report.rounds = rounds;
        report.messages = traffic.messages;
        report.payload_bytes = traffic.payload;
        report.resources = traffic.resources;
        report.resource_bytes = traffic.resource_bytes;
        report.wire_bytes = traffic.wire;
        report.wall_s = meter.wall().as_secs_f64();
        report.process = meter.process(self.rss_before, traffic.messages, clients);
        report.driver = meter.driver();
        report.interrupted = waited == WaitEnd::Interrupted;
        report.errors = errors;
        report
    }

    /// Ends a run of one round, and reports how long the clients waited for their first answers.
    pub(crate) async fn report_first_answers(self, mut start: Start, waited: WaitEnd) -> Report {
        start.meter.stop_clock();
        self.wait_idle().await;
        let answers = self.measurements.state().take_first_answers();
        let mut report = self.report(waited, &start.meter, 1);
        let waits = answers.iter().map(|at| at.saturating_sub(start.at));
        report.first_answer_ms = Percentiles::of(waits.collect());
        report
    }

    /// The activity of the server up to now.
    pub(crate) fn activity(&self) -> Activity {
        let cpu = self.server.as_ref().and_then(Process::cpu).unwrap_or_default();
        Activity { cpu, wire: self.measurements.traffic().wire }
    }

    fn unreachable(&mut self) -> Error {
        self.progress.clear();
        let why = self.measurements.state().failures().join("; ");
        let (_, why) = why.split_once(": ").unwrap_or(("", "the server does not answer"));
        Error::Unreachable { server: self.report.server.clone(), reason: why.to_owned() }
    }
}

/// A sentence about the clients that got nothing.
fn got_nothing(missing: &[u32], of: usize) -> String {
    let mut numbers: Vec<_> = missing.iter().take(10).map(u32::to_string).collect();
    if missing.len() > numbers.len() {
        numbers.push("…".to_owned());
    }
    format!("{} of {of} streams got nothing: {}", missing.len(), numbers.join(", "))
}

fn enough_files(connections: usize) -> Result<(), Error> {
    let needed = connections + OTHER_FILES;
    match Process::own().files() {
        Some(allowed) if allowed < needed => Err(Error::OpenFiles { connections, needed, allowed }),
        _ => Ok(()),
    }
}

/// The time between two updates of the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// The time between two looks at a server that should become idle.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

const LONGEST_IDLE_WAIT: Duration = Duration::from_secs(2);

/// The number of files this process has open besides its connections.
const OTHER_FILES: usize = 64;
