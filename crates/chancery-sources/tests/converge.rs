//! Whatever is done to a directory, following it ends where a fresh load of it ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;

use chancery_sources::Catalog;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{Followed, Tree, broken, cluster};

#[derive(Clone, Debug)]
enum Op {
    Write(usize, String),
    Remove(usize),
    Rename(usize, usize),
    RemoveGroup,
    SwapDirectory,
    Load,
}

const FILES: [&str; 8] = [
    "a.yaml",
    "b.yaml",
    "deep/c.yaml",
    "groups/g/d.yaml",
    "groups/g/deep/e.yaml",
    "groups/h/f.yaml",
    "nodes/n%2F1/g.yaml",
    "nodes/n/h.yaml",
];

fn text() -> impl Strategy<Value = String> {
    let good = (0..4usize, 1..4u32).prop_map(|(name, s)| cluster(["a", "b", "c", "d"][name], s));
    prop_oneof![6 => good, 1 => Just(broken("a")), 1 => Just("[]\n".to_owned())]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..FILES.len(), text()).prop_map(|(file, text)| Op::Write(file, text)),
        3 => (0..FILES.len()).prop_map(Op::Remove),
        2 => (0..FILES.len(), 0..FILES.len()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => Just(Op::RemoveGroup),
        1 => Just(Op::SwapDirectory),
        4 => Just(Op::Load),
    ]
}

impl Op {
    /// Does it to the directory; what cannot be done is not.
    fn apply(&self, tree: &Tree) {
        match self {
            Self::Write(file, text) => tree.write(FILES[*file], text),
            Self::Remove(file) => drop(fs::remove_file(tree.at(FILES[*file]))),
            Self::Rename(from, to) => {
                fs::create_dir_all(tree.at(FILES[*to]).parent().unwrap()).unwrap();
                drop(fs::rename(tree.at(FILES[*from]), tree.at(FILES[*to])));
            }
            Self::RemoveGroup => drop(fs::remove_dir_all(tree.at("groups/g"))),
            Self::SwapDirectory => {
                let fresh = tree.beside("fresh");
                support::write(&fresh.join("keep.yaml"), &cluster("keep", 1));
                support::write(&fresh.join("a.yaml"), &cluster("a", 9));
                let _ = fs::remove_dir_all(tree.beside("old"));
                fs::rename(tree.conf(), tree.beside("old")).unwrap();
                fs::rename(fresh, tree.conf()).unwrap();
            }
            Self::Load => {}
        }
    }
}

/// Whether every audience that a fresh load serves sees the same here.
fn agrees(live: &Catalog, fresh: &Catalog) -> bool {
    let groups = [None, Some("g"), Some("h")];
    let nodes = [None, Some("n/1"), Some("n")];
    let audiences = groups.into_iter().flat_map(|group| nodes.map(|node| (group, node)));
    audiences.into_iter().all(|(group, node)| {
        let wanted = fresh.snapshot(group, node);
        wanted.is_none() || live.snapshot(group, node) == wanted
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn loads_in_between_leave_no_trace(ops in vec(op(), 0..30)) {
        let tree = Tree::with(&[("keep.yaml", &cluster("keep", 1))]);
        let mut directory = tree.directory();
        let live = directory.catalog();
        for op in ops {
            op.apply(&tree);
            if matches!(op, Op::Load) {
                directory.load();
                // Asked for at some moment, and not at others.
                live.snapshot(Some("g"), Some("n"));
            }
        }
        directory.load();
        let (fresh, _) = tree.load();
        prop_assert!(agrees(&live, &fresh), "{live:?}");
        prop_assert_eq!(live.held_back(), fresh.held_back());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn events_alone_lead_to_the_same_end(ops in vec(op(), 0..30)) {
        let tree = Tree::with(&[("keep.yaml", &cluster("keep", 1))]);
        let followed = Followed::new(tree.options());
        for op in ops {
            op.apply(&tree);
            if matches!(op, Op::Load) {
                let (fresh, _) = tree.load();
                followed.settled(|live| agrees(live, &fresh));
            }
        }
        let (fresh, _) = tree.load();
        followed.settled(|live| agrees(live, &fresh) && live.held_back() == fresh.held_back());
    }
}
