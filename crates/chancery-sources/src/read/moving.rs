//! The files of a directory that is not quiet which are at rest.
//!
//! Two looks that agree say nothing if they are a few milliseconds apart: an editor renames a file
//! and writes it anew, and a writer appends one document after the other. So a file that differs
//! from the last reading rests only if it has been as it is for as long as a quiet directory is
//! quiet, and one that is missing is removed only if it has been missing for so long. Not here: a
//! directory that is quiet, of which everything is taken.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use chancery_catalog::{Catalog, Key, Layer};

use crate::read::document::Document;
use crate::read::{FileReading, Reading};
use crate::scan::listing::{FileChange, FileStamp, FoundFile, Listing};

/// The files that differ from the last reading, with the time since which each is as it is.
#[derive(Debug, Default)]
pub(crate) struct Unsettled(BTreeMap<Arc<Path>, Seen>);

/// A file as it was seen; without a stamp it was missing.
#[derive(Debug)]
struct Seen {
    stamp: Option<FileStamp>,
    since: Instant,
}

/// One look at the files that differ.
pub(crate) struct Look<'a> {
    before: BTreeMap<Arc<Path>, Seen>,
    seen: &'a mut BTreeMap<Arc<Path>, Seen>,
    moment: Moment,
    quiet: Duration,
}

/// The moment of a look, by both clocks. It is taken before the look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    /// The time of the system, if the times of files are of the same clock.
    pub(crate) time: Option<SystemTime>,
}

impl Moment {
    /// The present moment. The files of another machine may have the times of another clock.
    pub(crate) fn now(are_files_local: bool) -> Self {
        Self { at: Instant::now(), time: are_files_local.then(SystemTime::now) }
    }

    /// Returns true if the stamp of the file tells that it has been as it is for this time.
    pub(crate) fn rests(self, found: &FoundFile, quiet: Duration) -> bool {
        let age = self.time.and_then(|time| found.stamp.age(time));
        age.is_some_and(|age| age >= quiet)
    }
}

/// A change, and the document of the file if there is one.
type ReadChange = (Option<Arc<Document>>, FileChange);

impl Unsettled {
    /// Begins a look, before which a file must have been as it is for this time. Files that it does
    /// not ask about are forgotten.
    pub(crate) fn look(&mut self, moment: Moment, quiet: Duration) -> Look<'_> {
        Look { before: std::mem::take(&mut self.0), seen: &mut self.0, moment, quiet }
    }

    /// Forgets all files, after a load of everything.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Look<'_> {
    /// Returns true if the file has been as it is now for long enough.
    fn rests(&mut self, path: &Arc<Path>, stamp: Option<FileStamp>) -> bool {
        let Moment { at, time } = self.moment;
        let known = self.before.get(path).filter(|seen| seen.stamp == stamp);
        let since = known.map_or(at, |seen| seen.since);
        self.seen.insert(Arc::clone(path), Seen { stamp, since });
        let by_stamp = || stamp.zip(time).and_then(|(stamp, time)| stamp.age(time));
        at.saturating_duration_since(since) >= self.quiet
            || by_stamp().is_some_and(|age| age >= self.quiet)
    }
}

impl Reading {
    /// Returns true if this document may take the place of the present one while the directory is
    /// not quiet. One that is broken or empty may be half written.
    fn takes(&self, path: &Path, document: Option<&Arc<Document>>) -> bool {
        let is_good = |document: &Document| document.faults.is_empty() && !document.is_blank;
        let known = self.listing.find(path).map(|at| &self.documents[at]);
        match (known, document) {
            (Some(known), Some(new)) => is_good(new) || known.is_same(new) || !is_good(known),
            (None, Some(new)) => is_good(new),
            (_, None) => true,
        }
    }

    /// Returns true if this document may take the place of that of a known file while it is unknown
    /// which files come and go. A name that it lacks may be on its way to a new file, and one that
    /// it adds may come from a file that is about to go, if the layer has it.
    pub(crate) fn takes_known(
        &self,
        change: &FileChange,
        document: Option<&Arc<Document>>,
        catalog: &Catalog,
    ) -> bool {
        let known = self.kept(&change.path);
        let Some(((found, known), new)) = known.zip(document) else { return false };
        let keys = |document: &Document| -> BTreeSet<Key> {
            document.resources.iter().flat_map(|loaded| loaded.keys()).collect()
        };
        let (before, now) = (keys(&known), keys(new));
        let content = catalog.layer(&found.layer);
        let is_there = |key: &&Key| content.as_ref().is_some_and(|it| it.get(key).is_some());
        before.is_subset(&now)
            && !now.difference(&before).any(|key| is_there(&key))
            && self.takes(&change.path, Some(new))
    }

    /// Parts the changes of this reading into those that rest and the files of the others. `now` has
    /// the changes as they are after the documents were read.
    pub(crate) fn resting_changes(
        &self,
        read: Vec<ReadChange>,
        now: &BTreeMap<Arc<Path>, FileChange>,
        takes_broken: bool,
        look: &mut Look<'_>,
    ) -> (Vec<ReadChange>, BTreeSet<Arc<Path>>) {
        let mut moving = BTreeSet::new();
        let mut missing = Vec::new();
        let mut resting = Vec::new();
        for (document, change) in read {
            let there = now.get(&change.path);
            let stamp = there.and_then(|there| there.now.as_ref()).map(|found| found.stamp);
            let rests = look.rests(&change.path, stamp) && there == Some(&change);
            if rests && (takes_broken || self.takes(&change.path, document.as_ref())) {
                resting.push((document, change));
            } else {
                missing.extend(self.kept(&change.path).filter(|_| stamp.is_none()));
                moving.insert(change.path);
            }
        }
        let missing = Definitions::of(&missing);
        resting.retain(|(document, change)| {
            let document = document.as_ref().zip(change.now.as_ref());
            let waits = document.is_some_and(|(new, found)| missing.has_any_of(found, new));
            if waits {
                moving.insert(Arc::clone(&change.path));
            }
            !waits
        });
        (resting, moving)
    }

    /// Makes this the reading of the moment when the directory was listed, if only the content of known files
    /// changed from then until `now`: they were as in the last reading. Returns these files. It is `None`
    /// if anything else changed, or did so shortly before that moment: it may belong together with these.
    pub(crate) fn put_back_changed(
        &mut self,
        now: &Listing,
        last: &Self,
        listed: Moment,
        quiet: Duration,
    ) -> Option<Vec<Arc<Path>>> {
        let files = &self.listing.files;
        if !self.listing.has_same_frame(now) || files.len() != now.files.len() {
            return None;
        }
        let (mut changed, mut known) = (Vec::new(), 0);
        for (at, (found, there)) in files.iter().zip(&now.files).enumerate() {
            let before = last.listing.find(&found.path);
            known += usize::from(before.is_some());
            let before = before.filter(|before| last.listing.files[*before] == *found);
            if found != there {
                let before = before.filter(|_| found.is_at_same_place(there))?;
                self.documents[at] = Arc::clone(&last.documents[before]);
                changed.push(Arc::clone(&found.path));
            } else if before.is_none() && !listed.rests(found, quiet) {
                return None;
            }
        }
        (known == last.listing.files.len()).then_some(changed)
    }

    /// Puts the files that are not at rest back to what they were in the last reading: those that
    /// are not the same in this listing of now, those that have not been so for long enough, and
    /// those that broke unless these are taken. Returns these files.
    pub(crate) fn leave_moving(
        &mut self,
        now: &Listing,
        last: Option<&Self>,
        takes_broken: bool,
        look: &mut Look<'_>,
    ) -> BTreeSet<Arc<Path>> {
        let read = std::mem::take(&mut self.listing.files)
            .into_iter()
            .zip(std::mem::take(&mut self.documents));
        let is_first = last.is_none();
        let nothing = Self::default();
        let last = last.unwrap_or(&nothing);
        let mut rest = BTreeMap::new();
        let mut moving = BTreeSet::new();
        for (found, document) in read {
            let there = now.find(&found.path).map(|at| &now.files[at]);
            let is_known = last.listing.find(&found.path);
            let is_known = is_known.is_some_and(|at| last.listing.files[at] == found);
            // Of a directory that was not read before, nothing can be kept.
            let rests = is_first
                || (is_known && there == Some(&found))
                || look.rests(&found.path, there.map(|there| there.stamp));
            let takes = takes_broken || last.takes(&found.path, Some(&document));
            if there == Some(&found) && rests && takes {
                rest.insert(Arc::clone(&found.path), (found, document));
            } else {
                moving.insert(found.path);
            }
        }
        // Files that came back while the others were read.
        for found in &now.files {
            if !rest.contains_key(&found.path) && moving.insert(Arc::clone(&found.path)) {
                look.rests(&found.path, Some(found.stamp));
            }
        }
        // Without the directory itself, nothing is known of its files.
        for found in last.listing.files.iter().filter(|_| now.top.is_some()) {
            let is_known = rest.contains_key(&found.path) || moving.contains(&found.path);
            if !is_known && !look.rests(&found.path, None) {
                moving.insert(Arc::clone(&found.path));
            }
        }
        let missing = moving.iter().filter(|path| now.find(path).is_none());
        let missing: Vec<_> = missing.filter_map(|path| last.kept(path)).collect();
        let missing = Definitions::of(&missing);
        rest.retain(|path, (found, document)| {
            let is_known = || last.kept(path).is_some_and(|(_, old)| old.is_same(document));
            let waits = missing.has_any_of(found, document) && !is_known();
            if waits {
                moving.insert(Arc::clone(path));
            }
            !waits
        });
        for (found, document) in moving.iter().filter_map(|path| last.kept(path)) {
            self.listing.add_layer(&found.layer);
            rest.insert(Arc::clone(&found.path), (found, document));
        }
        (self.listing.files, self.documents) = rest.into_values().unzip();
        self.listing.count_bytes();
        moving
    }

    /// The last reading with those of its files that rest as they are now. It is for a directory
    /// whose directories or symlinks change: which files come or go is not known then. Returns
    /// `None` if it is another directory.
    pub(crate) fn known_files(
        &self,
        now: &Listing,
        last: &Self,
        look: &mut Look<'_>,
    ) -> Option<Self> {
        let tops = [self.listing.top, now.top, last.listing.top];
        if tops[0].is_none() || tops.iter().any(|top| *top != tops[0]) {
            return None;
        }
        let mut known = Self { listing: last.listing.clone(), documents: last.documents.clone() };
        for (at, found) in known.listing.files.iter_mut().enumerate() {
            let there = now.find(&found.path).map(|at| &now.files[at]);
            let rests =
                there == Some(found) || look.rests(&found.path, there.map(|there| there.stamp));
            let Some((read, document)) = self.kept(&found.path) else { continue };
            let is_same = there == Some(&read) && read.layer == found.layer;
            if rests && is_same && last.takes(&found.path, Some(&document)) {
                (*found, known.documents[at]) = (read, document);
            }
        }
        known.listing.count_bytes();
        Some(known)
    }
}

/// The names that files define which are missing, and may be on their way to another file. That one
/// waits with them: both together would define a name twice.
struct Definitions(HashSet<(Layer, Key)>);

impl Definitions {
    fn of(files: &[FileReading]) -> Self {
        let keys = files.iter().flat_map(|(found, document)| {
            let keys = document.resources.iter().flat_map(|loaded| loaded.keys());
            keys.map(|key| (found.layer.clone(), key))
        });
        Self(keys.collect())
    }

    fn has_any_of(&self, found: &FoundFile, document: &Document) -> bool {
        let mut keys = document.resources.iter().flat_map(|loaded| loaded.keys());
        !self.0.is_empty() && keys.any(|key| self.0.contains(&(found.layer.clone(), key)))
    }
}
