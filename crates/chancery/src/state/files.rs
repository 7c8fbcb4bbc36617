//! The files of a state directory: each is written whole beside its place and renamed, and so is there or not.
//!
//! Directories are for their owner alone, and so are files, because states hold secrets. Not here: what the
//! files say.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chancery_catalog::{Piece, PieceId};
use chancery_files::ReadError;

/// The files below a state directory.
#[derive(Debug)]
pub(super) struct StateFiles {
    top: PathBuf,
    /// Held for as long as this process may write.
    lock: Option<File>,
}

impl StateFiles {
    /// The files below this directory, which need not be there yet.
    pub(super) fn new(top: &Path) -> Self {
        Self { top: top.to_owned(), lock: None }
    }

    /// The state directory.
    pub(super) fn top(&self) -> &Path {
        &self.top
    }

    /// Returns true if this process has the lock.
    pub(super) fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// Makes the directories, and takes the lock. Returns false if another process has it.
    pub(super) fn lock(&mut self) -> io::Result<bool> {
        if self.lock.is_some() {
            return Ok(true);
        }
        make_directory(&self.top)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.top.join("lock"))?;
        match file.try_lock() {
            Ok(()) => self.lock = Some(file),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(true)
    }

    /// The head; `None` if there is none.
    pub(super) fn head(&self) -> Result<Option<Vec<u8>>, ReadError> {
        match chancery_files::read(&self.version().join(HEAD), MAX_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if there is a head.
    pub(super) fn has_head(&self) -> bool {
        self.version().join(HEAD).is_file()
    }

    /// Returns true if a head is certain to be gone.
    pub(super) fn has_lost_head(&self) -> bool {
        let found = fs::symlink_metadata(self.version().join(HEAD));
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The bytes of a piece; `None` if there is none.
    pub(super) fn piece(&self, id: PieceId) -> io::Result<Option<Vec<u8>>> {
        match chancery_files::read(&self.pieces().join(id.to_string()), MAX_BYTES) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ReadError::Io(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Writes pieces. After an error none of them may be there.
    pub(super) fn write_pieces(&self, pieces: &[Piece]) -> io::Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        let directory = self.pieces();
        make_directory(&self.version())?;
        make_directory(&directory)?;
        for some in pieces.chunks(AT_ONCE) {
            let files: Vec<_> = some.iter().map(|it| (it.id.to_string(), &*it.bytes)).collect();
            replace(&directory, &files)?;
        }
        sync(&directory)?;
        sync(&self.version())
    }

    /// Writes the head, with which all that it leads to takes effect.
    pub(super) fn write_head(&self, bytes: &[u8]) -> io::Result<()> {
        let is_first = !self.has_head();
        replace(&self.version(), &[(HEAD.to_owned(), bytes)])?;
        sync(&self.version())?;
        if is_first { sync(&self.top) } else { Ok(()) }
    }

    /// Removes pieces that nothing leads to any more. What stays in spite of it is removed another time.
    pub(super) fn remove(&self, pieces: impl IntoIterator<Item = PieceId>) {
        for id in pieces {
            fs::remove_file(self.pieces().join(id.to_string())).ok();
        }
    }

    /// Removes whatever lies beside these pieces, as after a crash.
    pub(super) fn sweep(&self, needed: &BTreeSet<PieceId>) {
        let Ok(all) = fs::read_dir(self.pieces()) else { return };
        for found in all.flatten() {
            let name = found.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            if !id.is_some_and(|id| needed.contains(&id)) {
                fs::remove_file(found.path()).ok();
            }
        }
    }

    /// Moves all files out of the way, in place of those that were moved before. Returns where they are.
    pub(super) fn put_aside(&self) -> io::Result<PathBuf> {
        let aside = self.top.join(format!("{VERSION}.damaged"));
        match fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(self.version(), &aside)?;
        Ok(aside)
    }

    fn version(&self) -> PathBuf {
        self.top.join(VERSION)
    }

    fn pieces(&self) -> PathBuf {
        self.version().join("pieces")
    }
}

/// Makes a directory for its owner alone, and those above it.
fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes files beside their places, and renames them when all of them are on the disk: the disk takes many
/// together sooner than one after the other.
fn replace(directory: &Path, files: &[(String, &[u8])]) -> io::Result<()> {
    let beside = |name: &str| directory.join(format!("{name}.new"));
    let written = write(files.iter().map(|(name, bytes)| (beside(name), *bytes))).and_then(|()| {
        let mut names = files.iter().map(|(name, _)| name);
        names.try_for_each(|name| fs::rename(beside(name), directory.join(name)))
    });
    if written.is_err() {
        // A full disk is not to be kept full.
        files.iter().for_each(|(name, _)| drop(fs::remove_file(beside(name))));
    }
    written
}

fn write<'a>(files: impl Iterator<Item = (PathBuf, &'a [u8])>) -> io::Result<()> {
    let mut written = Vec::new();
    for (path, bytes) in files {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        written.push(file);
    }
    written.iter().try_for_each(File::sync_all)
}

/// Waits until the names in a directory are on the disk.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// The format of all files below the directory of this name.
const VERSION: &str = "v1";

const HEAD: &str = "head";

/// The number of files that are written together, each of which is open until all are on the disk.
const AT_ONCE: usize = 32;

/// A piece is hardly larger than the largest file of the directory that is served.
const MAX_BYTES: u64 = 1 << 30;
