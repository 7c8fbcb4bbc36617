//! The changes that a commit makes, and the audiences that see them.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_catalog::{
    Audience, Catalog, ChangeSet, Entry, Hold, Key, Layer, Origin, Reassigned, Revision,
};
use chancery_core::{Resource, Snapshot, TypeUrl};
use proptest::collection::vec;
use proptest::prelude::*;

fn cds() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

fn entry(name: &str, body: u8) -> Entry {
    let resource = Resource::new(name.parse().unwrap(), vec![body].into());
    Entry::new(resource, Origin::program("test"))
}

fn key(name: &str) -> Key {
    Key { type_url: cds(), name: name.parse().unwrap() }
}

fn group(name: &str) -> Layer {
    Layer::Group(name.into())
}

fn node(id: &str) -> Layer {
    Layer::Node(id.into())
}

fn changes(edit: impl FnOnce(&mut ChangeSet)) -> ChangeSet {
    let mut changes = ChangeSet::new("test");
    edit(&mut changes);
    changes
}

fn put(catalog: &Catalog, layer: &Layer, name: &str, body: u8) -> Arc<Revision> {
    commit(catalog, |changes| changes.put(layer, &cds(), entry(name, body)))
}

/// Commits what changes something.
fn commit(catalog: &Catalog, edit: impl FnOnce(&mut ChangeSet)) -> Arc<Revision> {
    catalog.commit(changes(edit)).unwrap()
}

/// The names and bodies that a node sees.
fn seen(catalog: &Catalog, group: Option<&str>, node: Option<&str>) -> Vec<(String, u8)> {
    let snapshot = catalog.snapshot(group, node).unwrap();
    let all = snapshot.set(&cds()).iter();
    all.map(|resource| (resource.name().to_string(), resource.body()[0])).collect()
}

#[test]
fn a_revision_says_who_changed_what_and_who_sees_it() {
    let catalog = Catalog::new();
    assert_eq!(catalog.revision(), None);
    put(&catalog, &Layer::Base, "a", 1);
    let eu = put(&catalog, &group("eu"), "b", 1);
    assert_eq!((eu.number, eu.author.as_str()), (2, "test"));
    assert_eq!(eu.layers, [group("eu")]);
    assert_eq!(eu.changed, [], "nobody asked so far");
    let (base, eu) = (catalog.audience(None, None), catalog.audience(Some("eu"), None));
    let _shown = [catalog.seen_by(&base), catalog.seen_by(&eu)];
    assert_eq!(put(&catalog, &group("eu"), "b", 2).changed, from_ref(&eu));
    let _shown = [catalog.seen_by(&base), catalog.seen_by(&eu)];
    assert_eq!(put(&catalog, &Layer::Base, "b", 1).changed, from_ref(&base), "eu has its own");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(7);
    let both = catalog
        .commit(changes(|changes| changes.put(&Layer::Base, &cds(), entry("c", 1))).at(time));
    let both = both.unwrap();
    assert_eq!((both.time, both.changed.clone()), (time, vec![base, eu]));
    assert_eq!(catalog.revision(), Some(both));
    assert_eq!(
        seen(&catalog, Some("eu"), None),
        [("a".into(), 1), ("b".into(), 2), ("c".into(), 1)]
    );
}

#[test]
fn the_first_commit_shows_base_even_if_it_is_empty() {
    let catalog = Catalog::new();
    assert!(catalog.snapshot(None, None).is_none());
    let first = commit(&catalog, |_| {});
    assert_eq!((first.number, first.reassigned.clone()), (1, Reassigned::Everybody));
    assert!(catalog.snapshot(None, None).unwrap().is_empty());
}

#[test]
fn what_is_said_again_changes_nothing() {
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "a", 1);
    put(&catalog, &group("g"), "b", 1);
    let before = catalog.snapshot(None, None).unwrap();
    let content = catalog.revision().unwrap().content;
    let again = catalog.commit(changes(|changes| {
        changes.put(&Layer::Base, &cds(), entry("a", 1));
        changes.remove(&Layer::Base, key("gone"));
        changes.replace_layer(&group("g"), BTreeMap::from([(key("b"), entry("b", 1))]));
        changes.remove_layer(&node("nobody"));
        changes.release(Hold::Layer(Layer::Base));
    }));
    assert_eq!(again, None);
    assert!(Arc::ptr_eq(&catalog.snapshot(None, None).unwrap(), &before));
    let moved = Entry { origin: Origin::Key { key: "/b".into() }, ..entry("a", 1) };
    let moved = commit(&catalog, |changes| changes.put(&Layer::Base, &cds(), moved));
    assert_eq!((moved.number, moved.content, &moved.changed[..]), (3, content, &[][..]));
    assert!(Arc::ptr_eq(&catalog.snapshot(None, None).unwrap(), &before));
}

#[test]
fn a_held_layer_keeps_its_audience_and_lets_the_others_go_on() {
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "a", 1);
    put(&catalog, &group("g"), "b", 1);
    let held = commit(&catalog, |changes| changes.hold(Hold::Layer(group("g"))));
    assert_eq!(held.layers, []);
    assert_eq!(catalog.held_back(), [group("g")]);
    put(&catalog, &Layer::Base, "a", 2);
    put(&catalog, &group("g"), "b", 2);
    assert_eq!(seen(&catalog, None, None), [("a".into(), 2)]);
    assert_eq!(seen(&catalog, Some("g"), Some("n")), [("a".into(), 1), ("b".into(), 1)]);
    let listed: Vec<_> =
        catalog.entries().map(|listed| listed.entry.resource().unwrap().body()[0]).collect();
    assert_eq!(listed, [2, 1], "of a layer that is held back, what is still served");
    let released = commit(&catalog, |changes| changes.release(Hold::Layer(group("g"))));
    assert_eq!(released.changed, [catalog.audience(Some("g"), None)]);
    assert_eq!(seen(&catalog, Some("g"), None), [("a".into(), 2), ("b".into(), 2)]);
}

#[test]
fn a_layer_that_was_never_good_is_served_to_nobody() {
    let catalog = Catalog::new();
    let first = changes(|changes| {
        changes.put(&Layer::Base, &cds(), entry("a", 1));
        changes.hold(Hold::Layer(group("g")));
        changes.hold(Hold::UnlistedNodes);
    });
    catalog.commit(first);
    let (known, unknown) = (catalog.audience(Some("g"), None), catalog.audience(None, Some("n")));
    assert_eq!(unknown, Audience::of(None, Some("n".into())));
    assert!(!catalog.is_served(&known) && !catalog.is_served(&unknown));
    assert!(catalog.seen_by(&known).is_none());
    assert!(catalog.is_served(&Audience::default()));
    let listed = commit(&catalog, |changes| changes.release(Hold::UnlistedNodes));
    assert_eq!(listed.reassigned, Reassigned::Everybody);
    assert_eq!(catalog.audience(None, Some("n")), Audience::default());
    let good = commit(&catalog, |changes| changes.release(Hold::Layer(group("g"))));
    assert_eq!(good.changed, [known], "somebody asked for it when there was nothing to see");
}

#[test]
fn overlays_that_come_and_go_reassign_their_nodes() {
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "a", 1);
    let came = commit(&catalog, |changes| {
        changes.add_layer(&group("g"));
        changes.put(&node("n"), &cds(), entry("b", 1));
    });
    assert_eq!(came.reassigned, Reassigned::Overlays(vec![group("g"), node("n")]));
    assert!(put(&catalog, &group("g"), "c", 1).reassigned.is_nobody());
    assert_eq!(catalog.audience(Some("g"), Some("n")).to_string(), "node `n` in group `g`");
    // While something else is held back, the state before may be needed, and its audiences are.
    commit(&catalog, |changes| changes.hold(Hold::Layer(group("h"))));
    let gone = commit(&catalog, |changes| changes.remove_layer(&node("n")));
    assert_eq!(gone.reassigned, Reassigned::Overlays(vec![node("n")]));
    assert_eq!(catalog.audience(None, Some("n")).node.as_deref(), Some("n"));
    let released = commit(&catalog, |changes| changes.remove_layer(&group("h")));
    assert_eq!(released.reassigned, Reassigned::Overlays(vec![group("h"), node("n")]));
    assert_eq!(catalog.audience(None, Some("n")), Audience::default());
}

#[test]
fn an_audience_nobody_needs_is_not_brought_along() {
    let catalog = Catalog::new();
    put(&catalog, &node("n"), "a", 1);
    let audience = catalog.audience(None, Some("n"));
    let first = catalog.seen_by(&audience);
    for body in 2..5 {
        assert_eq!(put(&catalog, &node("n"), "a", body).changed, from_ref(&audience));
        // As whoever shows it does.
        drop(catalog.seen_by(&audience));
    }
    assert_eq!(first.map(|seen| seen.revision), Some(1));
    put(&catalog, &node("n"), "a", 5);
    assert_eq!(put(&catalog, &node("n"), "a", 6).changed, []);
    assert_eq!(seen(&catalog, None, Some("n")), [("a".into(), 6)]);
}

#[test]
fn base_loses_its_resources_and_stays() {
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "a", 1);
    let empty = commit(&catalog, |changes| changes.remove_layer(&Layer::Base));
    assert_eq!(empty.layers, [Layer::Base]);
    assert_eq!(seen(&catalog, None, None), []);
    assert_eq!(empty.content, commit(&Catalog::new(), |_| {}).content);
}

/// Shows what a revision says to have changed, and nothing else. Nodes of audiences that are not
/// possible any more are reassigned.
fn show(
    catalog: &Catalog,
    revision: Option<Arc<Revision>>,
    shown: &mut BTreeMap<Audience, Arc<Snapshot>>,
) {
    shown.retain(|audience, _| {
        catalog.audience(audience.group.as_deref(), audience.node.as_deref()) == *audience
    });
    for audience in revision.iter().flat_map(|revision| &revision.changed) {
        if let Some(snapshot) = shown.get_mut(audience) {
            *snapshot = catalog.seen_by(audience).unwrap().snapshot;
        }
    }
}

/// One step of a source, drawn at random.
#[derive(Clone, Debug)]
enum Step {
    Set(usize, usize, Option<u8>),
    Remove(usize),
    Hold(usize),
    Release(usize),
    Ask(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let layer = || 0..5usize;
    prop_oneof![
        8 => (layer(), 0..4usize, proptest::option::weighted(0.7, 0..4u8))
            .prop_map(|(layer, name, body)| Step::Set(layer, name, body)),
        1 => layer().prop_map(Step::Remove),
        1 => layer().prop_map(Step::Hold),
        2 => layer().prop_map(Step::Release),
        3 => (0..3usize, 0..3usize).prop_map(|(group, node)| Step::Ask(group, node)),
    ]
}

fn layers() -> [Layer; 5] {
    [Layer::Base, group("g"), group("h"), node("m"), node("n")]
}

const GROUPS: [Option<&str>; 3] = [None, Some("g"), Some("h")];
const NODES: [Option<&str>; 3] = [None, Some("m"), Some("n")];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_came_before_equal_content_looks_the_same(steps in vec(step(), 0..40)) {
        let (live, layers) = (Catalog::new(), layers());
        let mut contents: BTreeMap<Layer, BTreeMap<Key, Entry>> = BTreeMap::new();
        let mut shown = BTreeMap::new();
        for step in steps {
            let mut changes = ChangeSet::new("test");
            match step {
                Step::Set(layer, name, body) => {
                    let entry = body.map(|body| entry(NAMES[name], body));
                    changes.set(&layers[layer], key(NAMES[name]), entry.clone());
                    let content = contents.entry(layers[layer].clone()).or_default();
                    match entry {
                        Some(entry) => drop(content.insert(key(NAMES[name]), entry)),
                        None => drop(content.remove(&key(NAMES[name]))),
                    }
                }
                Step::Remove(layer) => {
                    changes.remove_layer(&layers[layer]);
                    contents.remove(&layers[layer]);
                }
                Step::Hold(layer) => changes.hold(Hold::Layer(layers[layer].clone())),
                Step::Release(layer) => changes.release(Hold::Layer(layers[layer].clone())),
                Step::Ask(group, node) => {
                    let audience = live.audience(GROUPS[group], NODES[node]);
                    if let Some(seen) = live.seen_by(&audience) {
                        shown.insert(audience, seen.snapshot);
                    }
                }
            }
            show(&live, live.commit(changes), &mut shown);
        }
        let mut last = ChangeSet::new("test");
        for layer in &layers {
            last.release(Hold::Layer(layer.clone()));
        }
        show(&live, live.commit(last), &mut shown);
        for (audience, snapshot) in &shown {
            let now = live.seen_by(audience).map(|seen| seen.snapshot);
            prop_assert!(now.is_some_and(|now| Arc::ptr_eq(&now, snapshot)), "{}", audience);
        }
        let fresh = Catalog::new();
        let mut all = ChangeSet::new("somebody else");
        for (layer, content) in contents {
            all.replace_layer(&layer, content);
        }
        fresh.commit(all);
        prop_assert_eq!(live.revision().unwrap().content, fresh.revision().unwrap().content);
        for (group, node) in GROUPS.iter().flat_map(|group| NODES.map(|node| (*group, node))) {
            prop_assert_eq!(live.snapshot(group, node), fresh.snapshot(group, node));
        }
    }
}
