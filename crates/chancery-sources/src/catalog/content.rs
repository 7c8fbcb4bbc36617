//! What one layer holds: resources by type and name, each with the place it is written at.
//!
//! It is put together from all files of the layer, or from what it was and the files that changed
//! ([`Content::edited`]). The second costs what changed and knows no faults: where files
//! contradict each other, the first has to say how.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use chancery_core::{Resource, ResourceName, TypeUrl};
use chancery_proto::document::Position;
use imbl::OrdMap;
use imbl::ordmap;

use crate::catalog::layer::Layer;
use crate::fault::{Fault, Scope, Wrong};
use crate::read::FileEdit;
use crate::read::document::{Document, LoadedResource};

/// The resources of one layer.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) entries: OrdMap<Key, Entry>,
    /// Whether the v2 form of a resource is left out, because a file holds one of that name.
    contested: bool,
    /// How many resources the files hold.
    pub(crate) own: usize,
}

/// There is more to it than an edit can tell.
pub(crate) struct Unclear;

/// What a resource is found under.
pub(crate) type Key = (TypeUrl, ResourceName);

/// A resource of a layer.
#[derive(Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) resource: Arc<Resource>,
    pub(crate) file: Arc<Path>,
    pub(crate) position: Position,
    /// Whether this is a resource of the file under another type (v2), and not its own.
    pub(crate) derived: bool,
}

impl Content {
    /// Puts the files of a layer together. A name that is defined twice is a fault that tells
    /// both places.
    pub(crate) fn assemble<'a>(
        layer: &Layer,
        files: impl Iterator<Item = (&'a Arc<Path>, &'a Document)> + Clone,
    ) -> Result<Self, Vec<Fault>> {
        let mut content = Self::default();
        let mut faults = Vec::new();
        for (file, document) in files.clone() {
            faults.extend(document.faults.iter().cloned());
            for loaded in &document.resources {
                faults.extend(content.define(layer, file, loaded));
            }
        }
        for (file, document) in files {
            for loaded in &document.resources {
                content.derive(file, loaded);
            }
        }
        if faults.is_empty() { Ok(content) } else { Err(faults) }
    }

    /// This after some of its files changed.
    pub(crate) fn edited(&self, edits: &[FileEdit]) -> Result<Self, Unclear> {
        let broken = |edit: &FileEdit| edit.new.as_ref().is_some_and(|new| !new.faults.is_empty());
        if self.contested || edits.iter().any(broken) {
            return Err(Unclear);
        }
        let mut content = self.clone();
        for edit in edits {
            let (old, new) = differing(edit);
            content.take_out(old, new);
        }
        for edit in edits {
            let (_, new) = differing(edit);
            for loaded in new {
                content.write(&edit.file, loaded)?;
            }
        }
        Ok(content)
    }

    /// Takes out what a file does not hold any more.
    fn take_out(&mut self, old: &[LoadedResource], new: &[LoadedResource]) {
        let kept: BTreeSet<Key> = new.iter().flat_map(LoadedResource::keys).collect();
        for key in old.iter().flat_map(LoadedResource::keys).filter(|key| !kept.contains(key)) {
            if let Some(gone) = self.entries.remove(&key) {
                self.own -= usize::from(!gone.derived);
            }
        }
    }

    /// Writes a resource of a file, and its v2 form, over what the same file said of them.
    fn write(&mut self, file: &Arc<Path>, loaded: &LoadedResource) -> Result<(), Unclear> {
        let own = Entry::new(&loaded.resource, file, loaded.position, false);
        self.put(loaded.key(), own)?;
        let Some((key, resource)) = loaded.derived() else { return Ok(()) };
        self.put(key, Entry::new(resource, file, loaded.position, true))
    }

    fn put(&mut self, key: Key, entry: Entry) -> Result<(), Unclear> {
        match self.entries.get(&key) {
            Some(there) if there.file != entry.file || there.derived != entry.derived => {
                return Err(Unclear);
            }
            Some(there) if *there == entry => return Ok(()),
            Some(_) => {}
            None => self.own += usize::from(!entry.derived),
        }
        self.entries.insert(key, entry);
        Ok(())
    }

    fn define(
        &mut self,
        layer: &Layer,
        file: &Arc<Path>,
        loaded: &LoadedResource,
    ) -> Option<Fault> {
        match self.entries.entry(loaded.key()) {
            ordmap::Entry::Vacant(place) => {
                place.insert(Entry::new(&loaded.resource, file, loaded.position, false));
                self.own += 1;
                None
            }
            ordmap::Entry::Occupied(first) => {
                let first = first.get();
                let wrong = Wrong::Defined {
                    kind: loaded.type_url.short().to_owned(),
                    name: loaded.resource.name().to_string(),
                    first: format!("{}:{}", first.file.display(), first.position.line),
                };
                Some(wrong.at(Scope::Layer(layer.clone()), file, Some(loaded.position)))
            }
        }
    }

    /// Adds the v2 form of a resource, unless a file holds one.
    fn derive(&mut self, file: &Arc<Path>, loaded: &LoadedResource) {
        let Some((key, resource)) = loaded.derived() else { return };
        if self.entries.contains_key(&key) {
            self.contested = true;
        } else {
            self.entries.insert(key, Entry::new(resource, file, loaded.position, true));
        }
    }
}

fn resources(document: Option<&Arc<Document>>) -> &[LoadedResource] {
    document.map_or(&[], |document| &document.resources)
}

/// What the two states of a file hold, without what is the same at its start and at its end.
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

impl LoadedResource {
    fn key(&self) -> Key {
        (self.type_url.clone(), self.resource.name().clone())
    }

    /// All names it gives something to.
    fn keys(&self) -> impl Iterator<Item = Key> {
        std::iter::once(self.key()).chain(self.derived().map(|(key, _)| key))
    }

    /// The v2 form.
    fn derived(&self) -> Option<(Key, &Arc<Resource>)> {
        let (type_url, resource) = self.v2.as_ref()?;
        Some(((type_url.clone(), resource.name().clone()), resource))
    }
}

impl Entry {
    fn new(resource: &Arc<Resource>, file: &Arc<Path>, position: Position, derived: bool) -> Self {
        Self { resource: Arc::clone(resource), file: Arc::clone(file), position, derived }
    }
}
