//! The warnings of the last load, so that each is reported once.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fault::Warning;
use crate::read::{FileEdit, Reading};

/// The warnings of the last load.
#[derive(Default)]
pub(crate) struct WarningsSeen {
    of_files: BTreeSet<Warning>,
    dangling: Arc<BTreeSet<String>>,
    rest: BTreeSet<Warning>,
}

impl WarningsSeen {
    /// Takes the warnings about all files. Returns those that are new.
    pub(crate) fn new_of_scan(&mut self, Reading { listing, documents }: &Reading) -> Vec<Warning> {
        let warnings = documents.iter().flat_map(|document| &document.warnings);
        replace(&mut self.of_files, warnings.chain(&listing.warnings).cloned().collect())
    }

    /// Takes the warnings about changed files. Returns those that are new.
    pub(crate) fn of_edits<'a>(
        &mut self,
        edits: impl Iterator<Item = &'a FileEdit> + Clone,
    ) -> Vec<Warning> {
        let now = edits.clone().filter_map(|edit| edit.new.as_ref());
        let now: BTreeSet<_> = now.flat_map(|document| &document.warnings).cloned().collect();
        let new = now.difference(&self.of_files).cloned().collect();
        let before = edits.filter_map(|edit| edit.old.as_ref());
        for gone in before.flat_map(|document| &document.warnings) {
            self.of_files.remove(gone);
        }
        self.of_files.extend(now);
        new
    }

    /// Takes the warnings about dangling references. Returns those that are new.
    pub(crate) fn dangling(&mut self, now: Arc<BTreeSet<String>>) -> Vec<Warning> {
        if Arc::ptr_eq(&self.dangling, &now) {
            return Vec::new();
        }
        let new = now.difference(&self.dangling).map(Warning::general).collect();
        self.dangling = now;
        new
    }

    /// Takes the warnings about anything else. Returns those that are new.
    pub(crate) fn rest(&mut self, now: BTreeSet<Warning>) -> Vec<Warning> {
        replace(&mut self.rest, now)
    }
}

fn replace(seen: &mut BTreeSet<Warning>, now: BTreeSet<Warning>) -> Vec<Warning> {
    let new = now.difference(seen).cloned().collect();
    *seen = now;
    new
}
