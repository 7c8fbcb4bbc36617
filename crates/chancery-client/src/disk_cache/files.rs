//! The files of a disk cache: bodies by their hash, one index, and a lock.
//!
//! A file is written under another name and then renamed, so it is there as a whole or not at all.
//! Only the index is sure to survive a loss of power; a body that is damaged is found by its hash.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

/// The directory of one client.
pub(super) struct CacheFiles {
    root: PathBuf,
    /// The lock, held for as long as the client lives.
    _lock: File,
}

impl CacheFiles {
    /// Makes the directory if need be, and locks it.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let mut directories = DirBuilder::new();
        directories.recursive(true).mode(0o700).create(root.join(BODIES))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(root.join("lock"))?;
        // A client that is ending may still hold the lock while it writes.
        for _ in 0..TRIES {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { root: root.to_owned(), _lock: lock }),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other("another client uses it"))
    }

    /// Reads the index; empty if there is none.
    pub(super) fn index(&self) -> io::Result<Vec<u8>> {
        match chancery_files::read(&self.root.join(INDEX), MAX_BYTES) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            read => Ok(read?),
        }
    }

    pub(super) fn put_index(&self, text: &[u8]) -> io::Result<()> {
        self.put_file(&self.root.join(INDEX), text, true)?;
        File::open(&self.root)?.sync_all()
    }

    /// Reads a body, and checks its hash.
    pub(super) fn body(&self, hash: u128) -> io::Result<Bytes> {
        let bytes = chancery_files::read(&self.body_path(hash), MAX_BYTES)?;
        if xxh3_128(&bytes) == hash {
            Ok(bytes.into())
        } else {
            Err(io::Error::other("its bytes are not those that were written"))
        }
    }

    pub(super) fn put_body(&self, hash: u128, body: &[u8]) -> io::Result<()> {
        self.put_file(&self.body_path(hash), body, false)
    }

    /// Removes all bodies but these. An error does no harm: the next call tries again.
    pub(super) fn keep_bodies(&self, kept: &BTreeSet<u128>) {
        let Ok(found) = fs::read_dir(self.root.join(BODIES)) else { return };
        for entry in found.flatten() {
            let name = entry.file_name();
            let hash = name.to_str().and_then(|name| u128::from_str_radix(name, 16).ok());
            if hash.is_none_or(|hash| !kept.contains(&hash)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn body_path(&self, hash: u128) -> PathBuf {
        self.root.join(BODIES).join(format!("{hash:032x}"))
    }

    fn put_file(&self, path: &Path, content: &[u8], is_sure: bool) -> io::Result<()> {
        let beside = path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        if is_sure {
            file.sync_all()?;
        }
        fs::rename(&beside, path)
    }
}

const BODIES: &str = "bodies";
const INDEX: &str = "index";
/// The limit for a file: far more than a response may have.
const MAX_BYTES: u64 = 1 << 30;
/// The number of attempts to get the lock.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);
