//! The files and directories that a scan passes over.

use std::ffi::OsStr;
use std::path::Path;

use crate::options::Options;

/// Returns true if files of this name never matter.
pub(crate) fn is_skipped(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".")
        || name.ends_with(b"~")
        || (name.starts_with(b"#") && name.ends_with(b"#"))
        || [".tmp", ".swp", ".swx"].iter().any(|suffix| name.ends_with(suffix.as_bytes()))
        || name == b"lost+found"
}

/// Returns true if the operator excluded this path, or this name.
pub(crate) fn is_ignored(options: &Options, shown: &Path) -> bool {
    let below = shown.strip_prefix(&options.directory).unwrap_or(shown);
    let name = below.file_name();
    options.ignore.iter().any(|named| below == named || name == Some(named.as_os_str()))
}
