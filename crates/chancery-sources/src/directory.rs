//! A directory as a source: loading it whole, and telling what came of it.
//!
//! A load is published only if nothing moved while it was read. What it holds goes into the
//! [`Catalog`] layer by layer; a layer with a fault goes in as broken. A directory that cannot be
//! listed at all, is not there, or lost all its files at once changes nothing: more often than
//! not that is a volume not mounted yet, or a script between `rm` and `cp`. Files taken out one
//! by one are taken out on purpose, and the last one too; so is an overlay that goes while other
//! files stay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use chancery_core::Snapshot;
use chancery_proto::schema::Schema;

use crate::audience::Audience;
use crate::cache::{Cache, Document};
use crate::catalog::Catalog;
use crate::content::Content;
use crate::fault::{Fault, Scope, Warning, Wrong};
use crate::generation::{Generation, Slot, State, layers_of};
use crate::layer::Layer;
use crate::listing::{Identity, Listing};
use crate::options::Options;
use crate::scan::scan;
use crate::watcher::Watcher;

/// A directory of resources.
pub struct Directory {
    pub(crate) options: Options,
    pub(crate) watcher: Option<Watcher>,
    /// Why there are no events, if there should be.
    pub(crate) deaf: Option<Warning>,
    schema: Schema,
    cache: Cache,
    catalog: Catalog,
    /// What was read last, to see whether something moved since.
    last: Option<Listing>,
    /// How many files there were when all was last well, and in which directory; forgotten when
    /// it goes, so that the one that comes after it is another, whatever its identity.
    filled: Option<(Option<Identity>, usize)>,
    told: BTreeSet<Warning>,
}

/// What came of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// Everything that is wrong now, by file and place.
    pub faults: Vec<Fault>,
    /// What is worth knowing and was not told by the load before.
    pub warnings: Vec<Warning>,
    /// How many files there are.
    pub files: usize,
    /// How many resources the files without a fault hold.
    pub resources: usize,
    /// The layers that were added, removed, changed or repaired.
    pub layers: Vec<Layer>,
    /// Of the audiences that were asked for, those that see something else now.
    pub changed: Vec<Audience>,
    /// Whether groups or nodes got or lost an overlay, so that nodes may belong to another
    /// [audience](Catalog::audience) than before.
    pub regrouped: bool,
}

impl Directory {
    /// A directory nothing was read from yet.
    pub fn new(options: Options, schema: Schema) -> Self {
        Self {
            options,
            watcher: None,
            deaf: None,
            schema,
            cache: Cache::default(),
            catalog: Catalog::default(),
            last: None,
            filled: None,
            told: BTreeSet::new(),
        }
    }

    /// What each audience should see. The catalog follows all later loads.
    pub fn catalog(&self) -> Catalog {
        self.catalog.clone()
    }

    /// Reads the directory. This blocks, and waits a while for a directory that moves.
    pub fn load(&mut self) -> LoadReport {
        for _ in 0..PATIENCE {
            match self.attempt() {
                Some(report) => return report,
                None => thread::sleep(self.options.settle),
            }
        }
        self.load_moving()
    }

    /// Reads the directory, unless something moves meanwhile.
    pub(crate) fn attempt(&mut self) -> Option<LoadReport> {
        let listing = self.list();
        let documents = self.cache.read(&listing, &self.options, &self.schema);
        (self.peek() == listing).then(|| self.take(listing, &documents))
    }

    /// Reads a directory that never comes to rest. What is torn shows as a fault in its layer.
    pub(crate) fn load_moving(&mut self) -> LoadReport {
        let listing = self.list();
        let documents = self.cache.read(&listing, &self.options, &self.schema);
        let mut report = self.take(listing, &documents);
        let message = "the directory does not come to rest; read as it was";
        report.warnings.push(Warning::of_file(&self.options.directory, message));
        report
    }

    /// Whether something moved since the last load, or may have without showing.
    pub(crate) fn is_stale(&self) -> bool {
        self.cache.is_unsure() || self.last.as_ref() != Some(&self.peek())
    }

    /// What is there, unread.
    pub(crate) fn peek(&self) -> Listing {
        scan(&self.options)
    }

    /// Scans. The places found are watched before anything in them is read.
    fn list(&mut self) -> Listing {
        let listing = self.peek();
        if let Some(watcher) = &mut self.watcher {
            watcher.watch(&listing.places);
        }
        listing
    }

    /// Publishes what was read.
    fn take(&mut self, listing: Listing, documents: &[Arc<Document>]) -> LoadReport {
        let mut report = LoadReport { files: listing.files.len(), ..LoadReport::default() };
        report.faults.clone_from(&listing.faults);
        let (layers, faults) = assemble(&listing, documents);
        report.faults.extend(faults);
        report.faults.extend(self.emptied(&listing));
        if !report.faults.iter().any(|fault| fault.scope == Scope::Directory) {
            self.filled = Some((listing.top, listing.files.len()));
            self.publish(&listing, layers, &mut report);
        } else if let (None, Some((known, _))) = (listing.top, &mut self.filled) {
            *known = None;
        }
        report.faults.sort_by(|a, b| order(a).cmp(&order(b)));
        let warnings = documents.iter().flat_map(|document| &document.warnings);
        self.tell(warnings.chain(&listing.warnings).cloned().collect(), &mut report);
        self.last = Some(listing);
        report
    }

    /// The fault of a directory that lost all its files at once.
    fn emptied(&self, listing: &Listing) -> Option<Fault> {
        let (top, files) = self.filled?;
        let empty = listing.files.is_empty() && listing.top.is_some();
        let last_file_removed = files <= 1 && listing.top == top;
        (empty && files > 0 && !last_file_removed)
            .then(|| Wrong::Emptied(files).at(Scope::Directory, &self.options.directory, None))
    }

    fn publish(&self, listing: &Listing, layers: Layers, report: &mut LoadReport) {
        let before = self.catalog.newest();
        let mut load = generation(listing, layers, &report.faults);
        if let Some(before) = &before {
            hold_vanished(&mut load, before, &report.faults);
            keep_same(&mut load, before);
        }
        load.grow_trunk(self.catalog.newest_base().as_deref());
        let slots =
            std::iter::once(&load.base).chain(load.groups.values()).chain(load.nodes.values());
        report.resources = slots.flatten().map(|content| content.own()).sum();
        report.regrouped = before.as_ref().is_none_or(|before| {
            !before.groups.keys().eq(load.groups.keys())
                || !before.nodes.keys().eq(load.nodes.keys())
        });
        report.layers = changed_layers(before.as_deref(), &load);
        report.changed = self.catalog.take(load);
    }

    /// Tells the warnings that were not told by the load before.
    fn tell(&mut self, mut warnings: BTreeSet<Warning>, report: &mut LoadReport) {
        warnings.extend(self.catalog.dangling());
        warnings.extend(self.watcher.iter().flat_map(Watcher::trouble));
        warnings.extend(self.deaf.clone());
        if report.files == 0 && report.faults.is_empty() {
            let message = "holds no files: nothing is served";
            warnings.insert(Warning::of_file(&self.options.directory, message));
        }
        report.warnings = warnings.difference(&self.told).cloned().collect();
        self.told = warnings;
    }
}

/// Each layer's content, or nothing if it is broken.
type Layers = BTreeMap<Layer, Slot>;

/// Sorts the documents into their layers.
fn assemble(listing: &Listing, documents: &[Arc<Document>]) -> (Layers, Vec<Fault>) {
    let mut files: BTreeMap<&Layer, Vec<(&Arc<Path>, &Document)>> = BTreeMap::new();
    for (found, document) in listing.files.iter().zip(documents) {
        files.entry(&found.layer).or_default().push((&found.path, document));
    }
    let mut layers = Layers::new();
    let mut faults = Vec::new();
    for (layer, files) in files {
        let slot = match Content::assemble(layer, files.iter().copied()) {
            Ok(content) => Some(Arc::new(content)),
            Err(wrong) => {
                faults.extend(wrong);
                None
            }
        };
        layers.insert(layer.clone(), slot);
    }
    (layers, faults)
}

/// Puts the layers together; a layer with a fault is broken.
fn generation(listing: &Listing, mut layers: Layers, faults: &[Fault]) -> Generation {
    let broken: BTreeSet<&Layer> = faults
        .iter()
        .filter_map(|fault| match &fault.scope {
            Scope::Layer(layer) => Some(layer),
            Scope::Groups | Scope::Nodes | Scope::Directory => None,
        })
        .collect();
    let mut slot = |layer: Layer| {
        let slot = layers.remove(&layer).unwrap_or_else(|| Some(Arc::default()));
        slot.filter(|_| !broken.contains(&layer))
    };
    let groups = listing.groups.iter();
    let nodes = listing.nodes.iter();
    Generation {
        base: slot(Layer::Base),
        groups: groups.map(|name| (name.clone(), slot(Layer::Group(name.clone())))).collect(),
        nodes: nodes.map(|id| (id.clone(), slot(Layer::Node(id.clone())))).collect(),
        groups_unlisted: listing.groups_unlisted,
        nodes_unlisted: listing.nodes_unlisted,
        trunk: Snapshot::new(),
    }
}

/// Where it is not known which overlays there are, those that were there are held back.
fn hold_vanished(load: &mut Generation, before: &Generation, faults: &[Fault]) {
    let told = |scope: &Scope| faults.iter().any(|fault| fault.scope == *scope);
    if told(&Scope::Groups) {
        for name in before.groups.keys() {
            load.groups.entry(Arc::clone(name)).or_insert(None);
        }
        // All that existed at the last look are held now; of others there is no sign.
        load.groups_unlisted &= before.groups_unlisted;
    }
    if told(&Scope::Nodes) {
        for id in before.nodes.keys() {
            load.nodes.entry(Arc::clone(id)).or_insert(None);
        }
        load.nodes_unlisted &= before.nodes_unlisted;
    }
}

/// Takes over the very content of layers that did not change, which is how their audiences know.
fn keep_same(load: &mut Generation, before: &Generation) {
    let keep = |layer: Layer, slot: &mut Slot| {
        if let State::Good(old) = before.state(&layer)
            && slot.as_ref().is_some_and(|new| **new == **old)
        {
            *slot = Some(Arc::clone(old));
        }
    };
    keep(Layer::Base, &mut load.base);
    load.groups.iter_mut().for_each(|(name, slot)| keep(Layer::Group(Arc::clone(name)), slot));
    load.nodes.iter_mut().for_each(|(id, slot)| keep(Layer::Node(Arc::clone(id)), slot));
}

fn changed_layers(before: Option<&Generation>, load: &Generation) -> Vec<Layer> {
    let layers: BTreeSet<Layer> = before.into_iter().chain([load]).flat_map(layers_of).collect();
    let changed = |layer: &Layer| {
        let old = before.map_or(State::Absent, |before| before.state(layer));
        match (old, load.state(layer)) {
            (State::Good(old), State::Good(new)) => !Arc::ptr_eq(old, new),
            (State::Absent, State::Absent) | (_, State::Broken) => false,
            _ => true,
        }
    };
    layers.into_iter().filter(changed).collect()
}

fn order(fault: &Fault) -> (&Path, Option<(u32, u32)>) {
    (&fault.file, fault.position.map(|position| (position.line, position.column)))
}

/// How often a directory that moves while it is read is read again before it is taken as it is.
pub(crate) const PATIENCE: usize = 10;
