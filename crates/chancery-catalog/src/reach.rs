//! The keys on which it depends what a layer changes in the views below it, and the keys that a step
//! from one view to the next may have touched.
//!
//! A resource touches its own key, those of its aliases, and those it refers to: a load assignment
//! is generated for a cluster, and a reference leads nowhere, because of what is under these keys
//! and nothing else. So where the reach of a small overlay and a step of the view below it have no
//! key in common, the overlay changes the same as before.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use chancery_core::{Resource, Snapshot, TypeUrl};

use crate::entry::Key;
use crate::view::{Slot, View};

/// The keys on which it depends what an overlay changes.
pub(crate) type Reach = Arc<BTreeSet<Key>>;

/// The keys that a step from one view to the next may have touched.
pub(crate) struct ViewStep {
    from: Weak<View>,
    keys: Arc<BTreeSet<Key>>,
}

impl ViewStep {
    /// The step that touches these keys.
    pub(crate) fn new(from: &Arc<View>, keys: Arc<BTreeSet<Key>>) -> Self {
        Self { from: Arc::downgrade(from), keys }
    }

    /// The keys, if the step is from that view.
    pub(crate) fn keys_from(&self, view: &Arc<View>) -> Option<&Arc<BTreeSet<Key>>> {
        std::ptr::eq(self.from.as_ptr(), Arc::as_ptr(view)).then_some(&self.keys)
    }
}

/// The reach of an overlay that is written over a snapshot; `None` if it is not worth to be known.
pub(crate) fn of_overlay(own: &Slot, below: &Snapshot) -> Option<Reach> {
    let mut keys = BTreeSet::new();
    for (key, entry) in own.iter().flat_map(|content| content.iter()) {
        add(&mut keys, key, [Some(&entry.resource), resource(below, key)]);
        if keys.len() > MOST_KEYS {
            return None;
        }
    }
    Some(Arc::new(keys))
}

/// Adds the keys that a change of one layer touches, which makes one snapshot of another. Returns
/// false if they are too many to be worth it.
pub(crate) fn add_touched<'a>(
    keys: &mut BTreeSet<Key>,
    differing: impl Iterator<Item = &'a Key>,
    before: &Snapshot,
    now: &Snapshot,
) -> bool {
    for key in differing {
        add(keys, key, [resource(before, key), resource(now, key)]);
        if keys.len() > MOST_KEYS {
            return false;
        }
    }
    true
}

/// Returns true if no key is in both.
pub(crate) fn are_apart(one: &BTreeSet<Key>, other: &BTreeSet<Key>) -> bool {
    let (few, many) = if one.len() < other.len() { (one, other) } else { (other, one) };
    !few.iter().any(|key| many.contains(key))
}

/// Adds a key, and those that the resources under it touch.
fn add(keys: &mut BTreeSet<Key>, key: &Key, resources: [Option<&Arc<Resource>>; 2]) {
    for resource in resources.into_iter().flatten() {
        let alias = |name| Key { type_url: TypeUrl::clone(&key.type_url), name };
        keys.extend(resource.aliases().iter().cloned().map(alias));
        let links = resource.facts().links.iter();
        keys.extend(
            links.map(|link| Key { type_url: link.type_url.clone(), name: link.name.clone() }),
        );
    }
    keys.insert(key.clone());
}

fn resource<'a>(snapshot: &'a Snapshot, key: &Key) -> Option<&'a Arc<Resource>> {
    snapshot.set(&key.type_url).get(key.name.as_str())
}

/// The number of keys beyond which a view is made anew.
const MOST_KEYS: usize = 1024;
