//! `/api/v1/config`: the loaded resources with their file and line, and the present faults and warnings.
//!
//! It has names, places and versions only. A body may hold a secret, so no body is shown (S-138),
//! and a fault is shown without the text of its line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use chancery_catalog::{Audience, Catalog, EntryContent, Layer, ListedEntry, Origin};
use chancery_core::printable::{MAX_MESSAGE_BYTES, cut};
use chancery_sources::Warning;
use hyper::body::Bytes;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::api::{ApiError, Described, Types, document};
use super::confirm::MOST_ROWS;
use super::printed;
use super::shared_document::{BuildFailed, SharedDocument, Stamp};
use crate::counts_by_file::CountsByFile;
use crate::finding::Finding;
use crate::gate::{Held, HeldRow, LoadGate};
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

#[derive(Clone, Default)]
struct LastLoad {
    /// Grows with each record.
    number: u64,
    at: Option<SystemTime>,
    findings: Arc<LoadFindings>,
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

/// The content of the catalog as a document. Of very many resources, no more is made than is written.
pub(crate) struct StatusDocument<'c> {
    /// The keys that are written; all, if there are none.
    keys: Option<&'c [String]>,
    loaded_at: Option<u64>,
    /// The number of all faults.
    fault_count: usize,
    faults: &'c [Finding],
    /// The numbers of those that are not shown.
    more_faults: Vec<MoreFaults>,
    /// The number of all warnings.
    warning_count: usize,
    warnings: Vec<WarningRow>,
    held_back: Vec<String>,
    /// The layers with faults, and since when they keep their last good state.
    last_good: &'c [FaultyRow],
    /// The reason why every layer is held back, if they all are.
    everything_held_back: Option<&'c str>,
    /// The number of audiences from which something is held back until it is confirmed.
    held_count: usize,
    held: Vec<HeldRow>,
    resources: ResourceRows<'c>,
}

/// The keys of an object that are wanted, as they are written.
struct Part<'k, M> {
    keys: Option<&'k [String]>,
    map: M,
}

/// All resources of a catalog, which are listed as they are written.
struct ResourceRows<'c>(&'c Catalog);

document! {
    /// Faults that are not shown.
    struct MoreFaults {
        /// The path of the file.
        file: String,
        /// The number of its faults.
        faults: usize,
    }
}

document! {
    /// Something that is probably not meant so.
    struct WarningRow {
        /// The path of the file, if it is about one.
        file: Option<String> = default,
        /// The number of the line.
        line: Option<u32> = default,
        /// The description.
        message: String,
    }
}

document! {
    /// A resource of one layer.
    struct ResourceRow {
        /// The layer, in words.
        layer: String,
        /// The URL of the type.
        r#type: String,
        /// The name.
        name: String,
        /// `patch` or `remove`, if the layer does not have the resource whole.
        edit: Option<String> = default,
        /// The version, if the layer has the resource whole.
        version: Option<String> = default,
        /// The file it comes from, or another origin.
        file: String,
        /// The number of the line, or 0.
        line: usize,
    }
}

impl Described for StatusDocument<'_> {
    fn schema(types: &mut Types) -> Value {
        types.object("StatusDocument", "What is loaded, and what is wrong.", |it, types| {
            let [number, text] = [usize::schema(types), String::schema(types)];
            let about =
                "The seconds since 1970 at the last load of the directory or of `chancery.yaml`.";
            it.property("loaded_at", about, false, number.clone());
            it.property("fault_count", "The number of all faults.", true, number.clone());
            let faults = <Vec<Finding>>::schema(types);
            it.property("faults", "The first of the faults.", true, faults);
            let more = <Vec<MoreFaults>>::schema(types);
            it.property("more_faults", "The numbers of faults that are not shown.", false, more);
            it.property("warning_count", "The number of all warnings.", true, number.clone());
            let warnings = <Vec<WarningRow>>::schema(types);
            it.property("warnings", "The first of the warnings.", true, warnings);
            let layers = <Vec<String>>::schema(types);
            it.property("held_back", "The layers that keep their last good state.", true, layers);
            let last_good = <Vec<FaultyRow>>::schema(types);
            it.property("last_good", "The first of the layers with faults.", false, last_good);
            let about = "The reason why every layer is held back, if they all are.";
            it.property("everything_held_back", about, false, text);
            let about = "The number of audiences from which the gate holds something back.";
            it.property("held_count", about, true, number);
            let held = <Vec<HeldRow>>::schema(types);
            it.property("held", "The first of these audiences.", true, held);
            let resources = <Vec<ResourceRow>>::schema(types);
            it.property("resources", "All resources, by layer.", true, resources);
        })
    }
}

impl Serialize for StatusDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut part = Part { keys: self.keys, map: serializer.serialize_map(None)? };
        part.some("loaded_at", self.loaded_at.as_ref())?;
        part.entry("fault_count", &self.fault_count)?;
        part.entry("faults", self.faults)?;
        part.some("more_faults", Some(&self.more_faults).filter(|it| !it.is_empty()))?;
        part.entry("warning_count", &self.warning_count)?;
        part.entry("warnings", &self.warnings)?;
        part.entry("held_back", &self.held_back)?;
        part.some("last_good", Some(self.last_good).filter(|it| !it.is_empty()))?;
        part.some("everything_held_back", self.everything_held_back.as_ref())?;
        part.entry("held_count", &self.held_count)?;
        part.entry("held", &self.held)?;
        part.entry("resources", &self.resources)?;
        part.map.end()
    }
}

impl<M: SerializeMap> Part<'_, M> {
    fn entry(&mut self, key: &str, value: &(impl Serialize + ?Sized)) -> Result<(), M::Error> {
        match self.keys.is_none_or(|keys| keys.iter().any(|wanted| wanted == key)) {
            true => self.map.serialize_entry(key, value),
            false => Ok(()),
        }
    }

    /// An entry that is left out if there is no value.
    fn some(
        &mut self,
        key: &str,
        value: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.entry(key, value))
    }
}

impl Serialize for ResourceRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.entries().map(ResourceRow::of))
    }
}

impl ResourceRow {
    pub(super) fn of(listed: ListedEntry) -> Self {
        let ListedEntry { layer, key, entry } = listed;
        let (file, line) = match &entry.origin {
            Origin::File { path, position } => (path.display().to_string(), position.line as usize),
            elsewhere => (elsewhere.to_string(), 0),
        };
        Self {
            layer: layer.to_string(),
            r#type: key.type_url.to_string(),
            name: key.name.to_string(),
            edit: match &entry.content {
                EntryContent::Whole(_) => None,
                EntryContent::Patch(_) => Some("patch".to_owned()),
                EntryContent::Removal(_) => Some("remove".to_owned()),
            },
            version: entry.resource().map(|resource| resource.version().to_string()),
            file,
            line,
        }
    }
}

impl From<&Warning> for WarningRow {
    fn from(warning: &Warning) -> Self {
        let file = warning.file.as_deref().map(|file| Path::to_string_lossy(file).into_owned());
        Self { file, line: warning.line, message: warning.message.clone() }
    }
}

impl LoadFindings {
    fn fault_count(&self) -> usize {
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

fn text(catalog: &Catalog, last: LastLoad, keys: Option<&[String]>) -> String {
    let LastLoad { at, findings, .. } = last;
    let LoadFindings { faults, more_faults, warnings, warning_count, .. } = &*findings;
    let LoadFindings { everything_held_back, held, faulty, .. } = &*findings;
    let named = more_faults.files().take(MOST_FILES);
    let named = named.map(|(file, faults)| MoreFaults { file: file.to_owned(), faults });
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let shown = StatusDocument {
        keys,
        loaded_at: since.map(|since| since.as_secs()),
        fault_count: findings.fault_count(),
        faults,
        more_faults: named.collect(),
        warning_count: *warning_count,
        warnings: warnings.iter().map(WarningRow::from).collect(),
        held_back: held_back(catalog, everything_held_back.is_some()),
        last_good: faulty,
        everything_held_back: everything_held_back.as_deref(),
        held_count: held.len(),
        held: held.iter().take(MOST_ROWS).map(Held::row).collect(),
        resources: ResourceRows(catalog),
    };
    printed(serde_json::to_string_pretty(&shown).unwrap_or_default())
}

/// The layers that keep their last good state. A fault of the whole directory holds back all of them,
/// and the catalog does not know of it, because nothing was committed.
fn held_back(catalog: &Catalog, everything: bool) -> Vec<String> {
    if !everything {
        return catalog.held_back().iter().map(ToString::to_string).collect();
    }
    let (groups, nodes) = (catalog.groups(), catalog.nodes());
    let groups = groups.iter().cloned().map(Layer::Group);
    let nodes = nodes.iter().cloned().map(Layer::Node);
    let all = std::iter::once(Layer::Base).chain(groups).chain(nodes);
    all.map(|layer| layer.to_string()).collect()
}

/// Takes the lock. A poisoned lock is used all the same, because each write replaces the whole
/// value.
fn lock(last: &Mutex<LastLoad>) -> MutexGuard<'_, LastLoad> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of files whose faults are counted in the document.
const MOST_FILES: usize = 1000;
