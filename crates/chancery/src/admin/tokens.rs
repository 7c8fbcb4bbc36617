//! The tokens of those who may read the API from other machines, from a file.
//!
//! ```text
//!   # name  scope  token
//!   ci      read   4f1c0a5be2d84f2f9f3c5f3f7f6a9d1e
//! ```
//!
//! Digests are kept and compared, each of them whole, so that the time of an answer says nothing of a token. The
//! file is read again when it has changed; one that cannot be used is told, and changes nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::hint::black_box;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use chancery_core::printable::{PrintForm, printable};
use chancery_files::{OpenFile, ReadError};
use chancery_tls::FileStamps;
use tokio_rustls::rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use tracing::{info, warn};

/// The tokens in a file. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(Arc<TokenFile>);

struct TokenFile {
    path: PathBuf,
    stamps: FileStamps,
    known: Mutex<Vec<Token>>,
}

/// One token.
struct Token {
    name: String,
    digest: Vec<u8>,
}

/// The reason for which a file of tokens cannot be used. Nothing of the file is in it but a line number.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidTokens {
    #[error("cannot read the tokens in `{}`: {source}", path.display())]
    Unreadable { path: PathBuf, source: ReadError },
    #[error(
        "`{}` has the mode {mode:04o}: a file with tokens is for its owner, and at most read by its group \
         (`chmod 0600`)", path.display()
    )]
    Open { path: PathBuf, mode: u32 },
    #[error("{}:{line}: {why}", path.display())]
    Line { path: PathBuf, line: usize, why: &'static str },
    #[error("`{}` has no token: write `NAME read TOKEN`, one on a line", path.display())]
    Empty { path: PathBuf },
}

impl Tokens {
    /// Reads a file.
    pub(crate) fn load(path: PathBuf) -> Result<Self, InvalidTokens> {
        let stamps = FileStamps::new([path.as_path()]);
        let known = Mutex::new(read(&path)?);
        Ok(Self(Arc::new(TokenFile { path, stamps, known })))
    }

    /// The name that a token belongs to. The file is looked at on another thread, because it may be on a disk
    /// that does not answer.
    pub(super) async fn find(&self, token: &str) -> Option<String> {
        let (file, digest) = (Arc::clone(&self.0), digest(token));
        let finding = tokio::task::spawn_blocking(move || {
            file.read_if_changed();
            file.find(&digest)
        });
        finding.await.ok().flatten()
    }
}

impl TokenFile {
    fn read_if_changed(&self) {
        if !self.stamps.changed() {
            return;
        }
        match read(&self.path) {
            Ok(tokens) => {
                info!(tokens = tokens.len(), "the tokens of the admin API were read again");
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
            }
            Err(error) => {
                let error = error.to_string();
                let error = printable(&error, PrintForm::Line);
                warn!("the tokens of the admin API were not replaced, the old ones stay: {error}");
            }
        }
    }

    /// The name of a token. All tokens are compared, and all bytes of each.
    fn find(&self, digest: &[u8]) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for token in &*known {
            let pairs = token.digest.iter().zip(digest);
            let differing = pairs.fold(0, |all, (one, other)| black_box(all | (one ^ other)));
            if differing == 0 && token.digest.len() == digest.len() {
                found = Some(token.name.clone());
            }
        }
        found
    }
}

fn read(path: &Path) -> Result<Vec<Token>, InvalidTokens> {
    let unreadable = |source| InvalidTokens::Unreadable { path: path.to_owned(), source };
    let file = OpenFile::open(path).map_err(unreadable)?;
    let mode = file.metadata().permissions().mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(InvalidTokens::Open { path: path.to_owned(), mode });
    }
    let text = file.read_to_string(MAX_BYTES).map_err(unreadable)?;
    let (mut tokens, mut names) = (Vec::new(), BTreeSet::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why| InvalidTokens::Line { path: path.to_owned(), line: number + 1, why };
        let words: Vec<_> = line.split_whitespace().collect();
        let [name, scope, token] = words[..] else {
            return Err(wrong("write `NAME read TOKEN`"));
        };
        if scope != "read" {
            return Err(wrong("the only scope is `read`"));
        }
        if token.len() < LEAST_LENGTH || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("a token has at least 32 characters, all of them ASCII"));
        }
        if !names.insert(name) {
            return Err(wrong("the name has a token already"));
        }
        tokens.push(Token { name: name.to_owned(), digest: digest(token) });
    }
    match tokens.is_empty() {
        true => Err(InvalidTokens::Empty { path: path.to_owned() }),
        false => Ok(tokens),
    }
}

/// The SHA-256 of a token.
fn digest(token: &str) -> Vec<u8> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13();
    let hash = suite.map(|suite| suite.common.hash_provider.hash(token.as_bytes()));
    hash.map(|hash| hash.as_ref().to_vec()).unwrap_or_default()
}

/// Nothing of it is printed but the path.
impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenFile").field(&self.path).finish()
    }
}

/// The bits of a mode that a file with tokens has not: all of others, and writing by the group.
const OTHERS: u32 = 0o027;

/// The bytes of a file of tokens.
const MAX_BYTES: u64 = 1 << 20;

/// The characters of a token.
const LEAST_LENGTH: usize = 32;

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210";

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        (dir, path)
    }

    #[tokio::test]
    async fn a_token_is_known_until_the_file_says_otherwise() {
        assert_eq!(digest("").len(), 32);
        let (_dir, path) = file(&format!("# of the pipeline\nci read {ONE}\n\n"));
        let tokens = Tokens::load(path.clone()).unwrap();
        assert_eq!(tokens.find(ONE).await.as_deref(), Some("ci"));
        for wrong in [OTHER, "", &ONE[1..], &format!("{ONE}0")] {
            assert_eq!(tokens.find(wrong).await, None);
        }
        fs::write(&path, "nonsense\n").unwrap();
        assert_eq!(tokens.find(ONE).await.as_deref(), Some("ci"));
        fs::write(&path, format!("ci read {OTHER}\n")).unwrap();
        assert_eq!((tokens.find(ONE).await, tokens.find(OTHER).await), (None, Some("ci".into())));
        assert!(!format!("{tokens:?}").contains(OTHER));
    }

    #[test]
    fn a_file_that_cannot_be_meant_is_refused_with_its_line_and_without_its_text() {
        for (text, told) in [
            ("", "has no token"),
            ("ci read\n", ":1: write `NAME read TOKEN`"),
            (&format!("#\nci write {ONE}\n"), ":2: the only scope is `read`"),
            ("ci read short\n", ":1: a token has at least 32 characters"),
            (&format!("ci read {ONE}\nci read {OTHER}\n"), ":2: the name has a token already"),
        ] {
            let (_dir, path) = file(text);
            let refused = Tokens::load(path).unwrap_err().to_string();
            assert!(refused.contains(told) && !refused.contains(ONE), "{refused}");
        }
        let (_dir, path) = file(&format!("ci read {ONE}\n"));
        for (mode, is_fine) in [(0o640, true), (0o644, false), (0o660, false), (0o400, true)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(Tokens::load(path.clone()).is_ok(), is_fine, "{mode:o}");
        }
    }
}
