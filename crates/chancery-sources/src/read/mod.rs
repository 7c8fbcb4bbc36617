//! The directory as it was read: a listing, and the document of each of its files.

pub(crate) mod cache;
pub(crate) mod document;
pub(crate) mod moving;
pub(crate) mod workers;

use std::path::Path;
use std::sync::Arc;

use chancery_catalog::Layer;

use crate::allowed_places::AllowedPlaces;
use crate::read::document::Document;
use crate::scan::listing::{FileChange, FoundFile, Listing};

/// The directory as it was read.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) listing: Listing,
    /// The documents, in the order of the listed files.
    pub(crate) documents: Vec<Arc<Document>>,
}

/// A file as it was read, and its document.
pub(crate) type FileReading = (FoundFile, Arc<Document>);

/// A file whose content changed: its document before and now.
pub(crate) struct FileEdit {
    pub(crate) layer: Layer,
    pub(crate) file: Arc<Path>,
    pub(crate) old: Option<Arc<Document>>,
    pub(crate) new: Option<Arc<Document>>,
}

impl FileEdit {
    /// Returns true if the file has comments that let findings pass, or had some.
    pub(crate) fn has_allowances(&self) -> bool {
        [&self.old, &self.new].into_iter().flatten().any(|it| !it.allowances.is_empty())
    }
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

    /// A file as it was read, and its document.
    fn kept(&self, path: &Path) -> Option<FileReading> {
        let at = self.listing.find(path)?;
        Some((self.listing.files[at].clone(), Arc::clone(&self.documents[at])))
    }

    /// The comments in all files that let findings pass.
    pub(crate) fn allowances(&self) -> Arc<AllowedPlaces> {
        let all = self.listing.files.iter().zip(&self.documents);
        let all = all.flat_map(|(found, document)| {
            document.allowances.iter().map(|it| (Arc::clone(&found.path), it.clone()))
        });
        Arc::new(AllowedPlaces::new(all.collect()))
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
