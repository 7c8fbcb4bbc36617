//! Finds the files of a directory, the layer of each, and the places to watch.
//!
//! Only directories and links are read here. Symlinks are followed. A cycle is a fault and never a
//! loop, because no directory is entered twice for one layer. Hidden files are skipped, and so is
//! the `..data` directory of a mounted ConfigMap: its files are found once, through their visible
//! links.
//!
//! Files and directories that are skipped without a warning: hidden ones, and those that editors
//! leave behind (`x~`, `#x#`, `x.tmp`, `x.swp`). Files of unknown extensions are named in a
//! warning.

pub(crate) mod listing;
pub(crate) mod patch;
mod shared;
pub(crate) mod skipped;
pub(crate) mod symlinks;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_catalog::Layer;
use chancery_files::FileKind;
use chancery_proto::document::Format;
use chancery_proto::syntax::closest;

use crate::fault::{Scope, Warning, Wrong};
use crate::layer_name;
use crate::options::Options;
use crate::scan::listing::{FileIdentity, FileStamp, FoundFile, LayerDirectory, Listing};
use crate::scan::shared::SharedDirectories;
use crate::scan::skipped::{is_ignored, is_skipped};

/// Scans the directory. All faults are in the listing.
pub(crate) fn scan(options: &Options) -> Listing {
    let mut scan = Scan::new(options);
    scan.top();
    let limit = options.max_directory_bytes;
    if scan.listing.bytes > limit {
        scan.too_much(Wrong::TooMuch { limit });
    }
    let mut listing = scan.listing;
    if listing.is_over {
        listing.files.clear();
    }
    listing.files.sort_by(|a, b| a.path.cmp(&b.path));
    listing.warnings.sort_by(|a, b| a.file.cmp(&b.file));
    listing
}

struct Scan<'a> {
    options: &'a Options,
    listing: Listing,
    /// The directories entered so far, for each layer.
    entered: BTreeMap<(Layer, FileIdentity), PathBuf>,
    /// The directories that were found for another layer before, and told.
    shared: SharedDirectories,
    /// The number of directories opened so far, each by as many ways as lead to it.
    opened: usize,
    /// The directories that lead to the one being read.
    within: Vec<(FileIdentity, PathBuf)>,
}

/// A file or directory found on the way.
struct ScannedEntry {
    /// The path below the directory as it was given.
    shown: PathBuf,
    /// The same path without symlinks.
    real: PathBuf,
    /// True if the entry itself is a symlink.
    is_link: bool,
    metadata: Metadata,
}

impl ScannedEntry {
    /// Returns true if the file lies below this directory, under a name of a known format. The name
    /// behind a link alone is looked at, because there may be many files.
    fn is_ours(&self, top: &Path) -> bool {
        is_below(top, &self.real) && (!self.is_link || Format::of_path(&self.real).is_some())
    }
}

/// Returns true if this path without symlinks is below the top directory. Bytes are compared.
pub(crate) fn is_below(top: &Path, real: &Path) -> bool {
    let (top, real) = (top.as_os_str(), real.as_os_str());
    let below = real.as_encoded_bytes().strip_prefix(top.as_encoded_bytes());
    below.is_some_and(|below| top == "/" || below.starts_with(b"/"))
}

/// The directories at the top whose entries are layers.
#[derive(Clone, Copy)]
enum Overlays {
    Groups,
    Nodes,
}

impl<'a> Scan<'a> {
    fn new(options: &'a Options) -> Self {
        Self {
            options,
            listing: Listing::default(),
            entered: BTreeMap::new(),
            shared: SharedDirectories::default(),
            opened: 0,
            within: Vec::new(),
        }
    }

    fn top(&mut self) {
        let shown = &self.options.directory;
        let absolute = std::path::absolute(shown).unwrap_or_else(|_| shown.clone());
        let Some(path) = symlinks::resolve(Path::new("/"), &absolute) else {
            return self.fault(Wrong::Endless, Scope::Directory, shown);
        };
        let entries = path.links.into_iter().chain([path.end.clone()]);
        self.listing.places.entries.extend(entries);
        let metadata = match fs::metadata(shown) {
            Ok(metadata) if metadata.is_dir() => metadata,
            Ok(_) => return self.fault(Wrong::NotADirectory, Scope::Directory, shown),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.fault(Wrong::Gone, Scope::Directory, shown);
            }
            Err(error) => return self.fault(Wrong::Unreadable(error), Scope::Directory, shown),
        };
        self.listing.top = Some(FileIdentity::of(&metadata));
        self.listing.places.top = Some(path.end.clone());
        let top = ScannedEntry { shown: shown.clone(), real: path.end, is_link: false, metadata };
        self.enter(&top, &Layer::Base, |scan, entry| scan.at_top(&top, &entry));
    }

    /// An entry of the top directory: configuration of the server, overlays, or base.
    fn at_top(&mut self, top: &ScannedEntry, entry: &DirEntry) {
        let name = entry.file_name();
        if name == "chancery.yaml" {
            return;
        }
        let kind = match name.to_str() {
            Some("groups") => Overlays::Groups,
            Some("nodes") => Overlays::Nodes,
            _ => {
                let before = self.opened;
                self.layer_entry(top, entry, &Layer::Base);
                // The directory itself, and one below it.
                if self.opened - before >= 2 {
                    self.warn_of_near_miss(&top.shown.join(&name));
                }
                return;
            }
        };
        let Some(spot) = self.spot(top, entry, &kind.scope()) else {
            // A place that does not exist has no overlays; of one that cannot be read, they are
            // unknown. Nothing else was looked at that has this scope.
            if self.listing.faults.holds(&kind.scope()) {
                self.unlisted(kind);
            }
            return;
        };
        if spot.metadata.is_dir() {
            self.overlays(&spot, kind);
        } else {
            self.found(&spot, &Layer::Base);
        }
    }

    /// Warns of a directory with directories if its name is nearly `groups` or `nodes`: its files are for every
    /// node. New directories are always found by a scan, and so is this.
    fn warn_of_near_miss(&mut self, shown: &Path) {
        let name = shown.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if let Some(meant) = closest(name, ["groups", "nodes"]) {
            let message = format!("its files are for every node; did you mean `{meant}/`?");
            self.warn(MISPLACED, shown, &message);
        }
    }

    /// The directory `groups` or `nodes`.
    fn overlays(&mut self, at: &ScannedEntry, kind: Overlays) {
        let Some(entries) = self.open(at, &kind.scope(), None) else { return self.unlisted(kind) };
        self.within.push((FileIdentity::of(&at.metadata), at.shown.clone()));
        for entry in entries {
            if self.listing.is_over {
                break;
            }
            self.overlay(at, &entry, kind);
        }
        self.within.pop();
    }

    fn unlisted(&mut self, kind: Overlays) {
        match kind {
            Overlays::Groups => self.listing.groups_unlisted = true,
            Overlays::Nodes => self.listing.nodes_unlisted = true,
        }
    }

    /// An entry of `groups` or `nodes`: a layer, if it is a directory.
    fn overlay(&mut self, parent: &ScannedEntry, entry: &DirEntry, kind: Overlays) {
        let shown = parent.shown.join(entry.file_name());
        if is_ignored(self.options, &shown) {
            return;
        }
        let Some(spot) = self.spot(parent, entry, &kind.scope()) else { return };
        if !spot.metadata.is_dir() {
            let message = match kind {
                Overlays::Groups => "ignored: in no group; resources go into `groups/NAME/`",
                Overlays::Nodes => "ignored: of no node; resources go into `nodes/ID/`",
            };
            return self.warn(IGNORED, &shown, message);
        }
        let name = entry.file_name();
        let decoded = name.to_str().ok_or(Wrong::NameNotUtf8);
        let layer = match decoded.and_then(|name| Ok(layer_name::decode(name)?)) {
            Ok(name) => kind.layer(name),
            Err(wrong) => return self.fault(wrong, kind.scope(), &shown),
        };
        self.listing.add_layer(&layer);
        self.directory(&spot, &layer);
    }

    /// Warns of a directory called `groups` or `nodes` that is not at the top, and so means nothing.
    fn warn_of_depth(&mut self, shown: &Path, layer: &Layer) {
        let name = shown.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if ["groups", "nodes"].contains(&name) {
            let whom = match layer {
                Layer::Base => "every node".to_owned(),
                other => format!("all of {other}"),
            };
            let message = format!(
                "its files are for {whom}: only at the top of the directory `{name}/` has layers"
            );
            self.warn(MISPLACED, shown, &message);
        }
    }

    /// A directory of one layer.
    fn directory(&mut self, at: &ScannedEntry, layer: &Layer) {
        self.enter(at, layer, |scan, entry| scan.layer_entry(at, &entry, layer));
    }

    fn enter(
        &mut self,
        at: &ScannedEntry,
        layer: &Layer,
        mut each: impl FnMut(&mut Self, DirEntry),
    ) {
        let identity = FileIdentity::of(&at.metadata);
        let scope = Scope::Layer(layer.clone());
        let top = self.within.is_empty();
        let scope = if top { Scope::Directory } else { scope };
        if let Some(first) = self.entered.get(&(layer.clone(), identity)) {
            let first = first.clone();
            let around = self.within.iter().any(|(outer, _)| *outer == identity);
            let wrong = if around { Wrong::Cycle(first) } else { Wrong::Twice(first) };
            return self.fault(wrong, scope, &at.shown);
        }
        let home = LayerDirectory { shown: at.shown.clone(), identity, layer: layer.clone() };
        let Some(entries) = self.open(at, &scope, Some(home)) else { return };
        self.entered.insert((layer.clone(), identity), at.shown.clone());
        if let Some(message) = self.shared.found(identity, layer, &at.shown) {
            self.warn(MISPLACED, &at.shown, &message);
        }
        self.within.push((identity, at.shown.clone()));
        for entry in entries {
            if self.listing.is_over {
                break;
            }
            each(self, entry);
        }
        self.within.pop();
    }

    /// Opens a directory and returns its entries, sorted by name. If that fails, notes the fault.
    fn open(
        &mut self,
        at: &ScannedEntry,
        scope: &Scope,
        home: Option<LayerDirectory>,
    ) -> Option<Vec<DirEntry>> {
        let identity = FileIdentity::of(&at.metadata);
        if let Some((_, outer)) = self.within.iter().find(|(outer, _)| *outer == identity) {
            let outer = outer.clone();
            self.fault(Wrong::Cycle(outer), scope.clone(), &at.shown);
            return None;
        }
        if self.within.len() == MAX_DEPTH {
            self.fault(Wrong::TooDeep { limit: MAX_DEPTH }, scope.clone(), &at.shown);
            return None;
        }
        let limit = self.options.max_files.saturating_mul(2).max(FEWEST_DIRECTORIES);
        if self.opened == limit {
            self.too_much(Wrong::TooManyDirectories { limit });
            return None;
        }
        self.opened += 1;
        let again = self.listing.places.directories.insert(at.real.clone(), home).is_some();
        if again {
            // A directory that is found twice belongs to no layer alone.
            self.listing.places.directories.insert(at.real.clone(), None);
        }
        let entries = fs::read_dir(&at.real).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        match entries {
            Ok(mut entries) => {
                entries.retain(|entry| !is_skipped(&entry.file_name()));
                entries.sort_by_cached_key(DirEntry::file_name);
                Some(entries)
            }
            Err(error) => {
                self.fault(Wrong::Unreadable(error), scope.clone(), &at.shown);
                None
            }
        }
    }

    /// A file or directory of one layer.
    fn layer_entry(&mut self, parent: &ScannedEntry, entry: &DirEntry, layer: &Layer) {
        let ignores = !self.options.ignore.is_empty();
        if ignores && is_ignored(self.options, &parent.shown.join(entry.file_name())) {
            return;
        }
        let Some(spot) = self.spot(parent, entry, &Scope::Layer(layer.clone())) else { return };
        // A directory by the name of a file was put in its place: container runtimes make one where
        // the file they are to mount is missing.
        if spot.metadata.is_dir() && Format::of_path(&spot.shown).is_none() {
            self.warn_of_depth(&spot.shown, layer);
            self.directory(&spot, layer);
        } else {
            self.found(&spot, layer);
        }
    }

    /// Looks at an entry, through symlinks. Returns `None` if it does not exist (any more), or is
    /// to be skipped.
    fn spot(
        &mut self,
        parent: &ScannedEntry,
        entry: &DirEntry,
        scope: &Scope,
    ) -> Option<ScannedEntry> {
        let name = entry.file_name();
        let shown = parent.shown.join(&name);
        match self.look(parent, entry, &name) {
            Ok(Some((real, is_link, metadata))) => {
                Some(ScannedEntry { shown, real, is_link, metadata })
            }
            Ok(None) => None,
            Err(wrong) => {
                self.fault(wrong, scope.clone(), &shown);
                None
            }
        }
    }

    /// The path of an entry without symlinks, whether the entry is one, and what is at that path.
    /// The path is looked at and not the way that led to it, which may lead elsewhere by then: a
    /// file that lies in the directory may be quoted.
    fn look(
        &mut self,
        parent: &ScannedEntry,
        entry: &DirEntry,
        name: &OsStr,
    ) -> Result<Option<(PathBuf, bool, Metadata)>, Wrong> {
        let real = parent.real.join(name);
        let Some(kind) = found(entry.file_type())? else { return Ok(None) };
        if !kind.is_symlink() {
            let metadata = found(fs::symlink_metadata(&real))?;
            // A symlink that takes the place of a file at this moment is another entry.
            return Ok(metadata.filter(|it| !it.is_symlink()).map(|it| (real, false, it)));
        }
        let path = symlinks::resolve(&parent.real, Path::new(name)).ok_or(Wrong::Endless)?;
        let entries = path.links.into_iter().chain([path.end.clone()]);
        self.listing.places.entries.extend(entries);
        match fs::symlink_metadata(&path.end) {
            Ok(metadata) if metadata.is_symlink() => Ok(None),
            Ok(metadata) => Ok(Some((path.end, true, metadata))),
            // A link that was removed meanwhile is not one that leads nowhere.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match found(fs::symlink_metadata(&real))? {
                    Some(_) => Err(Wrong::LeadsNowhere),
                    None => Ok(None),
                }
            }
            Err(error) => Err(Wrong::Unreadable(error)),
        }
    }

    /// Adds a file, or the fault of an entry that is neither a file nor a directory.
    fn found(&mut self, spot: &ScannedEntry, layer: &Layer) {
        let Some(format) = Format::of_path(&spot.shown) else {
            return self.warn(IGNORED, &spot.shown, NOT_A_FORMAT);
        };
        let scope = Scope::Layer(layer.clone());
        if let Some(kind) = FileKind::of(spot.metadata.file_type()) {
            return self.fault(Wrong::NotRegular(kind), scope, &spot.shown);
        }
        let limit = self.options.max_files;
        if self.listing.files.len() == limit {
            return self.too_much(Wrong::TooMany { limit });
        }
        let stamp = FileStamp::of(&spot.metadata);
        let bytes = stamp.bytes_read(self.options.max_file_bytes);
        self.listing.bytes = self.listing.bytes.saturating_add(bytes);
        self.listing.files.push(FoundFile {
            path: spot.shown.as_path().into(),
            layer: layer.clone(),
            format,
            stamp,
            bytes,
            is_ours: self.listing.places.top.as_ref().is_some_and(|top| spot.is_ours(top)),
        });
    }

    /// Adds the fault of a directory that has more than it may have, once. No more of it is looked
    /// at.
    fn too_much(&mut self, wrong: Wrong) {
        if !self.listing.is_over {
            self.listing.is_over = true;
            let top = self.options.directory.clone();
            self.fault(wrong, Scope::Directory, &top);
        }
    }

    /// Warns of a file or directory; of many, in one warning more.
    fn warn(&mut self, code: &'static str, shown: &Path, message: &str) {
        let warnings = &mut self.listing.warnings;
        if warnings.len() < MAX_WARNINGS {
            warnings.push(Warning::of_file(code, shown, message));
        } else if warnings.len() == MAX_WARNINGS {
            let message = format!("more than {MAX_WARNINGS} files are ignored");
            warnings.push(Warning::of_file(IGNORED, &self.options.directory, message));
        }
    }

    fn fault(&mut self, wrong: Wrong, scope: Scope, file: &Path) {
        self.listing.faults.push(wrong.at(scope, file, None));
    }
}

/// The code of warnings about directories whose files are for others than their place seems to say.
const MISPLACED: &str = "file/misplaced";

/// The code of warnings about files that are not read.
const IGNORED: &str = "file/ignored";

/// The result of a look; `None` if there is nothing. Any other error says nothing of that.
fn found<T>(result: io::Result<T>) -> Result<Option<T>, Wrong> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Wrong::Unreadable(error)),
    }
}

impl Overlays {
    fn scope(self) -> Scope {
        match self {
            Self::Groups => Scope::Groups,
            Self::Nodes => Scope::Nodes,
        }
    }

    fn layer(self, name: Arc<str>) -> Layer {
        match self {
            Self::Groups => Layer::Group(name),
            Self::Nodes => Layer::Node(name),
        }
    }
}

/// The number of ignored files that are named.
const MAX_WARNINGS: usize = 1000;

/// The warning about a file whose name is not of a known format.
const NOT_A_FORMAT: &str = "ignored: not `.yaml`, `.yml`, `.json`, `.pb_text` or `.pb`";

/// The number of directories that may be there however few files may be.
const FEWEST_DIRECTORIES: usize = 1000;

/// The number of directories within each other. Paths end at 4,096 bytes on Linux anyway.
const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests;
