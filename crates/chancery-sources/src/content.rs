//! What one layer holds: resources by type and name, each with the place it is written at.

use std::path::Path;
use std::sync::Arc;

use chancery_core::{Resource, ResourceName, TypeUrl};
use chancery_proto::document::Position;
use imbl::OrdMap;
use imbl::ordmap;

use crate::cache::{Document, Loaded};
use crate::fault::{Fault, Scope, Wrong};
use crate::layer::Layer;

/// The resources of one layer.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) entries: OrdMap<Key, Entry>,
    /// How many resources the files hold.
    pub(crate) own: usize,
}

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

    fn define(&mut self, layer: &Layer, file: &Arc<Path>, loaded: &Loaded) -> Option<Fault> {
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
    fn derive(&mut self, file: &Arc<Path>, loaded: &Loaded) {
        let Some((key, resource)) = loaded.derived() else { return };
        let entry = Entry::new(resource, file, loaded.position, true);
        self.entries.entry(key).or_insert(entry);
    }
}

impl Loaded {
    fn key(&self) -> Key {
        (self.type_url.clone(), self.resource.name().clone())
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
