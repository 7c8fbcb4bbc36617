//! Stamps of files, by which a replacement is seen.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A list of files, and how they looked the last time. Links are followed, so a link that was made to
/// point elsewhere counts as a change.
#[derive(Debug)]
pub struct FileStamps {
    paths: Vec<PathBuf>,
    last: Mutex<Vec<Option<WriteStamp>>>,
}

/// The time of the last write, the size, and the file itself: one that is moved into place may have
/// any age, and two writes within one tick of the clock have the same time.
type WriteStamp = (SystemTime, u64, Identity);

/// The inode and the time of its last change, which nobody can set back, where there are any.
type Identity = (u64, i64, i64);

impl FileStamps {
    /// The files as they are now.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let paths: Vec<_> = paths.into_iter().map(Path::to_owned).collect();
        let last = Mutex::new(paths.iter().map(|path| stamp(path)).collect());
        Self { paths, last }
    }

    /// Returns true if a file looks different from the last time this was asked.
    pub fn changed(&self) -> bool {
        let now: Vec<_> = self.paths.iter().map(|path| stamp(path)).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *last != now;
        *last = now;
        changed
    }
}

/// `None` if there is no such file.
fn stamp(path: &Path) -> Option<WriteStamp> {
    let file = fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len(), identity(&file)))
}

#[cfg(unix)]
fn identity(file: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (file.ino(), file.ctime(), file.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {
    (0, 0, 0)
}
