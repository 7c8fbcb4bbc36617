//! All layers at one revision.
//!
//! A state keeps the content of each layer, and what is held back. It never changes: a commit makes
//! the next one of it, which shares all that the commit did not touch.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};

use crate::audience::Audience;
use crate::changes::{ChangeSet, Hold, HoldChange, LayerChange};
use crate::content::LayerContent;
use crate::entry::Key;
use crate::filled::{Needs, NeedsCache};
use crate::layer::Layer;
use crate::layer_edit::LayerEdit;
use crate::lineage::Lineage;
use crate::view::{Slot, View};

/// All layers at one revision.
#[derive(Clone, Default)]
pub(crate) struct CatalogState {
    base: Arc<LayerContent>,
    pub(crate) groups: Overlays,
    pub(crate) nodes: Overlays,
    /// The groups that extend others.
    pub(crate) lineage: Lineage,
    pub(crate) holds: OrdSet<Hold>,
    /// The audiences that the gate holds. It decides anew for each state.
    pub(crate) held: OrdSet<Audience>,
    /// The sum of the digests of all layers.
    pub(crate) digest: u128,
    /// The number of resources with fields that differ by node, of all layers.
    valued: usize,
    needs: NeedsCache,
    /// The view of base alone, which all others grow from; `None` while base is held back.
    pub(crate) root: Option<Arc<View>>,
}

/// Overlays by the name of their group, or the id of their node.
pub(crate) type Overlays = OrdMap<Arc<str>, Overlay>;

/// The names of all groups, or the ids of all nodes, that have an overlay.
#[derive(Clone, Default)]
pub struct OverlayNames(pub(crate) Overlays);

/// The content of an overlay. Two are equal if they are the same one.
#[derive(Clone, Default)]
pub(crate) struct Overlay(Arc<LayerContent>);

/// The state of one layer.
pub(crate) enum LayerState<'a> {
    /// There is no such layer.
    Absent,
    /// The layer, or whether there is one, is held back.
    Held,
    /// The layer is there, and good.
    Good(&'a Arc<LayerContent>),
}

impl CatalogState {
    /// The state after a change, with the root of this one, and the layers that the change touches.
    /// Returns `None` if it changes nothing.
    pub(crate) fn after(&self, changes: ChangeSet) -> Option<(Self, BTreeSet<Layer>)> {
        let (mut state, mut changed) = (self.clone(), false);
        let mut touched: BTreeSet<Layer> = changes.layers.keys().cloned().collect();
        for (layer, change) in changes.layers {
            changed |= state.change(&layer, change);
        }
        for (hold, change) in changes.holds {
            if let Hold::Layer(layer) = &hold {
                touched.insert(layer.clone());
            }
            changed |= match change {
                HoldChange::Hold => state.hold(hold),
                HoldChange::Release => state.holds.remove(&hold).is_some(),
            };
        }
        changed.then_some((state, touched))
    }

    /// Those of the layers that were added, removed, changed or released since `before`.
    pub(crate) fn changed_since(
        &self,
        before: Option<&Self>,
        layers: &BTreeSet<Layer>,
    ) -> Vec<Layer> {
        let changed = |layer: &&Layer| {
            let old = before.map_or(LayerState::Absent, |before| before.layer(layer));
            match (old, self.layer(layer)) {
                (LayerState::Good(old), LayerState::Good(new)) => !Arc::ptr_eq(old, new),
                (LayerState::Absent, LayerState::Absent) | (_, LayerState::Held) => false,
                _ => true,
            }
        };
        layers.iter().filter(changed).cloned().collect()
    }

    /// The resources that these layers gained and lost since `before`.
    pub(crate) fn edits_since(&self, before: Option<&Self>, layers: &[Layer]) -> Vec<LayerEdit> {
        let nothing = Arc::new(LayerContent::default());
        let edits = layers.iter().map(|layer| {
            let old = before.and_then(|before| before.content(layer)).unwrap_or(&nothing);
            LayerEdit::between(layer, old, self.content(layer).unwrap_or(&nothing))
        });
        edits.filter(|edit| !edit.is_empty()).collect()
    }

    /// The overlays that another state has and this one has not.
    pub(crate) fn lacks<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Layer> + 'a {
        let groups = missing(&self.groups, &other.groups).map(Layer::Group);
        groups.chain(missing(&self.nodes, &other.nodes).map(Layer::Node))
    }

    pub(crate) fn layer(&self, layer: &Layer) -> LayerState<'_> {
        let unlisted = match layer {
            Layer::Base => false,
            Layer::Group(_) => self.holds.contains(&Hold::UnlistedGroups),
            Layer::Node(_) => self.holds.contains(&Hold::UnlistedNodes),
        };
        match self.content(layer) {
            Some(_) if self.is_held(layer) => LayerState::Held,
            Some(content) => LayerState::Good(content),
            None if unlisted => LayerState::Held,
            None => LayerState::Absent,
        }
    }

    /// The content of a layer, held back or not.
    pub(crate) fn content(&self, layer: &Layer) -> Option<&Arc<LayerContent>> {
        match layer {
            Layer::Base => Some(&self.base),
            Layer::Group(name) => self.groups.get(name).map(|overlay| &overlay.0),
            Layer::Node(id) => self.nodes.get(id).map(|overlay| &overlay.0),
        }
    }

    /// The content of base.
    pub(crate) fn base(&self) -> &Arc<LayerContent> {
        &self.base
    }

    /// Returns true if a resource has fields that differ by node.
    pub(crate) fn has_values(&self) -> bool {
        self.valued > 0
    }

    /// The variables that the layers of an audience need.
    pub(crate) fn needs(&self, audience: &Audience) -> Arc<Needs> {
        let audience = audience.without_values();
        self.needs.get(&audience, || Needs::of(&self.slots(&audience)))
    }

    /// The contents of the layers of an audience, the strongest first, held back or not.
    pub(crate) fn slots(&self, audience: &Audience) -> Vec<Slot> {
        let layers = self.lineage.layers(audience).into_iter().rev();
        layers.map(|layer| self.content(&layer).cloned()).collect()
    }

    /// Returns true if nodes may need other values than in another state, or other resources are filled with
    /// them: because of these layers, or because something else is held back.
    pub(crate) fn refills(&self, before: &Self, touched: &BTreeSet<Layer>) -> bool {
        if !self.has_values() && !before.has_values() {
            return false;
        }
        let valued = |state: &Self| -> BTreeSet<Key> {
            let contents = state.layers().filter_map(|layer| state.content(&layer).cloned());
            contents.flat_map(|it| it.valued().iter().cloned().collect::<Vec<_>>()).collect()
        };
        let keys = || valued(self).into_iter().chain(valued(before)).collect::<BTreeSet<_>>();
        let nothing = Arc::new(LayerContent::default());
        // What is held as it was has the same state to see.
        self.holds != before.holds || self.held != before.held || {
            let keys = keys();
            let differs = |layer: &Layer| {
                let [old, new] = [before, self].map(|it| it.content(layer).unwrap_or(&nothing));
                let says_same = |key: &Key| match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => old.says_same(new),
                    _ => false,
                };
                old.differing(new).any(|key| keys.contains(key) && !says_same(key))
            };
            touched.iter().any(differs)
        }
    }

    /// All layers, held back or not.
    pub(crate) fn layers(&self) -> impl Iterator<Item = Layer> {
        let groups = self.groups.keys().map(|name| Layer::Group(Arc::clone(name)));
        let nodes = self.nodes.keys().map(|id| Layer::Node(Arc::clone(id)));
        std::iter::once(Layer::Base).chain(groups).chain(nodes)
    }

    /// The layers from one on.
    pub(crate) fn layers_from<'a>(&'a self, first: &'a Layer) -> impl Iterator<Item = Layer> + 'a {
        let (base, groups, nodes) = match first {
            Layer::Base => (true, Some(Bound::Unbounded), Bound::Unbounded),
            Layer::Group(name) => (false, Some(Bound::Included(&**name)), Bound::Unbounded),
            Layer::Node(id) => (false, None, Bound::Included(&**id)),
        };
        let names = |overlays: &'a Overlays, from| {
            overlays.range::<(Bound<&str>, Bound<&str>), str>((from, Bound::Unbounded))
        };
        let groups = groups.into_iter().flat_map(move |from| names(&self.groups, from));
        let groups = groups.map(|(name, _)| Layer::Group(Arc::clone(name)));
        let nodes = names(&self.nodes, nodes).map(|(id, _)| Layer::Node(Arc::clone(id)));
        base.then_some(Layer::Base).into_iter().chain(groups).chain(nodes)
    }

    /// Returns true if nothing holds the audience back.
    pub(crate) fn serves(&self, audience: &Audience) -> bool {
        let is_held = |layer| matches!(self.layer(&layer), LayerState::Held);
        let is_free =
            self.holds.is_empty() || !self.lineage.layers(audience).into_iter().any(is_held);
        is_free && !self.is_held_by_gate(audience)
    }

    /// Returns true if the gate holds the audience, or that of its group. What it holds from nodes
    /// without a group says nothing of groups.
    fn is_held_by_gate(&self, audience: &Audience) -> bool {
        let of_group = || Audience::of(audience.group.clone(), None);
        let of_layers = || audience.without_values();
        !self.held.is_empty()
            && (self.held.contains(&of_layers()) || self.held.contains(&of_group()))
    }

    /// Returns true if the layer itself is held back.
    pub(crate) fn is_held(&self, layer: &Layer) -> bool {
        !self.holds.is_empty() && self.holds.contains(&Hold::Layer(layer.clone()))
    }

    fn change(&mut self, layer: &Layer, change: LayerChange) -> bool {
        let before = self.content(layer).cloned();
        let mut content = before.as_deref().cloned().unwrap_or_default();
        let changed = match change {
            LayerChange::Edit(edits) => edits
                .into_iter()
                .fold(false, |any, (key, entry)| content.set(layer, key, entry) || any),
            LayerChange::Replace(entries) => content.replace(layer, entries),
            LayerChange::Remove => return self.take_out(layer),
        };
        if changed || before.is_none() {
            self.put(layer, Arc::new(content));
        }
        changed || before.is_none()
    }

    fn put(&mut self, layer: &Layer, content: Arc<LayerContent>) {
        let before = self.content(layer).map_or(0, |before| before.digest());
        self.digest = self.digest.wrapping_sub(before).wrapping_add(content.digest());
        self.valued -= self.content(layer).map_or(0, |before| before.valued().len());
        self.valued += content.valued().len();
        match layer {
            Layer::Base => self.base = content,
            Layer::Group(name) => drop(self.groups.insert(Arc::clone(name), Overlay(content))),
            Layer::Node(id) => drop(self.nodes.insert(Arc::clone(id), Overlay(content))),
        }
    }

    /// Takes a layer out. Base stays, without resources.
    fn take_out(&mut self, layer: &Layer) -> bool {
        let Some(before) = self.content(layer).cloned() else { return false };
        self.put(layer, Arc::default());
        let released = self.holds.remove(&Hold::Layer(layer.clone())).is_some();
        match layer {
            Layer::Base => return released || before.iter().next().is_some(),
            Layer::Group(name) => drop(self.groups.remove(name)),
            Layer::Node(id) => drop(self.nodes.remove(id)),
        }
        true
    }

    /// Holds something back. A layer that is held back is there, whatever is in it.
    fn hold(&mut self, hold: Hold) -> bool {
        if let Hold::Layer(layer) = &hold
            && self.content(layer).is_none()
        {
            self.put(layer, Arc::default());
        }
        self.holds.insert(hold).is_none()
    }
}

impl OverlayNames {
    /// Returns true if there is an overlay of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The names, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    /// Returns true if there are no overlays.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for OverlayNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Overlay {
    pub(crate) fn content(&self) -> &LayerContent {
        &self.0
    }
}

impl PartialEq for Overlay {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The names that `others` has and `overlays` has not, in O(changed) where they share structure.
fn missing<'a>(
    overlays: &'a Overlays,
    others: &'a Overlays,
) -> impl Iterator<Item = Arc<str>> + 'a {
    overlays.diff(others).filter_map(|item| match item {
        DiffItem::Add(name, _) => Some(Arc::clone(name)),
        DiffItem::Remove(..) | DiffItem::Update { .. } => None,
    })
}
