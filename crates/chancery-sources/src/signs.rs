//! Signs given to oneself: files that come and go in a directory of one's own.
//!
//! The system tells of all watched places in one line and in their order. Who gives a sign no one
//! else can give, and hears of it, has heard all that happened before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives signs. The directory they are given in goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Signs {
    directory: PathBuf,
    last: AtomicU64,
}

impl Signs {
    /// A new directory, among the temporary ones of the system.
    pub(crate) fn new() -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("chancery-signs-{}-{count}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        // One of a process that ended without cleaning up, and had our number.
        let _ = fs::remove_dir(&directory);
        fs::create_dir(&directory)?;
        // Events name it without symlinks.
        let directory = directory.canonicalize()?;
        Ok(Self { directory, last: AtomicU64::default() })
    }

    /// Where they are given.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Gives a sign; says which, if it could be given.
    pub(crate) fn give(&self) -> Option<u64> {
        let sign = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let file = self.directory.join(sign.to_string());
        let given = fs::File::create_new(&file).is_ok();
        let _ = fs::remove_file(&file);
        given.then_some(sign)
    }
}

impl Drop for Signs {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Which sign an event in the directory tells of.
pub(crate) fn sign_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_told_apart_and_leave_nothing() {
        let signs = Signs::new().unwrap();
        assert_eq!([signs.give(), signs.give()], [Some(1), Some(2)]);
        assert_eq!(fs::read_dir(signs.directory()).unwrap().count(), 0);
        assert_eq!(sign_of(&signs.directory().join("2")), Some(2));
        assert_eq!(sign_of(signs.directory()), None);
        let directory = signs.directory().to_owned();
        drop(signs);
        assert!(!directory.exists());
    }
}
