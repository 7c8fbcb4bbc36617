//! A patched listing equals the listing of a scan, after any changes.

use std::os::unix::fs::symlink;

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::scan::scan;

const NAMES: [&str; 14] = [
    "a.yaml",
    "b.json",
    "chancery.yaml",
    "notes.md",
    "deep/notes.md",
    "groups/g/notes",
    ".hidden.yaml",
    "x.yaml~",
    "mine.yaml",
    "deep/c.yaml",
    "deep/.data/d.yaml",
    "groups/e.yaml",
    "groups/g/f.yaml",
    "nodes/n/g.yaml",
];

#[derive(Clone, Debug)]
enum Op {
    Write(usize, u8),
    Remove(usize),
    Rename(usize, usize),
    Link(usize, usize),
    Directory(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let at = || 0..NAMES.len();
    prop_oneof![
        6 => (at(), any::<u8>()).prop_map(|(at, size)| Op::Write(at, size)),
        3 => at().prop_map(Op::Remove),
        3 => (at(), at()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (at(), at()).prop_map(|(from, to)| Op::Link(from, to)),
        1 => at().prop_map(Op::Directory),
    ]
}

impl Op {
    /// Makes the change. Returns the places that events name.
    fn apply(&self, top: &Path) -> Vec<PathBuf> {
        let at = |name: &usize| top.join(NAMES[*name]);
        match self {
            Self::Write(name, size) => drop(fs::write(at(name), vec![b'#'; (*size).into()])),
            Self::Remove(name) => {
                let _ = fs::remove_file(at(name)).or_else(|_| fs::remove_dir(at(name)));
            }
            Self::Rename(from, to) => drop(fs::rename(at(from), at(to))),
            Self::Link(from, to) => drop(symlink(at(to), at(from))),
            Self::Directory(name) => drop(fs::create_dir(at(name))),
        }
        match self {
            // A write through a link changes the target, and the event names that.
            Self::Write(name, _) => at(name).canonicalize().into_iter().chain([at(name)]).collect(),
            Self::Remove(name) | Self::Directory(name) => vec![at(name)],
            Self::Rename(one, other) | Self::Link(one, other) => vec![at(one), at(other)],
        }
    }
}

fn setup() -> (TempDir, Options) {
    let outer = tempfile::tempdir().unwrap();
    let top = outer.path().canonicalize().unwrap().join("conf");
    for name in NAMES {
        fs::create_dir_all(top.join(name).parent().unwrap()).unwrap();
    }
    let options = Options {
        ignore: vec!["mine.yaml".into()],
        max_files: 5,
        max_file_bytes: 250,
        max_directory_bytes: 500,
        ..Options::new(top)
    };
    (outer, options)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_leads_where_a_scan_leads(histories in vec(vec(op(), 1..4), 1..12)) {
        let (_outer, options) = setup();
        let mut listing = scan(&options);
        for ops in histories {
            let touched = ops.iter().flat_map(|op| op.apply(&options.directory)).collect();
            let wanted = scan(&options);
            let touched = ChangedPlaces::At(touched);
            match changed_files(&listing, &options, &touched) {
                Some(changes) => {
                    let ignored = ignored_files(&listing, &options, &touched);
                    ignored.into_iter().for_each(|file| listing.apply_ignored(file));
                    changes.into_iter().for_each(|change| drop(listing.apply(change)));
                    prop_assert_eq!(&listing, &wanted);
                }
                None => listing = wanted,
            }
        }
    }
}

#[test]
fn plain_changes_need_no_scan() {
    let (_outer, options) = setup();
    let top = &options.directory;
    fs::write(top.join("a.yaml"), "1").unwrap();
    let listing = scan(&options);
    let looked = |names: &[&str]| {
        let paths = names.iter().map(|name| top.join(name)).collect();
        let changes = changed_files(&listing, &options, &ChangedPlaces::At(paths))?;
        Some(changes.iter().map(|change| change.now.is_some()).collect::<Vec<_>>())
    };
    assert_eq!(looked(&["chancery.yaml", ".hidden.yaml", "x.yaml~", "mine.yaml"]), Some(vec![]));
    assert_eq!(looked(&["b.json"]), Some(vec![]), "came and went");
    assert_eq!(looked(&["notes.md"]), Some(vec![]), "a warning may come");
    assert_eq!(looked(&["deep"]), None);
    fs::write(top.join("groups/g/f.yaml"), "1").unwrap();
    fs::remove_file(top.join("a.yaml")).unwrap();
    assert_eq!(looked(&["a.yaml", "groups/g/f.yaml"]), Some(vec![false, true]));
}

#[test]
fn where_more_files_are_ignored_than_are_named_a_scan_says_which() {
    let (_outer, options) = setup();
    let noted = options.directory.join("notes.md");
    let mut listing = scan(&options);
    let look = |listing: &Listing| {
        let at = ChangedPlaces::At([noted.clone()].into());
        let came = ignored_files(listing, &options, &at).len();
        changed_files(listing, &options, &at).map(|changes| (changes.len(), came))
    };
    assert_eq!(look(&listing), Some((0, 0)));
    fs::write(&noted, "").unwrap();
    assert_eq!(look(&listing), Some((0, 1)));
    listing.warnings.resize(MAX_WARNINGS, Warning::general("ignored"));
    assert_eq!(look(&listing), None);
}

#[test]
fn a_fault_elsewhere_has_no_other_layer_scanned() {
    let (_outer, options) = setup();
    let top = &options.directory;
    symlink("nowhere.yaml", top.join("groups/g/link.yaml")).unwrap();
    fs::create_dir(top.join("nodes/n/g.yaml")).unwrap();
    let listing = scan(&options);
    let look = |name: &str| {
        let changed = ChangedPlaces::At([top.join(name)].into());
        changed_files(&listing, &options, &changed).map(|changes| changes.len())
    };
    fs::write(top.join("a.yaml"), "1").unwrap();
    fs::write(top.join("groups/g/f.yaml"), "1").unwrap();
    assert_eq!(look("a.yaml"), Some(1));
    assert_eq!(look("groups/g/f.yaml"), None, "its layer is held back");
    fs::remove_dir(top.join("nodes/n/g.yaml")).unwrap();
    assert_eq!(look("nodes/n/g.yaml"), None, "the fault is gone");
}
