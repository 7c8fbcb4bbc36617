//! The result of a scan: files, layers, faults, and the places to watch.
//!
//! Two listings are equal when nothing that matters changed between the scans. That is how a load
//! knows that what it read belongs together, and how a sweep finds a change that no event reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_catalog::Layer;
use chancery_proto::document::Format;

use crate::fault::Warning;
use crate::fault_list::FaultList;
use crate::scan::patch::IgnoredFile;

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Listing {
    /// The files to read, by path.
    pub(crate) files: Vec<FoundFile>,
    /// The bytes that are read of all files.
    pub(crate) bytes: u64,
    /// True if the directory has more than it may have. No file of it is listed then.
    pub(crate) is_over: bool,
    /// Groups with a directory, broken or not.
    pub(crate) groups: BTreeSet<Arc<str>>,
    /// Nodes with a directory, broken or not.
    pub(crate) nodes: BTreeSet<Arc<str>>,
    /// The faults found so far, before any file is read.
    pub(crate) faults: FaultList,
    /// The warnings found so far.
    pub(crate) warnings: Vec<Warning>,
    /// True if it is unknown which groups there are.
    pub(crate) groups_unlisted: bool,
    /// True if it is unknown which nodes have overlays.
    pub(crate) nodes_unlisted: bool,
    /// The top directory itself.
    pub(crate) top: Option<FileIdentity>,
    /// The places to watch.
    pub(crate) places: Places,
}

/// A file that holds resources.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundFile {
    /// The path below the directory as it was given, which may lead through symlinks.
    pub(crate) path: Arc<Path>,
    pub(crate) layer: Layer,
    pub(crate) format: Format,
    pub(crate) stamp: FileStamp,
    /// The bytes that are read of it: none if it is larger than a file may be.
    pub(crate) bytes: u64,
    /// True if it lies in the directory, under a name of a known format, with symlinks followed.
    /// Nothing is quoted from any other file: who may write a symlink may not be allowed to read
    /// what it leads to.
    pub(crate) is_ours: bool,
}

/// A file that was added, changed or removed.
#[derive(Debug, PartialEq)]
pub(crate) struct FileChange {
    /// The path as in the listing.
    pub(crate) path: Arc<Path>,
    /// The file as it is now; `None` if it was removed.
    pub(crate) now: Option<FoundFile>,
}

/// The identity of a file or directory, whatever its name. The system reuses inode numbers, so
/// the time of birth is part of it where the filesystem has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

/// The metadata that changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    identity: FileIdentity,
    pub(crate) bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The places where a change can alter what a scan finds. All are reached without symlinks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The directories in which every change matters. Each has its layer, if it belongs to one and
    /// is found once.
    pub(crate) directories: BTreeMap<PathBuf, Option<LayerDirectory>>,
    /// The symlinks and their targets, and the top directory. Changes of these matter, and changes
    /// beside them do not.
    pub(crate) entries: BTreeSet<PathBuf>,
    /// The top directory, if it exists.
    pub(crate) top: Option<PathBuf>,
}

/// A directory whose files belong to one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayerDirectory {
    /// The directory, as it is reached below the one given.
    pub(crate) shown: PathBuf,
    pub(crate) identity: FileIdentity,
    pub(crate) layer: Layer,
}

impl Places {
    /// The directories that are found once, without symlinks, by the path that is shown.
    pub(crate) fn by_shown(&self) -> BTreeMap<&Path, &Path> {
        let homes = self.directories.iter();
        homes.filter_map(|(real, home)| Some((&*home.as_ref()?.shown, &**real))).collect()
    }
}

impl Listing {
    /// Returns true if both have the same directories, symlinks and faults, and differ in files at
    /// most.
    pub(crate) fn has_same_frame(&self, other: &Self) -> bool {
        let frame = |it: &Self| (it.top, it.groups_unlisted, it.nodes_unlisted);
        frame(self) == frame(other)
            && self.faults == other.faults
            && (&self.groups, &self.nodes) == (&other.groups, &other.nodes)
            && self.places == other.places
    }

    /// Adds a layer of which a file is kept.
    pub(crate) fn add_layer(&mut self, layer: &Layer) {
        match layer {
            Layer::Base => {}
            Layer::Group(name) => drop(self.groups.insert(Arc::clone(name))),
            Layer::Node(id) => drop(self.nodes.insert(Arc::clone(id))),
        }
    }

    /// Takes over an ignored file that came or went. The warnings are in the order of their files.
    pub(crate) fn apply_ignored(&mut self, IgnoredFile { warning, is_there }: IgnoredFile) {
        match (self.warnings.binary_search_by(|it| it.file.cmp(&warning.file)), is_there) {
            (Err(at), true) => self.warnings.insert(at, warning),
            (Ok(at), false) => drop(self.warnings.remove(at)),
            (Ok(_), true) | (Err(_), false) => {}
        }
    }

    /// Adds up the bytes of the files, after these were replaced.
    pub(crate) fn count_bytes(&mut self) {
        self.bytes = self.files.iter().map(|found| found.bytes).sum();
    }

    /// The index of a file.
    pub(crate) fn find(&self, path: &Path) -> Option<usize> {
        self.place(path).ok()
    }

    /// Takes over a change. Returns the index of the file, and the file that was at that path
    /// before.
    pub(crate) fn apply(
        &mut self,
        FileChange { path, now }: FileChange,
    ) -> (usize, Option<FoundFile>) {
        self.bytes += now.as_ref().map_or(0, |now| now.bytes);
        let (at, before) = match (self.place(&path), now) {
            (Ok(at), Some(now)) => (at, Some(std::mem::replace(&mut self.files[at], now))),
            (Ok(at), None) => (at, Some(self.files.remove(at))),
            (Err(at), now) => {
                now.into_iter().for_each(|now| self.files.insert(at, now));
                (at, None)
            }
        };
        self.bytes -= before.as_ref().map_or(0, |before| before.bytes);
        (at, before)
    }

    fn place(&self, path: &Path) -> Result<usize, usize> {
        self.files.binary_search_by(|found| (*found.path).cmp(path))
    }
}

impl FoundFile {
    /// Returns true if only the content of the file differs.
    pub(crate) fn is_at_same_place(&self, other: &Self) -> bool {
        let place = |it: &Self| (Arc::clone(&it.path), it.layer.clone(), it.format, it.is_ours);
        place(self) == place(other)
    }
}

impl FileIdentity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino(), born: metadata.created().ok() }
    }
}

impl FileStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            identity: FileIdentity::of(metadata),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The bytes that are read of the file, which may have as many as this.
    pub(crate) fn bytes_read(&self, max_file_bytes: u64) -> u64 {
        if self.bytes > max_file_bytes { 0 } else { self.bytes }
    }

    /// Returns true if it is a stamp of this file, whatever was written to it.
    pub(crate) fn is_of(&self, metadata: &Metadata) -> bool {
        self.identity == FileIdentity::of(metadata)
    }

    /// The time since the file was written, renamed or changed otherwise. `None` if that is not
    /// known: some file systems count in seconds.
    pub(crate) fn age(&self, now: SystemTime) -> Option<Duration> {
        let (seconds, nanos) = self.changed;
        let (seconds, nanos) = (u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))?;
        now.duration_since(changed).ok().filter(|_| nanos > 0)
    }

    /// Returns true if a write after this moment is sure to change the stamp. File systems keep
    /// times coarsely: two writes within one tick of their clock get the same time. Only the time
    /// of the last status change counts, which no program can set.
    pub(crate) fn is_telling(&self, read_at: SystemTime) -> bool {
        let since_epoch = read_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (seconds, _) = self.changed;
        u64::try_from(seconds)
            .is_ok_and(|seconds| Duration::from_secs(seconds) + COARSEST_TICK < since_epoch)
    }
}

/// The tick of the coarsest clock of a file system in use, and some skew.
const COARSEST_TICK: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_taken_right_after_a_write_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let stamp = FileStamp::of(&dir.path().metadata().unwrap());
        let changed = Duration::new(stamp.changed.0.unsigned_abs(), 0);
        let after = |seconds| SystemTime::UNIX_EPOCH + changed + Duration::from_secs(seconds);
        assert!(!stamp.is_telling(after(0)));
        assert!(!stamp.is_telling(after(3)));
        assert!(stamp.is_telling(after(4)));
    }
}
