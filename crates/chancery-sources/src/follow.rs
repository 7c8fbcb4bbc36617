//! The thread that follows a directory: it wakes up, waits for quiet, loads and reports.
//!
//! ```text
//!           event or sweep             quiet, or bound            nothing moved
//!   idle -------------------> settling ---------------> loading ----------------> reported, idle
//!                                 ^                        | something moved
//!                                 +------------------------+
//! ```
//!
//! All of it happens on one thread of its own, because reading a directory blocks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::directory::{Directory, PATIENCE};
use crate::fault::{Fault, Warning};
use crate::options::Watch;
use crate::report::LoadReport;
use crate::watch::change_log::ChangeLog;
use crate::watch::{Wakeup, Watcher};

/// A directory being followed. It is, until this is dropped.
#[derive(Debug)]
pub struct Following {
    wakeup: Wakeup,
    changes: ChangeLog,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Directory {
    /// Follows the directory on a thread of its own, which begins with a load: what changed since
    /// the last one is not lost. `report` is called after that load, and then after each with news:
    /// other content, other faults, or a warning.
    ///
    /// # Errors
    /// If there can be no thread. If the system reports no events, sweeps find the changes, and
    /// a warning says so.
    pub fn follow(
        mut self,
        report: impl FnMut(&LoadReport) + Send + 'static,
    ) -> io::Result<Following> {
        // Room for one: the follower does not ask why it was woken, so one is as good as many.
        let (sender, wakeups) = sync_channel(1);
        let wakeup = Wakeup(sender);
        let changes = self.change_log.clone();
        // Changes from before the watch began cause no event.
        changes.record_anywhere();
        if self.options.watch == Watch::Events {
            match Watcher::new(wakeup.clone(), changes.clone()) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => {
                    let message =
                        format!("the system tells of no changes, only sweeps do: {error}");
                    self.no_events = Some(Warning::of_file(&self.options.directory, message));
                }
            }
        }
        let stopped = Arc::new(AtomicBool::new(false));
        let pause = self.options.sweep;
        let faults = None;
        let mut follower = Follower {
            directory: self,
            wakeups,
            stopped: Arc::clone(&stopped),
            report,
            faults,
            pause,
        };
        let thread = thread::Builder::new().name("directory".to_owned());
        let thread = Some(thread.spawn(move || follower.run())?);
        Ok(Following { wakeup, changes, stopped, thread })
    }
}

impl Following {
    /// Has the directory read now, whether or not something seems to have changed.
    pub fn reload(&self) {
        self.changes.record_anywhere();
        self.wakeup.notify();
    }

    /// Stops, and waits until nothing is reported any more.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.wakeup.notify();
        if let Some(thread) = self.thread.take() {
            // A panic was in what `report` does; it has been printed, and nothing more is reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.end();
    }
}

struct Follower<F> {
    directory: Directory,
    wakeups: Receiver<()>,
    stopped: Arc<AtomicBool>,
    report: F,
    /// The faults of the last report.
    faults: Option<Vec<Fault>>,
    /// The time until the next sweep.
    pause: Duration,
}

/// Why there is something to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// The system, or the caller, said so.
    Notified,
    /// A sweep found it.
    Swept,
}

/// The follower is to end.
struct Stopped;

impl<F: FnMut(&LoadReport)> Follower<F> {
    fn run(&mut self) {
        while self.turn().is_ok() {}
    }

    fn turn(&mut self) -> Result<(), Stopped> {
        let report = self.load()?;
        self.report_news(&report);
        let woken = self.idle()?;
        self.settle(woken)
    }

    fn load(&mut self) -> Result<LoadReport, Stopped> {
        for _ in 0..PATIENCE {
            if let Some(report) = self.directory.attempt() {
                return Ok(report);
            }
            self.settle(Woken::Notified)?;
        }
        Ok(self.directory.load_moving())
    }

    fn report_news(&mut self, report: &LoadReport) {
        let same = self.faults.as_ref() == Some(&report.faults);
        if !same || !report.layers().is_empty() || !report.warnings.is_empty() {
            (self.report)(report);
            self.faults = Some(report.faults.clone());
        }
    }

    /// Waits until there is something to do.
    fn idle(&mut self) -> Result<Woken, Stopped> {
        loop {
            if self.is_woken(self.pause)? {
                return Ok(Woken::Notified);
            }
            let begun = Instant::now();
            let moved = self.directory.has_moved();
            // A sweep of a large directory must not become the work of the machine.
            self.pause = self.directory.options.sweep.max(begun.elapsed() * SWEEP_SHARE);
            if moved {
                return Ok(Woken::Swept);
            }
            if self.directory.is_unsure() {
                return Ok(Woken::Notified);
            }
        }
    }

    /// Waits until the directory is quiet, or has not been for too long.
    fn settle(&self, woken: Woken) -> Result<(), Stopped> {
        let (quiet, bound) = (self.directory.options.settle, self.directory.options.settle_bound);
        let begun = Instant::now();
        // Where no event reports a change, two equal scans mean quiet.
        let mut seen = (woken == Woken::Swept).then(|| self.directory.peek());
        loop {
            let left = bound.saturating_sub(begun.elapsed());
            let notified = self.is_woken(quiet.min(left))?;
            let now = seen.is_some().then(|| self.directory.peek());
            if left.is_zero() || (!notified && now == seen) {
                return Ok(());
            }
            seen = now;
        }
    }

    /// Returns true if the follower is woken within this time.
    fn is_woken(&self, wait: Duration) -> Result<bool, Stopped> {
        match self.wakeups.recv_timeout(wait) {
            _ if self.stopped.load(Ordering::Acquire) => Err(Stopped),
            Ok(()) => Ok(true),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(Stopped),
        }
    }
}

/// A sweep takes at most one part in this many of the time.
const SWEEP_SHARE: u32 = 20;
