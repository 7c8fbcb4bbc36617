//! What is there, and what it holds: a listing, and the document of each of its files.

pub(crate) mod cache;
pub(crate) mod document;
pub(crate) mod workers;

use std::path::Path;
use std::sync::Arc;

use crate::catalog::layer::Layer;
use crate::read::document::Document;
use crate::scan::listing::Listing;
use crate::scan::patch::Change;

/// What is there, and what it holds.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) listing: Listing,
    /// In the order of the listed files.
    pub(crate) documents: Vec<Arc<Document>>,
}

/// A file whose content is another now: what it held, and what it holds.
pub(crate) struct Edited {
    pub(crate) layer: Layer,
    pub(crate) file: Arc<Path>,
    pub(crate) old: Option<Arc<Document>>,
    pub(crate) new: Option<Arc<Document>>,
}

impl Reading {
    /// Takes a changed file over, and what was read of it; `None` where the content is the same.
    pub(crate) fn apply(&mut self, change: Change, new: Option<Arc<Document>>) -> Option<Edited> {
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
        (!same).then_some(Edited { layer, file, old, new })
    }

    /// The files of one layer, and what they hold.
    pub(crate) fn of_layer<'a>(
        &'a self,
        layer: &'a Layer,
    ) -> impl Iterator<Item = (&'a Arc<Path>, &'a Document)> + Clone {
        let all = self.listing.files.iter().zip(&self.documents);
        all.filter(move |(found, _)| found.layer == *layer)
            .map(|(found, document)| (&found.path, &**document))
    }
}
