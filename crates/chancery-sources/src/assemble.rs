//! From documents to the entries of one layer.
//!
//! A layer is put together from all its files, or from what the catalog holds of it and the files
//! that changed. The second way costs only what changed, and finds no faults: where files
//! contradict each other, the layer is put together from all files to name the fault. Nothing here
//! reads a file.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::path::Path;
use std::sync::Arc;

use chancery_catalog::{Entry, Form, Key, Layer, LayerContent, Origin};

use crate::fault::{Fault, Scope, Wrong};
use crate::read::document::{Document, LoadedResource};
use crate::read::{FileEdit, Reading};

/// A layer put together from all its files.
#[derive(Default)]
pub(crate) struct WholeLayer {
    pub(crate) entries: BTreeMap<Key, Entry>,
    /// True if the v2 form of a resource is left out, because a file holds one of that name.
    pub(crate) is_contested: bool,
}

/// The changed entries of a layer, of which some files changed.
pub(crate) type Edits = BTreeMap<Key, Option<Entry>>;

/// The layers as their files have them, or the faults in these files.
pub(crate) fn whole_layers(
    Reading { listing, documents }: &Reading,
) -> BTreeMap<Layer, Result<WholeLayer, Vec<Fault>>> {
    let mut files: BTreeMap<&Layer, Vec<(&Arc<Path>, &Document)>> = BTreeMap::new();
    for (found, document) in listing.files.iter().zip(documents) {
        files.entry(&found.layer).or_default().push((&found.path, document));
    }
    let whole = |(layer, files): (&Layer, Vec<(&Arc<Path>, &Document)>)| {
        (layer.clone(), whole_layer(layer, files.iter().copied()))
    };
    files.into_iter().map(whole).collect()
}

/// The layer that these files make. A name that is defined twice is a fault with both places.
pub(crate) fn whole_layer<'a>(
    layer: &Layer,
    files: impl Iterator<Item = (&'a Arc<Path>, &'a Document)> + Clone,
) -> Result<WholeLayer, Vec<Fault>> {
    let (mut whole, mut faults) = (WholeLayer::default(), Vec::new());
    for (file, document) in files.clone() {
        faults.extend(document.faults.iter().cloned());
        for loaded in &document.resources {
            faults.extend(whole.define(layer, file, loaded));
        }
    }
    for (file, document) in files {
        for loaded in &document.resources {
            whole.derive(file, loaded);
        }
    }
    if faults.is_empty() { Ok(whole) } else { Err(faults) }
}

/// The entries that change with these files, in a layer that is not contested. Returns `None` if
/// the layer has to be put together from all its files.
pub(crate) fn edited(content: &LayerContent, files: &[FileEdit]) -> Option<Edits> {
    let is_faulty = |edit: &FileEdit| edit.new.as_ref().is_some_and(|new| !new.faults.is_empty());
    if files.iter().any(is_faulty) {
        return None;
    }
    let mut edits = Edits::new();
    for edit in files {
        let (old, new) = differing(edit);
        let kept: BTreeSet<Key> = new.iter().flat_map(LoadedResource::keys).collect();
        let gone = old.iter().flat_map(LoadedResource::keys).filter(|key| !kept.contains(key));
        edits.extend(gone.map(|key| (key, None)));
    }
    for edit in files {
        let (_, new) = differing(edit);
        for (key, entry) in new.iter().flat_map(|loaded| loaded.entries(&edit.file)) {
            let there = edits.get(&key).map_or_else(|| content.get(&key), Option::as_ref);
            if there.is_some_and(|there| !is_rewritten(there, &entry)) {
                return None;
            }
            edits.insert(key, Some(entry));
        }
    }
    Some(edits)
}

impl WholeLayer {
    fn define(
        &mut self,
        layer: &Layer,
        file: &Arc<Path>,
        loaded: &LoadedResource,
    ) -> Option<Fault> {
        let (key, entry) = loaded.entries(file).next()?;
        match self.entries.entry(key) {
            btree_map::Entry::Vacant(place) => {
                place.insert(entry);
                None
            }
            btree_map::Entry::Occupied(first) => {
                let wrong = Wrong::Defined {
                    kind: loaded.type_url.short().to_owned(),
                    name: loaded.resource.name().to_string(),
                    first: first.get().origin.to_string(),
                };
                Some(wrong.at(Scope::Layer(layer.clone()), file, Some(loaded.position)))
            }
        }
    }

    /// Adds the v2 form of a resource, unless a file holds one.
    fn derive(&mut self, file: &Arc<Path>, loaded: &LoadedResource) {
        for (key, entry) in loaded.entries(file).filter(|(_, entry)| entry.form == Form::Derived) {
            match self.entries.entry(key) {
                btree_map::Entry::Vacant(place) => drop(place.insert(entry)),
                btree_map::Entry::Occupied(_) => self.is_contested = true,
            }
        }
    }
}

/// Returns true if both entries come from the same file and have the same form.
fn is_rewritten(there: &Entry, entry: &Entry) -> bool {
    let file = |entry: &Entry| match &entry.origin {
        Origin::File { path, .. } => Some(Arc::clone(path)),
        _ => None,
    };
    there.form == entry.form && file(there) == file(entry)
}

/// The resources of a file before and after a change, without the equal ones at its start and at
/// its end.
fn differing(edit: &FileEdit) -> (&[LoadedResource], &[LoadedResource]) {
    let (old, new) = (resources(edit.old.as_ref()), resources(edit.new.as_ref()));
    let same = |(old, new): &(&LoadedResource, &LoadedResource)| {
        Arc::ptr_eq(&old.resource, &new.resource) && old.position == new.position
    };
    let start = old.iter().zip(new).take_while(same).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    (&old[..old.len() - end], &new[..new.len() - end])
}

fn resources(document: Option<&Arc<Document>>) -> &[LoadedResource] {
    document.map_or(&[], |document| &document.resources)
}
