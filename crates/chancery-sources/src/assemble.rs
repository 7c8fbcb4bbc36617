//! From documents to the entries of one layer.
//!
//! A layer is put together from all its files, or from what the catalog holds of it and the files
//! that changed. The second way costs only what changed, and finds no faults: where files
//! contradict each other, the layer is put together from all files to name the fault. Nothing here
//! reads a file.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_catalog::{Catalog, Entry, EntryContent, Form, Key, Layer, LayerContent, Origin};
use chancery_core::printable::{MAX_NAME_BYTES, cut};
use chancery_proto::document::MAX_FAULTS;

use crate::behind::{self, Beside};
use crate::fault::{Fault, Scope, Wrong};
use crate::fault_list::FaultList;
use crate::read::document::{Document, LoadedResource};
use crate::read::{FileEdit, Reading};

/// A layer put together from all its files.
#[derive(Default)]
pub(crate) struct WholeLayer {
    pub(crate) entries: BTreeMap<Key, Entry>,
    /// True if the v2 form of a resource is left out, because a file holds one of that name.
    pub(crate) is_contested: bool,
}

/// The files of one layer, put together.
pub(crate) struct LayerFiles {
    /// The layer, or the faults in its files.
    pub(crate) whole: Result<WholeLayer, FaultList>,
    /// The files that say nothing and had no resources: they are no fault.
    pub(crate) blank: Vec<Arc<Path>>,
    /// The layer with those files as they were that have faults.
    pub(crate) beside: Option<Beside>,
}

/// The changed entries of a layer, of which some files changed.
pub(crate) type Edits = BTreeMap<Key, Option<Entry>>;

/// The layers as their files have them, or the faults in these files. The catalog has the resources
/// in force.
pub(crate) fn whole_layers(
    Reading { listing, documents }: &Reading,
    catalog: &Catalog,
) -> BTreeMap<Layer, LayerFiles> {
    let mut files: BTreeMap<&Layer, Vec<(&Arc<Path>, &Document)>> = BTreeMap::new();
    for (found, document) in listing.files.iter().zip(documents) {
        files.entry(&found.layer).or_default().push((&found.path, document));
    }
    let whole = |(layer, files): (&Layer, Vec<(&Arc<Path>, &Document)>)| {
        (layer.clone(), whole_layer(layer, files.iter().copied(), catalog))
    };
    files.into_iter().map(whole).collect()
}

/// The layer that these files make. A name that is defined twice is a fault with both places, and a
/// file that says nothing is one if it had resources before: it may have been cut. If it had none,
/// that is worth a warning.
pub(crate) fn whole_layer<'a>(
    layer: &Layer,
    files: impl Iterator<Item = (&'a Arc<Path>, &'a Document)> + Clone,
    catalog: &Catalog,
) -> LayerFiles {
    let (mut whole, mut faults) = (WholeLayer::default(), FaultList::default());
    for (file, document) in files.clone() {
        document.faults.iter().for_each(|fault| faults.push(fault.clone()));
        faults.count(file, document.more_faults);
        let mut again = 0;
        for loaded in &document.resources {
            let Err(first) = whole.define(file, loaded) else { continue };
            if again < MAX_FAULTS {
                let has_values = whole.has_values(loaded);
                faults.push(defined_again(layer, file, loaded, &first, has_values));
            } else {
                faults.count(file, 1);
            }
            again += 1;
        }
    }
    for (file, document) in files.clone() {
        for loaded in &document.resources {
            whole.derive(file, loaded);
        }
    }
    let mut blank: Vec<_> = files
        .clone()
        .filter(|(_, document)| document.is_blank)
        .map(|(file, _)| Arc::clone(file))
        .collect();
    let had = emptied(blank.iter().map(|file| &**file).collect(), layer, catalog);
    for (file, had) in &had {
        faults.push(Wrong::SaysNothing(*had).at(Scope::Layer(layer.clone()), file, None));
    }
    let had: BTreeSet<PathBuf> = had.into_keys().map(Path::to_owned).collect();
    blank.retain(|file| !had.contains(&**file));
    if faults.is_empty() {
        return LayerFiles { whole: Ok(whole), blank, beside: None };
    }
    LayerFiles { whole: Err(faults), blank, beside: behind::beside(layer, files, &had, catalog) }
}

/// The entries that change with these files, in a layer that is not contested. Returns `None` if
/// the layer has to be put together from all its files.
pub(crate) fn edited(content: &LayerContent, files: &[FileEdit]) -> Option<Edits> {
    let is_plain = |new: &Arc<Document>| new.faults.is_empty() && !new.is_blank;
    if !files.iter().all(|edit| edit.new.as_ref().is_none_or(is_plain)) {
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
    /// Adds a resource as it is written. Fails with the place of the first one of its name.
    pub(crate) fn define(
        &mut self,
        file: &Arc<Path>,
        loaded: &LoadedResource,
    ) -> Result<(), Origin> {
        let Some((key, entry)) = loaded.entries(file).next() else { return Ok(()) };
        match self.entries.entry(key) {
            btree_map::Entry::Vacant(place) => drop(place.insert(entry)),
            btree_map::Entry::Occupied(first) => return Err(first.get().origin.clone()),
        }
        Ok(())
    }

    /// Returns true if this says no more of a resource than which of its fields differ by node, or what was read
    /// of it before.
    fn has_values(&self, loaded: &LoadedResource) -> bool {
        let known = loaded.entries(&Arc::from(Path::new(""))).next();
        let known = known.and_then(|(key, _)| self.entries.get(&key));
        let is_alone = |content: &EntryContent, has_values: bool| {
            has_values && matches!(content, EntryContent::Patch(patch) if patch.is_nothing())
        };
        is_alone(&loaded.content, loaded.values.is_some())
            || known.is_some_and(|it| is_alone(&it.content, it.values.is_some()))
    }

    /// Adds the v2 form of a resource, unless a file holds one.
    pub(crate) fn derive(&mut self, file: &Arc<Path>, loaded: &LoadedResource) {
        for (key, entry) in loaded.entries(file).filter(|(_, entry)| entry.form == Form::Derived) {
            match self.entries.entry(key) {
                btree_map::Entry::Vacant(place) => drop(place.insert(entry)),
                btree_map::Entry::Occupied(_) => self.is_contested = true,
            }
        }
    }
}

/// Those of the files that say nothing of which resources are in force, and how many.
fn emptied<'a>(
    blank: BTreeSet<&'a Path>,
    layer: &Layer,
    catalog: &Catalog,
) -> BTreeMap<&'a Path, usize> {
    let mut had = BTreeMap::new();
    if blank.is_empty() {
        return had;
    }
    let content = catalog.content(layer);
    for (_, entry) in content.iter().flat_map(|content| content.iter()) {
        if let (Origin::File { path, .. }, Form::Written) = (&entry.origin, entry.form)
            && let Some(file) = blank.get(&**path)
        {
            *had.entry(*file).or_insert(0) += 1;
        }
    }
    had
}

/// The fault of a name that is defined a second time.
fn defined_again(
    layer: &Layer,
    file: &Path,
    loaded: &LoadedResource,
    first: &Origin,
    has_values: bool,
) -> Fault {
    let kind = loaded.type_url.short().to_owned();
    let name = cut(loaded.content.name().as_str(), MAX_NAME_BYTES).into_owned();
    let first = first.to_string();
    let wrong = match has_values {
        true => Wrong::ValuesElsewhere { kind, name, first },
        false => Wrong::Defined { kind, name, first },
    };
    wrong.at(Scope::Layer(layer.clone()), file, Some(loaded.position))
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
    let same = |(old, new): &(&LoadedResource, &LoadedResource)| old.is_same(new);
    let start = old.iter().zip(new).take_while(same).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    (&old[..old.len() - end], &new[..new.len() - end])
}

fn resources(document: Option<&Arc<Document>>) -> &[LoadedResource] {
    document.map_or(&[], |document| &document.resources)
}
