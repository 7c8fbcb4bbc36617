//! Parts that are made once and kept below `target/`. A stamp beside each part says from what it
//! was made.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The directory in which parts are kept.
pub(crate) struct PartsDirectory {
    pub(crate) root: PathBuf,
    /// The path of the directory below the root.
    pub(crate) below: &'static str,
}

impl PartsDirectory {
    /// The path of the directory, which is made if it is missing.
    pub(crate) fn dir(&self) -> Result<PathBuf> {
        let dir = self.root.join(self.below);
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        Ok(dir)
    }

    /// Makes one part, unless its stamp says that it was made from the same thing.
    pub(crate) fn part(
        &self,
        name: &str,
        made_from: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let dir = self.dir()?;
        let target = dir.join(name);
        let stamp = dir.join(format!("{name}.stamp"));
        let current = fs::read_to_string(&stamp).is_ok_and(|text| text == made_from);
        if current && target.exists() {
            return Ok(());
        }
        println!("making {}/{name}", self.below);
        clear(&target)?;
        make(&target).with_context(|| format!("cannot make `{}/{name}`", self.below))?;
        fs::write(&stamp, made_from).with_context(|| stamp.display().to_string())
    }

    /// The text of source files, as the stamp of what is made from them.
    pub(crate) fn sources(&self, below: &str, names: &[&str]) -> Result<String> {
        let dir = self.root.join(below);
        names
            .iter()
            .map(|name| fs::read_to_string(dir.join(name)).with_context(|| (*name).to_owned()))
            .collect()
    }
}

/// Removes the remains of an interrupted run.
pub(crate) fn clear(target: &Path) -> Result<()> {
    let outcome = match fs::symlink_metadata(target) {
        Err(_) => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(target),
        Ok(_) => fs::remove_file(target),
    };
    outcome.with_context(|| target.display().to_string())
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    fn parts(name: &str) -> PartsDirectory {
        let root = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        clear(&root).unwrap();
        PartsDirectory { root, below: "parts" }
    }

    #[test]
    fn a_part_is_made_once_per_stamp() {
        let parts = parts("stamp");
        let mut made = 0;
        for stamp in ["1", "1", "2"] {
            let make = |target: &Path| {
                made += 1;
                Ok(fs::write(target, stamp)?)
            };
            parts.part("thing", stamp, make).unwrap();
        }
        assert_eq!(made, 2);
        assert_eq!(fs::read_to_string(parts.dir().unwrap().join("thing")).unwrap(), "2");
        clear(&parts.root).unwrap();
    }

    #[test]
    fn a_part_whose_making_failed_is_made_again() {
        let parts = parts("again");
        parts.part("thing", "1", |_| bail!("no network")).unwrap_err();
        parts.part("thing", "1", |target| Ok(fs::create_dir_all(target.join("x"))?)).unwrap();
        assert!(parts.dir().unwrap().join("thing/x").is_dir());
        clear(&parts.root).unwrap();
    }
}
