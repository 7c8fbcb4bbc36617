//! Values that differ by node: after any history, also of which group extends which, each node sees what it
//! would see if its values were written in the layers that declare them, and a revision names those who see
//! something else.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use chancery_catalog::{
    Audience, Catalog, ChangeSet, Entry, EntryContent, Key, Layer, Lineage, Origin, Revision,
    Unstated,
};
use chancery_core::{Node, Snapshot, TypeUrl, Value};
use chancery_proto::Schema;
use chancery_proto::document::{Checks, Format, Parsed, ResourceEdit, RuleCheck, parse_checked};
use proptest::collection::vec;
use proptest::prelude::*;

/// The word of a layer about a cluster. A number is a timeout, and those that are set differ by node.
#[derive(Clone, Debug)]
enum Said {
    Whole { timeout: u8, set: Set },
    Patch { timeout: Option<u8>, set: Set },
    Removal,
}

/// The fields that are filled with a value of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    stat_name: bool,
    timeout: bool,
}

/// A layer, a cluster, and what the layer says of it.
type Edit = (usize, usize, Option<Said>);

const NAMES: usize = 24;
const GROUPS: [Option<&str>; 3] = [None, Some("g"), Some("a")];
const LINEAGES: [&[(&str, &str)]; 3] = [&[], &[("a", "g")], &[("g", "a")]];
const IDS: [&str; 3] = ["m", "n", "o"];
/// The values of three nodes; two of them state the same.
const STATED: [(&str, &str); 3] = [("x", "3s"), ("y", "4s"), ("x", "3s")];

fn layers() -> [Layer; 4] {
    [Layer::Base, Layer::Group("g".into()), Layer::Group("a".into()), Layer::Node("m".into())]
}

fn clusters() -> TypeUrl {
    TypeUrl::new("type.googleapis.com/envoy.config.cluster.v3.Cluster")
}

fn key(name: usize) -> Key {
    Key { type_url: clusters(), name: format!("n{name:02}").parse().unwrap() }
}

fn node(at: usize) -> Node {
    let (name, timeout) = STATED[at];
    let text = |text: &str| Value::Text(text.to_owned());
    let metadata = [("name", text(name)), ("timeout", text(timeout))];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Node { id: IDS[at].to_owned(), metadata: Arc::new(metadata), ..Node::default() }
}

/// The entry of what a layer says, with values to be filled, or as it would be written for a node.
fn entry(name: usize, said: &Said, written_for: Option<usize>) -> Entry {
    let origin = Origin::program("test");
    let (set, is_whole) = match said {
        Said::Whole { set, .. } => (*set, true),
        Said::Patch { set, .. } => (*set, false),
        Said::Removal => return Entry::of(EntryContent::Removal(key(name).name), origin),
    };
    let mut fields = vec![format!("name: n{name:02}")];
    let written = written_for.map(|at| STATED[at]);
    let timeout = written.filter(|_| set.timeout).map(|(_, timeout)| timeout.to_owned());
    let plain = match said {
        Said::Whole { timeout, .. } | Said::Patch { timeout: Some(timeout), .. } => {
            Some(format!("{}s", timeout + 1))
        }
        _ => None,
    };
    fields.extend(timeout.or(plain).map(|timeout| format!("connect_timeout: {timeout}")));
    let stat = written.filter(|_| set.stat_name);
    fields.extend(stat.map(|(name, _)| format!("alt_stat_name: s-{name}")));
    let message = format!("{{\"@type\": {}, {}}}", clusters(), fields.join(", "));
    let mut text = if is_whole { message } else { format!("patch: [{message}]") };
    let mut values = Vec::new();
    if written_for.is_none() && set.stat_name {
        values.push("alt_stat_name: 's-${node.metadata.name}'");
    }
    if written_for.is_none() && set.timeout {
        values.push("connect_timeout: '${node.metadata.timeout}'");
    }
    if !values.is_empty() {
        let set = values.join(", ");
        text += &format!("\n---\nvalues: [{{type: cds, name: n{name:02}, set: {{{set}}}}}]");
    }
    let parsed = parsed(text);
    let (content, values) = match (&parsed.resources[..], &parsed.edits[..]) {
        ([whole], []) => (EntryContent::Whole(Arc::clone(&whole.resource)), &whole.values),
        ([], [edit]) => match &edit.edit {
            ResourceEdit::Patch(patch) => (EntryContent::Patch(Arc::clone(patch)), &edit.values),
            ResourceEdit::Remove => panic!("no patch"),
        },
        other => panic!("{other:?}"),
    };
    Entry::of(content, origin).with_values(values.clone())
}

/// A text as it is read. There are few, and each is used in many histories.
fn parsed(text: String) -> Arc<Parsed> {
    static KNOWN: Mutex<Option<HashMap<String, Arc<Parsed>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap();
    let known = known.get_or_insert_default().entry(text);
    let parsed = known.or_insert_with_key(|text| {
        let checks = Checks { rules: RuleCheck::Fault, ..Checks::default() };
        let parsed = parse_checked(&Schema::bundled(), Format::Yaml, text.as_bytes(), checks);
        assert!(parsed.faults.is_empty() && parsed.violations.is_empty(), "{text}: {parsed:?}");
        Arc::new(parsed)
    });
    Arc::clone(parsed)
}

fn edit() -> impl Strategy<Value = Edit> {
    let set = || {
        let one = || proptest::bool::weighted(0.3);
        (one(), one()).prop_map(|(stat_name, timeout)| Set { stat_name, timeout })
    };
    let said = prop_oneof![
        3 => (0..3_u8, set()).prop_map(|(timeout, set)| Said::Whole { timeout, set }),
        3 => (proptest::option::of(0..3_u8), set())
            .prop_map(|(timeout, set)| Said::Patch { timeout, set }),
        1 => Just(Said::Removal),
    ];
    let name = prop_oneof![1 => 0..NAMES, 3 => 0..4_usize];
    (0..4_usize, name, proptest::option::weighted(0.8, said))
}

fn first() -> impl Iterator<Item = Edit> {
    let said = Said::Whole { timeout: 9, set: Set::default() };
    (0..NAMES).filter(|name| name % 2 == 0).map(move |name| (0, name, Some(said.clone())))
}

fn step() -> impl Strategy<Value = (Vec<Edit>, Option<usize>)> {
    (vec(edit(), 1..4), proptest::option::weighted(0.3, 0..LINEAGES.len()))
}

type Seen = BTreeMap<Audience, Arc<Snapshot>>;

/// Checks that the revisions name the audiences that see something else, and no others, and that somebody is
/// asked again if a node belongs elsewhere.
fn check_named(shown: &Seen, now: &Seen, revisions: &[Arc<Revision>]) -> Result<(), TestCaseError> {
    for (audience, before) in shown {
        let Some(after) = now.get(audience) else { continue };
        let is_named = revisions.iter().any(|it| it.changed.contains(audience));
        prop_assert_eq!(is_named, !Arc::ptr_eq(before, after), "{:?}", audience);
    }
    let is_asked = revisions.iter().any(|it| !it.reassigned.is_nobody());
    let with_values = |seen: &Seen| -> Vec<_> {
        seen.keys().filter(|audience| audience.values.is_some()).cloned().collect()
    };
    prop_assert!(is_asked || shown.is_empty() || with_values(shown) == with_values(now));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_node_sees_what_it_would_see_if_its_values_were_written(history in vec(step(), 1..10)) {
        let (live, layers) = (Catalog::new(), layers());
        let mut contents: BTreeMap<Layer, BTreeMap<usize, Said>> = BTreeMap::new();
        let mut shown = Seen::new();
        for (edits, lineage) in std::iter::once((first().collect(), None)).chain(history) {
            let mut changes = ChangeSet::new("test");
            for (layer, name, said) in edits {
                let layer = &layers[layer];
                let made = said.as_ref().map(|said| entry(name, said, None));
                changes.set(layer, key(name), made);
                let content = contents.entry(layer.clone()).or_default();
                match said {
                    Some(said) => drop(content.insert(name, said)),
                    None => drop(content.remove(&name)),
                }
            }
            let mut revisions: Vec<_> = live.commit(changes).into_iter().collect();
            if let Some(at) = lineage {
                let lineage = Lineage::new(LINEAGES[at].iter().copied()).unwrap();
                revisions.extend(live.extend(lineage, "test"));
            }
            let mut now = Seen::new();
            for at in 0..STATED.len() {
                let mut all = ChangeSet::new("somebody else");
                for (layer, content) in &contents {
                    let entries = content.iter().map(|(name, said)| (key(*name), entry(*name, said, Some(at))));
                    all.replace_layer(layer, entries.collect());
                }
                let written = Catalog::new();
                prop_assert!(written.extend(live.lineage(), "test").is_none());
                written.commit(all);
                for group in GROUPS {
                    let node = node(at);
                    let audience = live.audience_of(group, Some(&node)).unwrap();
                    let seen = live.seen_by(&audience).unwrap().snapshot;
                    let expected = written.snapshot(group, Some(&node.id)).unwrap();
                    prop_assert_eq!(&seen, &expected, "{:?} {}", audience, node.id);
                    now.insert(audience, seen);
                }
            }
            if lineage.is_none() {
                check_named(&shown, &now, &revisions)?;
            }
            shown = now;
        }
    }
}

/// A catalog with a cluster in base, and a patch of it in a group, with values.
fn catalog() -> Catalog {
    let catalog = Catalog::new();
    let mut changes = ChangeSet::new("test");
    let whole = Said::Whole { timeout: 9, set: Set::default() };
    changes.set(&Layer::Base, key(0), Some(entry(0, &whole, None)));
    let set = Set { stat_name: false, timeout: true };
    let patch = Said::Patch { timeout: None, set };
    changes.set(&Layer::Group("g".into()), key(0), Some(entry(0, &patch, None)));
    catalog.commit(changes);
    catalog
}

fn of_timeout(value: Option<Value>) -> Node {
    let metadata = value.map(|value| ("timeout".to_owned(), value)).into_iter().collect();
    Node { id: "n".to_owned(), metadata: Arc::new(metadata), ..Node::default() }
}

#[test]
fn a_node_that_does_not_state_what_is_needed_is_refused_and_no_other() {
    let catalog = catalog();
    let text = |text: &str| of_timeout(Some(Value::Text(text.to_owned())));
    let told = |node: Option<&Node>| catalog.audience_of(Some("g"), node).unwrap_err().to_string();
    assert_eq!(
        told(Some(&of_timeout(None))),
        "`node.metadata.timeout` is not stated, and cds `n00` needs it for `connect_timeout`"
    );
    assert_eq!(
        told(None),
        "`node.metadata.timeout` is not stated by a client without a node id, and cds `n00` needs it for \
         `connect_timeout`"
    );
    assert_eq!(
        told(Some(&of_timeout(Some(Value::Null)))),
        "`node.metadata.timeout` is no text, number or boolean, and cds `n00` needs it for \
         `connect_timeout`"
    );
    assert_eq!(
        told(Some(&text("soon"))),
        "`node.metadata.timeout` is not a duration in seconds such as `1.5s`, as cds `n00` needs for \
         `connect_timeout`"
    );
    let told = told(Some(&text("0s")));
    assert!(told.starts_with("`node.metadata.timeout` must be"), "{told}");
    assert!(catalog.audience_of(None, Some(&of_timeout(None))).unwrap().values.is_none());
    let needs = catalog.needs(&Audience::of(Some("g".into()), None));
    let needs: Vec<_> =
        needs.iter().map(|(variable, by)| format!("{variable} {}", by.path)).collect();
    assert_eq!(needs, ["node.metadata.timeout connect_timeout"]);
}

#[test]
fn sets_of_values_have_a_bound_and_go_with_those_who_have_them() {
    let catalog = catalog();
    catalog.limit_values(3);
    let node = |seconds: usize| of_timeout(Some(Value::Text(format!("{seconds}s"))));
    let audience = |seconds| catalog.audience_of(Some("g"), Some(&node(seconds)));
    // Whoever only asks has nothing.
    for seconds in 1..100 {
        audience(seconds).unwrap();
    }
    let held: Vec<_> = (1..4)
        .map(|seconds| {
            let audience = audience(seconds).unwrap();
            let seen = catalog.seen_by(&audience).unwrap().snapshot;
            (audience, seen)
        })
        .collect();
    assert_eq!(audience(4).unwrap_err(), Unstated::TooMany(3));
    assert_eq!(audience(1).unwrap(), held[0].0, "it is known");
    assert!(catalog.bytes_of_values(&held[0].0) > 50);
    drop(held);
    assert!(audience(4).is_ok());
}

#[test]
fn a_commit_keeps_no_values_of_nodes_that_are_gone() {
    let catalog = catalog();
    catalog.limit_values(3);
    let node = |seconds: usize| of_timeout(Some(Value::Text(format!("{seconds}s"))));
    // Each commit changes what all of them see, and is shown to them.
    let edit = |timeout| {
        let mut changes = ChangeSet::new("test");
        let whole = Said::Whole { timeout, set: Set::default() };
        changes.set(&Layer::Base, key(1), Some(entry(1, &whole, None)));
        let revision = catalog.commit(changes).unwrap();
        drop(catalog.changed(&revision));
        revision.changed.iter().filter(|audience| audience.values.is_some()).count()
    };
    for round in 0..4 {
        let held: Vec<_> = (1..4)
            .map(|seconds| {
                let node = node(10 * round + seconds);
                let audience = catalog.audience_of(Some("g"), Some(&node)).unwrap();
                (catalog.seen_by(&audience).unwrap().snapshot, audience)
            })
            .collect();
        assert_eq!(edit(1), 3);
        drop(held);
        edit(2);
        assert_eq!(edit(0), 0, "they are gone");
    }
}

#[test]
fn values_come_back_after_a_restart() {
    use chancery_catalog::{Memory, Piece, PieceId, Reader};
    let catalog = catalog();
    let (kept, pieces) = catalog.memory().cut(None);
    let pieces: BTreeMap<PieceId, Piece> = pieces.into_iter().map(|it| (it.id, it)).collect();
    let schema = Schema::bundled();
    let reader = Reader {
        schema: &schema,
        piece: &|id| pieces.get(&id).map(|piece| piece.bytes.to_vec()),
        known: &|_, _| None,
        derived: true,
    };
    let again = Catalog::new();
    assert!(again.restore(&Memory::read(kept.root(), &reader).unwrap().memory()));
    let node = of_timeout(Some(Value::Text("3s".to_owned())));
    let seen = |catalog: &Catalog| {
        let audience = catalog.audience_of(Some("g"), Some(&node)).unwrap();
        assert!(audience.values.is_some());
        catalog.seen_by(&audience).unwrap().snapshot
    };
    assert_eq!(seen(&again), seen(&catalog));
}

/// The entry of a text with one resource, or one patch.
fn of_text(text: &str) -> (Key, Entry) {
    let parsed = parsed(text.replace("t/", "type.googleapis.com/"));
    let (type_url, content, values) = match (&parsed.resources[..], &parsed.edits[..]) {
        ([whole], []) => {
            let content = EntryContent::Whole(Arc::clone(&whole.resource));
            (&whole.type_url, content, &whole.values)
        }
        ([], [edit]) => match &edit.edit {
            ResourceEdit::Patch(patch) => {
                (&edit.type_url, EntryContent::Patch(Arc::clone(patch)), &edit.values)
            }
            ResourceEdit::Remove => panic!("no patch"),
        },
        other => panic!("{other:?}"),
    };
    let key = Key::of_content(type_url, &content);
    (key, Entry::of(content, Origin::program("test")).with_values(values.clone()))
}

/// A commit of these texts, each in a layer.
fn commit(catalog: &Catalog, texts: &[(&Layer, &str)]) -> Option<Arc<Revision>> {
    let mut changes = ChangeSet::new("test");
    for (layer, text) in texts {
        let (key, entry) = of_text(text);
        changes.set(layer, key, Some(entry));
    }
    catalog.commit(changes)
}

const ROUTE: &str = "{\"@type\": t/envoy.config.route.v3.RouteConfiguration, name: r, virtual_hosts: [{name: v, \
                     domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: shop}}]}]}\n---\nvalues: \
                     [{type: rds, name: r, set: {'virtual_hosts[0].routes[0].route.cluster': \
                     'shop-${node.metadata.name}'}}]";

#[test]
fn a_reference_that_a_node_chooses_is_told_as_the_files_have_it() {
    // S-138
    let catalog = Catalog::new();
    let shop = "{\"@type\": t/envoy.config.cluster.v3.Cluster, name: shop, connect_timeout: 1s}";
    commit(&catalog, &[(&Layer::Base, ROUTE), (&Layer::Base, shop)]);
    let seen: Vec<_> = [0, 1]
        .map(|at| catalog.audience_of(None, Some(&node(at))).unwrap())
        .into_iter()
        .map(|audience| catalog.seen_by(&audience).unwrap().snapshot)
        .collect();
    assert_ne!(seen[0], seen[1]);
    let external = chancery_catalog::External::default();
    let references = catalog.references(&external);
    let told: Vec<_> = references.missing.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["rds `r` refers to cds `shop-${node.metadata.name}`, which does not exist"]);
    assert!(Arc::ptr_eq(&references, &catalog.references(&external)));
}

#[test]
fn nodes_that_do_not_state_what_a_commit_asks_for_lose_nothing() {
    let catalog = catalog();
    let node = of_timeout(Some(Value::Text("3s".to_owned())));
    let audience = catalog.audience_of(Some("g"), Some(&node)).unwrap();
    let seen = catalog.seen_by(&audience).unwrap().snapshot;
    let patch = "patch: [{\"@type\": t/envoy.config.cluster.v3.Cluster, name: n00}]\n---\nvalues: [{type: cds, \
                 name: n00, set: {alt_stat_name: '${node.metadata.other}'}}]";
    let revision = commit(&catalog, &[(&Layer::Group("g".into()), patch)]).unwrap();
    assert!(!revision.reassigned.is_nobody());
    assert!(catalog.seen_by(&audience).is_none(), "it cannot be filled for them");
    let changed = catalog.changed(&revision);
    assert!(changed.iter().all(|(changed, _)| **changed != audience));
    assert!(catalog.audience_of(Some("g"), Some(&node)).is_err());
    assert_eq!(seen.len(), 1);
}

#[test]
fn lines_that_move_ask_nobody_again() {
    let catalog = catalog();
    let patch = "patch: [{\"@type\": t/envoy.config.cluster.v3.Cluster, name: n00}]\n---\nvalues: [{type: cds, \
                 name: n00, set: {alt_stat_name: '${node.metadata.other}'}}]";
    let moved = patch.replacen("---", "\n\n---", 1);
    let group = Layer::Group("g".into());
    commit(&catalog, &[(&group, patch)]);
    let revision = commit(&catalog, &[(&group, &moved)]);
    assert!(revision.is_none_or(|revision| revision.reassigned.is_nobody()));
}

#[test]
fn references_of_nodes_with_values_are_told_once() {
    let catalog = Catalog::new();
    let mut changes = ChangeSet::new("test");
    let text = "{\"@type\": t/envoy.config.cluster.v3.Cluster, name: n00, type: EDS, eds_cluster_config: \
                {eds_config: {ads: {}}}}\n---\nvalues: [{type: cds, name: n00, set: {alt_stat_name: \
                '${node.id}'}}]";
    let parsed = parsed(text.replace("t/", "type.googleapis.com/"));
    let whole = &parsed.resources[0];
    let content = EntryContent::Whole(Arc::clone(&whole.resource));
    let entry = Entry::of(content, Origin::program("test")).with_values(whole.values.clone());
    changes.set(&Layer::Base, key(0), Some(entry));
    changes.add_layer(&Layer::Group("g".into()));
    catalog.commit(changes);
    let node = |id: &str| Node { id: id.to_owned(), ..Node::default() };
    let seen: Vec<_> = ["a", "b"]
        .map(|id| catalog.audience_of(None, Some(&node(id))).unwrap())
        .into_iter()
        .map(|audience| (catalog.seen_by(&audience).unwrap(), audience))
        .collect();
    assert_ne!(seen[0].1, seen[1].1);
    let references = catalog.references(&chancery_catalog::External::default());
    let audiences = &references.missing[0].audiences;
    assert!(audiences.contains(&Audience::default()), "{audiences:?}");
    assert!(audiences.iter().all(|audience| audience.values.is_none()), "{audiences:?}");
}
