//! The view of one audience, and how it follows from the one before.
//!
//! ```text
//!   before: base, group, node     now: base', group', node'
//!                 \--- names that differ ---/
//!                          |  for each: the node's, else the group's, else base's
//!                          v
//!                 the snapshot it saw --> the snapshot it sees
//! ```
//!
//! The first view of an audience is that of its [parent](crate::audience::Audience::parent) with its
//! strongest layer written over it; views so share what their layers have in common. Contents share
//! what did not change from commit to commit, so finding the names that differ costs what differs.
//! A view never changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_core::Snapshot;
use chancery_proto::complete::Complete;
use chancery_proto::references::Dangling;

use crate::content::LayerContent;
use crate::entry::Key;

/// The snapshot that one audience sees, and what it is made of.
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The references in it that lead nowhere.
    pub(crate) dangling: Arc<[Dangling]>,
    whole: Complete,
    /// The content of the strongest layer; `None` if there is no such layer.
    own: Slot,
    /// The view of the layers below it.
    parent: Option<Arc<Self>>,
}

/// The content of a layer, if there is such a layer.
pub(crate) type Slot = Option<Arc<LayerContent>>;

impl View {
    /// The view of a layer over its parent, for an audience that saw `before`.
    pub(crate) fn of(
        own: Slot,
        parent: Option<Arc<Self>>,
        before: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        match before {
            Some(before) => Arc::new(before.next(own, parent)),
            None => Arc::new(Self::first(own, parent)),
        }
    }

    /// Returns true if this is made of these layers, the weakest first.
    pub(crate) fn is_of(&self, layers: &[Slot]) -> bool {
        let Some((own, below)) = layers.split_last() else { return true };
        let below_is_same =
            self.parent.as_ref().map_or(below.is_empty(), |parent| parent.is_of(below));
        is_same(&self.own, own) && below_is_same
    }

    /// The view of the layers below the strongest one.
    pub(crate) fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Returns true if this is made of the same layers as another view of the audience.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.layers().iter().zip(other.layers()).all(|(one, other)| is_same(one, &other))
    }

    fn first(own: Slot, parent: Option<Arc<Self>>) -> Self {
        let (mut whole, snapshot) = match &parent {
            Some(parent) => (parent.whole.clone(), Arc::clone(&parent.snapshot)),
            None => (Complete::new(), Arc::default()),
        };
        let mut changed = false;
        for (key, entry) in own.iter().flat_map(|content| content.iter()) {
            changed |= whole.insert(&key.type_url, Arc::clone(&entry.resource));
        }
        let snapshot = if changed { Arc::new(whole.snapshot().clone()) } else { snapshot };
        let dangling = whole.dangling().collect();
        Self { snapshot, dangling, whole, own, parent }
    }

    fn next(&self, own: Slot, parent: Option<Arc<Self>>) -> Self {
        let (before, mut now) = (self.layers(), vec![own.clone()]);
        now.extend(parent.iter().flat_map(|parent| parent.layers()));
        let mut whole = self.whole.clone();
        // Origins are no content: an audience that sees the same keeps its snapshot.
        if !follow(&mut whole, &before, &now) {
            let (snapshot, dangling) = (Arc::clone(&self.snapshot), Arc::clone(&self.dangling));
            return Self { snapshot, dangling, whole, own, parent };
        }
        let dangling = match whole.dangling_turn() == self.whole.dangling_turn() {
            true => Arc::clone(&self.dangling),
            false => whole.dangling().collect(),
        };
        Self { snapshot: Arc::new(whole.snapshot().clone()), dangling, whole, own, parent }
    }

    /// The layers this is made of, the strongest first.
    fn layers(&self) -> Vec<Slot> {
        let chain = std::iter::successors(Some(self), |view| view.parent.as_deref());
        chain.map(|view| view.own.clone()).collect()
    }
}

/// Brings what came of some layers, the strongest first, to what comes of others. Returns true if
/// anything changed.
fn follow(whole: &mut Complete, before: &[Slot], now: &[Slot]) -> bool {
    let mut names = BTreeSet::new();
    for (before, now) in before.iter().zip(now) {
        if !is_same(before, now) {
            differing(before, now, &mut names);
        }
    }
    let mut changed = false;
    for key in names {
        let strongest = now.iter().flatten().find_map(|layer| layer.get(&key));
        changed |= match strongest {
            Some(entry) => whole.insert(&key.type_url, Arc::clone(&entry.resource)),
            None => whole.remove(&key.type_url, &key.name),
        };
    }
    changed
}

/// Adds the names that two states of a layer do not agree about.
fn differing(before: &Slot, now: &Slot, names: &mut BTreeSet<Key>) {
    let nothing = LayerContent::default();
    let content = |slot: &Slot| slot.as_deref().cloned().unwrap_or_default();
    match (before, now) {
        (Some(before), Some(now)) => names.extend(before.differing(now).cloned()),
        (before, now) => {
            let (before, now) = (content(before), content(now));
            names.extend(before.differing(&nothing).chain(now.differing(&nothing)).cloned());
        }
    }
}

fn is_same(old: &Slot, new: &Slot) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (None, None) => true,
        _ => false,
    }
}
