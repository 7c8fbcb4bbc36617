//! The file `confirm` of a state directory, with which somebody on the machine confirms what is held back.
//!
//! It has the token of what they read, and is removed when it is taken, so that it confirms once. Only
//! the owner of the directory can write there. Not here: what has this token (`gate`).

use std::fs;
use std::path::Path;

use chancery_files::ReadError;

/// The result of looking at the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConfirmFile {
    /// There is none, or nothing in it so far.
    None,
    /// It had this token, and is removed.
    Token(String),
    /// It cannot be used; a sentence says why.
    Unusable(String),
}

/// Looks for the file in a state directory, and takes it.
pub(super) fn take(state: &Path) -> ConfirmFile {
    let path = state.join(NAME);
    if fs::symlink_metadata(&path).is_err() {
        return ConfirmFile::None;
    }
    let token = match chancery_files::read_to_string(&path, MAX_BYTES) {
        Ok(text) => text.trim().to_owned(),
        Err(ReadError::Io(error)) => {
            return ConfirmFile::Unusable(format!("cannot be read: {error}"));
        }
        Err(error) => return ConfirmFile::Unusable(error.to_string()),
    };
    // Somebody is about to write it.
    if token.is_empty() {
        return ConfirmFile::None;
    }
    match fs::remove_file(&path) {
        Ok(()) => ConfirmFile::Token(token),
        // It would confirm again and again.
        Err(error) => {
            ConfirmFile::Unusable(format!("cannot be removed, so it is not taken: {error}"))
        }
    }
}

const NAME: &str = "confirm";

/// The limit for the file: a token has 16 characters.
const MAX_BYTES: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(take(dir.path()), ConfirmFile::None);
        fs::write(&path, "").unwrap();
        assert_eq!(take(dir.path()), ConfirmFile::None, "it may be half written");
        fs::write(&path, " 0123456789abcdef\n").unwrap();
        assert_eq!(take(dir.path()), ConfirmFile::Token("0123456789abcdef".to_owned()));
        assert_eq!(take(dir.path()), ConfirmFile::None);
        fs::write(&path, "x".repeat(1025)).unwrap();
        assert!(matches!(take(dir.path()), ConfirmFile::Unusable(why) if why.contains("larger")));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(
            matches!(take(dir.path()), ConfirmFile::Unusable(why) if why.contains("directory"))
        );
    }
}
