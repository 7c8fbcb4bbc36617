//! The thread that writes the state directory.
//!
//! Whoever has something to keep leaves it in a place for one: the newest counts, and nobody waits. An edit
//! costs the pieces that it changes. A write that fails changes nothing of what was kept, is told once until
//! one succeeds, and is made again with whatever comes next.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use chancery_catalog::{Kept, Memory};
use chancery_core::printable::Printable;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tracing::{info, warn};

use super::confirm_file::{self, ConfirmFile};
use super::head::{DaemonMemory, Head, seconds, time};
use super::past::{Opened, PastState};

/// The metrics of the state directory. Clones count into the same series.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateMetrics {
    /// The time of the last write, in seconds since 1970.
    pub(crate) written: Gauge,
    /// The writes that failed.
    pub(crate) failed: Counter,
}

/// Keeps states until it is dropped.
#[derive(Debug)]
pub(crate) struct StateKeeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The state directory.
    top: PathBuf,
    /// All that was kept before the start, beside the states.
    before: DaemonMemory,
    /// The time at which what was in force before the start was kept.
    restored: Option<SystemTime>,
}

#[derive(Debug, Default)]
struct Shared {
    place: Mutex<Place>,
    changed: Condvar,
}

/// The place for the newest state.
#[derive(Debug, Default)]
struct Place {
    wanted: Option<Wanted>,
    /// True while a state is written.
    is_writing: bool,
    /// True if this process may write.
    has_lock: bool,
    is_over: bool,
}

/// A state to be kept.
#[derive(Debug)]
struct Wanted {
    memory: Memory,
    daemon: DaemonMemory,
}

impl StateKeeper {
    /// Starts to keep states where the past was read from.
    ///
    /// # Errors
    /// If there can be no thread.
    pub(crate) fn start(past: &PastState, metrics: StateMetrics) -> io::Result<Option<Self>> {
        let Some(opened) = past.take() else { return Ok(None) };
        let head = opened.kept.as_ref().map(|(head, _)| head);
        let before = head.map(|head| head.daemon.clone()).unwrap_or_default();
        let restored = head.map(|head| time(head.written));
        let shared = Arc::new(Shared::default());
        shared.lock().has_lock = opened.files.is_locked();
        let top = opened.files.top().to_owned();
        let mut writer = Writer::new(opened, metrics);
        let of_thread = Arc::clone(&shared);
        let run = move || {
            while let Some(wanted) = of_thread.next() {
                writer.keep(&wanted);
                let mut place = of_thread.lock();
                (place.is_writing, place.has_lock) = (false, writer.opened.files.is_locked());
                drop(place);
                of_thread.changed.notify_all();
            }
        };
        let thread = Some(thread::Builder::new().name("state".to_owned()).spawn(run)?);
        Ok(Some(Self { shared, thread, top, before, restored }))
    }

    /// All that was kept before the start, beside the states.
    pub(crate) fn before(&self) -> &DaemonMemory {
        &self.before
    }

    /// The time at which what was in force before the start was kept, if anything was.
    pub(crate) fn restored(&self) -> Option<SystemTime> {
        self.restored
    }

    /// Takes the file by which somebody confirms something, if there is one and it is for this process.
    pub(crate) fn confirm_file(&self) -> ConfirmFile {
        let has_lock = self.shared.lock().has_lock;
        if has_lock { confirm_file::take(&self.top) } else { ConfirmFile::None }
    }

    /// Keeps a state, soon, unless a newer one comes before that.
    pub(crate) fn keep(&self, memory: Memory, daemon: DaemonMemory) {
        if memory.is_empty() {
            return;
        }
        self.shared.lock().wanted = Some(Wanted { memory, daemon });
        self.shared.changed.notify_all();
    }

    /// Waits until everything so far is kept, or could not be, and not longer than a bound.
    pub(crate) fn settle(&self, bound: Duration) {
        let waits = |place: &mut Place| place.wanted.is_some() || place.is_writing;
        let place = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(place, bound, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Waits for the last write, and not for storage that does not answer.
impl Drop for StateKeeper {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        self.settle(DROP_WAIT);
        let is_done = !self.shared.lock().is_writing;
        if let Some(thread) = self.thread.take().filter(|_| is_done) {
            // A panic has been printed, and there is nothing more to write.
            thread.join().ok();
        }
    }
}

impl Shared {
    /// The next state to write; `None` if there is none and none will come.
    fn next(&self) -> Option<Wanted> {
        let waits = |place: &mut Place| place.wanted.is_none() && !place.is_over;
        let place = self.changed.wait_while(self.lock(), waits);
        let mut place = place.unwrap_or_else(PoisonError::into_inner);
        let wanted = place.wanted.take();
        place.is_writing = wanted.is_some();
        wanted
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing half, on its thread.
struct Writer {
    opened: Opened,
    metrics: StateMetrics,
    begun: u64,
    /// True if the files may not be what was kept.
    is_doubtful: bool,
    /// The reason that was told last for which nothing could be written.
    told: Option<String>,
}

impl Writer {
    fn new(opened: Opened, metrics: StateMetrics) -> Self {
        let begun = opened.kept.as_ref().map(|(head, _)| head.begun);
        let begun = begun.unwrap_or_else(|| seconds(SystemTime::now()));
        Self { opened, metrics, begun, is_doubtful: true, told: None }
    }

    fn keep(&mut self, wanted: &Wanted) {
        let started = Instant::now();
        match self.write(wanted) {
            Ok(Some((pieces, bytes))) => {
                self.metrics
                    .written
                    .set(i64::try_from(seconds(SystemTime::now())).unwrap_or(i64::MAX));
                let took = started.elapsed();
                tracing::debug!(pieces, bytes, ?took, "the state is kept");
                if self.told.take().is_some() {
                    info!("the state is kept again");
                }
            }
            Ok(None) => {}
            Err(why) => {
                self.metrics.failed.inc();
                self.is_doubtful = true;
                if self.told.as_ref() != Some(&why) {
                    let top = self.opened.files.top().display().to_string();
                    let top = Printable(&top);
                    warn!(
                        "the state could not be kept in `{top}`, and is tried again with the next \
                         load: {why}; clients are served all the same"
                    );
                    self.told = Some(why);
                }
            }
        }
    }

    /// Writes what differs. Returns how much that was, `None` if it is nothing.
    fn write(&mut self, wanted: &Wanted) -> Result<Option<(usize, usize)>, String> {
        let Opened { files, served, kept, is_unread } = &mut self.opened;
        *is_unread &= !files.has_lost_head();
        if *is_unread {
            return Err("the one of before cannot be read, and is not overwritten".to_owned());
        }
        let was_ours = files.is_locked();
        match files.lock() {
            Ok(true) => {}
            Ok(false) => return Err("it is in use by another process".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        self.is_doubtful |= !was_ours;
        // Somebody may have removed what was kept, as the process that had the lock until now.
        let known = kept.as_ref().filter(|_| was_ours && files.has_head());
        let (now, made) = wanted.memory.cut(known.map(|(_, kept)| kept));
        let head = Head {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            served: served.to_string_lossy().into_owned(),
            root: now.root().to_string(),
            written: seconds(SystemTime::now()),
            begun: self.begun,
            daemon: wanted.daemon.clone(),
        };
        let is_same = known.is_some_and(|(known, _)| {
            Head { written: head.written, ..known.clone() } == head && !self.is_doubtful
        });
        if is_same {
            return Ok(None);
        }
        let bytes = made.iter().map(|piece| piece.bytes.len()).sum();
        let written = files.write_pieces(&made).and_then(|()| files.write_head(&head.to_bytes()));
        if let Err(error) = written {
            // A full disk is not to be kept full; unless a head is there that may lead to them.
            let leads_there =
                files.head().is_ok_and(|there| there.as_ref() == Some(&head.to_bytes()));
            let is_known = known.is_some() && !self.is_doubtful;
            if !leads_there && (is_known || !files.has_head()) {
                files.remove(made.iter().map(|piece| piece.id));
            }
            return Err(error.to_string());
        }
        let needed = now.pieces();
        let before = known.map(|(_, kept)| Kept::pieces(kept)).unwrap_or_default();
        match std::mem::take(&mut self.is_doubtful) {
            true => files.sweep(&needed),
            false => files.remove(before.difference(&needed).copied().collect::<BTreeSet<_>>()),
        }
        *kept = Some((head, now));
        Ok(Some((made.len(), bytes)))
    }
}

/// The time that a last write may take when the server ends.
const DROP_WAIT: Duration = Duration::from_secs(2);
