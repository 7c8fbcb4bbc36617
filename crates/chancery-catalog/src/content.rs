//! The content of one layer: resources by type and name, each with its origin.
//!
//! Contents share what they have in common, so an edit costs what it changes, and so does finding
//! the difference of two. Each keeps a digest of its resources that does not depend on the order of
//! the edits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use chancery_core::Version;
use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use xxhash_rust::xxh3::Xxh3;

use crate::entry::{Entry, EntryContent, Form, Key, Origin};
use crate::filled::UnfitResource;
use crate::layer::Layer;

/// The resources of one layer.
#[derive(Clone, Debug, Default)]
pub struct LayerContent {
    entries: OrdMap<Key, Entry>,
    /// The number of entries that are [written](Form::Written).
    written: usize,
    /// The number of entries that are patches and removals.
    edits: usize,
    /// The keys of the entries with fields that differ by node.
    valued: OrdSet<Key>,
    /// The first resource that could not be filled for a node, in the layer of its values.
    unfit: Option<Arc<UnfitResource>>,
    /// The sum of the digests of the entries.
    digest: u128,
    /// The files that entries are of, once somebody has asked.
    files: OnceLock<BTreeSet<Arc<Path>>>,
}

impl LayerContent {
    fn of(layer: &Layer, entries: BTreeMap<Key, Entry>) -> Self {
        let written = entries.values().filter(|entry| entry.form == Form::Written).count();
        let edits = entries.values().filter(|entry| entry.resource().is_none()).count();
        let digests = entries.iter().map(|(key, entry)| digest(layer, key, entry));
        let digest = digests.fold(0, u128::wrapping_add);
        let valued = entries.iter().filter(|(_, entry)| entry.values.is_some());
        let valued = valued.map(|(key, _)| key.clone()).collect();
        let entries = entries.into_iter().collect();
        let (files, unfit) = (OnceLock::new(), None);
        Self { entries, written, edits, valued, unfit, digest, files }
    }

    /// The entry under that key.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The number of resources.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All entries, by type and name.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.iter()
    }

    /// The entries from a key on, or all.
    pub(crate) fn from<'a>(
        &'a self,
        first: Option<&'a Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Entry)> {
        let first = first.map_or(Bound::Unbounded, Bound::Included);
        self.entries.range::<(Bound<&Key>, Bound<&Key>), Key>((first, Bound::Unbounded))
    }

    /// The number of resources that stand at their origin.
    pub fn written(&self) -> usize {
        self.written
    }

    /// The keys of the entries with fields that differ by node.
    pub(crate) fn valued(&self) -> &OrdSet<Key> {
        &self.valued
    }

    /// The first resource that could not be filled for a node.
    pub(crate) fn unfit(&self) -> Option<&Arc<UnfitResource>> {
        self.unfit.as_ref()
    }

    /// Notes that a resource could not be filled for a node.
    pub(crate) fn note_unfit(&mut self, unfit: UnfitResource) {
        self.unfit.get_or_insert_with(|| Arc::new(unfit));
    }

    /// Returns true if it has patches or removals.
    pub(crate) fn has_edits(&self) -> bool {
        self.edits > 0
    }

    pub(crate) fn digest(&self) -> u128 {
        self.digest
    }

    /// Returns true if an entry is of this file. The first question walks over all entries.
    pub(crate) fn has_file(&self, path: &Path) -> bool {
        let files = || {
            let origins = self.entries.values().map(|entry| &entry.origin);
            let paths = origins.filter_map(|origin| match origin {
                Origin::File { path, .. } => Some(path),
                _ => None,
            });
            paths.cloned().collect()
        };
        self.files.get_or_init(files).contains(path)
    }

    /// Puts an entry under a key, or takes it out. Returns true if that changed anything.
    pub(crate) fn set(&mut self, layer: &Layer, key: Key, entry: Option<Entry>) -> bool {
        if self.entries.get(&key) == entry.as_ref() {
            return false;
        }
        self.files.take();
        if let Some(old) = self.entries.get(&key) {
            self.digest = self.digest.wrapping_sub(digest(layer, &key, old));
            self.written -= usize::from(old.form == Form::Written);
            self.edits -= usize::from(old.resource().is_none());
            if old.values.is_some() {
                self.valued.remove(&key);
            }
        }
        match entry {
            Some(entry) => {
                self.digest = self.digest.wrapping_add(digest(layer, &key, &entry));
                self.written += usize::from(entry.form == Form::Written);
                self.edits += usize::from(entry.resource().is_none());
                if entry.values.is_some() {
                    self.valued.insert(key.clone());
                }
                self.entries.insert(key, entry);
            }
            None => drop(self.entries.remove(&key)),
        }
        true
    }

    /// Makes these the only entries. Returns true if that changed anything.
    pub(crate) fn replace(&mut self, layer: &Layer, wanted: BTreeMap<Key, Entry>) -> bool {
        if self.entries.is_empty() {
            *self = Self::of(layer, wanted);
            return !self.entries.is_empty();
        }
        let gone: Vec<Key> =
            self.entries.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
        let mut changed = !gone.is_empty();
        for key in gone {
            self.set(layer, key, None);
        }
        for (key, entry) in wanted {
            changed |= self.set(layer, key, Some(entry));
        }
        changed
    }

    /// The keys under which two contents have different entries, in O(changed).
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Key> {
        self.entries.diff(&other.entries).map(|item| match item {
            DiffItem::Add(key, _) | DiffItem::Remove(key, _) => key,
            DiffItem::Update { new: (key, _), .. } => key,
        })
    }
}

/// The share of an entry in the digest of all: its layer, type, name and version, each with its
/// length, so that no two entries look the same.
pub(crate) fn digest(layer: &Layer, key: &Key, entry: &Entry) -> u128 {
    let (kind, owner) = match layer {
        Layer::Base => (0, ""),
        Layer::Group(name) => (1, &**name),
        Layer::Node(id) => (2, &**id),
    };
    let mut hash = Xxh3::new();
    hash.update(&[kind]);
    for text in [owner, key.type_url.as_str(), key.name.as_str()] {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    match &entry.content {
        EntryContent::Whole(resource) => match resource.version() {
            Version::Content(content) => hash.update(&content.to_le_bytes()),
            Version::Explicit(text) => hash.update(text.as_bytes()),
        },
        EntryContent::Patch(patch) => {
            hash.update(b"patch");
            hash.update(&patch.digest().to_le_bytes());
        }
        EntryContent::Removal(_) => hash.update(b"removal"),
    }
    if let Some(values) = &entry.values {
        hash.update(b"values");
        hash.update(&values.digest().to_le_bytes());
    }
    hash.digest128()
}
