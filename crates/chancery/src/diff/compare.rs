//! The comparison of two catalogs: each change of a resource, and the audiences that see it.
//!
//! Only what differs in a layer is looked up in the snapshots of the audiences with that layer. So the
//! cost is that of both directories, and for each audience of what changes for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use chancery_catalog::{Audience, Catalog, EntryContent, Key, Layer, LayerContent};
use chancery_core::{Node, Resource, ResourceName, Snapshot, Version};

use crate::check::LoadedDirectory;
use crate::exit::Failure;
use crate::serve::Grouping;

/// All that differs.
pub(super) struct Comparison {
    /// The changes, by those who see them, and then in the order in which types are sent.
    pub(super) changes: Vec<(Vec<Audience>, Vec<Change>)>,
    /// True if the rules that decide on the group of a node differ.
    pub(super) rules_differ: bool,
}

/// A change of a resource. One of both sides is there.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) key: Key,
    pub(super) before: Option<Arc<Resource>>,
    pub(super) after: Option<Arc<Resource>>,
}

/// One of the two directories.
struct Side<'a> {
    catalog: &'a Catalog,
    grouping: Grouping,
}

/// The keys that differ in each layer, as far as somebody has asked.
struct Differing<'a> {
    before: &'a Catalog,
    after: &'a Catalog,
    known: BTreeMap<Layer, Arc<BTreeSet<Key>>>,
}

impl Comparison {
    /// Compares two directories, for one group or for all.
    pub(super) fn new(
        before: &LoadedDirectory,
        after: &LoadedDirectory,
        group: Option<&str>,
    ) -> Result<Self, Failure> {
        let sides = [before, after].map(Side::new);
        let audiences = audiences(&sides, group);
        let is_ruled = |name| [before, after].iter().any(|side| has_rule(side, name));
        if let Some(name) = group.filter(|name| audiences.is_empty() && !is_ruled(name)) {
            let error = anyhow!("there is no group `{name}`, before or after");
            return Err(Failure::broken(error));
        }
        let mut differing = Differing::new(&before.catalog, &after.catalog);
        let mut seen_by: BTreeMap<_, (Change, Vec<Audience>)> = BTreeMap::new();
        for shown in &audiences {
            for change in changes(&sides, shown, &mut differing) {
                let (_, viewers) =
                    seen_by.entry(change.identity()).or_insert_with(|| (change, Vec::new()));
                viewers.push(shown.clone());
            }
        }
        let mut by_viewers: BTreeMap<Vec<Audience>, Vec<Change>> = BTreeMap::new();
        for (change, viewers) in seen_by.into_values() {
            by_viewers.entry(viewers).or_default().push(change);
        }
        let rules_differ = rules(before) != rules(after);
        Ok(Self { changes: by_viewers.into_iter().collect(), rules_differ })
    }

    /// Returns true if nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.rules_differ
    }
}

impl Change {
    /// Equal for changes in which clients see the same.
    fn identity(&self) -> (Key, [Option<Given>; 2]) {
        (self.key.clone(), [&self.before, &self.after].map(|it| it.as_deref().map(given)))
    }
}

impl<'a> Side<'a> {
    fn new(loaded: &'a LoadedDirectory) -> Self {
        Self { catalog: &loaded.catalog, grouping: Grouping::new(&loaded.config) }
    }

    /// The audience here of those that are shown as this one. Of a node with an overlay, only the id is
    /// known, so only rules by id decide on its group.
    fn audience(&self, shown: &Audience) -> Audience {
        let group = match &shown.node {
            Some(id) => {
                let node = Node { id: id.to_string(), ..Node::default() };
                self.grouping.of_node(&node, |_| false).ok().flatten()
            }
            None => shown.group.as_deref().map(str::to_owned),
        };
        self.catalog.audience(group.as_deref(), shown.node.as_deref())
    }

    fn layers(&self, audience: &Audience) -> Vec<Layer> {
        self.catalog.lineage().layers(audience)
    }

    fn snapshot(&self, audience: &Audience) -> Option<Arc<Snapshot>> {
        self.catalog.seen_by(audience).map(|seen| seen.snapshot)
    }
}

fn find(snapshot: Option<&Snapshot>, key: &Key) -> Option<Arc<Resource>> {
    snapshot?.set(&key.type_url).get(key.name.as_str()).cloned()
}

impl<'a> Differing<'a> {
    fn new(before: &'a Catalog, after: &'a Catalog) -> Self {
        Self { before, after, known: BTreeMap::new() }
    }

    /// The keys under which a layer has something else.
    fn of(&mut self, layer: &Layer) -> Arc<BTreeSet<Key>> {
        let (before, after) = (self.before.layer(layer), self.after.layer(layer));
        let keys = || Arc::new(differing(before.as_deref(), after.as_deref()));
        Arc::clone(self.known.entry(layer.clone()).or_insert_with(keys))
    }
}

/// The audiences that one of both sides has, base first.
fn audiences(sides: &[Side<'_>; 2], group: Option<&str>) -> BTreeSet<Audience> {
    let mut all = BTreeSet::from([Audience::default()]);
    for side in sides {
        let groups = side.catalog.groups();
        all.extend(groups.iter().map(|name| Audience { group: Some(name.clone()), node: None }));
        let nodes = side.catalog.nodes();
        all.extend(nodes.iter().map(|id| Audience { group: None, node: Some(id.clone()) }));
    }
    if let Some(wanted) = group {
        let is_in = |found: Audience| found.group.as_deref() == Some(wanted);
        all.retain(|shown| match shown.node {
            Some(_) => sides.iter().any(|side| is_in(side.audience(shown))),
            None => is_in(shown.clone()),
        });
    }
    all
}

/// All that decides on the group of a node.
fn rules(side: &LoadedDirectory) -> impl PartialEq {
    let rules = side
        .config
        .groups
        .iter()
        .map(|rule| (rule.name.clone(), rule.extends.clone(), rule.conditions.clone()));
    let decisions = [&side.config.unmatched, &side.config.anonymous].map(Clone::clone);
    (rules.collect::<Vec<_>>(), decisions)
}

fn has_rule(side: &LoadedDirectory, group: &str) -> bool {
    side.config.groups.iter().any(|rule| rule.name.as_str() == group)
}

/// The changes for one audience.
fn changes(sides: &[Side<'_>; 2], shown: &Audience, differing: &mut Differing<'_>) -> Vec<Change> {
    let [before, after] = sides;
    let (old, new) = (before.audience(shown), after.audience(shown));
    let (old_layers, new_layers) = (before.layers(&old), after.layers(&new));
    let is_shared = |layer: &&Layer| old_layers.contains(layer) && new_layers.contains(layer);
    let is_same_order = old_layers.iter().filter(is_shared).eq(new_layers.iter().filter(is_shared));
    let mut keys = BTreeSet::new();
    for (side, layers) in [(before, &old_layers), (after, &new_layers)] {
        for layer in layers {
            if is_shared(&layer) && is_same_order {
                keys.extend(differing.of(layer).iter().cloned());
            } else if let Some(content) = side.catalog.layer(layer) {
                // A layer that only one side has for this audience, or has elsewhere, counts whole.
                keys.extend(content.iter().map(|(key, _)| key.clone()));
            }
        }
    }
    let (old, new) = (before.snapshot(&old), after.snapshot(&new));
    let change = |key: Key| {
        let (before, after) = (find(old.as_deref(), &key), find(new.as_deref(), &key));
        let is_same = is_same(before.as_deref(), after.as_deref());
        (!is_same).then_some(Change { key, before, after })
    };
    keys.into_iter().filter_map(change).collect()
}

fn differing(before: Option<&LayerContent>, after: Option<&LayerContent>) -> BTreeSet<Key> {
    let missing_in = |one: Option<&LayerContent>, other: Option<&LayerContent>| {
        let entries = one.into_iter().flat_map(LayerContent::iter);
        let differs = entries.filter(|(key, entry)| {
            let found = other.and_then(|other| other.get(key)).map(|found| &found.content);
            !found.is_some_and(|found| is_same_content(&entry.content, found))
        });
        differs.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    missing_in(before, after).into_iter().chain(missing_in(after, before)).collect()
}

/// All that a client is given of a resource, with a hash for its content.
type Given = (Version, Option<Duration>, Vec<ResourceName>);

fn given(resource: &Resource) -> Given {
    (resource.version().clone(), resource.ttl(), resource.aliases().to_vec())
}

fn is_same_content(one: &EntryContent, other: &EntryContent) -> bool {
    match (one, other) {
        (EntryContent::Whole(one), EntryContent::Whole(other)) => is_same(Some(one), Some(other)),
        (one, other) => one == other,
    }
}

fn is_same(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    one.map(given) == other.map(given)
}
