//! Sync cookies: files that are created only to see their events arrive (the word is Watchman's).
//!
//! The system reports the events of all watched places in their order. A cookie is a file that only
//! this process can create: once its event has arrived, the events of all earlier changes have
//! arrived too.
//!
//! Cookies have a directory among the temporary ones, with a random name, which belongs to this
//! user alone. It is locked while its process lives. The system releases the lock even of a process
//! that is killed, so the next start can remove directories that no process holds
//! ([`SyncCookies::new`]).

use std::fs::{self, DirBuilder, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates cookies. Dropping this removes their directory.
#[derive(Debug)]
pub(crate) struct SyncCookies {
    directory: PathBuf,
    last: AtomicU64,
    /// The locked directory. `None` where directories cannot be locked; there no process removes
    /// those of others.
    _held: Option<File>,
}

impl SyncCookies {
    /// Makes a directory among the temporary ones of the system, and removes those of dead
    /// processes.
    pub(crate) fn new() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    fn below(temporary: &Path) -> io::Result<Self> {
        // Events name it without symlinks.
        let temporary = temporary.canonicalize()?;
        let (directory, held) = made(&temporary)?;
        let cookies = Self { directory, last: AtomicU64::default(), _held: held };
        // Nothing depends on this: it only removes directories that nobody needs.
        let _ = clear(&temporary, fs::metadata(&cookies.directory)?.uid());
        Ok(cookies)
    }

    /// The directory in which cookies are created.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates a cookie and removes it. Returns its number, if it could be created.
    pub(crate) fn create(&self) -> Option<u64> {
        let cookie = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let file = self.directory.join(cookie.to_string());
        let given = File::create_new(&file).is_ok();
        let _ = fs::remove_file(&file);
        given.then_some(cookie)
    }
}

impl Drop for SyncCookies {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// The number of the cookie that an event in the directory is about.
pub(crate) fn cookie_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.parse().ok()
}

/// Makes a directory and locks it.
fn made(temporary: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let mut last = io::ErrorKind::AlreadyExists.into();
    for _ in 0..ATTEMPTS {
        let name = format!("{PREFIX}{:016x}", RandomState::new().build_hasher().finish());
        let directory = temporary.join(name);
        let created = DirBuilder::new().mode(0o700).create(&directory);
        match created.and_then(|()| locked(&directory)) {
            Ok(held) => return Ok((directory, held)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Locks a new directory. Another process that is starting may have taken it for one of a dead
/// process. Then it is removed, or locked by that process, which is an error.
fn locked(directory: &Path) -> io::Result<Option<File>> {
    let held = File::open(directory)?;
    match held.try_lock() {
        Ok(()) if directory.is_dir() => Ok(Some(held)),
        Ok(()) => Err(io::ErrorKind::NotFound.into()),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Removes the directories that killed processes of this user left.
fn clear(temporary: &Path, user: u32) -> io::Result<()> {
    for entry in fs::read_dir(temporary)?.take(MOST_ENTRIES).flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // `metadata` does not follow a symlink here, and no other user can replace a directory of
        // ours.
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_named && is_ours {
            let _ = remove(&entry.path());
        }
    }
    Ok(())
}

/// Removes a directory that no process holds, if there is nothing in it but cookies.
fn remove(directory: &Path) -> io::Result<()> {
    let held = File::open(directory)?;
    match held.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    for entry in fs::read_dir(directory)?.take(MOST_COOKIES).flatten() {
        let is_empty = entry.metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
        if is_empty && cookie_of(&entry.path()).is_some() {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(directory)
}

/// The beginning of the names of these directories.
const PREFIX: &str = "chancery-signs-";

/// The number of names that are tried.
const ATTEMPTS: usize = 16;

/// The number of temporary files that are looked at, so that they do not slow down a start.
const MOST_ENTRIES: usize = 10_000;

/// The limit for the cookies of a directory. There is one at most, because each is removed before
/// the next is created.
const MOST_COOKIES: usize = 2;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn signs_are_told_apart_and_leave_nothing() {
        let cookies = SyncCookies::new().unwrap();
        assert_eq!([cookies.create(), cookies.create()], [Some(1), Some(2)]);
        assert_eq!(fs::read_dir(cookies.directory()).unwrap().count(), 0);
        assert_eq!(cookie_of(&cookies.directory().join("2")), Some(2));
        assert_eq!(cookie_of(cookies.directory()), None);
        let directory = cookies.directory().to_owned();
        drop(cookies);
        assert!(!directory.exists());
    }

    #[test]
    fn nobody_else_may_look_into_the_directory() {
        let cookies = SyncCookies::new().unwrap();
        let mode = fs::metadata(cookies.directory()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn what_nobody_holds_is_removed_and_what_somebody_holds_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let alive = SyncCookies::below(place.path()).unwrap();
        let left = place.path().join("chancery-signs-0123456789abcdef");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("7"), "").unwrap();
        let other = SyncCookies::below(place.path()).unwrap();
        assert!(!left.exists());
        assert_eq!((alive.create(), other.create()), (Some(1), Some(1)));
        drop((alive, other));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let target = tempfile::tempdir().unwrap();
        fs::write(target.path().join("7"), "").unwrap();
        symlink(target.path(), place.path().join("chancery-signs-link")).unwrap();
        for (directory, file, text) in [
            ("chancery-signs-named", "seven", ""),
            ("chancery-signs-full", "7", "x"),
            ("else", "7", ""),
        ] {
            fs::create_dir(place.path().join(directory)).unwrap();
            fs::write(place.path().join(directory).join(file), text).unwrap();
        }
        fs::write(place.path().join("chancery-signs-file"), "").unwrap();
        let user = fs::metadata(place.path()).unwrap().uid();
        clear(place.path(), user.wrapping_add(1)).unwrap();
        clear(place.path(), user).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 5);
        assert!(target.path().join("7").exists() && place.path().join("else/7").exists());
    }

    #[test]
    fn directories_of_others_are_not_removed() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join("chancery-signs-0");
        fs::create_dir(&left).unwrap();
        let user = fs::metadata(&left).unwrap().uid();
        clear(place.path(), user.wrapping_add(1)).unwrap();
        assert!(left.exists());
        clear(place.path(), user).unwrap();
        assert!(!left.exists());
    }
}
