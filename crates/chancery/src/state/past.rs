//! The start of a server with a state directory: what was in force is put into the catalog and the gate.
//!
//! Whatever cannot be used is told once and put aside, and the server starts as if it had no past. If the system
//! cannot read it, which says nothing of what is there, it is left where it is.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use chancery_catalog::{Catalog, Kept, Layer, Lineage, Memory, Reader};
use chancery_core::printable::Printable;
use chancery_files::ReadError;
use chancery_proto::schema::Schema;
use chancery_sources::{Directory, ReadEntries};
use tracing::{info, warn};

use super::files::StateFiles;
use super::head::{Head, time, utc};
use crate::gate::LoadGate;

/// The surroundings of a start.
pub(crate) struct Past {
    /// The state directory.
    pub(crate) state: PathBuf,
    /// The directory that is served.
    pub(crate) served: PathBuf,
    pub(crate) catalog: Catalog,
    pub(crate) gate: LoadGate,
    pub(crate) schema: Schema,
    /// True if resources are served under their v2 types too.
    pub(crate) v2: bool,
    /// The groups that extend others, as `chancery.yaml` says now.
    pub(crate) lineage: Lineage,
}

/// A state directory that was read.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) files: StateFiles,
    /// The directory that is served.
    pub(super) served: PathBuf,
    /// The state that is kept, if it was used.
    pub(super) kept: Option<(Head, Kept)>,
    /// True if there is a state that the system could not read: it may be whole, and is not overwritten.
    pub(super) is_unread: bool,
}

/// The reason why a state is not used.
enum Unusable {
    /// It is damaged, or none of this server.
    Damaged(String),
    /// The system did not give what is there.
    Unread(String),
}

/// A place for what was opened, once it was.
pub(super) type Opening = Arc<Mutex<Option<Opened>>>;

/// Has the first load of a directory begin with what was in force. Returns where the outcome is found after
/// that load.
pub(crate) fn begin(directory: Directory, past: Past) -> (Directory, PastState) {
    let opening = Opening::default();
    let outcome = Arc::clone(&opening);
    let directory = directory.beginning_with(move |read| {
        let (opened, layers) = past.open(read);
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        layers
    });
    (directory, PastState(opening))
}

/// The outcome of reading a state directory.
#[derive(Clone, Debug)]
pub(crate) struct PastState(Opening);

impl PastState {
    /// Takes the outcome; `None` before the first load.
    pub(super) fn take(&self) -> Option<Opened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Past {
    fn open(self, read: &ReadEntries<'_>) -> (Opened, BTreeSet<Layer>) {
        let mut files = StateFiles::new(&self.state);
        let shown = self.state.display().to_string();
        let shown = Printable(&shown);
        let may_write = match files.lock() {
            Ok(true) => true,
            Ok(false) => {
                warn!(
                    "the state directory `{shown}` is in use by another process: what is there is \
                     used, and nothing is kept until that process ends"
                );
                false
            }
            Err(error) => {
                warn!("nothing is kept in the state directory `{shown}`: {error}");
                false
            }
        };
        let found = self.read_patiently(&files, read, may_write);
        let is_unread = may_write && matches!(found, Err(Unusable::Unread(_)));
        let kept = match found {
            Ok(Some((head, kept))) => {
                self.restore(&head, &kept);
                info!("begins with what was in force at {}, from `{shown}`", utc(head.written));
                Some((head, kept))
            }
            Ok(None) => {
                info!("nothing is kept in `{shown}` so far: the first load is not judged");
                None
            }
            Err(Unusable::Unread(why)) => {
                warn!(
                    "the state in `{shown}` cannot be read now, and is left as it is: {why}; {WITHOUT}, and \
                     nothing is kept until the server is started again or that state is moved away"
                );
                None
            }
            Err(Unusable::Damaged(why)) => {
                let where_to = if may_write { files.put_aside().ok() } else { None };
                let fate = match where_to {
                    Some(aside) => {
                        format!("it is put aside as `{}`", Printable(&aside.display().to_string()))
                    }
                    None => "it is left alone".to_owned(),
                };
                warn!("the state in `{shown}` cannot be used, {fate}: {why}; {WITHOUT}");
                None
            }
        };
        let layers = kept.as_ref().map(|(_, kept)| kept.memory().layers()).unwrap_or_default();
        (Opened { files, served: self.served, kept, is_unread }, layers)
    }

    /// Reads what is kept, again if that may help.
    ///
    /// Another process that writes removes what its new head does not need, once that is there: so what is
    /// missing below an older head is found below the new one, and nobody has to wait for it. Storage that fails
    /// says nothing when it answers again, so it is asked a few times with a pause. This is the thread that reads
    /// files, at a start, and nobody waits for it without a bound.
    fn read_patiently(
        &self,
        files: &StateFiles,
        entries: &ReadEntries<'_>,
        may_write: bool,
    ) -> Result<Option<(Head, Kept)>, Unusable> {
        let mut failed_before = None;
        for _ in 1..TRIES {
            let head = files.head();
            let seen = head.as_ref().ok().cloned();
            match self.read(head, files, entries) {
                Err(Unusable::Unread(_)) => std::thread::sleep(PAUSE),
                Err(damaged) if may_write => return Err(damaged),
                Err(damaged) => {
                    let is_same = seen.is_some() && files.head().ok() == seen;
                    // A writer that goes back to what was there before writes the same head again.
                    if is_same && failed_before == seen {
                        return Err(damaged);
                    }
                    failed_before = seen.filter(|_| is_same);
                }
                read => return read,
            }
        }
        self.read(files.head(), files, entries)
    }

    fn read(
        &self,
        head: Result<Option<Vec<u8>>, ReadError>,
        files: &StateFiles,
        entries: &ReadEntries<'_>,
    ) -> Result<Option<(Head, Kept)>, Unusable> {
        let bytes = head.map_err(|error| {
            let why = format!("its head {error}");
            match error {
                ReadError::Io(_) => Unusable::Unread(why),
                _ => Unusable::Damaged(why),
            }
        })?;
        let Some(bytes) = bytes else { return Ok(None) };
        let damaged = |error: &dyn Display| Unusable::Damaged(error.to_string());
        let head = Head::read(&bytes, &self.served).map_err(|error| damaged(&error))?;
        let root = head.root.parse().map_err(|_| damaged(&"its root has no name"))?;
        let failed = RefCell::new(None);
        let piece = |id| {
            files.piece(id).unwrap_or_else(|error| {
                *failed.borrow_mut() = Some(Unusable::Unread(format!("its piece {id}: {error}")));
                None
            })
        };
        let known = |layer: &_, key: &_| entries.get(layer, key);
        let reader =
            Reader { schema: &self.schema, piece: &piece, known: &known, derived: self.v2 };
        let kept = Memory::read(root, &reader);
        let kept = kept.map_err(|error| failed.take().unwrap_or_else(|| damaged(&error)))?;
        Ok(Some((head, kept)))
    }

    /// Puts what is kept into the catalog and the gate.
    fn restore(&self, head: &Head, kept: &Kept) {
        self.gate.remember(&head.daemon.gate);
        if self.catalog.restore(&kept.memory()) {
            self.catalog.extend(self.lineage.clone(), crate::config::FILE);
            // Nodes with files of their own are judged while somebody asks for them, and nobody is back so far.
            for node in head.daemon.gate.used_nodes() {
                self.catalog.seen_by(&node);
            }
        }
    }
}

/// The consequence of a start without a state.
const WITHOUT: &str =
    "the first load is not judged, and a layer with faults has nothing to fall back on";

/// The number of times that a state is read at most, and the time between two reads of storage that fails.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// The text of `chancery.yaml` that could be used last, and the time at which it was kept.
pub(crate) fn config_before(state: &Path, served: &Path) -> Option<(String, u64)> {
    let head = head(state, served)?;
    Some((head.daemon.config?, head.written))
}

/// The time at which a state was kept for the first time.
pub(crate) fn first_start(state: &Path, served: &Path) -> Option<SystemTime> {
    head(state, served).map(|head| time(head.begun))
}

fn head(state: &Path, served: &Path) -> Option<Head> {
    let bytes = StateFiles::new(state).head().ok()??;
    Head::read(&bytes, &std::path::absolute(served).ok()?).ok()
}

/// Returns true if one directory lies in another, or is the same, wherever symlinks lead.
pub(crate) fn lies_in(state: &Path, served: &Path) -> bool {
    let real = |path: &Path| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let known =
            absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        match known {
            Some((above, real)) => {
                real.join(absolute.strip_prefix(above).unwrap_or_else(|_| Path::new("")))
            }
            None => absolute,
        }
    };
    real(state).starts_with(real(served))
}
