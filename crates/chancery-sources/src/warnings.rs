//! Which warnings were told, so that each is told once.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::fault::Warning;
use crate::read::{Edited, Reading};

/// What was worth knowing at the last load.
#[derive(Default)]
pub(crate) struct Told {
    of_files: BTreeSet<Warning>,
    dangling: Arc<BTreeSet<Warning>>,
    rest: BTreeSet<Warning>,
}

impl Told {
    /// All that is to be said of the files that are there; what of it is new.
    pub(crate) fn all(&mut self, Reading { listing, documents }: &Reading) -> Vec<Warning> {
        let warnings = documents.iter().flat_map(|document| &document.warnings);
        replace(&mut self.of_files, warnings.chain(&listing.warnings).cloned().collect())
    }

    /// What is to be said of changed files and was not.
    pub(crate) fn of_edits<'a>(
        &mut self,
        edits: impl Iterator<Item = &'a Edited> + Clone,
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

    /// All that is to be said of references that lead nowhere; what of it is new.
    pub(crate) fn dangling(&mut self, now: Arc<BTreeSet<Warning>>) -> Vec<Warning> {
        if Arc::ptr_eq(&self.dangling, &now) {
            return Vec::new();
        }
        let new = now.difference(&self.dangling).cloned().collect();
        self.dangling = now;
        new
    }

    /// All that is to be said of anything else; what of it is new.
    pub(crate) fn rest(&mut self, now: BTreeSet<Warning>) -> Vec<Warning> {
        replace(&mut self.rest, now)
    }
}

fn replace(told: &mut BTreeSet<Warning>, now: BTreeSet<Warning>) -> Vec<Warning> {
    let new = now.difference(told).cloned().collect();
    *told = now;
    new
}
