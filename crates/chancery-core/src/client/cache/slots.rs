//! The resources of one type under one authority, by name, and for which of them there is a need.
//!
//! While a server is away, each event asks whether anything is missing (C-087), so what is missing
//! is kept here beside the resources, and every change of one goes through here. Not here: groups
//! (`realm`), and what a change means (`receive`).

use std::collections::{BTreeMap, BTreeSet, btree_map};

use crate::ResourceName;
use crate::client::cache::entry::CacheEntry;
use crate::client::watching::watchers::WatchId;

/// One resource, and who watches it by its name.
#[derive(Debug, Default)]
pub(in crate::client) struct CacheSlot {
    pub(in crate::client) entry: CacheEntry,
    pub(in crate::client) watchers: Vec<WatchId>,
}

/// All resources of a shelf.
#[derive(Debug, Default)]
pub(in crate::client) struct CacheSlots {
    all: BTreeMap<ResourceName, CacheSlot>,
    /// Those that are neither held nor known not to exist.
    unresolved: BTreeSet<ResourceName>,
}

impl CacheSlots {
    pub(in crate::client) fn get(&self, name: &ResourceName) -> Option<&CacheSlot> {
        self.all.get(name)
    }

    pub(in crate::client) fn contains(&self, name: &ResourceName) -> bool {
        self.all.contains_key(name)
    }

    pub(in crate::client) fn iter(&self) -> btree_map::Iter<'_, ResourceName, CacheSlot> {
        self.all.iter()
    }

    pub(in crate::client) fn values(&self) -> impl Iterator<Item = &CacheSlot> {
        self.all.values()
    }

    pub(in crate::client) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether any of them is neither held nor known not to exist (C-087).
    pub(in crate::client) fn is_any_unresolved(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Changes one that is there.
    pub(in crate::client) fn change<T>(
        &mut self,
        name: &ResourceName,
        act: impl FnOnce(&mut CacheSlot) -> T,
    ) -> Option<T> {
        let slot = self.all.get_mut(name)?;
        let answer = act(slot);
        note(&mut self.unresolved, name, slot);
        Some(answer)
    }

    /// Changes one, and makes it first if it is not there.
    pub(in crate::client) fn put<T>(
        &mut self,
        name: &ResourceName,
        act: impl FnOnce(&mut CacheSlot) -> T,
    ) -> T {
        let slot = self.all.entry(name.clone()).or_default();
        let answer = act(slot);
        note(&mut self.unresolved, name, slot);
        answer
    }

    /// Changes each of them.
    pub(in crate::client) fn change_all(
        &mut self,
        mut act: impl FnMut(&ResourceName, &mut CacheSlot),
    ) {
        for (name, slot) in &mut self.all {
            act(name, slot);
            note(&mut self.unresolved, name, slot);
        }
    }

    pub(in crate::client) fn remove(&mut self, name: &ResourceName) {
        self.all.remove(name);
        self.unresolved.remove(name);
    }
}

impl<'a> IntoIterator for &'a CacheSlots {
    type Item = (&'a ResourceName, &'a CacheSlot);
    type IntoIter = btree_map::Iter<'a, ResourceName, CacheSlot>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn note(unresolved: &mut BTreeSet<ResourceName>, name: &ResourceName, slot: &CacheSlot) {
    if !slot.entry.is_unresolved() {
        unresolved.remove(name);
    } else if !unresolved.contains(name) {
        unresolved.insert(name.clone());
    }
}
