//! Whatever is done to a directory, following it ends where a fresh load of it ends.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use chancery_catalog::Catalog;
use chancery_sources::{Directory, Options};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support;
use crate::support::{Followed, Tree, broken, cluster, documents};

#[derive(Clone, Debug)]
enum Op {
    Write(usize, String),
    Remove(usize),
    Rename(usize, usize),
    /// A file, through a link to another.
    Link(usize, usize),
    /// Written beside and renamed over the file, as it should be done.
    Replace(usize, String),
    /// A directory with all that is in it.
    Move(usize, usize),
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

/// A cluster, one that waits for endpoints, endpoints, routes to a cluster, a cluster of v2.
fn resource() -> impl Strategy<Value = String> {
    let parts = (0..8usize, 0..6usize, 1..4u32);
    parts.prop_map(|(kind, name, s)| {
        let name = ["a", "b", "c", "d", "e", "f"][name];
        let typed =
            |url: &str, rest: &str| format!("\"@type\": type.googleapis.com/{url}\n{rest}\n");
        match kind {
            0..3 => cluster(name, s),
            3 | 4 => {
                cluster(name, s) + "type: EDS\neds_cluster_config: { eds_config: { ads: {} } }\n"
            }
            5 => typed(
                "envoy.config.endpoint.v3.ClusterLoadAssignment",
                &format!("cluster_name: {name}\npolicy: {{ overprovisioning_factor: {s} }}"),
            ),
            6 => typed(
                "envoy.config.route.v3.RouteConfiguration",
                &format!(
                    "name: r\nvirtual_hosts: [{{ name: v, domains: ['*'], routes: \
                     [{{ match: {{ prefix: / }}, route: {{ cluster: {name} }} }}] }}]"
                ),
            ),
            _ => typed("envoy.api.v2.Cluster", &format!("name: {name}\nconnect_timeout: {s}s")),
        }
    })
}

fn text() -> impl Strategy<Value = String> {
    let several = vec(resource(), 2..4).prop_map(|all| documents(&all));
    let commented = resource().prop_map(|text| format!("# a line more\n{text}"));
    let rest = prop_oneof![
        Just(broken("a")),
        Just("[]\n".to_owned()),
        Just("[".to_owned()),
        Just(String::new()),
        Just("# nothing\n".to_owned()),
    ];
    prop_oneof![5 => resource(), 2 => several, 1 => commented, 1 => rest]
}

const DIRECTORIES: [&str; 6] =
    ["deep", "groups/g", "groups/g/deep", "groups/h", "groups/h/deep", "nodes/n"];

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..FILES.len(), text()).prop_map(|(file, text)| Op::Write(file, text)),
        8 => (0..FILES.len(), text()).prop_map(|(file, text)| Op::Replace(file, text)),
        1 => (0..FILES.len(), 0..FILES.len()).prop_map(|(from, to)| Op::Link(from, to)),
        3 => (0..FILES.len()).prop_map(Op::Remove),
        2 => (0..FILES.len(), 0..FILES.len()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => (0..DIRECTORIES.len(), 0..DIRECTORIES.len()).prop_map(|(from, to)| Op::Move(from, to)),
        1 => Just(Op::RemoveGroup),
        1 => Just(Op::SwapDirectory),
        4 => Just(Op::Load),
    ]
}

impl Op {
    /// Does it to the directory; what cannot be done is not.
    fn apply(&self, tree: &Tree) {
        match self {
            // Nothing is written through a link that leads nowhere, or in a circle.
            Self::Write(file, text) => {
                fs::create_dir_all(tree.at(FILES[*file]).parent().unwrap()).unwrap();
                drop(fs::write(tree.at(FILES[*file]), text));
            }
            Self::Replace(file, text) => {
                let path = tree.at(FILES[*file]);
                let beside = path.with_file_name(".new");
                support::write(&beside, text);
                drop(fs::rename(beside, path));
            }
            Self::Link(from, to) => {
                fs::create_dir_all(tree.at(FILES[*from]).parent().unwrap()).unwrap();
                drop(symlink(tree.at(FILES[*to]), tree.at(FILES[*from])));
            }
            Self::Remove(file) => drop(fs::remove_file(tree.at(FILES[*file]))),
            Self::Rename(from, to) => {
                fs::create_dir_all(tree.at(FILES[*to]).parent().unwrap()).unwrap();
                drop(fs::rename(tree.at(FILES[*from]), tree.at(FILES[*to])));
            }
            Self::Move(from, to) => {
                fs::create_dir_all(tree.at(DIRECTORIES[*to]).parent().unwrap()).unwrap();
                drop(fs::rename(tree.at(DIRECTORIES[*from]), tree.at(DIRECTORIES[*to])));
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

/// Has every file that says nothing say that it has no resources. Until then, what it had is in
/// force, which a first load does not know: the one thing in which the past counts.
fn say_so_where_nothing_is(tree: &Tree) {
    for path in FILES.map(|file| tree.at(file)) {
        let text = fs::read_to_string(&path).ok();
        if text.is_some_and(|text| text.is_empty() || text.starts_with("# nothing")) {
            fs::write(path, "[]\n").unwrap();
        }
    }
}

/// Returns true if every audience that a fresh load serves sees the same here.
fn agrees(live: &Catalog, fresh: &Catalog) -> bool {
    let groups = [None, Some("g"), Some("h")];
    let nodes = [None, Some("n/1"), Some("n")];
    let audiences = groups.into_iter().flat_map(|group| nodes.map(|node| (group, node)));
    audiences.into_iter().all(|(group, node)| {
        let wanted = fresh.snapshot(group, node);
        wanted.is_none() || live.snapshot(group, node) == wanted
    })
}

/// Where all that is loaded is written, if nothing is held back.
fn places(catalog: &Catalog) -> Option<Vec<String>> {
    let place = |listed: chancery_catalog::ListedEntry| format!("{listed:?}");
    catalog.held_back().is_empty().then(|| catalog.entries().map(place).collect())
}

fn options(tree: &Tree, v2: bool) -> Options {
    Options { v2, settle: Duration::from_millis(2), ..tree.options() }
}

/// The catalog of a source that loads the tree for the first time.
fn fresh(tree: &Tree, v2: bool) -> Catalog {
    let mut directory = Directory::new(options(tree, v2), support::schema());
    directory.load();
    directory.catalog()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn loads_in_between_leave_no_trace(ops in vec(op(), 0..30), v2 in any::<bool>()) {
        let tree = Tree::with(&[("keep.yaml", &cluster("keep", 1))]);
        let mut directory = Directory::new(options(&tree, v2), support::schema());
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
        say_so_where_nothing_is(&tree);
        directory.load();
        let fresh = fresh(&tree, v2);
        prop_assert!(agrees(&live, &fresh), "{live:?}");
        prop_assert_eq!(live.held_back(), fresh.held_back());
        prop_assert_eq!(places(&live), places(&fresh));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn events_alone_lead_to_the_same_end(ops in vec(op(), 0..40), v2 in any::<bool>()) {
        follow(&ops, v2);
    }
}

/// Follows a history by events, and waits until all is as a fresh load has it.
fn follow(ops: &[Op], v2: bool) {
    let tree = Tree::with(&[("keep.yaml", &cluster("keep", 1))]);
    let followed = Followed::new(options(&tree, v2));
    for op in ops {
        op.apply(&tree);
        if matches!(op, Op::Load) {
            say_so_where_nothing_is(&tree);
            let fresh = fresh(&tree, v2);
            followed.settled(|live| agrees(live, &fresh));
            live_asks(&followed.catalog);
        }
    }
    say_so_where_nothing_is(&tree);
    let fresh = fresh(&tree, v2);
    followed.settled(|live| {
        agrees(live, &fresh)
            && live.held_back() == fresh.held_back()
            && places(live) == places(&fresh)
    });
}

#[test]
fn a_v2_form_that_was_left_out_comes_when_the_written_one_goes() {
    let written = "\"@type\": type.googleapis.com/envoy.api.v2.Cluster\n\
                   name: a\nconnect_timeout: 9s\n";
    let both = [Op::Write(0, cluster("a", 1)), Op::Write(1, written.to_owned()), Op::Load];
    follow(&[&both[..], &[Op::Remove(1)]].concat(), true);
}

#[test]
fn a_resource_that_moves_with_the_lines_above_it_is_told_where_it_is() {
    let text = documents(&[cluster("a", 1), cluster("b", 1)]);
    let lower = format!("# one line more\n{text}");
    follow(&[Op::Write(0, text), Op::Load, Op::Write(0, lower)], false);
}

/// An audience that somebody asked for is brought along by every load after.
fn live_asks(catalog: &Catalog) {
    for (group, node) in [(None, None), (Some("g"), Some("n")), (None, Some("n/1"))] {
        catalog.snapshot(group, node);
    }
}
