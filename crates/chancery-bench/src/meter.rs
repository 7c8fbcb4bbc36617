//! The resources that the server and the load generator use during the measured part of a run.
//!
//! If the load generator itself uses most of its cores, the figures say so, because they are then
//! not those of the server. Not here: the reading of `/proc` (`process`), and the times and counts
//! of responses (`measurements`).

use std::time::{Duration, Instant};

use super::measurements::{Measurements, Traffic};
use super::process::Process;
use super::report::{DriverFigures, ProcessFigures};

/// A measurement of CPU time, memory and traffic from its start to the moment it is read.
#[derive(Debug)]
pub(crate) struct Meter {
    server: Option<Process>,
    own: Process,
    /// The number of cores the load generator can use.
    cores: usize,
    peak_exact: bool,
    rss_start: u64,
    traffic: Traffic,
    server_cpu: Duration,
    /// The beginning of the measurement.
    started: Moment,
    /// The parts in which the server was waited for, if there were any.
    parts: Usage,
    /// The beginning of such a part.
    part: Option<Moment>,
    /// The end of the part of the run whose time counts.
    stopped: Option<Usage>,
}

/// A moment, and the CPU time that the load generator had used by then.
#[derive(Clone, Copy, Debug)]
struct Moment {
    cpu: Duration,
    at: Instant,
}

/// The CPU time that the load generator used in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    cpu: Duration,
    wall: Duration,
}

impl Moment {
    fn now(own: &Process) -> Self {
        Self { cpu: own.cpu().unwrap_or_default(), at: Instant::now() }
    }

    /// The usage from this moment until now.
    fn usage(self, own: &Process) -> Usage {
        let wall = self.at.elapsed();
        Usage { cpu: own.cpu().unwrap_or_default().saturating_sub(self.cpu), wall }
    }
}

impl Meter {
    /// Starts to measure. The peak of the server's memory is reset if that is allowed.
    pub(crate) fn start(
        measurements: &Measurements,
        server: Option<Process>,
        threads: usize,
    ) -> Self {
        let own = Process::own();
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        let peak_exact = server.as_ref().is_some_and(Process::reset_peak);
        let rss_start = server.as_ref().and_then(Process::rss).unwrap_or(0);
        let cpu = |process: &Process| process.cpu().unwrap_or_default();
        Self {
            cores: threads.min(usable).max(1),
            peak_exact,
            rss_start,
            traffic: measurements.traffic(),
            server_cpu: server.as_ref().map(cpu).unwrap_or_default(),
            started: Moment::now(&own),
            parts: Usage::default(),
            part: None,
            stopped: None,
            server,
            own,
        }
    }

    /// The traffic before the start.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Begins a part in which the server is waited for.
    pub(crate) fn begin_part(&mut self) {
        self.part = Some(Moment::now(&self.own));
    }

    /// Ends a part in which the server is waited for.
    pub(crate) fn end_part(&mut self) {
        if let Some(part) = self.part.take() {
            let usage = part.usage(&self.own);
            self.parts.cpu += usage.cpu;
            self.parts.wall += usage.wall;
        }
    }

    /// Ends the time that counts. The CPU time of the server after it counts still.
    pub(crate) fn stop_clock(&mut self) {
        self.stopped = Some(self.started.usage(&self.own));
    }

    /// The time since the start, or until the clock was stopped.
    pub(crate) fn wall(&self) -> Duration {
        self.usage().wall
    }

    /// The resources that the server used for so many messages to so many clients.
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

    /// The CPU time that the load generator used.
    pub(crate) fn driver(&self) -> DriverFigures {
        let usage = self.usage();
        let waiting = if self.parts.wall.is_zero() { usage } else { self.parts };
        let available = waiting.wall.as_secs_f64() * self.cores as f64;
        let share = if available > 0.0 { waiting.cpu.as_secs_f64() / available } else { 0.0 };
        DriverFigures { cpu_s: usage.cpu.as_secs_f64(), share, bound: share > BOUND }
    }

    fn usage(&self) -> Usage {
        self.stopped.unwrap_or_else(|| self.started.usage(&self.own))
    }
}

/// The share of its cores beyond which the load generator, and not the server, is measured.
const BOUND: f64 = 0.85;
