//! The warnings of the last load, so that each is reported as new once, and the present ones are known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::fault::Warning;
use crate::read::{FileEdit, Reading};
use crate::scan::patch::IgnoredFile;

/// The warnings of the last load.
#[derive(Default)]
pub(crate) struct WarningsSeen {
    of_files: BTreeSet<Warning>,
    dangling: Arc<BTreeSet<String>>,
    rest: BTreeSet<Warning>,
    /// The first of them all, until something changes.
    first: Option<Arc<Vec<Warning>>>,
}

/// The number of present warnings that a report lists, of all files and of each.
const MAX_PRESENT: usize = 1000;
const MAX_PRESENT_OF_FILE: usize = 100;

impl WarningsSeen {
    /// Takes the warnings about all files. Returns those that are new.
    pub(crate) fn new_of_scan(&mut self, Reading { listing, documents }: &Reading) -> Vec<Warning> {
        let warnings = documents.iter().flat_map(|document| &document.warnings);
        let now = warnings.chain(&listing.warnings).cloned().collect();
        self.first = None;
        replace(&mut self.of_files, now)
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
        let mut changed = !now.is_empty();
        for gone in before.flat_map(|document| &document.warnings) {
            changed |= self.of_files.remove(gone);
        }
        if changed {
            self.first = None;
        }
        self.of_files.extend(now);
        new
    }

    /// Takes the warnings about ignored files that came or went. Returns those that are new.
    pub(crate) fn of_ignored(&mut self, files: &[IgnoredFile]) -> Vec<Warning> {
        let mut new = Vec::new();
        for IgnoredFile { warning, is_there } in files {
            self.first = None;
            if !is_there {
                self.of_files.remove(warning);
            } else if self.of_files.insert(warning.clone()) {
                new.push(warning.clone());
            }
        }
        new
    }

    /// Takes the warnings about dangling references. Returns those that are new.
    pub(crate) fn dangling(&mut self, now: Arc<BTreeSet<String>>) -> Vec<Warning> {
        if Arc::ptr_eq(&self.dangling, &now) {
            return Vec::new();
        }
        let new = now.difference(&self.dangling).map(Warning::general).collect();
        self.first = None;
        self.dangling = now;
        new
    }

    /// Takes the warnings about anything else. Returns those that are new.
    pub(crate) fn rest(&mut self, now: BTreeSet<Warning>) -> Vec<Warning> {
        if now != self.rest {
            self.first = None;
        }
        replace(&mut self.rest, now)
    }

    /// The first of all present warnings, by file and line, and the number of all of them.
    pub(crate) fn present(&mut self) -> (Arc<Vec<Warning>>, usize) {
        let count = self.of_files.len() + self.dangling.len() + self.rest.len();
        let first = self.first.take().unwrap_or_else(|| Arc::new(self.first_of_all()));
        self.first = Some(Arc::clone(&first));
        (first, count)
    }

    fn first_of_all(&self) -> Vec<Warning> {
        let mut of_file: BTreeMap<&Path, usize> = BTreeMap::new();
        let of_files = self.rest.iter().chain(&self.of_files).filter(|warning| {
            let Some(file) = warning.file.as_deref() else { return true };
            let shown = of_file.entry(file).or_default();
            *shown += 1;
            *shown <= MAX_PRESENT_OF_FILE
        });
        let of_files = of_files.cloned();
        of_files.chain(self.dangling.iter().map(Warning::general)).take(MAX_PRESENT).collect()
    }
}

fn replace(seen: &mut BTreeSet<Warning>, now: BTreeSet<Warning>) -> Vec<Warning> {
    let new = now.difference(seen).cloned().collect();
    *seen = now;
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(name: &str, line: u32) -> Warning {
        Warning { line: Some(line), ..Warning::of_file(Path::new(name), "odd") }
    }

    #[test]
    fn the_first_present_warnings_are_listed_and_all_are_counted() {
        let mut seen = WarningsSeen::default();
        let many = (0..150).map(|line| of_file("b.yaml", line));
        seen.of_files = many.chain((0..3).map(|line| of_file("c.yaml", line))).collect();
        seen.rest([of_file("dir", 0)].into());
        let (first, count) = seen.present();
        assert_eq!((first.len(), count), (1 + 100 + 3, 154));
        assert!(Arc::ptr_eq(&first, &seen.present().0));
        let dangling = (0..2000).map(|name| format!("{name} is missing")).collect();
        assert_eq!(seen.dangling(Arc::new(dangling)).len(), 2000);
        let (first, count) = seen.present();
        assert_eq!((first.len(), count), (MAX_PRESENT, 2154));
    }
}
