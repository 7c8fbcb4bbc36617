//! The directory as it was read: a listing, and the document of each of its files.

pub(crate) mod cache;
pub(crate) mod document;
pub(crate) mod workers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use chancery_catalog::Layer;

use crate::read::document::Document;
use crate::scan::listing::{FileChange, FoundFile, Listing};

/// The directory as it was read.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) listing: Listing,
    /// The documents, in the order of the listed files.
    pub(crate) documents: Vec<Arc<Document>>,
}

/// A file whose content changed: its document before and now.
pub(crate) struct FileEdit {
    pub(crate) layer: Layer,
    pub(crate) file: Arc<Path>,
    pub(crate) old: Option<Arc<Document>>,
    pub(crate) new: Option<Arc<Document>>,
}

impl Reading {
    /// Takes over a changed file and its document. Returns `None` if the content is the same.
    pub(crate) fn apply(
        &mut self,
        change: FileChange,
        new: Option<Arc<Document>>,
    ) -> Option<FileEdit> {
        let file = Arc::clone(&change.path);
        let now = change.now.as_ref().map(|now| now.layer.clone());
        let (at, before) = self.listing.apply(change);
        let old = before.as_ref().map(|_| Arc::clone(&self.documents[at]));
        match (&old, &new) {
            (Some(_), Some(new)) => self.documents[at] = Arc::clone(new),
            (None, Some(new)) => self.documents.insert(at, Arc::clone(new)),
            (Some(_), None) => drop(self.documents.remove(at)),
            (None, None) => {}
        }
        let layer = now.or_else(|| before.map(|before| before.layer))?;
        let same = matches!((&old, &new), (Some(old), Some(new)) if old.is_same(new));
        (!same).then_some(FileEdit { layer, file, old, new })
    }

    /// Returns true if this document may take the place of the present one while the directory is
    /// not quiet. One that is broken or empty may be half written.
    pub(crate) fn takes(&self, path: &Path, document: Option<&Arc<Document>>) -> bool {
        let is_good = |document: &Document| document.faults.is_empty() && !document.is_blank;
        let known = self.listing.find(path).map(|at| &self.documents[at]);
        match (known, document) {
            (Some(known), Some(new)) => is_good(new) || known.is_same(new) || !is_good(known),
            (None, Some(new)) => is_good(new),
            (_, None) => true,
        }
    }

    /// Puts the files that are not at rest back to what they were in the last reading: those that
    /// are not the same in this listing of now, and those that broke unless these are taken. Returns
    /// true if there are such files.
    pub(crate) fn leave_moving(
        &mut self,
        now: &Listing,
        last: Option<&Self>,
        takes_broken: bool,
    ) -> bool {
        let read: BTreeMap<_, _> = std::mem::take(&mut self.listing.files)
            .into_iter()
            .zip(std::mem::take(&mut self.documents))
            .map(|(found, document)| (Arc::clone(&found.path), (found, document)))
            .collect();
        let nothing = Self::default();
        let last = last.unwrap_or(&nothing);
        let mut is_partial = false;
        let mut rest = BTreeMap::new();
        for (path, (found, document)) in read {
            let is_there = now.find(&path).is_some_and(|at| now.files[at] == found);
            if is_there && (takes_broken || last.takes(&path, Some(&document))) {
                rest.insert(path, (found, document));
            } else {
                is_partial = true;
                last.kept(&path)
                    .into_iter()
                    .for_each(|kept| drop(rest.insert(Arc::clone(&path), kept)));
            }
        }
        // Files that came back while the others were read.
        for found in &now.files {
            if !rest.contains_key(&found.path) {
                is_partial = true;
                let kept = last.kept(&found.path).into_iter();
                kept.for_each(|kept| drop(rest.insert(Arc::clone(&found.path), kept)));
            }
        }
        (self.listing.files, self.documents) = rest.into_values().unzip();
        is_partial
    }

    /// The last reading with those of its files that rest as they are now. It is for a directory
    /// whose directories or symlinks change: which files come or go is not known then. Returns
    /// `None` if it is another directory.
    pub(crate) fn known_files(&self, now: &Listing, last: &Self) -> Option<Self> {
        let tops = [self.listing.top, now.top, last.listing.top];
        if tops[0].is_none() || tops.iter().any(|top| *top != tops[0]) {
            return None;
        }
        let mut known = Self { listing: last.listing.clone(), documents: last.documents.clone() };
        for (at, found) in known.listing.files.iter_mut().enumerate() {
            let Some((read, document)) = self.kept(&found.path) else { continue };
            let rests = now.find(&found.path).is_some_and(|at| now.files[at] == read);
            if rests && read.layer == found.layer && last.takes(&found.path, Some(&document)) {
                (*found, known.documents[at]) = (read, document);
            }
        }
        Some(known)
    }

    /// A file as it was read, and its document.
    fn kept(&self, path: &Path) -> Option<(FoundFile, Arc<Document>)> {
        let at = self.listing.find(path)?;
        Some((self.listing.files[at].clone(), Arc::clone(&self.documents[at])))
    }

    /// The files of one layer with their documents.
    pub(crate) fn of_layer<'a>(
        &'a self,
        layer: &'a Layer,
    ) -> impl Iterator<Item = (&'a Arc<Path>, &'a Document)> + Clone {
        let all = self.listing.files.iter().zip(&self.documents);
        all.filter(move |(found, _)| found.layer == *layer)
            .map(|(found, document)| (&found.path, &**document))
    }
}
