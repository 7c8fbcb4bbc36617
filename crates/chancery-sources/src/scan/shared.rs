//! Directories that are read for every node, and for some nodes once more: most likely by a symlink that was
//! meant to keep them for these.
//!
//! A directory that two groups share by symlinks, and that has files for nobody else, is none of them. Not
//! here: a directory that is found twice for one layer, which is a fault.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chancery_catalog::Layer;
use chancery_core::printable::Printable;

use super::listing::FileIdentity;

/// The directories that were found so far.
#[derive(Default)]
pub(super) struct SharedDirectories {
    first: BTreeMap<FileIdentity, (Layer, PathBuf)>,
    /// Those that were told. What is in them is not told again.
    told: Vec<PathBuf>,
}

impl SharedDirectories {
    /// Notes a directory. Returns the words about it if it is for every node, and for others too.
    pub(super) fn found(
        &mut self,
        identity: FileIdentity,
        layer: &Layer,
        shown: &Path,
    ) -> Option<String> {
        let Some((other, first)) = self.first.get(&identity) else {
            self.first.insert(identity, (layer.clone(), shown.to_owned()));
            return None;
        };
        let is_in_one = self.told.iter().any(|told| shown.starts_with(told));
        if is_in_one || (*layer == Layer::Base) == (*other == Layer::Base) {
            return None;
        }
        self.told.push(shown.to_owned());
        let some = if *layer == Layer::Base { other } else { layer };
        Some(format!(
            "is the same directory as `{}`: its files are for every node, and not only for {}; move it out of \
             the directory, or remove the symlink",
            Printable(first.display()),
            Printable(some),
        ))
    }
}
