//! The layers that each audience sees, and what a fault holds back.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use chancery_catalog::{Layer, Origin, Reassigned};
use chancery_sources::{LoadReport, Scope};

use crate::support;
use crate::support::{Tree, broken, cluster, documents, named, version, version_for};

fn reassigned(report: &LoadReport) -> Option<Reassigned> {
    report.revision.as_ref().map(|revision| revision.reassigned.clone())
}

#[test]
fn overlays_are_for_their_group_and_node() {
    let tree = Tree::with(&[
        ("deep/er/base.yaml", &cluster("base", 1)),
        ("groups/eu/x/eu.yaml", &cluster("eu", 1)),
        ("nodes/n1/n1.yaml", &cluster("n1", 1)),
    ]);
    let (catalog, report) = tree.load();
    assert_eq!(report.faults, []);
    assert_eq!((report.files, report.resources), (3, 3));
    assert_eq!(named(&catalog, None, None), ["base"]);
    assert_eq!(named(&catalog, Some("eu"), None), ["base", "eu"]);
    assert_eq!(named(&catalog, None, Some("n1")), ["base", "n1"]);
    assert_eq!(named(&catalog, Some("eu"), Some("n1")), ["base", "eu", "n1"]);
    assert_eq!(named(&catalog, Some("us"), Some("n2")), ["base"]);
    assert!(catalog.groups().iter().eq([&Arc::from("eu")]));
    assert!(catalog.nodes().iter().eq([&Arc::from("n1")]));
}

#[test]
fn the_closer_layer_wins() {
    let tree = Tree::with(&[
        ("a.yaml", &cluster("a", 1)),
        ("groups/g/a.yaml", &cluster("a", 2)),
        ("nodes/n/a.yaml", &cluster("a", 3)),
    ]);
    let (catalog, report) = tree.load();
    assert_eq!(report.faults, []);
    let of = |group, node| version_for(&catalog, group, node, "a").unwrap();
    assert_ne!(of(None, None), of(Some("g"), None));
    assert_eq!(of(Some("g"), Some("n")), of(None, Some("n")));
    assert_ne!(of(Some("g"), None), of(None, Some("n")));
}

#[test]
fn nodes_without_overlays_share_one_snapshot() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let (catalog, _) = tree.load();
    let one = catalog.snapshot(Some("g"), Some("n1")).unwrap();
    let other = catalog.snapshot(None, Some("n2")).unwrap();
    assert!(Arc::ptr_eq(&one, &other));
    assert_eq!(catalog.audience(Some("g"), Some("n1")), catalog.audience(None, None));
}

#[test]
fn an_id_that_is_no_file_name_is_percent_encoded() {
    let tree = Tree::with(&[
        ("nodes/sidecar~10.0.0.1~a%2Fb/c.yaml", &cluster("c", 1)),
        ("nodes/%2Ehidden/d.yaml", &cluster("d", 1)),
        ("groups/a%20b/e.yaml", &cluster("e", 1)),
    ]);
    let (catalog, report) = tree.load();
    assert_eq!(report.faults, []);
    assert_eq!(named(&catalog, None, Some("sidecar~10.0.0.1~a/b")), ["c"]);
    assert_eq!(named(&catalog, Some("a b"), Some(".hidden")), ["d", "e"]);
}

#[test]
fn a_fault_holds_back_its_group_whole_and_no_other() {
    let tree = Tree::with(&[
        ("a.yaml", &cluster("a", 1)),
        ("groups/eu/b.yaml", &cluster("b", 1)),
        ("groups/us/c.yaml", &cluster("c", 1)),
    ]);
    let mut directory = tree.directory();
    let catalog = directory.catalog();
    directory.load();
    let before = catalog.snapshot(Some("eu"), None).unwrap();
    let old = version_for(&catalog, Some("eu"), None, "a");
    catalog.snapshot(Some("us"), None).unwrap();

    tree.write("a.yaml", &cluster("a", 2));
    tree.write("groups/eu/b.yaml", &broken("b"));
    tree.write("groups/us/c.yaml", &documents(&[cluster("c", 1), cluster("d", 1)]));
    let report = directory.load();
    assert_eq!(report.faults.len(), 1);
    assert_eq!(report.faults[0].scope, Scope::Layer(Layer::Group("eu".into())));
    assert_eq!(catalog.held_back(), [Layer::Group("eu".into())]);
    assert!(Arc::ptr_eq(&catalog.snapshot(Some("eu"), None).unwrap(), &before));
    assert_eq!(named(&catalog, Some("us"), None), ["a", "c", "d"]);
    assert_ne!(version(&catalog, "a"), old);
    // A node of the broken group that comes now gets what its peers have.
    assert!(Arc::ptr_eq(&catalog.snapshot(Some("eu"), Some("new")).unwrap(), &before));

    tree.write("groups/eu/b.yaml", &cluster("b", 2));
    let report = directory.load();
    assert_eq!(report.faults, []);
    assert_eq!(catalog.held_back(), []);
    assert_eq!(version_for(&catalog, Some("eu"), None, "a"), version(&catalog, "a"));
    assert!(report.changed().contains(&catalog.audience(Some("eu"), None)));
}

#[test]
fn a_fault_in_base_holds_back_everybody() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &cluster("b", 1))]);
    let mut directory = tree.directory();
    let catalog = directory.catalog();
    directory.load();
    tree.write("broken.yaml", &broken("x"));
    tree.write("groups/g/b.yaml", &documents(&[cluster("b", 1), cluster("c", 1)]));
    let report = directory.load();
    assert_eq!(report.changed(), []);
    // Never asked for before the fault, and served all the same.
    assert_eq!(named(&catalog, Some("g"), None), ["a", "b"]);
    assert_eq!(named(&catalog, None, None), ["a"]);
    tree.remove("broken.yaml");
    directory.load();
    assert_eq!(named(&catalog, Some("g"), None), ["a", "b", "c"]);
}

#[test]
fn faults_that_take_turns_keep_the_last_state_without_them() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("nodes/n/b.yaml", &cluster("b", 1))]);
    let mut directory = tree.directory();
    let catalog = directory.catalog();
    directory.load();
    let first = version(&catalog, "a");
    for turn in 2..40 {
        let odd = turn % 2 == 1;
        tree.write("a.yaml", &if odd { cluster("a", turn) } else { broken("a") });
        tree.write("nodes/n/b.yaml", &if odd { broken("b") } else { cluster("b", turn) });
        assert_eq!(directory.load().faults.len(), 1);
    }
    // Nobody asked for the node so far. No load since the first had both of its layers, so it sees
    // the first one; base goes on.
    assert_eq!(named(&catalog, None, Some("n")), ["a", "b"]);
    assert_eq!(version_for(&catalog, None, Some("n"), "a"), first);
    assert_ne!(version(&catalog, "a"), first);
    tree.write("a.yaml", &cluster("a", 1));
    tree.write("nodes/n/b.yaml", &cluster("b", 1));
    directory.load();
    assert_eq!(version(&catalog, "a"), first);
}

#[test]
fn where_no_overlay_can_be_listed_the_known_ones_are_held_back() {
    // S-057
    for kind in ["groups", "nodes"] {
        let overlay = format!("{kind}/x/b.yaml");
        let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), (&overlay, &cluster("b", 1))]);
        let mut directory = tree.directory();
        let catalog = directory.catalog();
        directory.load();
        std::fs::rename(tree.at(kind), tree.beside(kind)).unwrap();
        symlink(kind, tree.at(kind)).unwrap();
        tree.write("a.yaml", &cluster("c", 1));
        assert_eq!(directory.load().faults.len(), 1);
        assert_eq!(named(&catalog, Some("x"), Some("x")), ["a", "b"]);
        assert_eq!(named(&catalog, Some("y"), Some("y")), ["c"], "there is no sign of these");

        // At start it is not known who has an overlay, so nobody who might have one is served.
        let (catalog, _) = tree.load();
        assert!(catalog.snapshot(Some("y"), Some("y")).is_none());
        assert_eq!(named(&catalog, None, None), ["c"]);
    }
}

#[test]
fn at_start_a_broken_layer_serves_nobody_and_the_others_are_served() {
    // S-057
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &broken("b"))]);
    let (catalog, report) = tree.load();
    assert_eq!(report.faults.len(), 1);
    assert!(catalog.snapshot(Some("g"), None).is_none());
    assert_eq!(named(&catalog, Some("other"), None), ["a"]);
}

#[test]
fn a_group_that_goes_is_gone() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &cluster("b", 1))]);
    let mut directory = tree.directory();
    let catalog = directory.catalog();
    assert_eq!(reassigned(&directory.load()), Some(Reassigned::Everybody));
    assert_eq!(named(&catalog, Some("g"), None), ["a", "b"]);
    std::fs::remove_dir_all(tree.at("groups/g")).unwrap();
    let report = directory.load();
    let group = Layer::Group("g".into());
    assert_eq!(reassigned(&report), Some(Reassigned::Overlays(vec![group.clone()])));
    assert_eq!(report.layers(), [group]);
    assert_eq!(named(&catalog, Some("g"), None), ["a"]);
    assert_eq!(reassigned(&directory.load()), None);
}

#[test]
fn a_name_that_is_no_id_any_more_holds_back_the_node_that_vanished() {
    let tree = Tree::with(&[
        ("a.yaml", &cluster("a", 1)),
        ("nodes/a%2Fb/c.yaml", &cluster("c", 1)),
        ("nodes/d/d.yaml", &cluster("d", 1)),
    ]);
    let mut directory = tree.directory();
    let catalog = directory.catalog();
    directory.load();
    std::fs::rename(tree.at("nodes/a%2Fb"), tree.at("nodes/a%2b%2")).unwrap();
    tree.write("nodes/d/d.yaml", &cluster("e", 1));
    let report = directory.load();
    assert_eq!(report.faults[0].scope, Scope::Nodes);
    assert_eq!(named(&catalog, None, Some("a/b")), ["a", "c"]);
    assert_eq!(named(&catalog, None, Some("d")), ["a", "e"]);
}

#[test]
fn a_change_of_comments_changes_nothing_but_the_place() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1))]);
    let mut directory = tree.directory();
    let catalog = directory.catalog();
    directory.load();
    let before = catalog.snapshot(None, None).unwrap();
    let line = || match catalog.entries().next().unwrap().entry.origin {
        Origin::File { position, .. } => position.line,
        other => panic!("{other} is no file"),
    };
    let first = line();
    tree.write("a.yaml", &format!("# why\n{}", cluster("a", 1)));
    let report = directory.load();
    assert_eq!(report.changed(), []);
    assert!(Arc::ptr_eq(&catalog.snapshot(None, None).unwrap(), &before));
    assert_eq!(line(), first + 1);
}

#[test]
fn an_unchanged_type_is_shared_with_the_snapshot_before() {
    let tree = Tree::with(&[("a.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &cluster("b", 1))]);
    let mut directory = tree.directory();
    let catalog = directory.catalog();
    directory.load();
    let before = catalog.snapshot(Some("g"), None).unwrap();
    tree.write("a.yaml", &documents(&[cluster("a", 1), cluster("z", 1)]));
    let report = directory.load();
    assert_eq!(report.changed(), [catalog.audience(Some("g"), None)]);
    let after = catalog.snapshot(Some("g"), None).unwrap();
    let changes: Vec<_> = before.set(&support::cds()).diff(after.set(&support::cds())).collect();
    assert_eq!(changes.len(), 1);
}

#[test]
fn every_resource_tells_where_it_is_written() {
    let tree = Tree::with(&[
        ("a.yaml", &documents(&[cluster("a", 1), cluster("b", 1)])),
        ("groups/g/c.yaml", &cluster("c", 1)),
    ]);
    let (catalog, _) = tree.load();
    let places: Vec<_> = catalog
        .entries()
        .map(|listed| {
            assert_eq!(listed.key.type_url, support::cds());
            let Origin::File { path, position } = listed.entry.origin else {
                panic!("{} is no file", listed.entry.origin)
            };
            let file = path.strip_prefix(tree.conf()).unwrap().display().to_string();
            (listed.layer, listed.key.name.to_string(), file, position.line)
        })
        .collect();
    let expected = [
        (Layer::Base, "a", "a.yaml", 1),
        (Layer::Base, "b", "a.yaml", 5),
        (Layer::Group("g".into()), "c", "groups/g/c.yaml", 1),
    ];
    let expected =
        expected.map(|(layer, name, file, line)| (layer, name.into(), file.into(), line));
    assert_eq!(places, expected);
}

#[test]
fn a_directory_that_is_for_others_than_it_seems_is_told() {
    let tree = Tree::with(&[
        ("groups/g/groups/h/a.yaml", &cluster("a", 1)),
        ("groups/two/b.yaml", &cluster("x", 1)),
        ("team/nodes/n/b.yaml", &cluster("b", 1)),
        ("shared/in/c.yaml", &cluster("c", 1)),
    ]);
    let link = |to: &str, at: &str| symlink(to, tree.at(at)).unwrap();
    link("../shared", "groups/one");
    // Two groups may have the same files.
    link("two", "groups/zwei");
    let (_, report) = tree.load();
    let told: Vec<_> = report.warnings.iter().map(|it| it.message.as_str()).collect();
    let seems = [
        "its files are for all of group `g`: only at the top of the directory `groups/` has layers",
        "is the same directory as",
        "its files are for every node: only at the top of the directory `nodes/` has layers",
    ];
    assert_eq!(told.len(), seems.len(), "{told:?}");
    for (told, seems) in told.iter().zip(seems) {
        assert!(told.starts_with(seems), "{told}");
    }
    assert!(told[1].contains("and not only for group `one`; move it out"), "{told:?}");
}

#[test]
fn a_directory_called_nearly_like_those_of_overlays_is_told() {
    let tree = Tree::with(&[
        ("group/edge/a.yaml", &cluster("a", 1)),
        ("Nodes/n/b.yaml", &cluster("b", 1)),
        ("notes/c.yaml", &cluster("c", 1)),
        ("team/deep/d.yaml", &cluster("d", 1)),
        ("groups/node/x/e.yaml", &cluster("e", 1)),
    ]);
    let (catalog, report) = tree.load();
    assert_eq!(named(&catalog, None, None), ["a", "b", "c", "d"]);
    let told: Vec<_> = report.warnings.iter().map(|it| (it.code, it.message.as_str())).collect();
    let for_all = "its files are for every node; did you mean";
    assert_eq!(
        told,
        [
            ("file/misplaced", format!("{for_all} `nodes/`?").as_str()),
            ("file/misplaced", format!("{for_all} `groups/`?").as_str())
        ]
    );
}
