//! A gate holds back what an audience would see next, that audience's and no other's.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use chancery_catalog::{
    Audience, Catalog, ChangeSet, Entry, Gate, Hold, Key, Layer, Lineage, Origin, Seen,
};
use chancery_core::{Resource, TypeUrl};

/// A gate that holds whatever takes a cluster away, except for audiences that may lose some.
#[derive(Clone, Default)]
struct NoLoss {
    may_lose: Arc<Mutex<BTreeSet<Audience>>>,
}

impl NoLoss {
    fn confirm(&self, audience: &Audience) {
        self.may_lose.lock().unwrap().insert(audience.clone());
    }
}

impl Gate for NoLoss {
    fn lets_pass(&self, audience: &Audience, before: Option<&Seen>, after: &Seen) -> bool {
        let may_lose = self.may_lose.lock().unwrap().contains(audience);
        may_lose || before.is_none_or(|before| before.snapshot().len() <= after.snapshot().len())
    }
}

fn clusters() -> TypeUrl {
    TypeUrl::known().find(|type_url| type_url.short() == "cds").unwrap()
}

fn group(name: &str) -> Layer {
    Layer::Group(name.into())
}

fn of_group(name: &str) -> Audience {
    Audience::of(Some(name.into()), None)
}

fn put(changes: &mut ChangeSet, layer: &Layer, name: &str, body: &str) {
    let resource = Resource::new(name.parse().unwrap(), body.as_bytes().to_vec().into());
    changes.put(layer, &clusters(), Entry::new(resource, Origin::program("test")));
}

fn key(name: &str) -> Key {
    Key { type_url: clusters(), name: name.parse().unwrap() }
}

fn change(edit: impl FnOnce(&mut ChangeSet)) -> ChangeSet {
    let mut changes = ChangeSet::new("test");
    edit(&mut changes);
    changes
}

/// The clusters that a node sees, each with its body: `a=1`.
fn seen(catalog: &Catalog, group: Option<&str>, node: Option<&str>) -> Vec<String> {
    let snapshot = catalog.snapshot(group, node).unwrap();
    let set = snapshot.set(&clusters());
    let mut all: Vec<_> = set
        .iter()
        .map(|it| format!("{}={}", it.name(), String::from_utf8_lossy(it.body())))
        .collect();
    all.sort();
    all
}

/// Base with `a` and `b`, group `g` with `c` of its own, group `h` with nothing of its own.
fn gated() -> (Catalog, NoLoss) {
    let gate = NoLoss::default();
    let catalog = Catalog::gated(gate.clone());
    catalog.commit(change(|it| {
        put(it, &Layer::Base, "a", "1");
        put(it, &Layer::Base, "b", "1");
        put(it, &group("g"), "c", "1");
        it.add_layer(&group("h"));
    }));
    (catalog, gate)
}

#[test]
fn what_is_held_from_one_group_goes_live_for_the_others() {
    let (catalog, _) = gated();
    let revision = catalog.commit(change(|it| {
        it.remove(&group("g"), key("c"));
        put(it, &Layer::Base, "a", "2");
    }));
    assert_eq!(catalog.held_audiences(), [of_group("g")]);
    assert_eq!(seen(&catalog, Some("g"), None), ["a=1", "b=1", "c=1"], "one state, whole");
    assert_eq!(seen(&catalog, Some("h"), None), ["a=2", "b=1"]);
    assert_eq!(seen(&catalog, None, None), ["a=2", "b=1"]);
    assert!(!revision.unwrap().changed.contains(&of_group("g")));
    // A state that is right again goes live, with all that came meanwhile.
    let revision = catalog.commit(change(|it| put(it, &group("g"), "d", "1")));
    assert_eq!(catalog.held_audiences(), []);
    assert_eq!(seen(&catalog, Some("g"), None), ["a=2", "b=1", "d=1"]);
    assert!(revision.unwrap().changed.contains(&of_group("g")));
}

#[test]
fn a_held_audience_is_judged_by_what_it_sees_and_not_by_the_last_attempt() {
    let (catalog, _) = gated();
    catalog.commit(change(|it| it.remove(&Layer::Base, key("a"))));
    assert_eq!(catalog.held_audiences(), [Audience::default(), of_group("g"), of_group("h")]);
    catalog.commit(change(|it| put(it, &Layer::Base, "b", "2")));
    assert_eq!(catalog.held_audiences().len(), 3, "one less than what it sees, still");
    assert_eq!(seen(&catalog, Some("h"), None), ["a=1", "b=1"]);
    catalog.commit(change(|it| put(it, &Layer::Base, "z", "1")));
    assert_eq!(catalog.held_audiences(), []);
    assert_eq!(seen(&catalog, Some("h"), None), ["b=2", "z=1"]);
}

#[test]
fn the_nodes_of_a_group_are_held_with_it_and_may_be_held_alone() {
    let (catalog, _) = gated();
    let node = Layer::Node("n".into());
    catalog.commit(change(|it| put(it, &node, "own", "1")));
    assert_eq!(seen(&catalog, Some("g"), Some("n")), ["a=1", "b=1", "c=1", "own=1"]);
    catalog.commit(change(|it| it.remove(&node, key("own"))));
    let of_node = Audience::of(Some("g".into()), Some("n".into()));
    assert_eq!(catalog.held_audiences(), [of_node]);
    assert_eq!(seen(&catalog, Some("g"), Some("n")), ["a=1", "b=1", "c=1", "own=1"]);
    catalog.commit(change(|it| {
        put(it, &node, "own", "2");
        it.remove(&group("g"), key("c"));
    }));
    assert!(catalog.held_audiences().contains(&of_group("g")));
    assert_eq!(seen(&catalog, Some("g"), Some("n")), ["a=1", "b=1", "c=1", "own=1"]);
    assert_eq!(seen(&catalog, Some("g"), Some("m")), ["a=1", "b=1", "c=1"]);
}

#[test]
fn what_is_not_seen_because_of_a_layer_is_told_with_that_layer() {
    let (catalog, _) = gated();
    let node = Layer::Node("n".into());
    catalog.commit(change(|it| put(it, &node, "own", "1")));
    assert_eq!(seen(&catalog, Some("g"), Some("n")), ["a=1", "b=1", "c=1", "own=1"]);
    catalog.commit(change(|it| it.remove(&node, key("own"))));
    assert!(catalog.unseen().is_empty(), "no layer is held back");
    let unseen = || {
        let all = catalog.unseen().into_iter();
        all.map(|(layer, it)| (layer.to_string(), it.count)).collect::<Vec<_>>()
    };
    let is_of = |layer: &Layer, count| (layer.to_string(), count);
    catalog.commit(change(|it| it.hold(Hold::Layer(node.clone()))));
    assert_eq!(unseen(), [is_of(&node, 1)], "the gate held it before");
    // An edit of base is seen by the others; one of a group waits while base is held.
    catalog.commit(change(|it| put(it, &Layer::Base, "a", "2")));
    assert_eq!(unseen(), [is_of(&node, 2)]);
    let before = catalog.unseen()[&node].digest;
    catalog.commit(change(|it| put(it, &Layer::Base, "a", "3")));
    assert_eq!(unseen(), [is_of(&node, 2)]);
    assert_ne!(catalog.unseen()[&node].digest, before);
    catalog.commit(change(|it| it.hold(Hold::Layer(Layer::Base))));
    catalog.commit(change(|it| {
        put(it, &group("g"), "d", "1");
        put(it, &group("h"), "e", "1");
    }));
    assert_eq!(unseen(), [is_of(&Layer::Base, 4), is_of(&node, 3)]);
    catalog.commit(change(|it| {
        it.release(Hold::Layer(Layer::Base));
        it.release(Hold::Layer(node.clone()));
    }));
    assert_eq!(unseen(), []);
}

#[test]
fn a_group_whose_layer_is_gone_stays_until_it_is_let_go() {
    let (catalog, gate) = gated();
    assert_eq!(seen(&catalog, Some("g"), None), ["a=1", "b=1", "c=1"]);
    catalog.commit(change(|it| it.remove_layer(&group("g"))));
    assert_eq!(catalog.held_audiences(), [of_group("g")]);
    assert_eq!(catalog.audience(Some("g"), None), of_group("g"));
    assert!(catalog.groups().contains("g"), "new nodes of the group belong to it too");
    assert_eq!(seen(&catalog, Some("g"), None), ["a=1", "b=1", "c=1"]);
    assert!(catalog.judge_again("test").is_none(), "the gate says what it said");
    gate.confirm(&of_group("g"));
    let revision = catalog.judge_again("test").unwrap();
    assert!(!revision.reassigned.is_nobody());
    assert_eq!(catalog.held_audiences(), []);
    assert_eq!(catalog.audience(Some("g"), None), Audience::default());
    assert!(!catalog.groups().contains("g"));
    assert_eq!(seen(&catalog, Some("g"), None), ["a=1", "b=1"]);
}

#[test]
fn the_first_state_of_an_audience_is_compared_with_nothing() {
    let (catalog, _) = gated();
    assert_eq!(catalog.held_audiences(), []);
    catalog.commit(change(|it| it.add_layer(&group("new"))));
    assert_eq!(catalog.held_audiences(), []);
    assert_eq!(seen(&catalog, Some("new"), None), ["a=1", "b=1"]);
}

#[test]
fn a_lineage_that_takes_something_away_is_held_from_whom_it_concerns() {
    let (catalog, gate) = gated();
    let lineage = |extends: &[(&str, &str)]| Lineage::new(extends.iter().copied()).unwrap();
    let revision = catalog.extend(lineage(&[("h", "g")]), "test").unwrap();
    assert_eq!(revision.changed, [of_group("h")]);
    assert_eq!(seen(&catalog, Some("h"), None), ["a=1", "b=1", "c=1"]);
    assert_eq!(seen(&catalog, Some("g"), None), ["a=1", "b=1", "c=1"]);
    catalog.commit(change(|it| put(it, &group("g"), "c", "2")));
    assert_eq!(seen(&catalog, Some("h"), None), ["a=1", "b=1", "c=2"]);
    catalog.extend(Lineage::default(), "test");
    assert_eq!(catalog.held_audiences(), [of_group("h")]);
    assert_eq!(seen(&catalog, Some("h"), None), ["a=1", "b=1", "c=2"]);
    catalog.commit(change(|it| put(it, &group("g"), "c", "3")));
    assert_eq!(seen(&catalog, Some("h"), None), ["a=1", "b=1", "c=2"], "one state, whole");
    gate.confirm(&of_group("h"));
    catalog.judge_again("test");
    assert_eq!(seen(&catalog, Some("h"), None), ["a=1", "b=1"]);
}

#[test]
fn the_nodes_of_a_group_without_a_layer_belong_to_the_one_that_it_extends() {
    let (catalog, _) = gated();
    assert_eq!(catalog.audience(Some("new"), None), Audience::default());
    let revision = catalog.extend(Lineage::new([("new", "g")]).unwrap(), "test").unwrap();
    assert!(!revision.reassigned.is_nobody());
    assert_eq!(catalog.audience(Some("new"), None), of_group("g"));
    catalog.commit(change(|it| put(it, &group("new"), "own", "1")));
    assert_eq!(catalog.audience(Some("new"), None), of_group("new"));
    assert_eq!(seen(&catalog, Some("new"), None), ["a=1", "b=1", "c=1", "own=1"]);
}

/// A gate that lets everything pass, and remembers for whom it was asked.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Audience>>>);

impl Gate for Asked {
    fn lets_pass(&self, audience: &Audience, _: Option<&Seen>, _: &Seen) -> bool {
        self.0.lock().unwrap().push(audience.clone());
        true
    }
}

#[test]
fn the_gate_is_asked_for_those_whom_a_commit_concerns() {
    let asked = Asked::default();
    let catalog = Catalog::gated(asked.clone());
    let take = || std::mem::take(&mut *asked.0.lock().unwrap());
    let node = Layer::Node("n".into());
    catalog.commit(change(|it| {
        put(it, &Layer::Base, "a", "1");
        it.add_layer(&group("g"));
        it.add_layer(&group("h"));
        put(it, &node, "own", "1");
    }));
    assert_eq!(take(), [Audience::default(), of_group("g"), of_group("h")]);
    catalog.commit(change(|it| it.add_layer(&group("short"))));
    catalog.commit(change(|it| put(it, &group("short"), "s", "1")));
    take();
    catalog.commit(change(|it| it.remove_layer(&group("short"))));
    assert_eq!(take(), [of_group("short")]);
    catalog.commit(change(|it| put(it, &group("g"), "b", "1")));
    assert_eq!(take(), [of_group("g")]);
    catalog.commit(change(|it| put(it, &node, "own", "2")));
    assert_eq!(take(), [], "nobody has asked for the node");
    let of_node = Audience::of(Some("g".into()), Some("n".into()));
    let seen = catalog.snapshot(Some("g"), Some("n"));
    catalog.commit(change(|it| put(it, &node, "own", "3")));
    assert_eq!(take(), [of_node]);
    drop(seen);
    for number in ["4", "5", "6"] {
        catalog.commit(change(|it| put(it, &node, "own", number)));
    }
    take();
    catalog.commit(change(|it| put(it, &node, "own", "7")));
    assert_eq!(take(), [], "nobody holds its view any more");
    catalog.commit(change(|it| put(it, &Layer::Base, "a", "2")));
    assert_eq!(take(), [Audience::default(), of_group("g"), of_group("h")]);
}
