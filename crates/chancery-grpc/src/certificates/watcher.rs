//! Files that are read again when somebody needs what they hold and the interval is over (C-124).
//!
//! There is no task and no timer: a provider that nobody asks reads nothing, and one that is asked is never
//! older than its interval. One asks the disk at a time; the others go on with what is known, or wait for it
//! where nothing is known yet.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::warn;

use super::files::Files;
use super::reader::{self, Material, Reading};

/// The files of a provider, and what was read of them last.
#[derive(Debug)]
pub(super) struct FileWatcher {
    files: Files,
    state: Mutex<State>,
    /// Counts the readings that have ended.
    readings: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` before the first reading.
    material: Option<Material>,
    /// The time from which on the files are read again.
    due: Option<Instant>,
    is_reading: bool,
}

/// The right to read the files, which one has at a time. It ends also where the reading is never begun.
struct Claim(Arc<FileWatcher>);

/// The answer to somebody who needs the material.
enum Asked {
    Known(Material),
    Read(Claim),
    Wait,
}

impl FileWatcher {
    /// Returns the watcher of these files, which the process has once.
    pub(super) fn shared(files: Files) -> Arc<Self> {
        type Watchers = HashMap<Files, Weak<FileWatcher>>;
        static WATCHERS: LazyLock<Mutex<Watchers>> = LazyLock::new(Mutex::default);
        let mut watchers = WATCHERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = watchers.get(&files).and_then(Weak::upgrade) {
            return known;
        }
        if watchers.len() >= watchers.capacity() {
            watchers.retain(|_, watcher| watcher.strong_count() > 0);
        }
        let watcher = Arc::new(Self::new(files.clone()));
        watchers.insert(files, Arc::downgrade(&watcher));
        watcher
    }

    fn new(files: Files) -> Self {
        Self { files, state: Mutex::default(), readings: watch::channel(0).0 }
    }

    /// Returns the material as it is now.
    pub(super) async fn material(self: &Arc<Self>) -> Material {
        let mut readings = self.readings.subscribe();
        loop {
            match self.ask() {
                Asked::Known(material) => return material,
                Asked::Wait => {
                    // The sender lives as long as this watcher.
                    let _ = readings.changed().await;
                }
                Asked::Read(claim) => {
                    // The material is the answer, however short the interval is.
                    let read = spawn_blocking(move || claim.read()).await;
                    // It fails where the runtime ends.
                    return read
                        .unwrap_or_else(|_| self.lock().material.clone().unwrap_or_default());
                }
            }
        }
    }

    fn ask(self: &Arc<Self>) -> Asked {
        let mut state = self.lock();
        match (&state.material, state.is_reading) {
            (Some(material), true) => Asked::Known(material.clone()),
            (None, true) => Asked::Wait,
            (Some(material), false) if state.due.is_some_and(|due| Instant::now() < due) => {
                Asked::Known(material.clone())
            }
            (_, false) => {
                state.is_reading = true;
                Asked::Read(Claim(Arc::clone(self)))
            }
        }
    }

    /// No code that panics runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Reads the files, and keeps what cannot be read as it was.
    fn read(self) -> Material {
        let watcher = &self.0;
        let before = watcher.lock().material.clone().unwrap_or_default();
        let Reading { material, faults } = reader::read(&watcher.files, before);
        for fault in &faults {
            warn!("a file of a certificate provider cannot be used: {fault}");
        }
        let pause = match faults.is_empty() {
            true => watcher.files.interval,
            false => watcher.files.interval.min(RETRY),
        };
        let mut state = watcher.lock();
        state.material = Some(material.clone());
        state.due = Instant::now().checked_add(pause);
        material
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.lock().is_reading = false;
        self.0.readings.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// The time after which files are read again that could not be used: a certificate that is replaced before
/// its key is whole in a moment.
const RETRY: Duration = Duration::from_secs(1);
