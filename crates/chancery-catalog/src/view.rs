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
use chancery_proto::complete::{Complete, Dangling};

use crate::content::LayerContent;
use crate::entry::Key;

/// The snapshot that one audience sees, and what it is made of.
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The references in it that lead nowhere.
    pub(crate) dangling: Arc<[Dangling]>,
    /// The state that the next view, and views above this one, are made from. The view of a node
    /// with a small overlay has none: it is made anew each time.
    whole: Option<Complete>,
    /// The content of the strongest layer; `None` if there is no such layer.
    own: Slot,
    /// The view of the layers below it.
    parent: Option<Arc<Self>>,
}

/// The place of a view among those that are made from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Views of stronger layers are made from it.
    Inner,
    /// No layer is stronger.
    Leaf,
}

/// The content of a layer, if there is such a layer.
pub(crate) type Slot = Option<Arc<LayerContent>>;

impl View {
    /// The view of a layer over its parent, for an audience that saw `before`.
    ///
    /// A small overlay is written over its parent each time, so that the view goes on sharing what
    /// both have in common; a large one follows the changes.
    pub(crate) fn of(
        place: Place,
        own: Slot,
        parent: Option<Arc<Self>>,
        before: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let is_small = parent.as_ref().is_some_and(|parent| parent.dwarfs(&own));
        let followed = before.filter(|_| !is_small).and_then(|before| before.whole.as_ref());
        let mut view = match (before, followed) {
            (Some(before), Some(whole)) => before.next(whole.clone(), own, parent),
            (before, _) => Self::over(own, parent, before),
        };
        if is_small && place == Place::Leaf {
            view.whole = None;
        }
        Arc::new(view)
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

    /// Returns true if an overlay is small beside this.
    fn dwarfs(&self, own: &Slot) -> bool {
        let own = own.as_ref().map_or(0, |content| content.len());
        own <= FEW || own.saturating_mul(MANY_TIMES) <= self.snapshot.len()
    }

    /// The view of a layer, written over its parent.
    fn over(own: Slot, parent: Option<Arc<Self>>, before: Option<&Arc<Self>>) -> Self {
        let mut whole = parent.as_ref().map(|parent| parent.complete()).unwrap_or_default();
        let turn = whole.dangling_revision();
        let mut changed = false;
        for (key, entry) in own.iter().flat_map(|content| content.iter()) {
            changed |= whole.insert(&key.type_url, Arc::clone(&entry.resource));
        }
        let snapshot = match &parent {
            Some(parent) if !changed => Arc::clone(&parent.snapshot),
            parent => snapshot_over(&whole, parent.as_deref(), before.map(|before| &**before)),
        };
        let dangling = match &parent {
            Some(parent) if whole.dangling_revision() == turn => Arc::clone(&parent.dangling),
            _ => whole.dangling().collect(),
        };
        Self { snapshot, dangling, whole: Some(whole), own, parent }
    }

    /// The view after this one, from the state of this one.
    fn next(&self, mut whole: Complete, own: Slot, parent: Option<Arc<Self>>) -> Self {
        let (before, mut now) = (self.layers(), vec![own.clone()]);
        now.extend(parent.iter().flat_map(|parent| parent.layers()));
        let turn = whole.dangling_revision();
        // Origins are no content: an audience that sees the same keeps its snapshot.
        let snapshot = match follow(&mut whole, &before, &now) {
            true => Arc::new(whole.snapshot().clone()),
            false => Arc::clone(&self.snapshot),
        };
        let dangling = match whole.dangling_revision() == turn {
            true => Arc::clone(&self.dangling),
            false => whole.dangling().collect(),
        };
        Self { snapshot, dangling, whole: Some(whole), own, parent }
    }

    /// The state that views above this one are made from.
    fn complete(&self) -> Complete {
        let made = || Self::over(self.own.clone(), self.parent.clone(), None).whole;
        self.whole.clone().or_else(made).unwrap_or_default()
    }

    /// The layers this is made of, the strongest first.
    fn layers(&self) -> Vec<Slot> {
        let chain = std::iter::successors(Some(self), |view| view.parent.as_deref());
        chain.map(|view| view.own.clone()).collect()
    }
}

/// The snapshot of a state that was written over a parent; the one before, if nothing changed.
fn snapshot_over(whole: &Complete, parent: Option<&View>, before: Option<&View>) -> Arc<Snapshot> {
    let mut snapshot = whole.snapshot().clone();
    if let Some(parent) = parent {
        snapshot.written_over(&parent.snapshot);
    }
    match before {
        Some(before) if snapshot.keep_same(&before.snapshot) => Arc::clone(&before.snapshot),
        _ => Arc::new(snapshot),
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

/// An overlay of so few resources is small, whatever it is written over.
const FEW: usize = 16;
/// An overlay is small beside a view that holds so many times its resources.
const MANY_TIMES: usize = 8;
