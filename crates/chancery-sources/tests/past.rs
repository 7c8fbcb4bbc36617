//! A directory that is loaded for the first time, into a catalog that begins with what was in force before.

use std::collections::BTreeMap;
use std::fs;

use chancery_catalog::{Catalog, Layer, Memory, Piece, Reader};
use chancery_sources::{Directory, LoadReport};

use crate::support;
use crate::support::{Tree, broken, cluster, named, schema, version};

/// Loads the directory of a program that is restarted, and was like this before.
fn restart(tree: &Tree, before: &Catalog) -> (Catalog, LoadReport) {
    let (kept, made) = before.memory().cut(None);
    let pieces: BTreeMap<_, _> =
        made.into_iter().map(|Piece { id, bytes }| (id, bytes.to_vec())).collect();
    let directory = Directory::new(tree.options(), schema());
    let catalog = directory.catalog();
    let restored = catalog.clone();
    let mut directory = directory.beginning_with(move |read| {
        let (piece, known) =
            (|id| pieces.get(&id).cloned(), |layer: &_, key: &_| read.get(layer, key));
        let reader = Reader { schema: &schema(), piece: &piece, known: &known, derived: true };
        let kept = Memory::read(kept.root(), &reader).unwrap();
        assert!(restored.restore(&kept.memory()));
        kept.memory().layers()
    });
    let report = directory.load();
    (catalog, report)
}

fn tree() -> Tree {
    Tree::with(&[
        ("a.yaml", &cluster("a", 1)),
        ("groups/g/b.yaml", &cluster("b", 1)),
        ("nodes/n/c.yaml", &cluster("c", 1)),
    ])
}

#[test]
fn a_restart_without_a_change_changes_nothing_and_makes_nothing_anew() {
    let tree = tree();
    let (before, _) = tree.load();
    let (after, report) = restart(&tree, &before);
    assert_eq!((report.revision, report.resources), (None, 3));
    assert_eq!(after.revision().unwrap().content, before.revision().unwrap().content);
    assert_eq!(named(&after, Some("g"), Some("n")), ["a", "b", "c"]);
}

#[test]
fn a_file_that_has_a_fault_since_holds_back_its_layer_alone() {
    let tree = tree();
    let (before, _) = tree.load();
    tree.write("groups/g/b.yaml", &broken("b"));
    tree.write("a.yaml", &cluster("a", 2));
    let (after, report) = restart(&tree, &before);
    assert_eq!(report.faults.len(), 1);
    assert_eq!(after.held_back(), [Layer::Group("g".into())]);
    assert_eq!(named(&after, Some("g"), None), ["a", "b"]);
    assert_ne!(version(&after, "a"), version(&before, "a"));
    let of_group = |catalog: &Catalog| support::version_for(catalog, Some("g"), None, "a");
    assert_eq!(of_group(&after), of_group(&before), "the group keeps its state as a whole");
}

#[test]
fn a_layer_whose_files_are_gone_goes() {
    let tree = tree();
    let (before, _) = tree.load();
    fs::remove_dir_all(tree.at("groups/g")).unwrap();
    fs::remove_dir_all(tree.at("nodes/n")).unwrap();
    let (after, report) = restart(&tree, &before);
    assert_eq!(report.faults, []);
    assert!(after.groups().is_empty() && after.nodes().is_empty());
    assert_eq!(named(&after, Some("g"), Some("n")), ["a"]);
}

#[test]
fn a_directory_that_is_not_there_yet_takes_nothing_away() {
    let tree = tree();
    let (before, _) = tree.load();
    fs::remove_dir_all(tree.conf()).unwrap();
    let (after, report) = restart(&tree, &before);
    assert_eq!(report.faults.len(), 1);
    assert_eq!(named(&after, Some("g"), Some("n")), ["a", "b", "c"]);
}

#[test]
fn a_file_that_was_emptied_takes_nothing_away_over_a_restart_either() {
    let tree = tree();
    let (before, _) = tree.load();
    tree.write("groups/g/b.yaml", "");
    let (after, report) = restart(&tree, &before);
    assert!(report.faults[0].message.contains("says nothing"), "{:?}", report.faults);
    assert_eq!(named(&after, Some("g"), None), ["a", "b"]);
    tree.write("groups/g/b.yaml", "[]\n");
    let (after, report) = restart(&tree, &after);
    assert_eq!(report.faults, []);
    assert_eq!(named(&after, Some("g"), None), ["a"]);
}
