//! The watchers of one type under one authority: they come and go, and are found for a change.
//!
//! A new watcher is told what is known (C-048). A resource is kept for as long as a watcher or a
//! watched collection has it (C-050). Not here: the events that a watcher has still to hear
//! (`watching`), and the changes of resources (`type_changes`).

use std::collections::BTreeSet;

use super::collection::{WatchedCollection, is_member};
use super::entry::CacheEntry;
use super::slots::CacheSlots;
use super::type_cache::TypeCache;
use crate::ResourceName;
use crate::client::ids::WatchId;
use crate::client::resource::CachedResource;
use crate::client::watching::{ChangeKind, Notifier, is_collection};

impl TypeCache {
    /// Adds a watcher of a resource, and tells it what is known (C-048). `restored` is left of an
    /// earlier run.
    pub(super) fn watch_resource(
        &mut self,
        name: &ResourceName,
        id: WatchId,
        restored: Option<CachedResource>,
        notifier: &mut Notifier<'_>,
    ) {
        let is_unknown = self.slots.change_or_insert(name, |slot| {
            if let Some(restored) = restored {
                slot.entry.restore(restored);
            }
            slot.watchers.push(id);
            slot.entry.is_unknown()
        });
        if !is_unknown || self.outage.is_some() {
            notifier.notify(&[id], name, Some(ChangeKind::Value));
        }
    }

    /// Adds a watcher of a collection, and tells it what is known. `restored` is left of an earlier
    /// run.
    pub(super) fn watch_collection(
        &mut self,
        name: &ResourceName,
        id: WatchId,
        restored: Vec<CachedResource>,
        notifier: &mut Notifier<'_>,
    ) {
        for cached in restored {
            let name = cached.resource.name().clone();
            self.slots.change_or_insert(&name, |slot| slot.entry.restore(cached));
        }
        let members = || held_members(&self.slots, name);
        let new = || WatchedCollection::new(name.clone(), members());
        let collection = self.collections.entry(name.clone()).or_insert_with(new);
        collection.watchers.push(id);
        for member in &collection.members {
            notifier.notify(&[id], member, Some(ChangeKind::Value));
            if self.slots.entry(member).is_some_and(CacheEntry::is_restored) {
                notifier.assume_known(&[id], member);
            }
        }
        if collection.is_complete() {
            notifier.mark_complete(&[id]);
        }
        if collection.problem().is_some() || self.outage.is_some() || self.unusable.is_some() {
            notifier.notify(&[id], name, Some(ChangeKind::Ambient));
        }
    }

    /// Removes a watcher, and what nobody watches any more (C-050).
    pub(super) fn unwatch(&mut self, name: &ResourceName, id: WatchId) {
        if !is_collection(name) {
            self.slots.change(name, |slot| slot.watchers.retain(|one| *one != id));
            self.remove_unwatched(name);
        } else if let Some(collection) = self.collections.get_mut(name) {
            collection.watchers.retain(|one| *one != id);
            if collection.watchers.is_empty() {
                let members = std::mem::take(&mut collection.members);
                self.collections.remove(name);
                members.iter().for_each(|member| self.remove_unwatched(member));
            }
        }
    }

    /// Takes back what is left of an earlier run, if it is watched and nothing newer is known. It
    /// is handed back if nobody watches it.
    pub(super) fn restore(
        &mut self,
        cached: CachedResource,
        notifier: &mut Notifier<'_>,
    ) -> Result<(), CachedResource> {
        let name = cached.resource.name().clone();
        let collections = self.collections_of(&name);
        if collections.is_empty() && !self.slots.contains(&name) {
            return Err(cached);
        }
        if self.slots.change_or_insert(&name, |slot| slot.entry.restore(cached)) {
            for collection in &collections {
                if let Some(collection) = self.collections.get_mut(collection) {
                    collection.members.insert(name.clone());
                }
            }
            let listeners = self.listeners(&name);
            notifier.assume_known(&listeners, &name);
            notifier.notify(&listeners, &name, Some(ChangeKind::Value));
        }
        Ok(())
    }

    /// A resource of an earlier run is known to be gone: watchers of its collections are told that
    /// it was removed.
    pub(super) fn restore_gone(&self, name: &ResourceName, notifier: &mut Notifier<'_>) {
        for collection in self.collections_of(name).iter().filter_map(|it| self.collections.get(it))
        {
            notifier.assume_known(&collection.watchers, name);
            notifier.notify(&collection.watchers, name, Some(ChangeKind::Value));
        }
    }

    /// Returns all watchers that hear of a resource: by its name, and with the collections it is
    /// in.
    pub(super) fn listeners(&self, name: &ResourceName) -> Vec<WatchId> {
        let mut all = self.slots.get(name).map(|slot| slot.watchers.clone()).unwrap_or_default();
        for collection in self.collections_of(name).iter().filter_map(|it| self.collections.get(it))
        {
            all.extend(&collection.watchers);
        }
        all
    }

    /// Forgets a resource that neither a watcher nor a collection has.
    pub(super) fn remove_unwatched(&mut self, name: &ResourceName) {
        let is_member = self.collections.values().any(|it| it.members.contains(name));
        let is_watched = self.slots.get(name).is_some_and(|slot| !slot.watchers.is_empty());
        if !is_member && !is_watched {
            self.slots.remove(name);
        }
    }
}

/// Returns the members of a new collection that are held already, as a server of delta does not
/// send them again. A resource that is held although its server says that it is no more is no
/// member.
fn held_members(slots: &CacheSlots, collection: &ResourceName) -> BTreeSet<ResourceName> {
    let is_held = |entry: &CacheEntry| entry.cached().is_some() && !entry.has_missing_error();
    let held = slots.iter().filter(|(_, slot)| is_held(&slot.entry));
    held.map(|(name, _)| name).filter(|name| is_member(collection, name)).cloned().collect()
}
