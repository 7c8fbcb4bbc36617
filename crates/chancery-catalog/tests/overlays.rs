//! Overlays over a base that is large beside them: after any history, also of which group extends which,
//! each audience sees what it would see if all had been committed at once, and a revision names those who
//! see something else.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use chancery_catalog::{
    Audience, Catalog, ChangeSet, Entry, EntryContent, External, Key, Layer, Lineage, Origin,
    Revision,
};
use chancery_core::{Facts, Link, Resource, Snapshot, TypeUrl};
use chancery_proto::Schema;
use chancery_proto::document::{Checks, Format, Parsed, ResourceEdit, RuleCheck, parse_checked};
use proptest::collection::vec;
use proptest::prelude::*;

/// A resource: the type and name of each reference, an alias, and a body.
#[derive(Clone, Debug)]
struct Draft {
    links: Vec<(usize, usize)>,
    alias: Option<usize>,
    body: u8,
}

/// The word of a layer about a key.
#[derive(Clone, Debug)]
enum Said {
    Whole(Draft),
    /// Some fields are others. Of the numbers, 0 breaks a rule.
    Patch {
        body: u8,
        target: usize,
    },
    Removal,
}

/// One key of one layer, and what it says there, if anything.
type Edit = (usize, usize, usize, Option<Said>);

const TYPES: [&str; 3] = ["cds", "eds", "rds"];
const NAMES: usize = 32;
const GROUPS: [Option<&str>; 4] = [None, Some("g"), Some("a"), Some("z")];
/// The lineages that groups may have.
const LINEAGES: [&[(&str, &str)]; 6] = [
    &[],
    &[("a", "g")],
    &[("z", "g")],
    &[("a", "g"), ("g", "z")],
    &[("z", "a"), ("a", "g")],
    &[("g", "nobody"), ("nobody", "z")],
];
const NODES: [Option<&str>; 4] = [None, Some("m"), Some("n"), Some("o")];

fn layers() -> [Layer; 7] {
    let node = |id: &str| Layer::Node(id.into());
    let group = |name: &str| Layer::Group(name.into());
    [Layer::Base, group("g"), group("a"), group("z"), node("m"), node("n"), node("o")]
}

fn url(at: usize) -> TypeUrl {
    TypeUrl::known().find(|type_url| type_url.short() == TYPES[at]).unwrap()
}

fn key(of: usize, name: usize) -> Key {
    Key { type_url: url(of), name: format!("n{name:02}").parse().unwrap() }
}

fn entry(of: usize, name: usize, said: &Said) -> Entry {
    let content = match said {
        Said::Whole(draft) => EntryContent::Whole(whole(of, name, draft).into()),
        Said::Removal => EntryContent::Removal(key(of, name).name),
        Said::Patch { body, target } => patch(of, name, *body, *target),
    };
    Entry::of(content, Origin::program("test"))
}

/// A resource whose body can be patched. Its references are made up; those of a patched one are in the body.
fn whole(of: usize, name: usize, draft: &Draft) -> Resource {
    let text = format!("{} {:?} {:?}", draft.body, draft.links, draft.alias);
    let fields = match TYPES[of] {
        "cds" => format!("name: n{name:02}, alt_stat_name: '{text}'"),
        "eds" => format!("cluster_name: n{name:02}, endpoints: [{{priority: {}}}]", draft.body),
        _ => format!("name: n{name:02}, internal_only_headers: ['{text}']"),
    };
    let parsed = parsed(format!("{{\"@type\": {}, {fields}}}", url(of)));
    let body = parsed.resources[0].resource.body().clone();
    let links = draft.links.iter().map(|(of, name)| {
        let Key { type_url, name } = key(*of, *name);
        Link { type_url, name, aggregated: true }
    });
    let facts = Facts { links: links.collect(), ..Facts::default() };
    let aliases = draft.alias.iter().map(|name| format!("n{name:02}").parse().unwrap());
    let resource = Resource::new(key(of, name).name, body);
    resource.with_aliases(aliases.collect()).with_facts(facts)
}

fn patch(of: usize, name: usize, body: u8, target: usize) -> EntryContent {
    let fields = match TYPES[of] {
        "cds" if body == 3 => format!(
            "name: n{name:02}, type: EDS, eds_cluster_config: {{service_name: n{target:02}, \
             eds_config: {{ads: {{}}}}}}"
        ),
        "cds" => format!("name: n{name:02}, connect_timeout: {body}s"),
        "eds" => format!("cluster_name: n{name:02}, policy: {{overprovisioning_factor: {body}}}"),
        _ => format!(
            "name: n{name:02}, virtual_hosts: [{{name: a, domains: ['*'], routes: [{{match: {{prefix: \
             /}}, route: {{cluster: n{target:02}, timeout: {body}s}}}}]}}]"
        ),
    };
    let parsed = parsed(format!("patch: [{{\"@type\": {}, {fields}}}]", url(of)));
    let ResourceEdit::Patch(patch) = &parsed.edits[0].edit else { panic!("no patch") };
    EntryContent::Patch(Arc::clone(patch))
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
    // Few targets, so that the references of several layers meet.
    let target = || 0..6_usize;
    let draft =
        (vec((0..TYPES.len(), target()), 0..2), proptest::option::weighted(0.1, target()), 0..4_u8);
    let draft = draft.prop_map(|(links, alias, body)| Draft { links, alias, body });
    let said = prop_oneof![
        3 => draft.prop_map(Said::Whole),
        2 => (0..4_u8, target()).prop_map(|(body, target)| Said::Patch { body, target }),
        1 => Just(Said::Removal),
    ];
    let layer = prop_oneof![2 => Just(0), 2 => 1..7_usize];
    // Few of the names again, so that edits of several layers meet.
    let name = prop_oneof![0..NAMES, 0..6_usize];
    (layer, 0..TYPES.len(), name, proptest::option::weighted(0.8, said))
}

/// The base of all histories: half of the names of each type.
fn first() -> impl Iterator<Item = Edit> {
    let draft = Draft { links: Vec::new(), alias: None, body: 9 };
    let names = (0..TYPES.len()).flat_map(|of| (0..NAMES).map(move |name| (of, name)));
    let even = names.filter(|(_, name)| name % 2 == 0);
    even.map(move |(of, name)| (0, of, name, Some(Said::Whole(draft.clone()))))
}

/// Patches of a group that are not few beside the base: its view follows the changes.
fn many() -> impl Iterator<Item = Edit> {
    (0..NAMES).map(|name| (1, 0, name, Some(Said::Patch { body: 2, target: 0 })))
}

fn audiences(catalog: &Catalog) -> Vec<Audience> {
    let all = GROUPS.iter().flat_map(|group| NODES.map(|node| (*group, node)));
    let mut all: Vec<_> = all.map(|(group, node)| catalog.audience(group, node)).collect();
    all.sort();
    all.dedup();
    all
}

/// The edits of one commit, and the lineage from then on if it becomes another.
fn step() -> impl Strategy<Value = (Vec<Edit>, Option<usize>)> {
    (vec(edit(), 1..4), proptest::option::weighted(0.3, 0..LINEAGES.len()))
}

fn seen(catalog: &Catalog) -> BTreeMap<Audience, Arc<Snapshot>> {
    let seen = |audience: &Audience| catalog.seen_by(audience).unwrap().snapshot;
    audiences(catalog).into_iter().map(|audience| (audience.clone(), seen(&audience))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn overlays_follow_their_base(is_large in any::<bool>(), history in vec(step(), 1..12)) {
        let (live, layers) = (Catalog::new(), layers());
        let mut contents: BTreeMap<Layer, BTreeMap<Key, Entry>> = BTreeMap::new();
        let mut shown = BTreeMap::new();
        let first = first().chain(many().filter(|_| is_large)).collect();
        for (edits, lineage) in std::iter::once((first, None)).chain(history) {
            let mut changes = ChangeSet::new("test");
            for (layer, of, name, said) in edits {
                let (layer, said) = (&layers[layer], said.as_ref());
                let made = said.map(|said| entry(of, name, said));
                changes.set(layer, key(of, name), made.clone());
                let content = contents.entry(layer.clone()).or_default();
                match made {
                    Some(entry) => drop(content.insert(key(of, name), entry)),
                    None => drop(content.remove(&key(of, name))),
                }
            }
            let mut revisions: Vec<_> = live.commit(changes).into_iter().collect();
            let mut now = seen(&live);
            check_named(&shown, &now, &revisions)?;
            if let Some(at) = lineage {
                let lineage = Lineage::new(LINEAGES[at].iter().copied()).unwrap();
                let before = std::mem::take(&mut now);
                revisions = live.extend(lineage, "test").into_iter().collect();
                now = seen(&live);
                check_named(&before, &now, &revisions)?;
            }
            let mut all = ChangeSet::new("somebody else");
            for (layer, content) in &contents {
                all.replace_layer(layer, content.clone());
            }
            let fresh = Catalog::new();
            prop_assert!(fresh.extend(live.lineage(), "test").is_none());
            fresh.commit(all);
            prop_assert_eq!(&now, &seen(&fresh));
            prop_assert_eq!(live.revision().unwrap().content, fresh.revision().unwrap().content);
            let nowhere = External::default();
            prop_assert_eq!(live.references(&nowhere), fresh.references(&nowhere));
            shown = now;
        }
    }
}

type Shown = BTreeMap<Audience, Arc<Snapshot>>;

/// Checks that the revisions name the audiences that see something else, and no others.
fn check_named(
    shown: &Shown,
    now: &Shown,
    revisions: &[Arc<Revision>],
) -> Result<(), TestCaseError> {
    for (audience, before) in shown {
        let Some(after) = now.get(audience) else { continue };
        let is_named = revisions.iter().any(|it| it.changed.contains(audience));
        prop_assert_eq!(is_named, !Arc::ptr_eq(before, after), "{}", audience);
        prop_assert!(!is_named || before != after, "{} sees the same", audience);
    }
    Ok(())
}
