//! One whole load of the directory, and how an audience's snapshot is made of it.
//!
//! A generation keeps of each layer its content, or that it is broken. It never changes. The
//! snapshot of an audience is base, then the group's overlay, then the node's, each written over
//! the one before; what it is made of from one generation to the next is [`crate::catalog::view`]'s.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_proto::complete::Complete;
use imbl::OrdMap;

use crate::catalog::audience::Audience;
use crate::catalog::content::Content;
use crate::catalog::layer::Layer;
use crate::catalog::view;

/// One whole load of the directory.
#[derive(Clone)]
pub(crate) struct Generation {
    pub(crate) base: Slot,
    pub(crate) groups: Overlays,
    pub(crate) nodes: Overlays,
    /// Whether groups that are not among [`Self::groups`] may exist.
    pub(crate) groups_unlisted: bool,
    /// Whether nodes that are not among [`Self::nodes`] may have overlays.
    pub(crate) nodes_unlisted: bool,
    /// What base alone amounts to, nothing if that is broken; all audiences grow from it.
    pub(crate) trunk: Complete,
}

/// Overlays by the name of their group, or the id of their node.
pub(crate) type Overlays = OrdMap<Arc<str>, Slot>;

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
        let (mut trunk, old) = earlier
            .map(|earlier| (earlier.trunk.clone(), earlier.base.clone()))
            .unwrap_or_default();
        view::follow(&mut trunk, &[old], &[Some(Arc::clone(base))]);
        self.trunk = trunk;
    }

    /// The layers an audience is made of: base, group, node.
    pub(crate) fn parts(&self, audience: &Audience) -> [Slot; 3] {
        let group = audience.group.as_ref().and_then(|name| self.groups.get(name));
        let node = audience.node.as_ref().and_then(|id| self.nodes.get(id));
        [self.base.clone(), group.cloned().flatten(), node.cloned().flatten()]
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
        let same =
            |one: &Overlays, other: &Overlays| one.ptr_eq(other) || one.keys().eq(other.keys());
        same(&self.groups, &other.groups) && same(&self.nodes, &other.nodes)
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
}

/// The layers of a load, broken or not.
pub(crate) fn layers_of(load: &Generation) -> impl Iterator<Item = Layer> {
    let groups = load.groups.keys().map(|name| Layer::Group(Arc::clone(name)));
    let nodes = load.nodes.keys().map(|id| Layer::Node(Arc::clone(id)));
    std::iter::once(Layer::Base).chain(groups).chain(nodes)
}
