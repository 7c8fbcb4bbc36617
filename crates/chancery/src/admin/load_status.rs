//! `/config`: the loaded resources with their file and line, and the faults of the last load.
//!
//! It has names, places and versions only. A body may hold a secret, so no body is shown (S-138),
//! and a fault is shown without the text of its line.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use chancery_catalog::{Catalog, ListedEntry, Origin};
use chancery_core::printable::{PrintForm, printable};
use hyper::body::Bytes;
use serde::Serialize;

use crate::fault_summary::FaultCounts;
use crate::finding::Finding;

/// The resources of the directory and the faults of the last load, as an operator may see them.
pub(crate) struct LoadStatus {
    catalog: Catalog,
    last: Mutex<LastLoad>,
}

#[derive(Clone, Default)]
struct LastLoad {
    at: Option<SystemTime>,
    faults: Vec<Finding>,
    more_faults: FaultCounts,
    /// The status as text, while an answer that has it is under way.
    text: Weak<String>,
}

/// A text that answers share.
struct SharedText(Arc<String>);

#[derive(Serialize)]
struct StatusDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    loaded_at: Option<u64>,
    /// The number of all faults.
    fault_count: usize,
    faults: Vec<Finding>,
    /// The numbers of those that are not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    more_faults: Vec<MoreFaults>,
    held_back: Vec<String>,
    resources: Vec<ResourceRow>,
}

#[derive(Serialize)]
struct MoreFaults {
    file: String,
    faults: usize,
}

#[derive(Serialize)]
struct ResourceRow {
    layer: String,
    r#type: String,
    name: String,
    version: String,
    file: String,
    line: usize,
}

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl ResourceRow {
    fn of(listed: ListedEntry) -> Self {
        let ListedEntry { layer, key, entry } = listed;
        let (file, line) = match &entry.origin {
            Origin::File { path, position } => (path.display().to_string(), position.line as usize),
            elsewhere => (elsewhere.to_string(), 0),
        };
        Self {
            layer: layer.to_string(),
            r#type: key.type_url.to_string(),
            name: key.name.to_string(),
            version: entry.resource.version().to_string(),
            file,
            line,
        }
    }
}

impl LastLoad {
    fn fault_count(&self) -> usize {
        self.faults.len() + self.more_faults.total()
    }
}

impl LoadStatus {
    /// The status before the first load.
    pub(crate) fn new(catalog: Catalog) -> Self {
        Self { catalog, last: Mutex::default() }
    }

    /// Records the faults of a load.
    pub(crate) fn record(&self, faults: Vec<Finding>, more_faults: FaultCounts) {
        let at = Some(SystemTime::now());
        *self.lock() = LastLoad { at, faults, more_faults, text: Weak::new() };
    }

    /// The number of faults of the last load.
    pub(crate) fn fault_count(&self) -> usize {
        self.lock().fault_count()
    }

    /// The whole status, as JSON. Clients that do not read their answers share one text.
    pub(crate) fn json(&self) -> Bytes {
        let last = self.lock().clone();
        if let Some(text) = last.text.upgrade() {
            return Bytes::from_owner(SharedText(text));
        }
        let at = last.at;
        let text = Arc::new(self.text(last));
        let mut last = self.lock();
        if last.at == at {
            last.text = Arc::downgrade(&text);
        }
        Bytes::from_owner(SharedText(text))
    }

    fn text(&self, last: LastLoad) -> String {
        let fault_count = last.fault_count();
        let LastLoad { at, faults, more_faults, .. } = last;
        let named = more_faults.files().take(MOST_FILES);
        let named = named.map(|(file, faults)| MoreFaults { file: file.to_owned(), faults });
        let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let shown = StatusDocument {
            loaded_at: since.map(|since| since.as_secs()),
            fault_count,
            faults,
            more_faults: named.collect(),
            held_back: self.catalog.held_back().iter().map(ToString::to_string).collect(),
            resources: self.rows(),
        };
        let text = serde_json::to_string_pretty(&shown).unwrap_or_default() + "\n";
        printable(&text, PrintForm::Json).into_owned()
    }

    fn rows(&self) -> Vec<ResourceRow> {
        self.catalog.entries().map(ResourceRow::of).collect()
    }

    /// Takes the lock. A poisoned lock is used all the same, because each write replaces the whole
    /// value.
    fn lock(&self) -> MutexGuard<'_, LastLoad> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of files whose faults are counted in the document.
const MOST_FILES: usize = 1000;
