//! A directory as one of the two sides of a comparison: the audiences in it, and what they see.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_catalog::{Audience, Catalog, Entry, EntryContent, Key, Layer, LayerContent};
use chancery_core::{Node, Resource, Snapshot, TypeUrl};

use super::change::is_same;
use crate::check::LoadedDirectory;
use crate::config::Config;
use crate::serve::Grouping;

/// A directory that is compared.
pub(super) struct DirectorySide<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) config: &'a Config,
    pub(super) grouping: Grouping,
}

impl<'a> DirectorySide<'a> {
    pub(super) fn new(loaded: &'a LoadedDirectory) -> Self {
        let (catalog, config) = (&loaded.catalog, &loaded.config);
        Self { catalog, config, grouping: Grouping::new(config) }
    }

    /// The audiences in it, base first. The group of a node with files of its own is left open.
    pub(super) fn audiences(&self) -> BTreeSet<Audience> {
        let groups = self.catalog.groups();
        let groups = groups.iter().map(|name| Audience::of(Some(name.clone()), None));
        let nodes = self.catalog.nodes();
        let nodes = nodes.iter().map(|id| Audience::of(None, Some(id.clone())));
        std::iter::once(Audience::default()).chain(groups).chain(nodes).collect()
    }

    /// The audience here of those that are shown as this one. Of a node with an overlay, only the id is
    /// known, so only rules by id decide on its group.
    pub(super) fn audience(&self, shown: &Audience) -> Audience {
        match &shown.node {
            Some(id) => self.audience_of(&Node { id: id.to_string(), ..Node::default() }),
            None => self.catalog.audience(shown.group.as_deref(), None),
        }
    }

    /// The audience of a node. One that is refused sees nothing, and counts to those in no group.
    pub(super) fn audience_of(&self, node: &Node) -> Audience {
        let group = self.group_of(node).ok().flatten();
        self.catalog.audience(group.as_deref(), Some(&node.id))
    }

    /// The group of a node by the rules, or that it is refused.
    pub(super) fn group_of(&self, node: &Node) -> Result<Option<String>, chancery_server::Refusal> {
        let known = self.catalog.groups();
        self.grouping.of_node(node, |name| known.contains(name))
    }

    pub(super) fn has_rule(&self, group: &str) -> bool {
        self.config.groups.iter().any(|rule| rule.name.as_str() == group)
    }

    /// All that decides on the group of a node.
    pub(super) fn rules(&self) -> impl PartialEq {
        let rules = self.config.groups.iter();
        let rules =
            rules.map(|rule| (rule.name.clone(), rule.extends.clone(), rule.conditions.clone()));
        let decisions = [&self.config.unmatched, &self.config.anonymous].map(Clone::clone);
        (rules.collect::<Vec<_>>(), decisions)
    }

    /// The layers that an audience sees, the lowest first.
    pub(super) fn layers(&self, audience: &Audience) -> Vec<Layer> {
        self.catalog.lineage().layers(audience)
    }

    /// The snapshot that a node of an audience sees, with the values that it states.
    ///
    /// # Errors
    /// If it would be refused because of them, with the reason.
    pub(super) fn snapshot_for(
        &self,
        audience: &Audience,
        node: &Node,
    ) -> Result<Option<Arc<Snapshot>>, String> {
        if self.catalog.needs(audience).is_nothing() {
            return Ok(self.snapshot(audience));
        }
        let of_node = self.catalog.audience_of(audience.group.as_deref(), Some(node));
        let of_node = of_node.map_err(|unstated| unstated.to_string())?;
        match of_node.without_values() == *audience {
            true => Ok(self.snapshot(&of_node)),
            false => Ok(self.snapshot(audience)),
        }
    }

    pub(super) fn snapshot(&self, audience: &Audience) -> Option<Arc<Snapshot>> {
        self.catalog.seen_by(audience).map(|seen| seen.snapshot)
    }
}

/// The resource of a snapshot under a key.
pub(super) fn find(snapshot: Option<&Snapshot>, key: &Key) -> Option<Arc<Resource>> {
    snapshot?.set(&key.type_url).get(key.name.as_str()).cloned()
}

/// The keys of all resources of a snapshot.
pub(super) fn keys_of(snapshot: &Snapshot) -> BTreeSet<Key> {
    let of_type = |type_url| {
        let resources = snapshot.set(type_url).iter();
        resources.map(move |it| Key { type_url: TypeUrl::clone(type_url), name: it.name().clone() })
    };
    snapshot.types().flat_map(of_type).collect()
}

/// The keys that differ in each layer, as far as somebody has asked.
pub(super) struct DifferingLayers<'a> {
    sides: &'a [DirectorySide<'a>; 2],
    known: BTreeMap<Layer, Arc<BTreeSet<Key>>>,
}

impl<'a> DifferingLayers<'a> {
    pub(super) fn new(sides: &'a [DirectorySide<'a>; 2]) -> Self {
        Self { sides, known: BTreeMap::new() }
    }

    /// The keys under which a layer has something else.
    pub(super) fn of(&mut self, layer: &Layer) -> Arc<BTreeSet<Key>> {
        let [before, after] = self.sides.each_ref().map(|side| side.catalog.layer(layer));
        let keys = || Arc::new(differing(before.as_deref(), after.as_deref()));
        Arc::clone(self.known.entry(layer.clone()).or_insert_with(keys))
    }
}

fn differing(before: Option<&LayerContent>, after: Option<&LayerContent>) -> BTreeSet<Key> {
    let missing_in = |one: Option<&LayerContent>, other: Option<&LayerContent>| {
        let entries = one.into_iter().flat_map(LayerContent::iter);
        let differs = entries.filter(|(key, entry)| {
            let found = other.and_then(|other| other.get(key));
            let digest = |entry: &Entry| entry.values.as_ref().map(|values| values.digest());
            !found.is_some_and(|found| {
                is_same_content(&entry.content, &found.content) && digest(entry) == digest(found)
            })
        });
        differs.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    missing_in(before, after).into_iter().chain(missing_in(after, before)).collect()
}

fn is_same_content(one: &EntryContent, other: &EntryContent) -> bool {
    match (one, other) {
        (EntryContent::Whole(one), EntryContent::Whole(other)) => is_same(Some(one), Some(other)),
        (one, other) => one.says_same(other),
    }
}
