//! `/config`: the loaded resources with their file and line, and the faults of the last load.
//!
//! It has names, places and versions only. A body may hold a secret, so no body is shown (S-138),
//! and a fault is shown without the text of its line.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use chancery_catalog::{Catalog, ListedEntry, Origin};
use chancery_core::printable::{PrintForm, printable};
use serde::Serialize;

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
}

#[derive(Serialize)]
struct StatusDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    loaded_at: Option<u64>,
    faults: Vec<Finding>,
    held_back: Vec<String>,
    resources: Vec<ResourceRow>,
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

impl LoadStatus {
    /// The status before the first load.
    pub(crate) fn new(catalog: Catalog) -> Self {
        Self { catalog, last: Mutex::default() }
    }

    /// Records the faults of a load.
    pub(crate) fn record(&self, faults: Vec<Finding>) {
        *self.lock() = LastLoad { at: Some(SystemTime::now()), faults };
    }

    /// The number of faults of the last load.
    pub(crate) fn fault_count(&self) -> usize {
        self.lock().faults.len()
    }

    /// The whole status, as JSON.
    pub(crate) fn json(&self) -> String {
        let LastLoad { at, faults } = self.lock().clone();
        let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let shown = StatusDocument {
            loaded_at: since.map(|since| since.as_secs()),
            faults,
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
