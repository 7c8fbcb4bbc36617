//! Regular files, read whole, up to a limit, and without waiting for anything but their storage.
//!
//! A path of configuration may lead to anything: a FIFO that nobody writes to blocks whoever opens
//! it, a terminal blocks whoever reads it, `/dev/zero` never ends, and opening some devices starts
//! them. So whatever is no regular file is refused by its kind, before it is opened and again after
//! that, because a path may lead elsewhere in between ([`OpenFile::open`]). Whatever reads a file that an
//! operator named reads it here: the daemon, the client and the commands that ask servers. The load
//! generator alone does not, which reads its template and its earlier runs by itself.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("a");
//! std::fs::write(&path, "text")?;
//! assert_eq!(chancery_files::read(&path, 4).ok(), Some(b"text".to_vec()));
//! let refused = chancery_files::read(&path, 3).unwrap_err();
//! assert_eq!(refused.to_string(), "is larger than 3 bytes");
//! let refused = chancery_files::read(dir.path(), 4).unwrap_err();
//! assert_eq!(refused.to_string(), "is a directory, not a regular file");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Not here: a file that changes while it is read, which only its reader can tell from one that
//! does not matter to it ([`OpenFile::metadata`]); and storage that does not answer, as of a network
//! filesystem. No flag keeps a read of that from waiting, so callers read on a thread that nobody
//! has to wait for.

mod kind;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use kind::FileKind;

/// The reason why a file was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The path leads to something else.
    #[error("is {0}, not a regular file")]
    NotRegular(FileKind),
    /// The file has more bytes than the limit.
    #[error("is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The operating system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A regular file that is open.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    metadata: Metadata,
}

/// Reads a regular file of `limit` bytes at most.
///
/// # Errors
/// If it is no regular file, is larger, or cannot be read.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    OpenFile::open(path)?.read(limit)
}

/// Reads a regular file of `limit` bytes at most, which holds UTF-8.
///
/// # Errors
/// As [`read`], and [`io::ErrorKind::InvalidData`] if it holds no UTF-8.
pub fn read_to_string(path: &Path, limit: u64) -> Result<String, ReadError> {
    OpenFile::open(path)?.read_to_string(limit)
}

#[cfg(target_os = "linux")]
fn real_path(file: &File, _: &Path) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn real_path(_: &File, path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

impl OpenFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// If it is no regular file, or cannot be opened.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        refuse_others(&fs::metadata(path)?)?;
        Self::open_listed(path)
    }

    /// Opens a regular file that was seen to be one a moment ago: a directory of many files is read
    /// in less time. If it is a device by now, that is opened and closed again.
    ///
    /// # Errors
    /// As [`OpenFile::open`].
    pub fn open_listed(path: &Path) -> Result<Self, ReadError> {
        let file = options().open(path)?;
        let metadata = file.metadata()?;
        refuse_others(&metadata)?;
        Ok(Self { file, metadata })
    }

    /// The metadata of the file that was opened, from before it is read.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The path without symlinks of the file, which was opened by `path`; `None` if the system does not
    /// tell. On Linux it is that of the open file, whichever way led to it: whoever may change a
    /// directory can make a path lead elsewhere between two looks at it. Elsewhere the path is asked.
    pub fn real_path(&self, path: &Path) -> Option<PathBuf> {
        real_path(&self.file, path).ok()
    }

    /// Reads the whole file, once, if it has `limit` bytes at most. A file that grows meanwhile is read
    /// no further than that.
    ///
    /// # Errors
    /// If it is larger, or cannot be read.
    pub fn read(&mut self, limit: u64) -> Result<Vec<u8>, ReadError> {
        let size = self.metadata.len();
        if size > limit {
            return Err(ReadError::TooLarge { limit });
        }
        // There is room for one byte more than expected, so that the end is found without growing.
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default() + 1);
        let read = (&mut self.file).take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if read as u64 > limit { Err(ReadError::TooLarge { limit }) } else { Ok(bytes) }
    }

    /// Reads the whole file as [`OpenFile::read`] does, which holds UTF-8.
    ///
    /// # Errors
    /// As [`read_to_string`].
    pub fn read_to_string(mut self, limit: u64) -> Result<String, ReadError> {
        String::from_utf8(self.read(limit)?).map_err(|_| {
            let message = "stream did not contain valid UTF-8";
            ReadError::Io(io::Error::new(io::ErrorKind::InvalidData, message))
        })
    }
}

impl ReadError {
    /// Returns true if there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            other => Self::other(other.to_string()),
        }
    }
}

fn refuse_others(metadata: &Metadata) -> Result<(), ReadError> {
    FileKind::of(metadata.file_type()).map_or(Ok(()), |kind| Err(ReadError::NotRegular(kind)))
}

/// Opening waits for no peer, and makes no terminal that of this process.
#[cfg(unix)]
fn options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}

#[cfg(not(unix))]
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}
