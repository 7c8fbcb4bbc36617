//! A directory as a source: loading it whole, and telling what came of it.
//!
//! A load is published only if nothing moved while it was read. What it holds goes into the
//! [`Catalog`] layer by layer; a layer with a fault goes in as broken. A directory that cannot be
//! listed at all, is not there, or lost all its files at once changes nothing: more often than
//! not that is a volume not mounted yet, or a script between `rm` and `cp`. Files taken out one
//! by one are taken out on purpose, and the last one too; so is an overlay that goes while other
//! files stay.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use chancery_proto::schema::Schema;

use crate::assemble::{Layers, assemble, changed_layers, generation};
use crate::audience::Audience;
use crate::cache::{Cache, Document};
use crate::catalog::Catalog;
use crate::fault::{Fault, Scope, Warning, Wrong};
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

/// What is there, and what it holds.
struct Reading {
    listing: Listing,
    documents: Vec<Arc<Document>>,
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

    /// Loads the directory, unless something moves meanwhile.
    pub(crate) fn attempt(&mut self) -> Option<LoadReport> {
        let reading = self.read();
        self.conclude(reading)
    }

    /// Reads a directory that never comes to rest. What is torn shows as a fault in its layer.
    pub(crate) fn load_moving(&mut self) -> LoadReport {
        let reading = self.read();
        let mut report = self.take(reading);
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

    /// Reads all there is. The places found are watched before anything in them is read.
    fn read(&mut self) -> Reading {
        let listing = self.peek();
        if let Some(watcher) = &mut self.watcher {
            watcher.watch(&listing.places);
        }
        let documents = self.cache.read(&listing, &self.options, &self.schema);
        Reading { listing, documents }
    }

    /// Publishes what was read, if that is still what is there.
    fn conclude(&mut self, reading: Reading) -> Option<LoadReport> {
        (self.peek() == reading.listing).then(|| self.take(reading))
    }

    /// Publishes what was read.
    fn take(&mut self, Reading { listing, documents }: Reading) -> LoadReport {
        let mut report = LoadReport { files: listing.files.len(), ..LoadReport::default() };
        report.faults.clone_from(&listing.faults);
        let (layers, faults) = assemble(&listing, &documents);
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
        let mut load = generation(listing, layers, &report.faults, before.as_deref());
        load.grow_trunk(self.catalog.newest_base().as_deref());
        let slots =
            std::iter::once(&load.base).chain(load.groups.values()).chain(load.nodes.values());
        report.resources = slots.flatten().map(|content| content.own).sum();
        report.regrouped = before.as_ref().is_none_or(|before| !before.has_overlays_of(&load));
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

fn order(fault: &Fault) -> (&Path, Option<(u32, u32)>) {
    (&fault.file, fault.position.map(|position| (position.line, position.column)))
}

/// How often a directory that moves while it is read is read again before it is taken as it is.
pub(crate) const PATIENCE: usize = 10;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn cluster(name: &str) -> String {
        let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        format!("{{\"@type\": \"{url}\", \"name\": \"{name}\"}}")
    }

    #[test]
    fn what_moved_while_it_was_read_is_not_published() {
        // S-057
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, name: &str| fs::write(dir.path().join(file), cluster(name));
        write("a.json", "a").unwrap();
        let moves: [&dyn Fn() -> std::io::Result<()>; 5] = [
            &|| write("a.json", "longer"),
            &|| write("b.json", "b"),
            &|| fs::remove_file(dir.path().join("b.json")),
            &|| fs::create_dir(dir.path().join("groups")),
            &|| fs::rename(dir.path().join("a.json"), dir.path().join("c.json")),
        ];
        let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
        for step in moves {
            let reading = directory.read();
            step().unwrap();
            assert_eq!(directory.conclude(reading), None);
        }
        assert!(directory.catalog().snapshot(None, None).is_none());
        let reading = directory.read();
        assert!(directory.conclude(reading).is_some());
    }

    #[test]
    fn what_never_comes_to_rest_is_read_as_it_is_and_told() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.json"), cluster("a")).unwrap();
        let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
        let report = directory.load_moving();
        assert_eq!((report.resources, report.warnings.len()), (1, 1));
    }

    #[test]
    fn a_file_read_in_the_tick_it_was_written_in_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.json"), cluster("a")).unwrap();
        let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
        let listing = directory.peek();
        let name = |directory: &mut Directory| {
            let documents = directory.cache.read(&listing, &directory.options, &directory.schema);
            documents[0].resources[0].resource.name().to_string()
        };
        assert_eq!(name(&mut directory), "a");
        // As far as the stamp tells, nothing happened.
        fs::write(dir.path().join("a.json"), cluster("b")).unwrap();
        assert_eq!(name(&mut directory), "b");
        assert!(directory.is_stale());
    }
}
