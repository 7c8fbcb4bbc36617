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
//! changes of all others. While a load of everything is made in vain again and again, and in the
//! pauses after such loads, known files are loaded alone.
//!
//! All of it happens on one thread of its own, because reading a directory blocks. If the storage
//! does not answer, that thread waits, and nobody has to wait for it ([`Following::stop_within`]).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::allowed_places::AllowedPlaces;
use crate::behind::BehindFaults;
use crate::change_log::ChangeLog;
use crate::directory::{Directory, PATIENCE};
use crate::fault::{Fault, Warning};
use crate::options::{LayerChecks, Watch};
use crate::pace::{Pace, pause};
use crate::passer::{Orders, Passer};
use crate::read::cache::UnsureFiles;
use crate::report::LoadReport;
use crate::watch::{Wakeup, Watcher};

/// A directory that is followed until this is dropped.
#[derive(Debug)]
pub struct Following {
    wakeup: Wakeup,
    changes: ChangeLog,
    requested: Arc<AtomicBool>,
    checks: WantedChecks,
    orders: Orders,
    stopped: Arc<AtomicBool>,
    /// Is told when the thread ends, or closed.
    end: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Directory {
    /// Follows the directory on a thread of its own. It begins with a load, so that no change since
    /// the last one is missed. `report` is called after that load, after each load that
    /// [`Following::reload`] asks for, and after each other load with new content, other faults or a
    /// warning.
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
        // Those that were read a moment ago are read again soon, but not all at once.
        self.unsure_files = UnsureFiles::Keep;
        if self.options.watch == Watch::Events {
            match Watcher::new(wakeup.clone(), changes.clone()) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => {
                    let message =
                        format!("the system tells of no changes, only sweeps do: {error}");
                    self.no_events =
                        Some(Warning::of_file("watch", &self.options.directory, message));
                }
            }
        }
        let (requested, stopped) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (checks, orders) = (WantedChecks::default(), Orders::default());
        let pace = Pace::new(self.options.sweep, Instant::now());
        let faults = None;
        let mut follower = Follower {
            directory: self,
            wakeups,
            requested: Arc::clone(&requested),
            checks: Arc::clone(&checks),
            orders: orders.clone(),
            stopped: Arc::clone(&stopped),
            report,
            faults,
            warnings: Arc::default(),
            allowances: Arc::default(),
            behind: Arc::default(),
            pace,
            rest: Rest::Quiet,
            woken: Woken::Notified,
            partial_loads: 0,
            rested_at: Instant::now(),
            load_took: Duration::ZERO,
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
        Ok(Following { wakeup, changes, requested, checks, orders, stopped, end, thread })
    }
}

impl Following {
    /// Makes the follower read the directory now, even if nothing seems to have changed, and report
    /// that. Several requests before a load are one.
    pub fn reload(&self) {
        self.changes.record_anywhere();
        self.requested.store(true, Ordering::Release);
        self.wakeup.notify();
    }

    /// Has the directory read again with other checks ([`Options::checks`](crate::Options::checks)).
    pub fn set_checks(&self, checks: LayerChecks) {
        *self.checks.lock().unwrap_or_else(PoisonError::into_inner) = Some(checks);
        self.changes.record_anywhere();
        self.wakeup.notify();
    }

    /// Something that lets edits pass which wait behind faults.
    pub fn passer(&self) -> Passer {
        Passer::new(self.orders.clone(), self.wakeup.clone())
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

/// The checks that somebody wants from the next load on.
type WantedChecks = Arc<Mutex<Option<LayerChecks>>>;

struct Follower<F> {
    directory: Directory,
    wakeups: Receiver<()>,
    /// True if a load was asked for that has not begun.
    requested: Arc<AtomicBool>,
    checks: WantedChecks,
    orders: Orders,
    stopped: Arc<AtomicBool>,
    report: F,
    /// The faults of the last report.
    faults: Option<(Vec<Fault>, BTreeMap<PathBuf, usize>)>,
    /// The present warnings of the last report.
    warnings: Arc<Vec<Warning>>,
    /// The comments of the last report that let findings pass.
    allowances: Arc<AllowedPlaces>,
    /// The edits behind faults of the last report.
    behind: Arc<Vec<BehindFaults>>,
    /// The times of the next looks that no event leads to.
    pace: Pace,
    /// The state in which the directory is loaded next.
    rest: Rest,
    /// The reason of that load.
    woken: Woken,
    /// The number of loads in a row that left out files which were being written.
    partial_loads: usize,
    /// The time before which a directory that does not become quiet is not loaded again, but for
    /// known files: the last load failed or left out files.
    rested_at: Instant,
    /// The time that the attempts of the present load took, without the waits between them.
    load_took: Duration,
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
    /// Files that may have changed without a new stamp, or could not be read, are read again.
    Retried,
}

/// The error that ends the follower: it was stopped.
struct Stopped;

impl<F: FnMut(&LoadReport)> Follower<F> {
    fn run(&mut self) {
        while self.turn().is_ok() {}
    }

    fn turn(&mut self) -> Result<(), Stopped> {
        self.load_took = Duration::ZERO;
        let is_requested = self.requested.swap(false, Ordering::AcqRel);
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner).take();
        checks.into_iter().for_each(|checks| self.directory.set_checks(checks));
        self.carry_out_orders();
        let report = LoadReport { is_requested, ..self.load()? };
        if !self.report_news(&report) {
            match self.woken {
                Woken::Notified => {}
                Woken::Swept => self.pace.swept_in_vain(self.load_took, Instant::now()),
                Woken::Retried => self.pace.retried_in_vain(self.load_took, Instant::now()),
            }
        }
        // Files that were left out are loaded with the next turn, whether anything happens or not.
        self.woken = if self.partial_loads > 0 {
            self.retry_if_due();
            Woken::Notified
        } else {
            self.idle()?
        };
        self.rest = self.settle(self.woken)?;
        Ok(())
    }

    fn carry_out_orders(&mut self) {
        for order in self.orders.take() {
            if let Some(report) = self.directory.pass_faults(&order.layers) {
                self.report_news(&report);
            }
            order.carried_out();
        }
    }

    fn load(&mut self) -> Result<LoadReport, Stopped> {
        let mut took = Duration::ZERO;
        for failed in 0..PATIENCE {
            // Nobody else waits until a directory comes to rest that changes while it is read.
            if failed > 1 || took >= self.directory.options.bound() {
                self.load_known_files();
            }
            let begun = Instant::now();
            let report = self.attempt();
            took = begun.elapsed();
            self.load_took += took;
            let is_whole = report.is_some() && self.partial_loads == 0;
            // A directory that is loaded whole and in vain must not keep the machine busy.
            let rest =
                if is_whole { Duration::ZERO } else { pause(Duration::ZERO, took, PARTIAL_SHARE) };
            self.rested_at = begun + took + rest;
            match report {
                Some(report) => return Ok(report),
                None if self.rest == Rest::Bound && self.is_late() => break,
                None => self.rest = self.settle(Woken::Notified)?,
            }
        }
        let (report, is_partial) = self.directory.load_moving();
        self.partial_loads = usize::from(is_partial);
        Ok(report)
    }

    fn attempt(&mut self) -> Option<LoadReport> {
        if self.rest == Rest::Bound {
            return self.load_resting();
        }
        let report = self.directory.attempt()?;
        self.partial_loads = 0;
        Some(report)
    }

    /// Loads the known files that changed, and reports that.
    fn load_known_files(&mut self) {
        if let Some(report) = self.directory.load_known_files() {
            self.report_news(&report);
        }
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

    /// Reports a load that has news or was asked for. Returns true if it does.
    fn report_news(&mut self, report: &LoadReport) -> bool {
        let faults = (&report.faults, &report.more_faults);
        let same = self.faults.as_ref().is_some_and(|(some, more)| (some, more) == faults)
            && self.warnings == report.present_warnings
            && self.allowances == report.allowances
            && self.behind == report.behind_faults;
        let news = report.is_requested
            || !same
            || !report.layers().is_empty()
            || !report.warnings.is_empty();
        if news {
            (self.report)(report);
            self.faults = Some((report.faults.clone(), report.more_faults.clone()));
            self.warnings = Arc::clone(&report.present_warnings);
            self.allowances = Arc::clone(&report.allowances);
            self.behind = Arc::clone(&report.behind_faults);
        }
        news
    }

    /// Waits until there is something to do.
    fn idle(&mut self) -> Result<Woken, Stopped> {
        loop {
            let now = Instant::now();
            let sweep = self.pace.until_sweep(now);
            let retry = self.directory.has_unsure().then(|| self.pace.until_retry(now));
            if self.is_woken(retry.map_or(sweep, |retry| retry.min(sweep)))? {
                return Ok(Woken::Notified);
            }
            let begun = Instant::now();
            if self.pace.until_sweep(begun).is_zero() {
                let moved = self.directory.has_moved();
                let hears_everything = self.directory.hears_everything();
                self.pace.swept(begun.elapsed(), Instant::now(), hears_everything);
                if moved {
                    return Ok(Woken::Swept);
                }
            }
            if self.retry_if_due() {
                return Ok(Woken::Retried);
            }
        }
    }

    /// Has files read again that may have changed without a new stamp or could not be read, if it is
    /// time for it. Returns true if there are such files.
    fn retry_if_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.pace.until_retry(now).is_zero() && self.directory.has_unsure();
        if is_due {
            let are_all = self.directory.record_unsure();
            self.pace.retried(now, are_all);
        }
        is_due
    }

    /// Waits until the directory stops changing, within a bound. If it was loaded in vain, the bound
    /// is later, and known files are loaded meanwhile.
    fn settle(&mut self, woken: Woken) -> Result<Rest, Stopped> {
        let quiet = self.directory.options.quiet();
        let bound = self.directory.options.bound();
        // Where no event reports a change, two equal scans mean that nothing changes.
        let looks = woken == Woken::Swept || !self.directory.hears_everything();
        let mut seen = looks.then(|| self.directory.peek());
        let mut begun = Instant::now();
        let mut left = bound;
        loop {
            let wait = quiet.min(left);
            let notified = self.is_woken(wait)?;
            let now = looks.then(|| self.directory.peek());
            // The rest of the bound may be too short for a silence to mean anything.
            if !notified && now == seen && wait == quiet {
                return Ok(Rest::Quiet);
            }
            left = bound.saturating_sub(begun.elapsed());
            if left.is_zero() {
                if Instant::now() >= self.rested_at {
                    return Ok(Rest::Bound);
                }
                self.load_known_files();
                (begun, left) = (Instant::now(), bound);
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

/// The reciprocal of the share of time that loads may take which leave out files.
const PARTIAL_SHARE: u32 = 10;

/// The time for which a dropped follower is waited for.
const DROP_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::SyncSender;

    use chancery_proto::schema::Schema;

    use super::*;
    use crate::change_log::ChangedPlaces;
    use crate::options::Options;

    /// A follower of an empty directory, and what wakes it.
    fn follower<F: FnMut(&LoadReport)>(
        options: Options,
        report: F,
    ) -> (Follower<F>, SyncSender<()>) {
        let (sender, wakeups) = sync_channel(1);
        let follower = Follower {
            pace: Pace::new(options.sweep, Instant::now()),
            directory: Directory::new(options, Schema::bundled()),
            wakeups,
            requested: Arc::default(),
            checks: WantedChecks::default(),
            orders: Orders::default(),
            stopped: Arc::default(),
            report,
            faults: None,
            warnings: Arc::default(),
            allowances: Arc::default(),
            behind: Arc::default(),
            rest: Rest::Quiet,
            woken: Woken::Notified,
            partial_loads: 0,
            rested_at: Instant::now(),
            load_took: Duration::ZERO,
        };
        (follower, sender)
    }

    #[test]
    fn files_that_may_have_changed_are_read_again_when_it_is_time() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.yaml"), "[]").unwrap();
        for (sweep, is_due) in [(Duration::ZERO, true), (Duration::from_secs(3600), false)] {
            let (mut follower, _wake) =
                follower(Options { sweep, ..Options::new(dir.path()) }, |_| {});
            assert!(!follower.retry_if_due(), "nothing was read");
            follower.directory.load();
            assert_eq!(follower.retry_if_due(), is_due);
            let recorded = follower.directory.change_log.take();
            assert_eq!(recorded != ChangedPlaces::default(), is_due);
        }
    }

    #[test]
    fn a_silence_as_long_as_the_bound_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let settle = Duration::from_millis(600);
        for settle_bound in [settle, settle / 2] {
            let options = Options { settle, settle_bound, ..Options::new(dir.path()) };
            let (mut follower, wake) = follower(options, |_| {});
            for woken in [Woken::Notified, Woken::Swept] {
                // A change has mostly several events.
                wake.send(()).unwrap();
                assert!(matches!(follower.settle(woken), Ok(Rest::Quiet)));
            }
        }
    }

    #[test]
    fn known_files_are_loaded_while_nothing_else_of_a_restless_directory_is() {
        let dir = tempfile::tempdir().unwrap();
        let write = |seconds: u32| {
            let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
            let timeout = format!("\"connectTimeout\": \"{seconds}s\"");
            let text = format!("{{\"@type\": \"{url}\", \"name\": \"a\", {timeout}}}");
            std::fs::write(dir.path().join("a.json"), text).unwrap();
        };
        write(1);
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let report = move |report: &LoadReport| {
            stop.store(!report.layers().is_empty(), Ordering::Release);
        };
        let milliseconds = Duration::from_millis;
        let (settle, settle_bound) = (milliseconds(300), milliseconds(600));
        let options = Options { settle, settle_bound, ..Options::new(dir.path()) };
        let (mut follower, wake) = follower(options, report);
        let changes = follower.directory.change_log.clone();
        follower.directory.watcher = Watcher::new(Wakeup(wake.clone()), changes).ok();
        follower.directory.change_log.record_anywhere();
        assert!(follower.directory.attempt().is_some());
        follower.stopped = stopped;
        follower.rested_at = Instant::now() + Duration::from_secs(3600);
        std::fs::create_dir(dir.path().join("new")).unwrap();
        write(2);
        // It is woken all the time.
        let begun = Instant::now();
        let is_due = move || begun.elapsed() < Duration::from_secs(60);
        let waker = thread::spawn(move || while is_due() && wake.send(()).is_ok() {});
        assert!(follower.settle(Woken::Notified).is_err(), "stopped by the report");
        drop(follower);
        waker.join().unwrap();
    }
}
