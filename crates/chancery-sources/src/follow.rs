//! The thread that follows a directory: it wakes up, waits until nothing changes, loads and
//! reports.
//!
//! ```text
//!           event or sweep               quiet               nothing moved
//!   idle -------------------> settling --------> loading ------------------> reported, idle
//!                              ^    |               | something moved           |
//!                              +----|---------------+                           |
//!                              |    | bound           what rests                |
//!                              |    +-----> loading ----------------> reported  |
//!                              +------------------------------------------+-----+
//! ```
//!
//! A directory that does not become quiet within the bound is loaded all the same, and files that
//! are being written stay as they were: whoever writes one file all the time must not hold up the
//! changes of all others.
//!
//! All of it happens on one thread of its own, because reading a directory blocks. If the storage
//! does not answer, that thread waits, and nobody has to wait for it ([`Following::stop_within`]).

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
    /// Is told when the thread ends, or closed.
    end: Receiver<()>,
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
            warnings: Arc::default(),
            pause,
            rest: Rest::Quiet,
            partial_loads: 0,
            idle_load: Duration::ZERO,
        };
        let thread = thread::Builder::new().name("directory".to_owned());
        let (ended, end) = sync_channel(1);
        let run = move || {
            follower.run();
            // The directory is given up before anybody is told that this ended.
            drop(follower);
            let _ = ended.send(());
        };
        let thread = Some(thread.spawn(run)?);
        Ok(Following { wakeup, changes, stopped, end, thread })
    }
}

impl Following {
    /// Makes the follower read the directory now, even if nothing seems to have changed.
    pub fn reload(&self) {
        self.changes.record_anywhere();
        self.wakeup.notify();
    }

    /// Stops, and waits until nothing is reported any more. That takes as long as a read that the
    /// storage does not answer.
    pub fn stop(mut self) {
        self.tell_to_stop();
        self.join();
    }

    /// Stops, and waits for so long at most until nothing is reported any more. Returns true if
    /// that is so. Otherwise a read waits for the storage, and its thread ends with it or with the
    /// process.
    pub fn stop_within(mut self, wait: Duration) -> bool {
        self.wait_for_end(wait)
    }

    fn wait_for_end(&mut self, wait: Duration) -> bool {
        self.tell_to_stop();
        let ended = !matches!(self.end.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
        if ended {
            self.join();
        } else {
            self.thread = None;
        }
        ended
    }

    fn tell_to_stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wakeup.notify();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic can only be one of `report`. It has been printed, and nothing more is
            // reported.
            let _ = thread.join();
        }
    }
}

/// Stops, and waits for the end as [`Following::stop_within`] does, for a few seconds.
impl Drop for Following {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.wait_for_end(DROP_WAIT);
        }
    }
}

struct Follower<F> {
    directory: Directory,
    wakeups: Receiver<()>,
    stopped: Arc<AtomicBool>,
    report: F,
    /// The faults of the last report.
    faults: Option<(Vec<Fault>, BTreeMap<PathBuf, usize>)>,
    /// The present warnings of the last report.
    warnings: Arc<Vec<Warning>>,
    /// The time until the next sweep.
    pause: Duration,
    /// The state in which the directory is loaded next.
    rest: Rest,
    /// The number of loads in a row that left out files which were being written.
    partial_loads: usize,
    /// The time that the last load took, if a sweep led to it and it found nothing new.
    idle_load: Duration,
}

/// The state of a directory that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Nothing changes.
    Quiet,
    /// It did not become quiet in time.
    Bound,
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
        let begun = Instant::now();
        let report = self.load()?;
        let took = begun.elapsed();
        self.idle_load = if self.report_news(&report) { Duration::ZERO } else { took };
        // Files that were left out are loaded with the next turn, whether anything happens or not.
        let woken = if self.partial_loads > 0 { Woken::Notified } else { self.idle()? };
        self.rest = self.settle(woken)?;
        Ok(())
    }

    fn load(&mut self) -> Result<LoadReport, Stopped> {
        for _ in 0..PATIENCE {
            match self.rest {
                Rest::Quiet => {
                    if let Some(report) = self.directory.attempt() {
                        self.partial_loads = 0;
                        return Ok(report);
                    }
                }
                Rest::Bound => match self.load_resting() {
                    Some(report) => return Ok(report),
                    None if self.is_late() => break,
                    None => {}
                },
            }
            self.rest = self.settle(Woken::Notified)?;
        }
        self.partial_loads = 0;
        Ok(self.directory.load_moving())
    }

    /// Loads what rests. A file that is broken for many loads is not about to be repaired.
    fn load_resting(&mut self) -> Option<LoadReport> {
        let is_late = self.is_late();
        let (mut report, is_partial) = self.directory.attempt_resting(is_late)?;
        if is_late && is_partial {
            self.directory.warn_of_moving(&mut report);
        }
        self.partial_loads = match (is_partial, is_late) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => self.partial_loads + 1,
        };
        Some(report)
    }

    /// Returns true if many loads left out something.
    fn is_late(&self) -> bool {
        self.partial_loads >= PATIENCE
    }

    /// Reports a load that has news. Returns true if it has.
    fn report_news(&mut self, report: &LoadReport) -> bool {
        let faults = (&report.faults, &report.more_faults);
        let same = self.faults.as_ref().is_some_and(|(some, more)| (some, more) == faults)
            && self.warnings == report.present_warnings;
        let news = !same || !report.layers().is_empty() || !report.warnings.is_empty();
        if news {
            (self.report)(report);
            self.faults = Some((report.faults.clone(), report.more_faults.clone()));
            self.warnings = Arc::clone(&report.present_warnings);
        }
        news
    }

    /// Waits until there is something to do.
    fn idle(&mut self) -> Result<Woken, Stopped> {
        loop {
            if self.is_woken(self.pause)? {
                return Ok(Woken::Notified);
            }
            let begun = Instant::now();
            let moved = self.directory.has_moved();
            // A sweep of a large directory must not keep the machine busy, nor must the load that
            // follows it where a file cannot be read.
            let share = match self.directory.hears_everything() {
                true => LOST_EVENTS_SHARE,
                false => SWEEP_SHARE,
            };
            let took = begun.elapsed() + std::mem::take(&mut self.idle_load);
            self.pause = self.directory.options.sweep.max(took * share);
            if moved {
                return Ok(Woken::Swept);
            }
            if self.directory.is_unsure() {
                return Ok(Woken::Notified);
            }
        }
    }

    /// Waits until the directory stops changing, within a bound.
    fn settle(&self, woken: Woken) -> Result<Rest, Stopped> {
        let bound = self.directory.options.settle_bound;
        let quiet = self.directory.options.settle.min(bound);
        let begun = Instant::now();
        // Where no event reports a change, two equal scans mean that nothing changes.
        let mut seen = (woken == Woken::Swept).then(|| self.directory.peek());
        loop {
            let left = bound.saturating_sub(begun.elapsed());
            let notified = self.is_woken(quiet.min(left))?;
            let now = seen.is_some().then(|| self.directory.peek());
            // The rest of the bound may be too short for a silence to mean anything.
            if !notified && now == seen && left >= quiet {
                return Ok(Rest::Quiet);
            }
            if left.is_zero() {
                return Ok(Rest::Bound);
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

/// The reciprocal of the share of time that sweeps may take where they find the changes.
const SWEEP_SHARE: u32 = 20;

/// The reciprocal of that share where events report the changes, and sweeps find lost ones alone.
const LOST_EVENTS_SHARE: u32 = 200;

/// The time for which a dropped follower is waited for.
const DROP_WAIT: Duration = Duration::from_secs(5);
