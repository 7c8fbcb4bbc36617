//! A listing that is brought up to date without a scan, after changes of single files.
//!
//! Only simple changes are handled here: regular files that were added, removed or changed in
//! directories of one layer, reached without symlinks. Any other change needs a scan, and so does any
//! change in a layer that the last scan found a fault in. Faults elsewhere are none of its concern.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_proto::document::Format;

use crate::change_log::ChangedPlaces;
use crate::fault::{Scope, Warning};
use crate::options::Options;
use crate::scan::listing::{
    FileChange, FileIdentity, FileStamp, FoundFile, LayerDirectory, Listing,
};
use crate::scan::skipped::{is_ignored, is_skipped};
use crate::scan::{MAX_WARNINGS, NOT_A_FORMAT};

/// The files that changed at these places. Returns `None` if that needs a scan.
pub(crate) fn changed_files(
    listing: &Listing,
    options: &Options,
    at: &ChangedPlaces,
) -> Option<Vec<FileChange>> {
    match at {
        // A scan that had such a fault did not look at everything.
        _ if listing.faults.holds(&Scope::Directory) => None,
        ChangedPlaces::At(paths) => {
            Look { listing, options, places: paths.len() }.changes_at(paths)
        }
        ChangedPlaces::Anywhere => None,
    }
}

/// The known files whose content changed, of the changes at these places. All others are left out:
/// those of files that come or go, and whatever needs a scan.
pub(crate) fn changes_of_known_files(
    listing: &Listing,
    options: &Options,
    at: &ChangedPlaces,
) -> Vec<FileChange> {
    let look = Look { listing, options, places: 0 };
    let paths = match at {
        ChangedPlaces::At(paths) => paths.clone(),
        ChangedPlaces::Anywhere => look.other_files(),
    };
    let is_known = |change: &FileChange| {
        let known = listing.find(&change.path).map(|at| &listing.files[at]);
        change.now.is_some() && known.is_some_and(|known| change.now.as_ref() != Some(known))
    };
    let changes = paths.iter().filter_map(|path| look.change_at(path).ok()?);
    let changes: Vec<_> = changes.filter(is_known).collect();
    if look.fits(&changes) { changes } else { Vec::new() }
}

/// A file that is ignored because of its name, and of which a scan warns.
#[derive(Debug)]
pub(crate) struct IgnoredFile {
    pub(crate) warning: Warning,
    /// True if it is there now; it was not then when the listing was made, or the other way round.
    pub(crate) is_there: bool,
}

/// The ignored files that came or went at these places.
pub(crate) fn ignored_files(
    listing: &Listing,
    options: &Options,
    at: &ChangedPlaces,
) -> Vec<IgnoredFile> {
    let ChangedPlaces::At(paths) = at else { return Vec::new() };
    let look = Look { listing, options, places: paths.len() };
    let found = paths.iter().filter_map(|path| match look.look_at(path) {
        Ok(Found::Ignored(shown)) => Some((path, shown)),
        _ => None,
    });
    let ignored = found.map(|(path, shown)| IgnoredFile {
        warning: Warning::of_file(&shown, NOT_A_FORMAT),
        is_there: path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()),
    });
    ignored.filter(|it| it.is_there != listing.warnings.contains(&it.warning)).collect()
}

struct Look<'a> {
    listing: &'a Listing,
    options: &'a Options,
    /// The number of places that are looked at.
    places: usize,
}

/// The finding at a place.
enum Found {
    /// Nothing that a load takes.
    Nothing,
    /// A file whose name is not of a known format, or none of that name: the path as it is shown.
    Ignored(PathBuf),
    /// A file, as it is now.
    File(FileChange),
}

/// The error for changes that need a scan.
struct NeedsScan;

impl Look<'_> {
    fn changes_at(&self, paths: &BTreeSet<PathBuf>) -> Option<Vec<FileChange>> {
        let changes: Result<Vec<Option<FileChange>>, NeedsScan> =
            paths.iter().map(|path| self.change_at(path)).collect();
        let changes: Vec<FileChange> = changes.ok()?.into_iter().flatten().collect();
        self.fits(&changes).then_some(changes)
    }

    /// Returns true if the directory with these changes is the same one, and has no more than it
    /// may have.
    fn fits(&self, changes: &[FileChange]) -> bool {
        // Events still come from a directory that was moved away; its path leads to another one.
        if !changes.is_empty() && identity(&self.options.directory) != self.listing.top {
            return false;
        }
        let known: Vec<_> = changes.iter().filter_map(|it| self.listing.find(&it.path)).collect();
        let come = changes.len() - known.len();
        let before: u64 = known.iter().map(|at| self.listing.files[*at].bytes).sum();
        let now = changes.iter().filter_map(|change| change.now.as_ref());
        let now: u64 = now.map(|found| found.bytes).fold(0, u64::saturating_add);
        let bytes = (self.listing.bytes - before).saturating_add(now);
        self.listing.files.len() + come <= self.options.max_files
            && bytes <= self.options.max_directory_bytes
    }

    /// The paths without symlinks of the known files that are not as they are listed.
    fn other_files(&self) -> BTreeSet<PathBuf> {
        let directories = self.listing.places.by_shown();
        let is_other = |found: &&FoundFile| {
            let now = fs::symlink_metadata(&found.path);
            now.is_ok_and(|metadata| FileStamp::of(&metadata) != found.stamp)
        };
        let others = self.listing.files.iter().filter(is_other);
        let real = |found: &FoundFile| {
            Some(directories.get(found.path.parent()?)?.join(found.path.file_name()?))
        };
        others.filter_map(real).collect()
    }

    fn change_at(&self, path: &Path) -> Result<Option<FileChange>, NeedsScan> {
        Ok(match self.look_at(path)? {
            Found::File(change) => Some(change),
            Found::Nothing | Found::Ignored(_) => None,
        })
    }

    fn look_at(&self, path: &Path) -> Result<Found, NeedsScan> {
        let places = &self.listing.places;
        // This path is a link, the target of one, or a directory.
        if places.entries.contains(path) || places.directories.contains_key(path) {
            return Err(NeedsScan);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(NeedsScan);
        };
        let Some(home) = places.directories.get(parent) else { return Ok(Found::Nothing) };
        if is_skipped(name) {
            // Links may lead through this path.
            let mut next =
                places.entries.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
            let is_on_a_way = next.next().is_some_and(|entry| entry.starts_with(path));
            return if is_on_a_way { Err(NeedsScan) } else { Ok(Found::Nothing) };
        }
        let LayerDirectory { shown, identity: known, layer } = home.as_ref().ok_or(NeedsScan)?;
        if *shown == self.options.directory {
            match name.to_str() {
                Some("chancery.yaml") => return Ok(Found::Nothing),
                Some("groups" | "nodes") => return Err(NeedsScan),
                _ => {}
            }
        }
        let shown = shown.join(name);
        if is_ignored(self.options, &shown) {
            return Ok(Found::Nothing);
        }
        // The fault may be gone; and while there is one, its layer is held back.
        let faults = &self.listing.faults;
        if faults.holds(&Scope::Layer(layer.clone()))
            || faults.concerns(&shown, &self.options.directory)
        {
            return Err(NeedsScan);
        }
        if identity(parent) != Some(*known) {
            return Err(NeedsScan);
        }
        let now = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_file() => Some(FileStamp::of(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            _ => return Err(NeedsScan),
        };
        let Some(format) = Format::of_path(&shown) else {
            // Beyond a number of them, a scan knows which are named.
            let may_name = self.listing.warnings.len() + self.places <= MAX_WARNINGS;
            return if may_name { Ok(Found::Ignored(shown)) } else { Err(NeedsScan) };
        };
        let is_ours = places.top.as_ref().is_some_and(|top| parent.starts_with(top));
        let known = self.listing.find(&shown).map(|at| &self.listing.files[at].path);
        if known.is_none() && now.is_none() {
            return Ok(Found::Nothing);
        }
        let path: Arc<Path> = known.cloned().unwrap_or_else(|| shown.as_path().into());
        let found = |stamp: FileStamp| FoundFile {
            path: Arc::clone(&path),
            layer: layer.clone(),
            format,
            stamp,
            bytes: stamp.bytes_read(self.options.max_file_bytes),
            is_ours,
        };
        Ok(Found::File(FileChange { now: now.map(found), path }))
    }
}

fn identity(directory: &Path) -> Option<FileIdentity> {
    fs::metadata(directory).ok().as_ref().map(FileIdentity::of)
}

#[cfg(test)]
mod tests;
