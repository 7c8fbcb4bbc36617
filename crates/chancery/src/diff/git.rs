//! A directory as a revision of git has it, written to a temporary directory that goes when it is
//! dropped.
//!
//! The binary of git is asked. The index and the work tree of the repository are not touched.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow, bail};
use chancery_core::printable::{Printable, cut};
use tempfile::TempDir;

use crate::exit::Failure;

/// An exported directory.
pub(super) struct ExportedTree(TempDir);

impl ExportedTree {
    /// Exports a directory of a repository.
    pub(super) fn of(dir: &Path, revision: &str) -> Result<Self, Failure> {
        let exported = export(dir, revision).with_context(|| {
            format!("cannot read `{}` at revision `{revision}` of git", dir.display())
        });
        exported.map_err(Failure::broken)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

fn export(dir: &Path, revision: &str) -> Result<ExportedTree, anyhow::Error> {
    let root = said(git(dir).args(["rev-parse", "--absolute-git-dir"]))?;
    let words = ["rev-parse", "--verify", "--end-of-options"];
    let commit = said(git(dir).args(words).arg(format!("{revision}^{{commit}}")))?;
    // The hash cannot be taken for a flag, and stays the same if the branch moves.
    let tree = format!("{commit}:./");
    measure(git(dir).args(["ls-tree", "-r", "-l", "-z", &tree]))?;
    let tree = said(git(dir).args(["rev-parse", "--verify", &tree]))?;
    let target = tempfile::tempdir().context("cannot make a temporary directory")?;
    let index = tempfile::tempdir().context("cannot make a temporary directory")?;
    let apart = |words: &[&str]| {
        let mut command = git(target.path());
        command.env("GIT_DIR", &root).env("GIT_WORK_TREE", target.path());
        command.env("GIT_INDEX_FILE", index.path().join("index")).args(words);
        said(&mut command)
    };
    apart(&["read-tree", &tree])?;
    apart(&["checkout-index", "--all", "--quiet"])?;
    Ok(ExportedTree(target))
}

fn git(dir: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).stdin(Stdio::null()).env("LC_ALL", "C");
    // A partial clone fetches nothing.
    command.env("GIT_NO_LAZY_FETCH", "1");
    // A hook of git has these set, relative to another directory.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command whose answer is one line.
fn said(command: &mut Command) -> Result<String, anyhow::Error> {
    let output = command.output().context("cannot run `git`")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        let why = cut(why.lines().next().unwrap_or("nothing").trim(), LONGEST_ANSWER);
        bail!("git says: {}", Printable(why));
    }
    let text = String::from_utf8(output.stdout).context("git answers with what is no text")?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Refuses a tree that is too large to be written to a temporary directory.
fn measure(command: &mut Command) -> Result<(), anyhow::Error> {
    let mut listing =
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("cannot run `git`")?;
    let stdout = listing.stdout.take().ok_or_else(|| anyhow!("git has no output"))?;
    let (mut files, mut bytes) = (0_usize, 0_u64);
    for entry in BufReader::new(stdout).split(0) {
        (files, bytes) = (files + 1, bytes.saturating_add(size(&entry?)));
        if files > MOST_FILES || bytes > MOST_BYTES {
            listing.kill().ok();
            listing.wait().ok();
            bail!("it has more than {MOST_FILES} files, or more than {MOST_BYTES} bytes");
        }
    }
    if !listing.wait()?.success() {
        bail!("the revision has no such directory");
    }
    Ok(())
}

/// The size in an entry of `git ls-tree -l`: `MODE TYPE HASH SIZE<tab>PATH`.
fn size(entry: &[u8]) -> u64 {
    let head = entry.split(|byte| *byte == b'\t').next().unwrap_or_default();
    let size = String::from_utf8_lossy(head);
    // A submodule has `-`, and nothing of it is written.
    size.split_whitespace().nth(3).and_then(|size| size.parse().ok()).unwrap_or(0)
}

/// The bytes that are shown of what git says.
const LONGEST_ANSWER: usize = 512;
const MOST_FILES: usize = 1_000_000;
const MOST_BYTES: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_entry_is_its_fourth_word() {
        assert_eq!(size(b"100644 blob 0123     512\ta b 7.yaml"), 512);
        assert_eq!(size(b"160000 commit 0123       -\tsub"), 0);
        assert_eq!(size(b""), 0);
    }
}
