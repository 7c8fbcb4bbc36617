//! A run from the first connection to the last figure: what all scenarios have in common.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::client_threads::ClientThreads;
use super::error::Error;
use super::measurements::{ClientStates, Measurements};
use super::meter::Meter;
use super::names::names;
use super::options::{Clients, NameCount, Wildcard};
use super::process::Process;
use super::progress::Progress;
use super::report::{DriverFigures, Report};
use super::tls::Tls;
use super::workload::{Readers, Workload};
use super::xds::{Expect, Plan, Protocol, Subscription};

/// A run of a scenario with so many clients.
pub(crate) struct Run {
    pub(crate) measurements: Arc<Measurements>,
    pub(crate) threads: ClientThreads,
    pub(crate) workload: Workload,
    pub(crate) server: Option<Process>,
    pub(crate) progress: Progress,
    pub(crate) errors: Vec<String>,
    /// Memory of the server before anybody connected.
    pub(crate) rss_before: u64,
    /// Measures from before anybody connected, for who wants that.
    opening: Option<Meter>,
    interrupted: CancellationToken,
    report: Report,
}

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// It holds.
    Reached,
    /// It took too long.
    TimedOut,
    /// Somebody wants to stop.
    Interrupted,
}

/// What is to be run.
#[derive(Clone, Debug)]
pub(crate) struct RunSettings {
    pub(crate) scenario: &'static str,
    pub(crate) streams: usize,
    pub(crate) protocol: Protocol,
    /// Everybody waits until the gate is opened.
    pub(crate) gated: bool,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) recording: bool,
}

impl Run {
    /// Lets the clients begin to connect.
    ///
    /// # Errors
    /// The flags contradict each other, or this machine or the server cannot be used.
    pub(crate) async fn open(
        clients: &Clients,
        settings: RunSettings,
        interrupted: &CancellationToken,
    ) -> Result<Self, Error> {
        let resolved = clients.server.resolve().await;
        let address =
            resolved.map_err(|source| Error::Lookup { server: clients.server.clone(), source })?;
        let server = clients.pid.map(Process::of).transpose()?;
        let report = report(clients, &settings);
        let plan = plan(clients, &settings).map_err(Error::Options)?;
        let tls = clients.tls.as_ref().map(|files| Tls::new(files, &clients.server)).transpose()?;
        let streams = plan.streams.len();
        let workload = Workload {
            plan: Arc::new(plan),
            address,
            tls,
            readers: Readers {
                clients: settings.streams,
                stalled: clients.stalled as usize,
                slow: clients.slow.map_or(0, |slow| slow.count as usize),
            },
            slow_rate: clients.slow.map_or(1, |slow| slow.bytes_per_second),
            connections: clients.connections.map_or(settings.streams, |some| some as usize),
            threads: clients.threads as usize,
            nacking: clients.nack as usize,
            silent: clients.no_ack,
            max_frame_size: clients.max_frame_size,
            timeout: clients.timeout,
            recording: settings.recording,
        };
        enough_files(workload.connection_count())?;
        let types = workload.plan.subscriptions.len();
        let measurements = Arc::new(Measurements::new(workload.readers, streams, types));
        let rss_before = server.as_ref().and_then(Process::rss).unwrap_or(0);
        let opening = Some(Meter::start(&measurements, server.clone(), workload.threads));
        let threads = ClientThreads::start(&workload, &measurements, settings.gated)?;
        Ok(Self {
            measurements,
            threads,
            workload,
            server,
            progress: Progress::new(),
            errors: Vec::new(),
            rss_before,
            opening,
            interrupted: interrupted.clone(),
            report,
        })
    }

    /// Waits until all clients are connected.
    ///
    /// # Errors
    /// Not one of them is.
    pub(crate) async fn wait_connected(&mut self) -> Result<WaitEnd, Error> {
        let clients = self.workload.readers.clients;
        let waited = self
            .wait(self.workload.timeout, |state| {
                let lost = clients - state.alive;
                (
                    state.connected + lost >= clients,
                    format!("{} of {clients} connected", state.connected),
                )
            })
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

    /// Waits until all clients have their first answers; says if they have not.
    pub(crate) async fn wait_first_answers(&mut self) -> WaitEnd {
        let clients = self.workload.readers.clients;
        let waited = self
            .wait(self.workload.timeout, |state| {
                let settled = clients - state.unanswered;
                (
                    state.unanswered == 0,
                    format!("{settled} of {clients} streams have their first answers"),
                )
            })
            .await;
        if waited == WaitEnd::TimedOut {
            let missing = self.measurements.state().unanswered_clients();
            let timeout = self.workload.timeout;
            self.errors.push(format!("{} within {timeout:?}", got_nothing(&missing, clients)));
        }
        waited
    }

    /// Waits until something holds that the clients tell.
    pub(crate) async fn wait(
        &mut self,
        timeout: Duration,
        holds: impl Fn(&ClientStates) -> (bool, String),
    ) -> WaitEnd {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let until = self.measurements.until(left.min(LOOK), |state| holds(state).0);
            let held = tokio::select! {
                biased;
                () = self.interrupted.cancelled() => return WaitEnd::Interrupted,
                held = until => held,
            };
            if held {
                return WaitEnd::Reached;
            }
            let (_, told) = holds(&self.measurements.state());
            self.progress.say(&told);
            if left <= LOOK {
                return WaitEnd::TimedOut;
            }
        }
    }

    /// Does nothing for a while; says whether it may go on.
    pub(crate) async fn pause(&self, duration: Duration) -> WaitEnd {
        tokio::select! {
            biased;
            () = self.interrupted.cancelled() => WaitEnd::Interrupted,
            () = tokio::time::sleep(duration) => WaitEnd::Reached,
        }
    }

    /// Waits until the server has done what is left to do: it uses no CPU if that can be seen, and
    /// says nothing otherwise. Not longer than two seconds.
    pub(crate) async fn wait_idle(&self) {
        let deadline = Instant::now() + QUIET.1;
        let (mut last, mut still) = (self.activity(), 0);
        while still < 3 && Instant::now() < deadline {
            if self.pause(QUIET.0).await == WaitEnd::Interrupted {
                return;
            }
            let now = self.activity();
            still = if busy(last, now) { 0 } else { still + 1 };
            last = now;
        }
    }

    /// Begins with the part that is measured.
    pub(crate) fn start_meter(&self) -> Meter {
        Meter::start(&self.measurements, self.server.clone(), self.workload.threads)
    }

    /// Lets everybody connect and, unless connecting is measured too, begins to measure when that
    /// is done. Says when it began.
    pub(crate) async fn begin(&mut self, connecting: bool) -> Result<(WaitEnd, Meter, u64), Error> {
        let opening = self.opening.take().filter(|_| connecting);
        let waited = self.wait_connected().await?;
        if let Some(meter) = opening {
            return Ok((waited, meter, 0));
        }
        self.wait_idle().await;
        let (meter, began) = (self.start_meter(), self.measurements.now());
        self.threads.open_gate();
        Ok((waited, meter, began))
    }

    /// What was found.
    pub(crate) fn report(mut self, waited: WaitEnd, meter: &Meter, rounds: usize) -> Report {
        self.progress.clear();
        let traffic = self.measurements.traffic().since(meter.traffic());
        let mut errors = self.errors;
        errors.extend(self.measurements.state().failures());
        let mut report = self.report;
        let per = (traffic.messages, self.workload.readers.clients);
        report.connections = self.workload.connection_count();
        report.rounds = rounds;
        report.messages = traffic.messages;
        report.payload_bytes = traffic.payload;
        report.resources = traffic.resources;
        report.resource_bytes = traffic.resource_bytes;
        report.wire_bytes = traffic.wire;
        report.wall_s = meter.wall().as_secs_f64();
        report.process = meter.process(self.rss_before, per);
        report.driver = meter.driver();
        report.interrupted = waited == WaitEnd::Interrupted;
        report.errors = errors;
        self.threads.stop();
        report
    }

    /// What the server does, to be compared with later.
    pub(crate) fn activity(&self) -> (Duration, u64) {
        let cpu = self.server.as_ref().and_then(Process::cpu).unwrap_or_default();
        (cpu, self.measurements.traffic().wire)
    }

    fn unreachable(&mut self) -> Error {
        self.progress.clear();
        let why = self.measurements.state().failures().join("; ");
        let (_, why) = why.split_once(": ").unwrap_or(("", "the server does not answer"));
        Error::Unreachable { server: self.report.server.clone(), reason: why.to_owned() }
    }
}

/// Says which clients got nothing.
pub(crate) fn got_nothing(missing: &[u32], of: usize) -> String {
    let mut numbers: Vec<_> = missing.iter().take(10).map(u32::to_string).collect();
    if missing.len() > numbers.len() {
        numbers.push("…".to_owned());
    }
    format!("{} of {of} streams got nothing: {}", missing.len(), numbers.join(", "))
}

pub(crate) fn busy(last: (Duration, u64), now: (Duration, u64)) -> bool {
    now.0 - last.0.min(now.0) > QUIET_CPU || now.1 != last.1
}

fn enough_files(connections: usize) -> Result<(), Error> {
    let needed = connections + SPARE;
    match Process::own().files() {
        Some(allowed) if allowed < needed => Err(Error::OpenFiles { connections, needed, allowed }),
        _ => Ok(()),
    }
}

/// What every client asks for, by the flags.
pub(crate) fn subscriptions(
    clients: &Clients,
    protocol: Protocol,
) -> Result<Vec<Subscription>, String> {
    let mut subscriptions = Vec::new();
    for (at, url) in clients.types.iter().enumerate() {
        if clients.types[..at].contains(url) {
            return Err(format!("`{}` is asked for twice", url.short()));
        }
        let of_type = |named: &&NameCount| named.url.as_ref().is_none_or(|named| named == url);
        let asked = clients.names.iter().rev().find(of_type);
        let everything = match clients.wildcard {
            Wildcard::Auto if url.rules().legacy_wildcard => Vec::new(),
            Wildcard::Empty => Vec::new(),
            Wildcard::Auto | Wildcard::Star => vec!["*".to_owned()],
        };
        let list = asked.map(|named| names(&clients.name_pattern, named.count)).transpose()?;
        let known = || list.as_ref().filter(|_| protocol == Protocol::Delta).map(Vec::len);
        let expect = clients.expect.or_else(|| known().map(|known| known as u32));
        let expect = expect.map_or(Expect::Response, Expect::Resources);
        let names = list.unwrap_or(everything);
        subscriptions.push(Subscription {
            url: url.clone(),
            names,
            initial_versions: Vec::new(),
            expect,
            probe: false,
        });
    }
    Ok(subscriptions)
}

fn plan(clients: &Clients, settings: &RunSettings) -> Result<Plan, String> {
    let (subscriptions, node) = (settings.subscriptions.clone(), clients.node.clone());
    let authority = (clients.tls.is_some(), clients.server.authority());
    match clients.per_type {
        true => Plan::per_type(settings.protocol, subscriptions, node, authority),
        false => Ok(Plan::aggregated(settings.protocol, subscriptions, node, authority)),
    }
}

/// The part of a report that is known before.
fn report(clients: &Clients, settings: &RunSettings) -> Report {
    let asked = || settings.subscriptions.iter().filter(|subscription| !subscription.probe);
    Report {
        scenario: settings.scenario,
        server: clients.server.to_string(),
        label: clients.label.clone(),
        protocol: settings.protocol,
        aggregated: !clients.per_type,
        types: asked().map(|subscription| subscription.url.short().to_owned()).collect(),
        names: asked().map(|subscription| subscription.names.len() as u32).collect(),
        streams: settings.streams,
        connections: 0,
        threads: clients.threads as usize,
        rounds: 0,
        messages: 0,
        payload_bytes: 0,
        resources: 0,
        resource_bytes: 0,
        wire_bytes: 0,
        wall_s: 0.0,
        process: None,
        driver: DriverFigures { cpu_s: 0.0, share: 0.0, bound: false },
        latency_ms: None,
        receipt_ms: None,
        first_answer_ms: None,
        churn: None,
        held: None,
        interrupted: false,
        errors: Vec::new(),
    }
}

/// How often the progress is told.
const LOOK: Duration = Duration::from_millis(200);

/// How often a server that should become quiet is looked at, and how long.
const QUIET: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(2));

/// Timers and the like go on in a server that has nothing to do.
const QUIET_CPU: Duration = Duration::from_micros(300);

/// Files this process has open besides its connections.
const SPARE: usize = 64;
