//! Edits that wait behind a fault in another file of their layer, and the way past it.
//!
//! A layer is taken whole or not at all. Somebody may want the rest of it all the same, as in an emergency: then the
//! files with faults stay as they were, which the catalog knows, until they have none. Not here: who may want that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_catalog::{
    Catalog, Entry, EntryContent, Form, Key, Layer, LayerContent, Origin, Unseen, UnseenEdit,
};
use xxhash_rust::xxh3::Xxh3;

use crate::assemble::WholeLayer;
use crate::read::document::Document;

/// A layer with faults in some of its files, and the edits of its other files.
#[derive(Clone, Debug, PartialEq)]
pub struct BehindFaults {
    /// The layer.
    pub layer: Layer,
    /// The files with faults, also those that contradict each other.
    pub files: Vec<Arc<Path>>,
    /// True if somebody let the other files pass ([`Passer`](crate::Passer)), so that nothing waits.
    pub is_passed: bool,
    /// The number of resources by which the layer would differ, and of those in the layers of the same audiences
    /// that nobody sees while this one is held back.
    pub count: usize,
    /// The first of them.
    pub first: Vec<UnseenEdit>,
    /// A digest of all of this.
    pub digest: u128,
}

/// A layer in which the files with faults are as they were.
pub(crate) struct Beside {
    pub(crate) whole: WholeLayer,
    pub(crate) faulty: BTreeSet<Arc<Path>>,
}

/// The layer that these files make beside those of them that have faults or lost all they had. Returns `None` if
/// nothing of the layer is in force, or a resource has moved out of a file with faults.
pub(crate) fn beside<'a>(
    layer: &Layer,
    files: impl Iterator<Item = (&'a Arc<Path>, &'a Document)> + Clone,
    emptied: &BTreeSet<PathBuf>,
    catalog: &Catalog,
) -> Option<Beside> {
    let content = catalog.content(layer).filter(|content| content.iter().next().is_some())?;
    let has_faults = |file: &Path, document: &Document| {
        !document.faults.is_empty() || document.more_faults > 0 || emptied.contains(file)
    };
    let of_faults = files.clone().filter(|(file, document)| has_faults(file, document));
    let mut faulty: BTreeSet<_> = of_faults.map(|(file, _)| Arc::clone(file)).collect();
    // Of two files that define a name, nobody knows which one is wrong.
    let mut defined: BTreeMap<Key, &Arc<Path>> = BTreeMap::new();
    let mut contrary = Vec::new();
    for (file, document) in files.clone().filter(|(file, _)| !faulty.contains(*file)) {
        for key in document.resources.iter().filter_map(|loaded| loaded.keys().next()) {
            contrary.extend(defined.insert(key, file).map(|first| [first, file]));
        }
    }
    faulty.extend(contrary.into_iter().flatten().cloned());
    let mut whole = WholeLayer::default();
    let is_of_faulty = |entry: &Entry| match &entry.origin {
        Origin::File { path, .. } => faulty.contains(path),
        _ => false,
    };
    let kept = content.iter().filter(|(_, entry)| is_of_faulty(entry));
    whole.entries.extend(kept.map(|(key, entry)| (key.clone(), entry.clone())));
    let rest = files.filter(|(file, _)| !faulty.contains(*file));
    for (file, document) in rest.clone() {
        document.resources.iter().try_for_each(|loaded| whole.define(file, loaded)).ok()?;
    }
    for (file, document) in rest {
        document.resources.iter().for_each(|loaded| whole.derive(file, loaded));
    }
    Some(Beside { whole, faulty })
}

impl BehindFaults {
    /// The same with the edits in all layers that nobody sees before.
    pub(crate) fn with(self, unseen: Unseen) -> Self {
        let Self { count, mut first, .. } = self;
        first.extend(unseen.first.into_iter().take(MOST_NAMED.saturating_sub(first.len())));
        let mut hash = Xxh3::new();
        hash.update(&self.digest.to_le_bytes());
        hash.update(&unseen.digest.to_le_bytes());
        Self { count: count + unseen.count, first, digest: hash.digest128(), ..self }
    }
}

impl Beside {
    /// The edits that wait in a layer, if any do.
    pub(crate) fn waiting(
        &self,
        layer: &Layer,
        content: &LayerContent,
        is_passed: bool,
    ) -> BehindFaults {
        let after = &self.whole.entries;
        let is_written = |entry: &&Entry| entry.form == Form::Written;
        let gone = content.iter().filter(|(key, _)| !after.contains_key(key));
        let keys: BTreeSet<&Key> = gone.map(|(key, _)| key).chain(after.keys()).collect();
        let (mut first, mut count, mut hash) = (Vec::new(), 0, Xxh3::new());
        self.faulty.iter().for_each(|file| hash.update(file.as_os_str().as_encoded_bytes()));
        for key in keys {
            let before = content.get(key).filter(is_written);
            let after = after.get(key).filter(is_written);
            let is_same = match (before, after) {
                (Some(before), Some(after)) => before.says_same(after),
                (before, after) => before.is_none() && after.is_none(),
            };
            if is_same {
                continue;
            }
            add(&mut hash, key, after);
            count += 1;
            if first.len() < MOST_NAMED && !is_passed {
                let origin = |entry: Option<&Entry>| entry.map(|entry| entry.origin.clone());
                let (before, after) = (origin(before), origin(after));
                first.push(UnseenEdit { key: key.clone(), before, after });
            }
        }
        let count = if is_passed { 0 } else { count };
        let files = self.faulty.iter().take(MOST_FILES).cloned().collect();
        let (layer, digest) = (layer.clone(), hash.digest128());
        BehindFaults { layer, files, is_passed, count, first, digest }
    }
}

/// Adds a resource, its content and the fields that differ by node to a digest.
fn add(hash: &mut Xxh3, key: &Key, entry: Option<&Entry>) {
    let mut add = |bytes: &[u8]| {
        hash.update(&bytes.len().to_le_bytes());
        hash.update(bytes);
    };
    add(key.type_url.as_str().as_bytes());
    add(key.name.as_str().as_bytes());
    match entry.map(|entry| &entry.content) {
        None => add(b"gone"),
        Some(EntryContent::Whole(resource)) => add(resource.version().to_string().as_bytes()),
        Some(EntryContent::Patch(patch)) => add(&patch.digest().to_le_bytes()),
        Some(EntryContent::Removal(_)) => add(b"removal"),
    }
    match entry.and_then(|entry| entry.values.as_ref()) {
        None => add(b""),
        Some(values) => add(&values.digest().to_le_bytes()),
    }
}

/// The number of resources that are named of each layer.
const MOST_NAMED: usize = 5;
/// The number of files that are named of each layer.
const MOST_FILES: usize = 10;
