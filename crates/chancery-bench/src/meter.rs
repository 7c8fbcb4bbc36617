//! What the server and the driver use while something is measured.

use std::time::{Duration, Instant};

use super::measurements::{Measurements, Traffic};
use super::process::Process;
use super::report::{DriverFigures, ProcessFigures};

/// From its start to when it is read.
#[derive(Debug)]
pub(crate) struct Meter {
    server: Option<Process>,
    own: Process,
    /// How many cores the driver can use.
    cores: usize,
    peak_exact: bool,
    rss_start: u64,
    traffic: Traffic,
    server_cpu: Duration,
    own_cpu: Duration,
    started: Instant,
    /// Driver's CPU and time of the parts in which something was to be done, if those were told.
    busy: (Duration, Duration),
    part: Option<(Duration, Instant)>,
    stopped: Option<(Duration, Duration)>,
}

impl Meter {
    pub(crate) fn start(
        measurements: &Measurements,
        server: Option<Process>,
        threads: usize,
    ) -> Self {
        let own = Process::own();
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        let peak_exact = server.as_ref().is_some_and(Process::forget_peak);
        let rss_start = server.as_ref().and_then(Process::rss).unwrap_or(0);
        let cpu = |process: &Process| process.cpu().unwrap_or_default();
        Self {
            cores: threads.min(usable).max(1),
            peak_exact,
            rss_start,
            traffic: measurements.traffic(),
            server_cpu: server.as_ref().map(cpu).unwrap_or_default(),
            own_cpu: cpu(&own),
            started: Instant::now(),
            busy: (Duration::ZERO, Duration::ZERO),
            part: None,
            stopped: None,
            server,
            own,
        }
    }

    /// What had come when it was started.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// A part begins in which the driver may be the one that is waited for.
    pub(crate) fn begin_part(&mut self) {
        self.part = Some((self.own.cpu().unwrap_or_default(), Instant::now()));
    }

    /// It ends.
    pub(crate) fn end_part(&mut self) {
        if let Some((cpu, since)) = self.part.take() {
            self.busy.0 += self.own.cpu().unwrap_or_default().saturating_sub(cpu);
            self.busy.1 += since.elapsed();
        }
    }

    /// What comes after this is not waited for, only paid for.
    pub(crate) fn stop_clock(&mut self) {
        self.stopped = Some((self.started.elapsed(), self.own.cpu().unwrap_or_default()));
    }

    pub(crate) fn wall(&self) -> Duration {
        self.stopped.map_or_else(|| self.started.elapsed(), |(wall, _)| wall)
    }

    /// What the server used, over so many messages and clients.
    pub(crate) fn process(
        &self,
        rss_before: u64,
        messages: u64,
        clients: usize,
    ) -> Option<ProcessFigures> {
        let server = self.server.as_ref()?;
        let cpu_s = (server.cpu()?.saturating_sub(self.server_cpu)).as_secs_f64();
        let (rss_after, rss_peak) = (server.rss()?, server.peak()?);
        let grown = rss_after as f64 - rss_before as f64;
        Some(ProcessFigures {
            pid: server.number(),
            cpu_s,
            cpu_us_per_message: (messages > 0).then(|| cpu_s * 1e6 / messages as f64),
            rss_before,
            rss_start: self.rss_start,
            rss_peak,
            rss_after,
            peak_exact: self.peak_exact,
            rss_per_stream: grown / clients.max(1) as f64,
        })
    }

    /// What the driver used.
    pub(crate) fn driver(&self) -> DriverFigures {
        let cpu = || self.own.cpu().unwrap_or_default();
        let used = self.stopped.map_or_else(cpu, |(_, cpu)| cpu).saturating_sub(self.own_cpu);
        let (cpu, wall) = match self.busy {
            (_, Duration::ZERO) => (used, self.wall()),
            busy => busy,
        };
        let available = wall.as_secs_f64() * self.cores as f64;
        let share = if available > 0.0 { cpu.as_secs_f64() / available } else { 0.0 };
        DriverFigures { cpu_s: used.as_secs_f64(), share, bound: share > BOUND }
    }
}

/// A driver that is this busy is what is waited for.
const BOUND: f64 = 0.85;
