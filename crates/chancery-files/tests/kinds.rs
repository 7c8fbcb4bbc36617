//! Everything that a path may lead to, and no wait for any of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use chancery_files::{FileKind, OpenFile, ReadError, read, read_to_string};

use crate::support::fifo;

#[test]
fn whatever_is_no_regular_file_is_refused_by_its_kind() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fifo(&at("fifo"));
    let _listener = UnixListener::bind(at("socket")).unwrap();
    symlink("fifo", at("link")).unwrap();
    for (path, told) in [
        (at(""), "is a directory, not a regular file"),
        (at("fifo"), "is a FIFO, not a regular file"),
        (at("link"), "is a FIFO, not a regular file"),
        (at("socket"), "is a socket, not a regular file"),
        ("/dev/zero".into(), "is a character device, not a regular file"),
        ("/dev/tty".into(), "is a character device, not a regular file"),
    ] {
        assert_eq!(read(&path, 1).unwrap_err().to_string(), told);
    }
    let refused = read(&at("fifo"), 1).unwrap_err();
    assert!(matches!(refused, ReadError::NotRegular(FileKind::Fifo)));
    assert!(read(&at("none"), 1).unwrap_err().is_not_found());
}

#[test]
fn a_file_may_be_as_large_as_the_limit_and_grow_no_further() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    fs::write(&path, "12345").unwrap();
    assert_eq!(read_to_string(&path, 5).unwrap(), "12345");
    assert!(matches!(read(&path, 4), Err(ReadError::TooLarge { limit: 4 })));
    // A byte that is written after it was opened counts too.
    for (limit, wanted) in [(6, Some("123456")), (5, None)] {
        fs::write(&path, "12345").unwrap();
        let mut open = OpenFile::open(&path).unwrap();
        assert_eq!(open.metadata().len(), 5);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"6").unwrap();
        assert_eq!(open.read(limit).ok().as_deref(), wanted.map(str::as_bytes));
    }
    // A file that has become shorter is what is left of it.
    let mut open = OpenFile::open(&path).unwrap();
    fs::write(&path, "1").unwrap();
    assert_eq!(open.read(9).unwrap(), b"1");
    // A hole of any size is a size.
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(read(&path, 1 << 20), Err(ReadError::TooLarge { .. })));
}

#[test]
#[cfg(target_os = "linux")]
fn the_path_of_an_open_file_is_that_behind_all_links() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/a"), "").unwrap();
    symlink("sub", root.join("link")).unwrap();
    let path = root.join("link/a");
    let open = OpenFile::open(&path).unwrap();
    assert_eq!(open.real_path(&path), Some(root.join("sub/a")));
    fs::rename(root.join("sub"), root.join("other")).unwrap();
    assert_eq!(open.real_path(&path), Some(root.join("other/a")));
}

#[test]
fn a_file_whose_size_is_not_known_ends_at_the_limit() {
    assert!(read(Path::new("/proc/self/status"), 1 << 20).unwrap().len() > 1);
    assert!(matches!(read(Path::new("/proc/self/status"), 1), Err(ReadError::TooLarge { .. })));
}

#[test]
fn what_is_no_text_is_an_error_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    fs::write(&path, [0xff]).unwrap();
    let ReadError::Io(error) = read_to_string(&path, 1).unwrap_err() else { panic!("it is read") };
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
}

#[test]
fn a_fifo_with_a_writer_is_refused_too_and_nothing_is_taken_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    fifo(&path);
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    let mut both = options.open(&path).unwrap();
    both.write_all(b"text").unwrap();
    assert!(matches!(read(&path, 9), Err(ReadError::NotRegular(FileKind::Fifo))));
    let mut left = [0; 4];
    std::io::Read::read_exact(&mut both, &mut left).unwrap();
    assert_eq!(&left, b"text");
}
