//! One whole load of the directory, and how an audience's snapshot is made of it.
//!
//! A generation keeps of each layer its content, or that it is broken. It never changes. The
//! snapshot of an audience is base, then the group's overlay, then the node's, each written over
//! the one before; it shares with them what it does not change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::Snapshot;
use chancery_proto::complete;
use chancery_proto::references::{self, Dangling};

use crate::audience::Audience;
use crate::content::Content;
use crate::layer::Layer;

/// One whole load of the directory.
pub(crate) struct Generation {
    pub(crate) base: Slot,
    pub(crate) groups: BTreeMap<Arc<str>, Slot>,
    pub(crate) nodes: BTreeMap<Arc<str>, Slot>,
    /// Whether groups that are not among [`Self::groups`] may exist.
    pub(crate) groups_unlisted: bool,
    /// Whether nodes that are not among [`Self::nodes`] may have overlays.
    pub(crate) nodes_unlisted: bool,
    /// The snapshot of base alone, empty if that is broken; all audiences grow from it.
    pub(crate) trunk: Snapshot,
}

/// The content of a layer, or nothing if the layer is broken.
pub(crate) type Slot = Option<Arc<Content>>;

/// What a generation says of a layer.
pub(crate) enum State<'a> {
    /// It has no files.
    Absent,
    /// Something in it is wrong.
    Broken,
    /// All is well.
    Good(&'a Arc<Content>),
}

/// What one audience should see.
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The references in it that lead nowhere.
    pub(crate) dangling: Vec<Dangling>,
    /// What it was made of: base, group, node.
    parts: [Slot; 3],
}

/// What broke in a generation.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Broken {
    Layer(Layer),
    UnlistedGroups,
    UnlistedNodes,
}

impl Generation {
    /// Makes the trunk, from the one of an earlier generation where there is one.
    pub(crate) fn grow_trunk(&mut self, earlier: Option<&Self>) {
        let Some(base) = &self.base else { return };
        if let Some(earlier) = earlier {
            self.trunk = earlier.trunk.clone();
        }
        let all = base.entries.iter();
        let all = all.map(|((url, _), entry)| (url.clone(), Arc::clone(&entry.resource)));
        self.trunk.replace(all);
    }

    pub(crate) fn state(&self, layer: &Layer) -> State<'_> {
        let (slot, unlisted) = match layer {
            Layer::Base => (Some(&self.base), false),
            Layer::Group(name) => (self.groups.get(name), self.groups_unlisted),
            Layer::Node(id) => (self.nodes.get(id), self.nodes_unlisted),
        };
        match slot {
            Some(Some(content)) => State::Good(content),
            Some(None) => State::Broken,
            None if unlisted => State::Broken,
            None => State::Absent,
        }
    }

    /// Whether the same groups and nodes have overlays in another load.
    pub(crate) fn has_overlays_of(&self, other: &Self) -> bool {
        self.groups.keys().eq(other.groups.keys()) && self.nodes.keys().eq(other.nodes.keys())
    }

    /// Whether every layer of the audience is as it should be.
    pub(crate) fn serves(&self, audience: &Audience) -> bool {
        audience.layers().all(|layer| !matches!(self.state(&layer), State::Broken))
    }

    pub(crate) fn broken(&self) -> BTreeSet<Broken> {
        let groups = self.groups.iter().filter(|(_, slot)| slot.is_none());
        let groups = groups.map(|(name, _)| Broken::Layer(Layer::Group(Arc::clone(name))));
        let nodes = self.nodes.iter().filter(|(_, slot)| slot.is_none());
        let nodes = nodes.map(|(id, _)| Broken::Layer(Layer::Node(Arc::clone(id))));
        let base = self.base.is_none().then_some(Broken::Layer(Layer::Base));
        let unlisted_groups = self.groups_unlisted.then_some(Broken::UnlistedGroups);
        let unlisted_nodes = self.nodes_unlisted.then_some(Broken::UnlistedNodes);
        groups.chain(nodes).chain(base).chain(unlisted_groups).chain(unlisted_nodes).collect()
    }

    /// What the audience sees. `before` is what it saw, to share what did not change.
    ///
    /// The audience must be one this generation [serves](Self::serves).
    pub(crate) fn view(&self, audience: &Audience, before: Option<&Arc<View>>) -> Arc<View> {
        let parts = self.parts(audience);
        if let Some(before) = before
            && before.parts.iter().zip(&parts).all(|(old, new)| same(old, new))
        {
            return Arc::clone(before);
        }
        let snapshot = self.snapshot(&parts);
        let (snapshot, dangling) = match before {
            // Comments and the order of files are no content.
            Some(before) if *before.snapshot == snapshot => {
                (Arc::clone(&before.snapshot), before.dangling.clone())
            }
            _ => {
                let dangling = references::dangling(&snapshot);
                (Arc::new(snapshot), dangling)
            }
        };
        Arc::new(View { snapshot, dangling, parts })
    }

    fn parts(&self, audience: &Audience) -> [Slot; 3] {
        let group = audience.group.as_ref().and_then(|name| self.groups.get(name));
        let node = audience.node.as_ref().and_then(|id| self.nodes.get(id));
        [self.base.clone(), group.cloned().flatten(), node.cloned().flatten()]
    }

    fn snapshot(&self, [_, group, node]: &[Slot; 3]) -> Snapshot {
        let mut snapshot = self.trunk.clone();
        let overlays = [group, node].into_iter().flatten();
        for ((type_url, _), entry) in overlays.flat_map(|content| &content.entries) {
            snapshot.insert(type_url, Arc::clone(&entry.resource));
        }
        complete::complete(&mut snapshot);
        snapshot
    }
}

/// The layers of a load, broken or not.
pub(crate) fn layers_of(load: &Generation) -> impl Iterator<Item = Layer> {
    let groups = load.groups.keys().map(|name| Layer::Group(Arc::clone(name)));
    let nodes = load.nodes.keys().map(|id| Layer::Node(Arc::clone(id)));
    std::iter::once(Layer::Base).chain(groups).chain(nodes)
}

fn same(old: &Slot, new: &Slot) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (None, None) => true,
        _ => false,
    }
}
