//! The changes of all audiences of two directories.
//!
//! An audience sees what its parent sees, as a group sees what base has, but for what its own layer says.
//! So it is asked only about the keys of its own layer, and every other change of its parent is one of
//! its own: a change of base costs nothing for each group that has nothing to do with it. An audience
//! whose parent differs from side to side is compared as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_catalog::{Audience, Key, Layer, LayerContent};
use chancery_core::{Api, Snapshot};

use super::change::{Change, SeenChanges, SetNumber, is_same};
use super::side::{DifferingLayers, DirectorySide, find};

/// The audiences that were looked at, parents first.
pub(super) struct Inheritance<'a> {
    sides: &'a [DirectorySide<'a>; 2],
    differing: DifferingLayers<'a>,
    places: BTreeMap<Audience, usize>,
    all: Vec<AudienceChanges>,
}

/// The changes for an audience.
struct AudienceChanges {
    audience: Audience,
    /// True if it is one of those that are told of.
    is_shown: bool,
    parent: Option<usize>,
    children: Vec<usize>,
    /// All that it sees, before and after.
    snapshots: Snapshots,
    /// The keys of which it does not see the same as its parent, or may not.
    touched: BTreeSet<Key>,
    /// The changes under these keys; without a parent all.
    own: BTreeMap<Key, Change>,
}

/// The snapshots of an audience, before and after.
type Snapshots = [Option<Arc<Snapshot>>; 2];

impl<'a> Inheritance<'a> {
    /// Compares what these audiences see.
    pub(super) fn of(sides: &'a [DirectorySide<'a>; 2], shown: &BTreeSet<Audience>) -> Self {
        let differing = DifferingLayers::new(sides);
        let mut it = Self { sides, differing, places: BTreeMap::new(), all: Vec::new() };
        for audience in shown {
            let at = it.place(audience);
            it.all[at].is_shown = true;
        }
        it
    }

    /// All changes, with those who see them.
    pub(super) fn seen(self) -> SeenChanges {
        let mut touched_by: BTreeMap<&Key, Vec<usize>> = BTreeMap::new();
        for (at, one) in self.all.iter().enumerate().filter(|(_, one)| one.parent.is_some()) {
            one.touched.iter().for_each(|key| touched_by.entry(key).or_default().push(at));
        }
        let mut seen = SeenChanges::default();
        for (at, one) in self.all.iter().enumerate() {
            let mut everybody: Option<SetNumber> = None;
            for (key, change) in &one.own {
                let others = touched_by.get(key).map(Vec::as_slice).unwrap_or_default();
                let is_split = others.iter().any(|other| *other != at && self.is_below(*other, at));
                let set = match everybody {
                    Some(set) if !is_split => set,
                    _ => seen.set(self.viewers(at, key)),
                };
                if !is_split {
                    everybody = Some(set);
                }
                seen.add(change.clone(), set);
            }
        }
        seen
    }

    /// The audiences that are shown and see the change of this one.
    fn viewers(&self, at: usize, key: &Key) -> Vec<Audience> {
        let (mut viewers, mut left) = (Vec::new(), vec![at]);
        while let Some(at) = left.pop() {
            let one = &self.all[at];
            viewers.extend(one.is_shown.then(|| one.audience.clone()));
            let children = one.children.iter().copied();
            left.extend(children.filter(|child| !self.all[*child].touched.contains(key)));
        }
        viewers
    }

    fn is_below(&self, at: usize, other: usize) -> bool {
        std::iter::successors(Some(at), |at| self.all[*at].parent).any(|at| at == other)
    }

    /// Compares what an audience sees, and those below it before, unless that is known.
    fn place(&mut self, audience: &Audience) -> usize {
        if let Some(at) = self.places.get(audience) {
            return *at;
        }
        let parent = self.parent(audience);
        let parent = parent.map(|parent| self.place(&parent));
        let [old, new] = self.sides.each_ref().map(|side| side.audience(audience));
        let snapshots = [self.sides[0].snapshot(&old), self.sides[1].snapshot(&new)];
        let touched = match parent {
            Some(parent) => self.touched(audience, parent, &snapshots),
            None => with_endpoints(&self.candidates(&old, &new), &snapshots),
        };
        let change = |key: &Key| {
            let [before, after] = snapshots.each_ref().map(|it| find(it.as_deref(), key));
            let is_same = is_same(before.as_deref(), after.as_deref());
            (!is_same).then(|| (key.clone(), Change { key: key.clone(), before, after }))
        };
        let own = touched.iter().filter_map(change).collect();
        let at = self.all.len();
        let (audience, children) = (audience.clone(), Vec::new());
        self.places.insert(audience.clone(), at);
        self.all.push(AudienceChanges {
            audience,
            is_shown: false,
            parent,
            children,
            snapshots,
            touched,
            own,
        });
        if let Some(parent) = parent {
            self.all[parent].children.push(at);
        }
        at
    }

    /// The audience that sees, on both sides, what this one sees without its own layer.
    fn parent(&self, audience: &Audience) -> Option<Audience> {
        let own = own_layer(audience)?;
        let [before, after] = self.sides;
        let group = match &audience.node {
            Some(_) => after.audience(audience).group,
            None => after.catalog.lineage().parent(audience.group.as_deref()?).cloned(),
        };
        let parent = Audience::of(group, None);
        let is_parent_in = |side: &DirectorySide<'_>| {
            let below = side.layers(&side.audience(&parent));
            side.layers(&side.audience(audience)).into_iter().filter(|it| *it != own).eq(below)
        };
        (is_parent_in(before) && is_parent_in(after)).then_some(parent)
    }

    /// The keys under which an audience may see something else than its parent, as far as somebody sees a
    /// change there.
    fn touched(
        &mut self,
        audience: &Audience,
        parent: usize,
        snapshots: &Snapshots,
    ) -> BTreeSet<Key> {
        let Some(own) = own_layer(audience) else { return BTreeSet::new() };
        let differing = self.differing.of(&own);
        let mut touched = with_endpoints(&differing, snapshots);
        let contents = self.sides.each_ref().map(|side| side.catalog.layer(&own));
        let of_both = [snapshots, &self.all[parent].snapshots];
        for (key, _) in contents.iter().flatten().flat_map(|it| LayerContent::iter(it)) {
            touched.extend(self.is_changed(parent, key).then(|| key.clone()));
            touched.extend(of_both.iter().flat_map(|snapshots| endpoints_of(key, snapshots)));
        }
        touched
    }

    fn is_changed(&self, at: usize, key: &Key) -> bool {
        let one = &self.all[at];
        let inherits = || one.parent.filter(|_| !one.touched.contains(key));
        one.own.contains_key(key) || inherits().is_some_and(|parent| self.is_changed(parent, key))
    }

    /// The keys under which an audience may see something else than before.
    fn candidates(&mut self, old: &Audience, new: &Audience) -> BTreeSet<Key> {
        let [before, after] = self.sides;
        let (old, new) = (before.layers(old), after.layers(new));
        let is_shared = |layer: &&Layer| old.contains(layer) && new.contains(layer);
        let is_same_order = old.iter().filter(is_shared).eq(new.iter().filter(is_shared));
        let mut keys = BTreeSet::new();
        for (side, layers) in [(before, &old), (after, &new)] {
            for layer in layers {
                if is_shared(&layer) && is_same_order {
                    keys.extend(self.differing.of(layer).iter().cloned());
                } else if let Some(content) = side.catalog.layer(layer) {
                    // A layer that only one side has for this audience, or has elsewhere, counts whole.
                    keys.extend(content.iter().map(|(key, _)| key.clone()));
                }
            }
        }
        keys
    }
}

/// The layer that an audience has for itself.
fn own_layer(audience: &Audience) -> Option<Layer> {
    match (&audience.group, &audience.node) {
        (_, Some(id)) => Some(Layer::Node(Arc::clone(id))),
        (Some(group), None) => Some(Layer::Group(Arc::clone(group))),
        (None, None) => None,
    }
}

/// The keys, and those of the endpoint sets of the clusters among them: a cluster without endpoints gets
/// some that no layer has.
fn with_endpoints(keys: &BTreeSet<Key>, snapshots: &Snapshots) -> BTreeSet<Key> {
    let endpoints = keys.iter().flat_map(|key| endpoints_of(key, snapshots));
    endpoints.chain(keys.iter().cloned()).collect()
}

/// The endpoint sets of a cluster on both sides.
fn endpoints_of(key: &Key, snapshots: &Snapshots) -> Vec<Key> {
    if key.type_url.api() != Api::Cds {
        return Vec::new();
    }
    let clusters = snapshots.iter().filter_map(|snapshot| find(snapshot.as_deref(), key));
    let links = clusters.flat_map(|cluster| cluster.facts().links.clone());
    let sets = links.filter(|link| link.type_url.api() == Api::Eds);
    sets.map(|link| Key { type_url: link.type_url, name: link.name }).collect()
}
