//! The kinds of what a path may lead to, but for regular files.

use std::fmt;
use std::fs::FileType;

/// The kind of what is no regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block device.
    BlockDevice,
    /// A character device, as a terminal or `/dev/zero`.
    CharacterDevice,
    /// Something that this system has and others have not.
    Other,
}

impl FileKind {
    /// The kind of a file, with links followed; `None` of a regular file.
    pub fn of(kind: FileType) -> Option<Self> {
        if kind.is_file() {
            None
        } else if kind.is_dir() {
            Some(Self::Directory)
        } else {
            Some(special(kind))
        }
    }
}

#[cfg(unix)]
fn special(kind: FileType) -> FileKind {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        FileKind::Fifo
    } else if kind.is_socket() {
        FileKind::Socket
    } else if kind.is_block_device() {
        FileKind::BlockDevice
    } else if kind.is_char_device() {
        FileKind::CharacterDevice
    } else {
        FileKind::Other
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> FileKind {
    FileKind::Other
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::BlockDevice => "a block device",
            Self::CharacterDevice => "a character device",
            Self::Other => "something else",
        })
    }
}
