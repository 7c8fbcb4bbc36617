//! The symlinks that a path leads through, and its end.
//!
//! An event reports a change in one directory. A path through symlinks depends on several: of
//! `clusters.yaml -> ..data/clusters.yaml`, `..data -> ..2026_a`, the file changes when the
//! directory of the first link changes, or that of the second, or `..2026_a`.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// A path with the symlinks it leads through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SymlinkPath {
    /// The symlinks on the way, each in a directory that is reached without one.
    pub(crate) links: Vec<PathBuf>,
    /// The end of the path, without symlinks; it need not exist.
    pub(crate) end: PathBuf,
}

/// Follows `path`, which is relative to `from`, a directory reached without symlinks.
///
/// Returns `None` if the links never end.
pub(crate) fn resolve(from: &Path, path: &Path) -> Option<SymlinkPath> {
    let mut end = from.to_owned();
    let mut links = Vec::new();
    let mut ahead = VecDeque::new();
    push_front(&mut ahead, path);
    while let Some(step) = ahead.pop_front() {
        match step {
            PathStep::Root => end = PathBuf::from("/"),
            PathStep::Up => drop(end.pop()),
            PathStep::Down(name) => {
                let next = end.join(name);
                let Ok(target) = fs::read_link(&next) else {
                    end = next;
                    continue;
                };
                if links.len() == MAX_LINKS {
                    return None;
                }
                links.push(next);
                push_front(&mut ahead, &target);
            }
        }
    }
    Some(SymlinkPath { links, end })
}

enum PathStep {
    Root,
    Up,
    Down(OsString),
}

fn push_front(ahead: &mut VecDeque<PathStep>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::RootDir | Component::Prefix(_) => ahead.push_front(PathStep::Root),
            Component::CurDir => {}
            Component::ParentDir => ahead.push_front(PathStep::Up),
            Component::Normal(name) => ahead.push_front(PathStep::Down(name.to_owned())),
        }
    }
}

/// The number of symlinks that Linux follows before it gives up.
const MAX_LINKS: usize = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_mounted_config_map_depends_on_three_directories() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("..a")).unwrap();
        fs::write(root.join("..a/c.yaml"), "").unwrap();
        symlink("..a", root.join("..data")).unwrap();
        symlink("..data/c.yaml", root.join("c.yaml")).unwrap();
        let found = resolve(&root, Path::new("c.yaml")).unwrap();
        assert_eq!(found.links, [root.join("c.yaml"), root.join("..data")]);
        assert_eq!(found.end, root.join("..a/c.yaml"));
    }

    #[test]
    fn a_link_may_be_absolute_or_lead_up_or_to_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        symlink("../gone", root.join("sub/up")).unwrap();
        symlink(root.join("sub"), root.join("abs")).unwrap();
        assert_eq!(resolve(&root, Path::new("sub/up")).unwrap().end, root.join("gone"));
        assert_eq!(resolve(&root, Path::new("./abs/x")).unwrap().end, root.join("sub/x"));
        assert_eq!(resolve(&root, &root.join("abs")).unwrap().links, [root.join("abs")]);
    }

    #[test]
    fn a_link_to_itself_never_ends() {
        let dir = tempfile::tempdir().unwrap();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        assert_eq!(resolve(dir.path(), Path::new("a")), None);
    }
}
