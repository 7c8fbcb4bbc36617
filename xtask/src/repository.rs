//! The repository: its files, and its packages as cargo knows them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::steps::{cargo, output};

/// Every file of the repository, by its path below the root.
pub(crate) struct RepositoryTree {
    pub(crate) files: Vec<RepositoryFile>,
}

/// One file, read once.
pub(crate) struct RepositoryFile {
    /// The path below the root, with `/`.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

impl RepositoryFile {
    /// The text of the file, or nothing if it is not text.
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok().filter(|text| !text.contains('\0'))
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Directories with files that were built or fetched.
const NOT_OURS: [&str; 4] = [".git", "target", "node_modules", "__pycache__"];

impl RepositoryTree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { files })
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text()
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| RepositoryFile {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        Self { files: files.iter().map(file).collect() }
    }
}

fn walk(dir: &Path, below: &str, files: &mut Vec<RepositoryFile>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !NOT_OURS.contains(&name.as_str()) {
            walk(&entry.path(), &path, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).with_context(|| path.clone())?;
            files.push(RepositoryFile { path, bytes });
        }
    }
    Ok(())
}

/// The members of the workspace, as cargo knows them.
pub(crate) fn metadata(root: &Path) -> Result<Value> {
    let text = output(&mut cargo(root, &["metadata", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&text).context("`cargo metadata`")
}
