//! The resources of one type under one authority, by name, and which of them are unresolved.
//!
//! While a server is away, each event asks whether anything is missing (C-087), so what is missing
//! is kept here beside the resources, and every change of one goes through here. Not here:
//! collections (`type_cache`), and what a change means (`machine`).

use std::collections::{BTreeMap, BTreeSet};

use super::entry::CacheEntry;
use crate::ResourceName;
use crate::client::ids::WatchId;

/// One resource, and the watchers that have it by its name.
#[derive(Debug, Default)]
pub(crate) struct CacheSlot {
    pub(crate) entry: CacheEntry,
    pub(super) watchers: Vec<WatchId>,
}

/// All resources of a type.
#[derive(Debug, Default)]
pub(super) struct CacheSlots {
    all: BTreeMap<ResourceName, CacheSlot>,
    /// Those that are neither held nor known not to exist.
    unresolved: BTreeSet<ResourceName>,
}

impl CacheSlots {
    pub(super) fn get(&self, name: &ResourceName) -> Option<&CacheSlot> {
        self.all.get(name)
    }

    pub(super) fn entry(&self, name: &ResourceName) -> Option<&CacheEntry> {
        self.all.get(name).map(|slot| &slot.entry)
    }

    pub(super) fn contains(&self, name: &ResourceName) -> bool {
        self.all.contains_key(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ResourceName, &CacheSlot)> {
        self.all.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns true if any of them is neither held nor known not to exist (C-087).
    pub(super) fn is_any_unresolved(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Changes one that is there.
    pub(super) fn change<T>(
        &mut self,
        name: &ResourceName,
        act: impl FnOnce(&mut CacheSlot) -> T,
    ) -> Option<T> {
        let slot = self.all.get_mut(name)?;
        let answer = act(slot);
        update_unresolved(&mut self.unresolved, name, slot);
        Some(answer)
    }

    /// Changes one, and makes it first if it is not there.
    pub(super) fn change_or_insert<T>(
        &mut self,
        name: &ResourceName,
        act: impl FnOnce(&mut CacheSlot) -> T,
    ) -> T {
        let slot = self.all.entry(name.clone()).or_default();
        let answer = act(slot);
        update_unresolved(&mut self.unresolved, name, slot);
        answer
    }

    /// Changes each of them.
    pub(super) fn change_all(&mut self, mut act: impl FnMut(&ResourceName, &mut CacheSlot)) {
        for (name, slot) in &mut self.all {
            act(name, slot);
            update_unresolved(&mut self.unresolved, name, slot);
        }
    }

    pub(super) fn remove(&mut self, name: &ResourceName) {
        self.all.remove(name);
        self.unresolved.remove(name);
    }
}

fn update_unresolved(
    unresolved: &mut BTreeSet<ResourceName>,
    name: &ResourceName,
    slot: &CacheSlot,
) {
    if !slot.entry.is_unresolved() {
        unresolved.remove(name);
    } else if !unresolved.contains(name) {
        unresolved.insert(name.clone());
    }
}
