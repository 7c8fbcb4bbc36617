//! The thread that follows a directory: it wakes up, waits until nothing changes, loads and
//! reports.
//!
//! ```text
//!           event or sweep             quiet, or bound            nothing moved
//!   idle -------------------> settling ---------------> loading ----------------> reported, idle
//!                                 ^                        | something moved
//!                                 +------------------------+
//! ```
//!
//! All of it happens on one thread of its own, because reading a directory blocks.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::change_log::ChangeLog;
use crate::directory::{Directory, PATIENCE};
use crate::fault::{Fault, Warning};
use crate::options::Watch;
use crate::report::LoadReport;
use crate::watch::{Wakeup, Watcher};

/// A directory that is followed until this is dropped.
#[derive(Debug)]
pub struct Following {
    wakeup: Wakeup,
    changes: ChangeLog,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Directory {
    /// Follows the directory on a thread of its own. It begins with a load, so that no change since
    /// the last one is missed. `report` is called after that load, and after each later load with
    /// new content, other faults or a warning.
    ///
    /// # Errors
    /// If there can be no thread. If the system reports no events, sweeps find the changes, and
    /// a warning says so.
    pub fn follow(
        mut self,
        report: impl FnMut(&LoadReport) + Send + 'static,
    ) -> io::Result<Following> {
        // There is room for one: the follower does not ask why it was woken, so one wake-up is as
        // good as many.
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
    /// Makes the follower read the directory now, even if nothing seems to have changed.
    pub fn reload(&self) {
        self.changes.record_anywhere();
        self.wakeup.notify();
    }

    /// Stops, and waits until nothing is reported any more.
    pub fn stop(mut self) {
        self.join();
    }

    fn join(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.wakeup.notify();
        if let Some(thread) = self.thread.take() {
            // A panic can only be one of `report`. It has been printed, and nothing more is
            // reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.join();
    }
}

struct Follower<F> {
    directory: Directory,
    wakeups: Receiver<()>,
    stopped: Arc<AtomicBool>,
    report: F,
    /// The faults of the last report.
    faults: Option<(Vec<Fault>, BTreeMap<PathBuf, usize>)>,
    /// The time until the next sweep.
    pause: Duration,
}

/// The reason why the follower is woken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// The system or the caller sent a wake-up.
    Notified,
    /// A sweep found a change.
    Swept,
}

/// The error that ends the follower: it was stopped.
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
        let faults = (&report.faults, &report.more_faults);
        let same = self.faults.as_ref().is_some_and(|(some, more)| (some, more) == faults);
        if !same || !report.layers().is_empty() || !report.warnings.is_empty() {
            (self.report)(report);
            self.faults = Some((report.faults.clone(), report.more_faults.clone()));
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
            // A sweep of a large directory must not keep the machine busy.
            self.pause = self.directory.options.sweep.max(begun.elapsed() * SWEEP_SHARE);
            if moved {
                return Ok(Woken::Swept);
            }
            if self.directory.is_unsure() {
                return Ok(Woken::Notified);
            }
        }
    }

    /// Waits until the directory stops changing, within a bound.
    fn settle(&self, woken: Woken) -> Result<(), Stopped> {
        let (quiet, bound) = (self.directory.options.settle, self.directory.options.settle_bound);
        let begun = Instant::now();
        // Where no event reports a change, two equal scans mean that nothing changes.
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

/// The reciprocal of the share of time that sweeps may take.
const SWEEP_SHARE: u32 = 20;
