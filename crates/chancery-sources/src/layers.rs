//! The layers of the directory, and the change sets that loads make of them.
//!
//! A layer with a fault is held back. If it is unknown which overlays exist, the earlier ones are
//! held back too, and not removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use chancery_catalog::{Catalog, ChangeSet, Hold, Layer};

use crate::assemble::{self, Edits, LayerFiles, WholeLayer};
use crate::behind::{BehindFaults, Beside};
use crate::fault::{Scope, Warning};
use crate::fault_list::{FaultList, MAX_FAULTS_OF_LOAD};
use crate::read::{FileEdit, Reading};
use crate::scan::listing::Listing;

/// The layers of the directory, as they were committed last.
pub(crate) struct DirectoryLayers {
    /// The layers that exist or are held back.
    known: BTreeSet<Layer>,
    /// The layers in which the v2 form of a resource is left out.
    contested: BTreeSet<Layer>,
    /// The faults in the documents of each layer.
    faults: BTreeMap<Layer, FaultList>,
    /// The number of these that are kept. Layers keep few once there are many, so that the memory
    /// they take is bounded.
    kept_faults: usize,
    /// The files of each layer that say nothing and had no resources.
    blank: BTreeMap<Layer, BTreeSet<Arc<Path>>>,
    /// The files that stay as they were in spite of their faults, because somebody let the others pass.
    passed: BTreeMap<Layer, BTreeSet<Arc<Path>>>,
    /// The edits that wait behind faults, if any do, or were let pass.
    behind: BTreeMap<Layer, BehindFaults>,
    /// True until the groups were listed once.
    groups_unlisted: bool,
    /// True until the nodes with overlays were listed once.
    nodes_unlisted: bool,
}

/// The readings of some layers. Their faults are in [`DirectoryLayers`].
pub(crate) type LayerReadings = BTreeMap<Layer, LayerReading>;

/// The result of reading one layer.
pub(crate) enum LayerReading {
    /// The whole layer was read.
    Whole(WholeLayer),
    /// Some entries of the layer changed.
    Edits(Edits),
    /// The files of the layer have faults.
    Faulty,
}

impl DirectoryLayers {
    /// The layers of a directory that was not read yet.
    pub(crate) fn new() -> Self {
        Self {
            known: BTreeSet::new(),
            contested: BTreeSet::new(),
            faults: BTreeMap::new(),
            kept_faults: 0,
            blank: BTreeMap::new(),
            passed: BTreeMap::new(),
            behind: BTreeMap::new(),
            groups_unlisted: true,
            nodes_unlisted: true,
        }
    }

    /// Takes note that the catalog has these layers, before anything was read.
    pub(crate) fn begin_with(&mut self, layers: BTreeSet<Layer>) {
        self.known = layers;
    }

    /// Takes over the documents of all layers.
    pub(crate) fn read_all(&mut self, reading: &Reading, catalog: &Catalog) -> LayerReadings {
        self.faults.clear();
        self.kept_faults = 0;
        self.blank.clear();
        self.behind.clear();
        let all = assemble::whole_layers(reading, catalog).into_iter();
        all.map(|(layer, files)| {
            let reading = self.take_files(&layer, files, catalog);
            (layer, reading)
        })
        .collect()
    }

    /// Takes over files that changed, by layer.
    pub(crate) fn read_edits(
        &mut self,
        edits: &BTreeMap<Layer, Vec<FileEdit>>,
        reading: &Reading,
        catalog: &Catalog,
    ) -> LayerReadings {
        let mut readings = LayerReadings::new();
        for (layer, files) in edits {
            let is_plain = !self.contested.contains(layer) && !self.passed.contains_key(layer);
            let content = catalog.layer(layer).filter(|_| is_plain);
            let edited = content.and_then(|content| assemble::edited(&content, files));
            let read = match edited {
                Some(edits) => {
                    self.set_faults(layer, None);
                    // The files that changed say something, or are gone.
                    if let Some(blank) = self.blank.get_mut(layer) {
                        for edit in files {
                            blank.remove(&edit.file);
                        }
                    }
                    LayerReading::Edits(edits)
                }
                None => {
                    let whole = assemble::whole_layer(layer, reading.of_layer(layer), catalog);
                    self.take_files(layer, whole, catalog)
                }
            };
            readings.insert(layer.clone(), read);
        }
        readings
    }

    /// The faults in the documents.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &FaultList> {
        self.faults.values()
    }

    /// The warnings about files that say nothing and had no resources.
    pub(crate) fn blank_warnings(&self) -> impl Iterator<Item = Warning> {
        self.blank.values().flatten().map(|file| Warning::of_file("file/empty", file, SAYS_NOTHING))
    }

    /// The layers that exist or are held back.
    pub(crate) fn known(&self) -> &BTreeSet<Layer> {
        &self.known
    }

    /// The change set of a whole load.
    pub(crate) fn changes_of_all(
        &mut self,
        listing: &Listing,
        mut readings: LayerReadings,
    ) -> ChangeSet {
        // Those in documents are in the readings.
        let (mut changes, faults) = (ChangeSet::new(AUTHOR), &listing.faults);
        let gone = std::mem::replace(&mut self.known, layers_of(listing));
        for layer in self.known.clone() {
            let nothing = || LayerReading::Whole(WholeLayer::default());
            let read = readings.remove(&layer).unwrap_or_else(nothing);
            let is_faulty = faults.holds(&Scope::Layer(layer.clone()));
            self.add_reading(
                &mut changes,
                layer,
                if is_faulty { LayerReading::Faulty } else { read },
            );
        }
        let (groups, nodes) = (faults.holds(&Scope::Groups), faults.holds(&Scope::Nodes));
        for layer in gone {
            let is_hidden = match &layer {
                Layer::Base => false,
                Layer::Group(_) => groups,
                Layer::Node(_) => nodes,
            };
            match (self.known.contains(&layer), is_hidden) {
                (true, _) => {}
                (false, true) => {
                    changes.hold(Hold::Layer(layer.clone()));
                    self.known.insert(layer);
                }
                (false, false) => changes.remove_layer(&layer),
            }
        }
        // The layers of the last listing are held back by name. Others may exist, so all groups or
        // all nodes are held back.
        self.groups_unlisted &= listing.groups_unlisted;
        self.nodes_unlisted &= listing.nodes_unlisted;
        set_hold(&mut changes, Hold::UnlistedGroups, self.groups_unlisted);
        set_hold(&mut changes, Hold::UnlistedNodes, self.nodes_unlisted);
        self.passed.retain(|layer, _| self.known.contains(layer));
        changes
    }

    /// The change set of some changed files.
    pub(crate) fn changes_of_edits(&mut self, readings: LayerReadings) -> ChangeSet {
        let mut changes = ChangeSet::new(AUTHOR);
        for (layer, read) in readings {
            self.add_reading(&mut changes, layer, read);
        }
        changes
    }

    /// The edits that wait behind faults, and the layers in which they were let pass, the first of them. Those of
    /// other layers are among them that nobody sees before.
    pub(crate) fn behind(&self, catalog: &Catalog) -> Vec<BehindFaults> {
        let mut unseen = match self.behind.is_empty() {
            true => BTreeMap::new(),
            false => catalog.unseen(),
        };
        let behind = self.behind.values().take(MOST_BEHIND).cloned();
        behind
            .map(|one| match unseen.remove(&one.layer) {
                Some(unseen) => one.with(unseen),
                None => one,
            })
            .collect()
    }

    /// The change set that lets pass what waits in those of these layers that have these digests. What one brings
    /// to the others is no other content: somebody has read of all.
    pub(crate) fn pass(
        &mut self,
        layers: &[(Layer, u128)],
        reading: &Reading,
        catalog: &Catalog,
    ) -> Option<ChangeSet> {
        let behind = self.behind(catalog).into_iter().filter(|it| !it.is_passed);
        let behind: BTreeMap<Layer, u128> = behind.map(|it| (it.layer, it.digest)).collect();
        let faults = &reading.listing.faults;
        let waits = |layer: &Layer, digest: u128| {
            behind.get(layer) == Some(&digest) && !faults.holds(&Scope::Layer(layer.clone()))
        };
        let mut readings = LayerReadings::new();
        for (layer, _) in layers.iter().filter(|(layer, digest)| waits(layer, *digest)) {
            let files = assemble::whole_layer(layer, reading.of_layer(layer), catalog);
            let Some(beside) = &files.beside else { continue };
            self.passed.insert(layer.clone(), beside.faulty.clone());
            let read = self.take_files(layer, files, catalog);
            readings.insert(layer.clone(), read);
        }
        (!readings.is_empty()).then(|| self.changes_of_edits(readings))
    }

    fn take_files(&mut self, layer: &Layer, files: LayerFiles, catalog: &Catalog) -> LayerReading {
        match files.blank.is_empty() {
            true => drop(self.blank.remove(layer)),
            false => drop(self.blank.insert(layer.clone(), files.blank.into_iter().collect())),
        }
        match files.whole {
            Ok(whole) => {
                self.set_faults(layer, None);
                self.passed.remove(layer);
                self.behind.remove(layer);
                LayerReading::Whole(whole)
            }
            Err(faults) => {
                self.set_faults(layer, Some(faults));
                self.take_beside(layer, files.beside, catalog)
            }
        }
    }

    /// Takes a layer with faults, as far as somebody let it pass.
    fn take_beside(
        &mut self,
        layer: &Layer,
        beside: Option<Beside>,
        catalog: &Catalog,
    ) -> LayerReading {
        self.behind.remove(layer);
        let Some(beside) = beside else { return LayerReading::Faulty };
        let passed = self.passed.get_mut(layer);
        let is_passed = passed.is_some_and(|passed| {
            // One that was repaired counts again.
            passed.retain(|file| beside.faulty.contains(file));
            beside.faulty.is_subset(passed)
        });
        let content = catalog.content(layer).unwrap_or_default();
        let waiting = beside.waiting(layer, &content, is_passed);
        self.behind.insert(layer.clone(), waiting);
        if is_passed { LayerReading::Whole(beside.whole) } else { LayerReading::Faulty }
    }

    fn set_faults(&mut self, layer: &Layer, faults: Option<FaultList>) {
        let before = self.faults.remove(layer);
        self.kept_faults -= before.as_ref().map_or(0, FaultList::kept);
        if let Some(mut faults) = faults {
            faults.cut(MAX_FAULTS_OF_LOAD.saturating_sub(self.kept_faults));
            self.kept_faults += faults.kept();
            self.faults.insert(layer.clone(), faults);
        }
    }

    fn add_reading(&mut self, changes: &mut ChangeSet, layer: Layer, read: LayerReading) {
        match read {
            LayerReading::Faulty => return changes.hold(Hold::Layer(layer)),
            LayerReading::Whole(whole) => {
                match whole.is_contested {
                    true => drop(self.contested.insert(layer.clone())),
                    false => drop(self.contested.remove(&layer)),
                }
                changes.replace_layer(&layer, whole.entries);
            }
            LayerReading::Edits(edits) => {
                for (key, entry) in edits {
                    changes.set(&layer, key, entry);
                }
            }
        }
        changes.release(Hold::Layer(layer));
    }
}

fn set_hold(changes: &mut ChangeSet, hold: Hold, is_held: bool) {
    if is_held { changes.hold(hold) } else { changes.release(hold) }
}

fn layers_of(listing: &Listing) -> BTreeSet<Layer> {
    let groups = listing.groups.iter().cloned().map(Layer::Group);
    let nodes = listing.nodes.iter().cloned().map(Layer::Node);
    std::iter::once(Layer::Base).chain(groups).chain(nodes).collect()
}

/// The warning about a file that says nothing and has no resources in force.
const SAYS_NOTHING: &str =
    "says nothing: it is empty, or holds comments alone; `[]` says that it has no resources";

/// The number of layers of which it is told what waits behind faults.
const MOST_BEHIND: usize = 1000;

/// The author of what the directory commits.
const AUTHOR: &str = "directory";
