//! A directory as a source: it is loaded, and committed to a [`Catalog`].
//!
//! A load is committed only if nothing changed while it was read, or, if the directory does not come to
//! rest, without the files that move. Where the system reports changes,
//! only the changed files are read, and the rest is taken over: [`Directory::attempt`] decides when
//! that is safe. A layer with a fault is held back.
//!
//! A directory that cannot be listed, does not exist or lost all its files at once changes nothing:
//! usually that is a volume that is not mounted yet, or a script between `rm` and `cp`. Files that
//! are removed one by one are removed on purpose, including the last one; so is an overlay that is
//! removed while other files stay.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use chancery_catalog::{Catalog, ChangeSet, Layer};
use chancery_proto::schema::Schema;

use crate::allowed_places::AllowedPlaces;
use crate::change_log::{ChangeLog, ChangedPlaces};
use crate::fault::{Fault, Scope, Warning, Wrong};
use crate::fault_list::FaultList;
use crate::layers::DirectoryLayers;
use crate::options::{LayerChecks, Options};
use crate::past::{Past, ReadEntries};
use crate::read::cache::{Cache, UnsureFiles};
use crate::read::document::Document;
use crate::read::moving::{Moment, Unsettled};
use crate::read::{FileEdit, Reading};
use crate::report::LoadReport;
use crate::scan::listing::{FileChange, FileIdentity, Listing};
use crate::scan::patch;
use crate::scan::scan;
use crate::warnings::WarningsSeen;
use crate::watch::Watcher;

/// A directory of resources.
pub struct Directory {
    pub(crate) options: Options,
    pub(crate) watcher: Option<Watcher>,
    /// The reason why there are no events, if there should be some.
    pub(crate) no_events: Option<Warning>,
    pub(crate) change_log: ChangeLog,
    schema: Schema,
    cache: Cache,
    /// Says when files are read that may have changed without a new stamp, by the next load of everything.
    pub(crate) unsure_files: UnsureFiles,
    catalog: Catalog,
    /// The last reading, with which the next one is compared.
    last: Option<Reading>,
    /// True if the last reading is in the catalog.
    committed: bool,
    layers: DirectoryLayers,
    /// The number of files at the last load without faults, and the identity of their directory. It
    /// is `None` once that directory is gone, so that the next one at the same place counts as
    /// another one, even if it has the same identity.
    filled: Option<(Option<FileIdentity>, usize)>,
    warnings: WarningsSeen,
    /// The comments in files that let findings pass.
    allowances: Arc<AllowedPlaces>,
    /// Is told of these comments before anything is committed that they are about.
    tell_allowances: Option<TellAllowances>,
    /// The files that loads left out because they were moving, and since when they are as they are.
    unsettled: Unsettled,
    /// The last file that was read again because it may have changed without a new stamp.
    retried_last: Option<Arc<Path>>,
    /// The time of the last warning that the directory does not come to rest.
    warned_of_moving: Option<Instant>,
    /// Puts into the catalog what was in force before the first load.
    past: Option<Past>,
}

impl Directory {
    /// A directory that was not read yet.
    pub fn new(options: Options, schema: Schema) -> Self {
        Self {
            options,
            watcher: None,
            no_events: None,
            change_log: ChangeLog::default(),
            schema,
            cache: Cache::default(),
            unsure_files: UnsureFiles::Read,
            catalog: Catalog::default(),
            last: None,
            committed: false,
            layers: DirectoryLayers::new(),
            filled: None,
            warnings: WarningsSeen::default(),
            allowances: Arc::default(),
            tell_allowances: None,
            unsettled: Unsettled::default(),
            retried_last: None,
            warned_of_moving: None,
            past: None,
        }
    }

    /// Commits into this catalog, into which other sources may commit too. Each layer belongs to
    /// one source: those of the directory are base, and the overlays for which it has files.
    #[must_use]
    pub fn with_catalog(self, catalog: Catalog) -> Self {
        Self { catalog, ..self }
    }

    /// Has the first load call a function that puts into the catalog what was in force before the program
    /// was started, and returns the layers of that. The function gets the entries as they were read, and
    /// nothing is committed so far. Layers that have no files any more are removed by that load.
    #[must_use]
    pub fn beginning_with(
        self,
        past: impl FnOnce(&ReadEntries<'_>) -> BTreeSet<Layer> + Send + 'static,
    ) -> Self {
        Self { past: Some(Box::new(past)), ..self }
    }

    /// Has each load tell of the comments that let findings pass before it commits anything, so that a gate knows
    /// them.
    #[must_use]
    pub fn telling_allowances(self, tell: impl Fn(&Arc<AllowedPlaces>) + Send + 'static) -> Self {
        Self { tell_allowances: Some(Box::new(tell)), ..self }
    }

    /// The catalog that loads are committed to.
    pub fn catalog(&self) -> Catalog {
        self.catalog.clone()
    }

    /// Reads the directory. This blocks, and waits for a while if the directory is changing.
    pub fn load(&mut self) -> LoadReport {
        for _ in 0..PATIENCE {
            match self.attempt() {
                Some(report) => return report,
                None => thread::sleep(self.options.settle),
            }
        }
        self.load_moving().0
    }

    /// Loads the directory or its changes. Returns `None` if something changes meanwhile.
    pub(crate) fn attempt(&mut self) -> Option<LoadReport> {
        let recorded = self.change_log.take();
        let report = match self.changes(&recorded) {
            Some(changes) => self.attempt_changes(&recorded, changes),
            None => {
                let listed = Moment::now(self.hears_everything());
                self.read_if_watched().and_then(|reading| self.conclude(reading, listed))
            }
        };
        match report {
            Some(_) => self.unsettled.clear(),
            None => self.change_log.put_back(recorded),
        }
        report
    }

    /// Loads a directory that does not become quiet: whatever has been at rest for as long as a quiet
    /// directory is quiet. A file that is being written stays as it was, and is looked at again by
    /// the next load; so does one that is missing. So does one that is broken where it was good
    /// before, unless these are taken too: it may be half written. Returns the report, and true if
    /// there are such files. While directories or symlinks change, files that were there before are
    /// all that is loaded; when broken files are to be taken, and in a directory that was not loaded
    /// before, the result is `None` then. So it is while a directory that was gone or empty is being
    /// filled again.
    pub(crate) fn attempt_resting(&mut self, takes_broken: bool) -> Option<(LoadReport, bool)> {
        let recorded = self.change_log.take();
        let loaded = match self.changes(&recorded) {
            Some(changes) => self.attempt_resting_changes(&recorded, changes, takes_broken),
            None => self.attempt_resting_whole(takes_broken),
        };
        if loaded.is_none() {
            self.change_log.put_back(recorded);
        }
        loaded
    }

    fn attempt_resting_changes(
        &mut self,
        at: &ChangedPlaces,
        changes: Vec<FileChange>,
        takes_broken: bool,
    ) -> Option<(LoadReport, bool)> {
        let read: Vec<_> =
            changes.into_iter().map(|change| (self.read_changed(&change), change)).collect();
        let moment = Moment::now(true);
        let now: BTreeMap<_, _> =
            self.changes(at)?.into_iter().map(|now| (Arc::clone(&now.path), now)).collect();
        let reading = self.last.take()?;
        let mut look = self.unsettled.look(moment, self.options.quiet());
        let (resting, moving) = reading.resting_changes(read, &now, takes_broken, &mut look);
        let (documents, changes): (Vec<_>, Vec<_>) = resting.into_iter().unzip();
        let report = self.take_changes(reading, changes, documents, at);
        self.record_files(&moving);
        Some((report, !moving.is_empty()))
    }

    fn attempt_resting_whole(&mut self, takes_broken: bool) -> Option<(LoadReport, bool)> {
        let mut reading = self.read_if_watched()?;
        let moment = Moment::now(self.hears_everything());
        let now = self.peek();
        let mut look = self.unsettled.look(moment, self.options.quiet());
        // A symlink that is removed while it is looked at seems to lead nowhere.
        let is_sound = takes_broken
            || reading.listing.faults.is_empty()
            || self.last.as_ref().is_none_or(|it| it.listing.faults == reading.listing.faults);
        if !is_sound || !reading.listing.has_same_frame(&now) {
            let last = self.last.as_ref().filter(|_| self.committed && !takes_broken)?;
            reading = reading.known_files(&now, last, &mut look)?;
            self.change_log.record_anywhere();
            return Some((self.take(reading), true));
        }
        let moving = reading.leave_moving(&now, self.last.as_ref(), takes_broken, &mut look);
        // A directory that was gone or empty is filled again. Nothing of it can be kept, so what is
        // there already would stand for all of it.
        let is_filling = self.last.is_some() && !self.committed && !moving.is_empty();
        if is_filling && !takes_broken {
            return None;
        }
        let report = self.take(reading);
        self.record_files(&moving);
        Some((report, !moving.is_empty()))
    }

    /// Loads the files that were there before and whose content changed and rests, whatever else
    /// changed. Nothing comes and nothing goes, and all that was recorded stays recorded. It is for
    /// the time between two loads of everything, so that a directory that is renamed all the time
    /// does not hold up the changes of all others. Returns `None` if there is nothing to load.
    pub(crate) fn load_known_files(&mut self) -> Option<LoadReport> {
        let at = self.change_log.pending();
        let moment = Moment::now(true);
        let last = self.last.as_ref().filter(|_| self.hears_everything() && self.committed)?;
        let mut changes = patch::changes_of_known_files(&last.listing, &self.options, &at);
        let quiet = self.options.quiet();
        changes.retain(|it| it.now.as_ref().is_some_and(|found| moment.rests(found, quiet)));
        let read: Vec<_> =
            changes.into_iter().map(|change| (self.read_changed(&change), change)).collect();
        let reading = self.last.take()?;
        let (documents, changes): (Vec<_>, Vec<_>) = read
            .into_iter()
            .filter(|(document, change)| {
                reading.takes_known(change, document.as_ref(), &self.catalog)
            })
            .unzip();
        if changes.is_empty() {
            self.last = Some(reading);
            return None;
        }
        Some(self.take_changes(reading, changes, documents, &ChangedPlaces::default()))
    }

    /// Warns that files are written all the time, and stay as they were.
    pub(crate) fn warn_of_moving(&mut self, report: &mut LoadReport) {
        self.warn_of_unrest(
            "the directory does not come to rest; files that are written all the time stay as they \
             were",
            report,
        );
    }

    /// Reads a directory that does not stop changing. A file that was half written is a fault of
    /// its layer, unless it changed or went a moment ago: then it stays as it was. Returns the
    /// report, and true if there are such files.
    pub(crate) fn load_moving(&mut self) -> (LoadReport, bool) {
        let moment = Moment::now(self.hears_everything());
        let mut reading = self.read();
        let now = reading.listing.clone();
        let mut look = self.unsettled.look(moment, self.options.quiet());
        let moving = reading.leave_moving(&now, self.last.as_ref(), true, &mut look);
        let mut report = self.take(reading);
        self.record_files(&moving);
        match moving.is_empty() {
            true => self
                .warn_of_unrest("the directory does not come to rest; read as it was", &mut report),
            false => self.warn_of_moving(&mut report),
        }
        (report, !moving.is_empty())
    }

    /// Adds a warning that may be true all the time, unless there was one a while ago.
    fn warn_of_unrest(&mut self, message: &str, report: &mut LoadReport) {
        if self.warned_of_moving.is_none_or(|at| at.elapsed() >= MOVING_WARNING_PAUSE) {
            self.warned_of_moving = Some(Instant::now());
            report.warnings.push(Warning::of_file(
                "directory/moving",
                &self.options.directory,
                message,
            ));
        }
    }

    /// Returns true if the system reports every change, so that sweeps find lost events alone.
    pub(crate) fn hears_everything(&self) -> bool {
        self.watcher.as_ref().is_some_and(Watcher::reports_everything)
    }

    /// Has the next load make these checks. It parses all files again: none is known by them.
    pub(crate) fn set_checks(&mut self, checks: LayerChecks) {
        if self.options.checks != checks {
            self.options.checks = checks;
            self.cache = Cache::default();
            self.change_log.record_anywhere();
        }
    }

    /// Returns true if something changed since the last load. The next load reads everything then.
    pub(crate) fn has_moved(&self) -> bool {
        let moved = self.last.as_ref().is_none_or(|last| last.listing != self.peek());
        if moved {
            self.distrust_watcher();
            self.change_log.record_anywhere();
        }
        moved
    }

    /// Has the next load watch all places again, because something changed without an event.
    fn distrust_watcher(&self) {
        self.watcher.iter().for_each(Watcher::distrust);
    }

    /// Returns true if files may have changed without a new stamp, or could not be read.
    pub(crate) fn has_unsure(&self) -> bool {
        !self.cache.unsure().is_empty()
    }

    /// Has the next load read these files again, or some of them, one after the other: very many
    /// would make it a load of everything. Returns true if these are all.
    pub(crate) fn record_unsure(&mut self) -> bool {
        let unsure = self.cache.unsure();
        let after = self.retried_last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = unsure.range::<Arc<Path>, _>((after.as_ref(), Bound::Unbounded));
        let part: Vec<_> =
            next.chain(unsure).take(MOST_UNSURE.min(unsure.len())).cloned().collect();
        self.record_files(&part);
        self.retried_last = part.last().cloned();
        part.len() == unsure.len()
    }

    /// Has the next load look at these files.
    fn record_files<'a>(&self, files: impl IntoIterator<Item = &'a Arc<Path>>) {
        let places = self.last.as_ref().map(|last| last.listing.places.by_shown());
        for path in files {
            match places.as_ref().and_then(|places| real(places, path)) {
                Some(real) => self.change_log.record(real),
                None => self.change_log.record_anywhere(),
            }
        }
    }

    /// Lists the directory without reading its files.
    pub(crate) fn peek(&self) -> Listing {
        scan(&self.options)
    }

    /// Reads everything. The places are watched before anything in them is read. Returns `None` if
    /// there are so many new ones that the next attempts watch the rest of them.
    fn read_if_watched(&mut self) -> Option<Reading> {
        let listing = self.peek();
        self.watch(&listing, MOST_NEW_PLACES).then(|| self.read_listed(listing))
    }

    /// Reads everything, however much there is to be watched before.
    fn read(&mut self) -> Reading {
        let listing = self.peek();
        self.watch(&listing, usize::MAX);
        self.read_listed(listing)
    }

    /// Watches the places of a listing, so many new ones at most. Returns true if all are watched.
    fn watch(&mut self, listing: &Listing, most: usize) -> bool {
        self.watcher.as_mut().is_none_or(|watcher| watcher.watch(&listing.places, most))
    }

    fn read_listed(&mut self, listing: Listing) -> Reading {
        let top = listing.places.top.as_deref();
        // Of a directory that has too much nothing is taken, and what is known of it stays known.
        let documents = match listing.is_over {
            true => Vec::new(),
            false => {
                self.cache.read(&listing.files, self.unsure_files, top, &self.options, &self.schema)
            }
        };
        Reading { listing, documents }
    }

    /// Commits what was read, if the directory is still the same. If only known files changed since it was
    /// listed, they are committed as they were then, and the next load looks at them: an edit somewhere must
    /// not hold up a load of everything, which takes long where there are many files.
    fn conclude(&mut self, mut reading: Reading, listed: Moment) -> Option<LoadReport> {
        let now = self.peek();
        if now == reading.listing {
            return Some(self.take(reading));
        }
        let last = self.last.as_ref().filter(|_| self.committed && self.hears_everything())?;
        let changed = reading.put_back_changed(&now, last, listed, self.options.quiet())?;
        let report = self.take(reading);
        self.record_files(&changed);
        // There is no event if it happened before the watches began.
        self.watcher.iter().for_each(Watcher::wake);
        Some(report)
    }

    /// The changes at these places since the last load; `None` if everything has to be read.
    fn changes(&self, at: &ChangedPlaces) -> Option<Vec<FileChange>> {
        let reports_all = self.hears_everything();
        let last = self.last.as_ref().filter(|_| reports_all && self.committed)?;
        patch::changed_files(&last.listing, &self.options, at)
    }

    /// Reads the changed files, and commits them if they are still the same and nothing else
    /// changed. All other files are then as they were read before.
    fn attempt_changes(
        &mut self,
        at: &ChangedPlaces,
        changes: Vec<FileChange>,
    ) -> Option<LoadReport> {
        let documents = changes.iter().map(|change| self.read_changed(change)).collect();
        if self.changes(at).as_ref() != Some(&changes) {
            return None;
        }
        if !self.watcher.as_ref().is_some_and(Watcher::catch_up) {
            self.distrust_watcher();
            self.change_log.record_anywhere();
            return None;
        }
        let meanwhile = self.changes(&self.change_log.pending());
        if !meanwhile.is_some_and(|changes| changes.is_empty()) {
            return None;
        }
        let reading = self.last.take()?;
        Some(self.take_changes(reading, changes, documents, at))
    }

    fn read_changed(&mut self, change: &FileChange) -> Option<Arc<Document>> {
        let Some(found) = &change.now else {
            self.cache.forget(&change.path);
            return None;
        };
        let top = self.last.as_ref().and_then(|last| last.listing.places.top.as_deref());
        Some(self.cache.read_one(found, top, &self.options, &self.schema))
    }

    /// Commits a whole reading.
    fn take(&mut self, reading: Reading) -> LoadReport {
        self.unsure_files = UnsureFiles::Read;
        if let Some(past) = self.past.take() {
            self.layers.begin_with(past(&ReadEntries::of(&reading)));
        }
        let layers = self.layers.read_all(&reading, &self.catalog);
        let faults = self.faults(&reading.listing);
        let mut report = LoadReport { files: reading.listing.files.len(), ..LoadReport::default() };
        self.set_allowances(&reading);
        if self.committed {
            let changes = self.layers.changes_of_all(&reading.listing, layers);
            self.commit(changes, &mut report);
        }
        (report.faults, report.more_faults) = faults.into_sorted();
        if !self.options.hold_violations {
            (report.violations, report.more_violations) = violations(&reading);
        }
        report.warnings = self.warnings.new_of_scan(&reading);
        self.warn_of_rest(&mut report);
        self.last = Some(reading);
        report
    }

    /// Commits the last load with the files that changed since, at these places.
    fn take_changes(
        &mut self,
        mut reading: Reading,
        changes: Vec<FileChange>,
        documents: Vec<Option<Arc<Document>>>,
        at: &ChangedPlaces,
    ) -> LoadReport {
        let ignored = patch::ignored_files(&reading.listing, &self.options, at);
        let mut edits: BTreeMap<Layer, Vec<FileEdit>> = BTreeMap::new();
        let changed = changes.into_iter().zip(documents);
        for edit in changed.filter_map(|(change, document)| reading.apply(change, document)) {
            edits.entry(edit.layer.clone()).or_default().push(edit);
        }
        let layers = self.layers.read_edits(&edits, &reading, &self.catalog);
        let faults = self.faults(&reading.listing);
        let mut report = LoadReport { files: reading.listing.files.len(), ..LoadReport::default() };
        if edits.values().flatten().any(FileEdit::has_allowances) {
            self.set_allowances(&reading);
        }
        if self.committed {
            let changes = self.layers.changes_of_edits(layers);
            self.commit(changes, &mut report);
        }
        (report.faults, report.more_faults) = faults.into_sorted();
        if !self.options.hold_violations {
            (report.violations, report.more_violations) = violations(&reading);
        }
        report.warnings = self.warnings.of_edits(edits.values().flatten());
        report.warnings.extend(self.warnings.of_ignored(&ignored));
        ignored.into_iter().for_each(|file| reading.listing.apply_ignored(file));
        self.warn_of_rest(&mut report);
        self.last = Some(reading);
        report
    }

    /// Lets pass what waits behind faults in layers that have these digests: files with faults stay as they were.
    pub(crate) fn pass_faults(&mut self, layers: &[(Layer, u128)]) -> Option<LoadReport> {
        let reading = self.last.take()?;
        let changes = match self.committed {
            true => self.layers.pass(layers, &reading, &self.catalog),
            false => None,
        };
        let report = changes.map(|changes| {
            let files = reading.listing.files.len();
            let mut report = LoadReport { files, ..LoadReport::default() };
            let faults = self.faults(&reading.listing);
            self.commit(changes, &mut report);
            (report.faults, report.more_faults) = faults.into_sorted();
            if !self.options.hold_violations {
                (report.violations, report.more_violations) = violations(&reading);
            }
            self.warn_of_rest(&mut report);
            report
        });
        self.last = Some(reading);
        report
    }

    fn set_allowances(&mut self, reading: &Reading) {
        self.allowances = reading.allowances();
        self.tell_allowances.iter().for_each(|tell| tell(&self.allowances));
    }

    /// The present faults. With a fault of the whole directory, nothing is committed.
    fn faults(&mut self, listing: &Listing) -> FaultList {
        let mut faults = listing.faults.clone();
        self.layers.faults().for_each(|of_layer| faults.append(of_layer));
        self.emptied(listing).into_iter().for_each(|fault| faults.push(fault));
        self.committed = !faults.holds(&Scope::Directory);
        if self.committed {
            self.filled = Some((listing.top, listing.files.len()));
        } else if let (None, Some((known, _))) = (listing.top, &mut self.filled) {
            *known = None;
        }
        faults
    }

    /// The fault of a directory that lost all its files at once.
    fn emptied(&self, listing: &Listing) -> Option<Fault> {
        let (top, files) = self.filled?;
        let empty = listing.files.is_empty() && listing.top.is_some() && !listing.is_over;
        let last_file_removed = files <= 1 && listing.top == top;
        (empty && files > 0 && !last_file_removed)
            .then(|| Wrong::Emptied(files).at(Scope::Directory, &self.options.directory, None))
    }

    fn commit(&self, changes: ChangeSet, report: &mut LoadReport) {
        report.revision = self.catalog.commit(changes);
        report.resources = self.catalog.resource_count(self.layers.known());
    }

    /// Adds the warnings that are about no file in particular.
    fn warn_of_rest(&mut self, report: &mut LoadReport) {
        let mut now: BTreeSet<_> = self.watcher.iter().flat_map(Watcher::trouble).collect();
        now.extend(self.no_events.clone());
        if report.files == 0 && report.faults.is_empty() {
            let message = "holds no files: nothing is served";
            now.insert(Warning::of_file("directory/empty", &self.options.directory, message));
        }
        now.extend(self.layers.blank_warnings());
        report.warnings.extend(self.warnings.rest(now));
        (report.present_warnings, report.warning_count) = self.warnings.present();
        report.allowances = Arc::clone(&self.allowances);
        report.behind_faults = Arc::new(self.layers.behind(&self.catalog));
    }
}

/// Takes note of the comments that let findings pass.
type TellAllowances = Box<dyn Fn(&Arc<AllowedPlaces>) + Send>;

/// The present violations of the rules of messages, and the number of those that are left out, by
/// file.
fn violations(reading: &Reading) -> (Vec<Fault>, BTreeMap<PathBuf, usize>) {
    let mut all = FaultList::default();
    for (found, document) in reading.listing.files.iter().zip(&reading.documents) {
        document.violations.iter().for_each(|violation| all.push(violation.clone()));
        all.count(&found.path, document.more_violations);
    }
    all.into_sorted()
}

/// The path of a file without symlinks, if it is in a directory that is found once.
fn real(directories: &BTreeMap<&Path, &Path>, shown: &Path) -> Option<PathBuf> {
    Some(directories.get(shown.parent()?)?.join(shown.file_name()?))
}

/// The number of times that a directory that moves while it is read is read again. After them it is
/// taken as it is.
pub(crate) const PATIENCE: usize = 10;

/// The number of new places that an attempt watches, so that it is over in a fraction of a second and
/// the changes of known files have their turn.
const MOST_NEW_PLACES: usize = 20_000;

/// The number of files that a load reads again because they may have changed without a new stamp.
const MOST_UNSURE: usize = 512;

/// The time between two warnings that the directory does not come to rest.
const MOVING_WARNING_PAUSE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
