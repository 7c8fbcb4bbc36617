//! The faults and warnings of now, and what is held back, as the admin interface shows them.
//!
//! Not here: the document with all of it (`loaded_document`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use chancery_catalog::{Audience, Catalog, Layer};
use chancery_core::printable::{MAX_MESSAGE_BYTES, cut};
use chancery_sources::Warning;
use hyper::body::Bytes;

use super::api::ApiError;
use super::loaded_document::text;
use super::shared_document::{BuildFailed, SharedDocument, Stamp};
use crate::counts_by_file::CountsByFile;
use crate::finding::Finding;
use crate::gate::{Held, LoadGate};
use crate::serve::FaultyRow;

/// The resources of the directory, and its faults and warnings, as an operator may see them.
pub(crate) struct LoadStatus {
    catalog: Catalog,
    last: Arc<Mutex<LastLoad>>,
    document: SharedDocument,
}

/// The faults and warnings of a directory, and of `chancery.yaml`.
#[derive(Clone, Default)]
pub(crate) struct LoadFindings {
    /// The first of the faults.
    pub(crate) faults: Vec<Finding>,
    /// The numbers of the others, by file.
    pub(crate) more_faults: CountsByFile,
    /// The first of the warnings.
    pub(crate) warnings: Arc<Vec<Warning>>,
    /// The number of all warnings.
    pub(crate) warning_count: usize,
    /// The reason why every layer is held back, if they all are.
    pub(crate) everything_held_back: Option<String>,
    /// The changes that wait for a confirmation, by audience.
    pub(crate) held: Arc<Vec<Held>>,
    /// The layers with faults, which keep their last good state.
    pub(crate) faulty: Vec<FaultyRow>,
}

/// The last load, as it was recorded.
#[derive(Clone, Default)]
pub(super) struct LastLoad {
    /// Grows with each record.
    number: u64,
    pub(super) at: Option<SystemTime>,
    pub(super) findings: Arc<LoadFindings>,
    /// The number of the revision at this record.
    revision: u64,
    /// The first revision that each audience, from which something is held back, does not see whole.
    held_since: BTreeMap<Audience, u64>,
}

/// The newest content of layers that is not live because of faults.
pub(super) struct FaultyEdits {
    /// The layer; `None` for all of them.
    pub(super) layer: Option<Layer>,
    /// The reason, in words.
    pub(super) why: String,
}

/// The changes that the gate holds back now, and since when. Clones are the same.
#[derive(Clone)]
pub(super) struct HeldLoads {
    catalog: Catalog,
    gate: LoadGate,
    last: Arc<Mutex<LastLoad>>,
}

impl LoadFindings {
    pub(super) fn fault_count(&self) -> usize {
        self.faults.len() + self.more_faults.total()
    }
}

impl LoadStatus {
    /// The status before the first load.
    pub(crate) fn new(catalog: Catalog) -> Self {
        Self { catalog, last: Arc::default(), document: SharedDocument::default() }
    }

    /// Records the present faults and warnings.
    pub(crate) fn record(&self, findings: LoadFindings) {
        let at = Some(SystemTime::now());
        let revision = self.catalog.revision().map_or(0, |revision| revision.number);
        let mut last = lock(&self.last);
        // Without a new revision, it is no part of the present one: it waits behind faults.
        let first = if revision > last.revision { revision } else { revision + 1 };
        let since = |held: &Held| last.held_since.get(&held.audience).copied().unwrap_or(first);
        let held_since =
            findings.held.iter().map(|held| (held.audience.clone(), since(held))).collect();
        let (number, findings) = (last.number + 1, Arc::new(findings));
        *last = LastLoad { number, at, findings, revision, held_since };
        drop(last);
        self.document.forget();
    }

    /// The number of faults of the last load.
    pub(crate) fn fault_count(&self) -> usize {
        lock(&self.last).findings.fault_count()
    }

    /// The first fault of a file, in words, if it has one. Paths are looked up, so it may block.
    pub(super) async fn fault_in(&self, file: PathBuf) -> Result<Option<String>, ApiError> {
        let findings = Arc::clone(&lock(&self.last).findings);
        let looking = tokio::task::spawn_blocking(move || {
            let same = |path: &Path| {
                path.file_name() == file.file_name()
                    && fs::canonicalize(path).ok() == fs::canonicalize(&file).ok()
            };
            let fault = findings.faults.iter().find(|fault| same(Path::new(fault.file())));
            let more = || findings.more_faults.files().find(|(path, _)| same(Path::new(path)));
            let fault = fault.map(|fault| cut(&fault.to_string(), MAX_MESSAGE_BYTES).into_owned());
            fault.or_else(|| more().map(|(path, _)| format!("{path}: the file has faults")))
        });
        looking.await.map_err(|_| ApiError::failed())
    }

    /// The changes that wait for a confirmation, by audience.
    pub(crate) fn held(&self) -> Arc<Vec<Held>> {
        Arc::clone(&lock(&self.last).findings.held)
    }

    /// The changes that this gate holds back, as of whenever they are asked for.
    pub(super) fn held_loads(&self, gate: &LoadGate) -> HeldLoads {
        HeldLoads {
            catalog: self.catalog.clone(),
            gate: gate.clone(),
            last: Arc::clone(&self.last),
        }
    }

    /// The layers with faults, in a line each for the first of them, and the number of all.
    pub(crate) fn faulty(&self, most: usize) -> (Vec<String>, usize) {
        let findings = Arc::clone(&lock(&self.last).findings);
        let lines = findings.faulty.iter().take(most).map(FaultyRow::line);
        (lines.collect(), findings.faulty.len())
    }

    /// The whole status, as JSON. It is built on another thread, and again only when something has
    /// changed.
    ///
    /// # Errors
    /// If it cannot be built.
    pub(crate) async fn json(&self) -> Result<Bytes, BuildFailed> {
        let (catalog, last) = (self.catalog.clone(), Arc::clone(&self.last));
        let now = stamp(&catalog, &lock(&last));
        let build = move || {
            let last = lock(&last).clone();
            (stamp(&catalog, &last), text(&catalog, last, None))
        };
        self.document.get(now, build).await
    }

    /// The work that makes a part of the status, with these keys alone.
    pub(super) fn part(&self, keys: &[String]) -> impl FnOnce() -> String + Send + use<> {
        let (catalog, last, keys) = (self.catalog.clone(), Arc::clone(&self.last), keys.to_vec());
        move || {
            let last = lock(&last).clone();
            text(&catalog, last, Some(&keys))
        }
    }

    /// Takes the turn to build, and gives it back when the sender of `end` is gone.
    #[cfg(test)]
    pub(super) async fn occupy(
        &self,
        begun: tokio::sync::oneshot::Sender<()>,
        end: std::sync::mpsc::Receiver<()>,
    ) {
        let build = move || {
            begun.send(()).unwrap();
            end.recv().ok();
            panic!("nothing was built");
        };
        self.document.get(Stamp::default(), build).await.unwrap_err();
    }
}

impl HeldLoads {
    /// The changes that are held back, each with the first load that lacks it; `None` until that is recorded.
    /// A load that somebody sees was judged before, so that it is known here if it is held back.
    pub(super) fn list(&self) -> Vec<(Held, Option<u64>)> {
        let held = self.gate.held();
        let last = lock(&self.last);
        let since = |held: Held| {
            let since = last.held_since.get(&held.audience).copied();
            (held, since)
        };
        held.into_iter().map(since).collect()
    }

    /// The layers whose newest content is not live because of faults.
    pub(super) fn faulty(&self) -> Vec<FaultyEdits> {
        let findings = Arc::clone(&lock(&self.last).findings);
        if let Some(why) = &findings.everything_held_back {
            return vec![FaultyEdits { layer: None, why: why.clone() }];
        }
        let rows = findings.faulty.iter();
        let rows: BTreeMap<_, _> = rows.filter_map(|row| Some((row.unserved()?, row))).collect();
        let layers = self.catalog.held_back().into_iter();
        let faulty = layers.filter_map(|layer| {
            let why = rows.get(layer.to_string().as_str())?.line();
            Some(FaultyEdits { layer: Some(layer), why })
        });
        faulty.collect()
    }
}

/// The stamp of the present content, which grows with each load and each change of the catalog.
fn stamp(catalog: &Catalog, last: &LastLoad) -> Stamp {
    let revision = catalog.revision().map_or(0, |revision| revision.number);
    Stamp { record: last.number, revision }
}

/// Takes the lock. A poisoned lock is used all the same, because each write replaces the whole
/// value.
fn lock(last: &Mutex<LastLoad>) -> MutexGuard<'_, LastLoad> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}
