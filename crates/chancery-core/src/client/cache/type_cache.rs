//! The resources of one type under one authority, and the collections that they are members of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::collection::Collection;
use super::collection::is_member;
use super::entry::{CacheEntry, OnError};
use super::resource::{CachedResource, ResourceState};
use super::slots::CacheSlot;
use super::slots::CacheSlots;
use crate::client::error::WatchError;
use crate::client::setup::ServerId;
use crate::client::watching::WatchId;
use crate::client::watching::{
    Change, EVERYTHING, Notifier, ResourceView, WatchSubject, is_collection,
};
use crate::{ResourceName, Time};

/// The resources of one type under one authority.
#[derive(Debug, Default)]
pub(in crate::client) struct TypeCache {
    pub(super) slots: CacheSlots,
    pub(super) collections: BTreeMap<ResourceName, Collection>,
    /// The reason why no server can be reached, once that is known.
    outage: Option<Arc<WatchError>>,
    /// True if a resource was ever given under a name that is not its own.
    has_aliases: bool,
    /// The reason why the newest of what there is cannot be used as a whole (C-043).
    unusable: Option<Arc<WatchError>>,
}

/// The meaning of a statement for the collections that a resource may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Membership {
    /// It comes to be a member.
    Joins,
    /// Only what is watched by name, or is a member already, is concerned.
    Stays,
    /// It is no member any more.
    Leaves,
}

/// The state of a resource after a change.
#[derive(Clone, Debug)]
pub(super) struct AppliedChange {
    /// The time from which on it must not be used any more.
    pub(super) expires: Option<Time>,
    /// The new state, if there was a change.
    pub(super) state: Option<StateChange>,
}

/// A state that is new, and the version that is held, if one is.
#[derive(Clone, Debug)]
pub(in crate::client) struct StateChange {
    pub(in crate::client) state: ResourceState,
    pub(in crate::client) version: Option<Arc<str>>,
}

/// Questions.
impl TypeCache {
    /// Returns true if something is neither held nor known not to exist (C-087).
    pub(super) fn is_unresolved(&self) -> bool {
        self.slots.is_any_unresolved() || self.collections.values().any(|it| !it.is_complete())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.collections.is_empty()
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.collections.is_empty() || self.slots.iter().any(|(_, slot)| !slot.watchers.is_empty())
    }

    /// Returns true if a name is watched.
    pub(in crate::client) fn wants(&self, name: &ResourceName) -> bool {
        self.collections.contains_key(name)
            || self.slots.get(name).is_some_and(|slot| !slot.watchers.is_empty())
    }

    /// Returns true if a resource is watched by its name or with a collection.
    pub(in crate::client) fn concerns(&self, name: &ResourceName) -> bool {
        self.wants(name) || !self.collections_of(name).is_empty()
    }

    /// Returns all names that are to be asked for.
    pub(in crate::client) fn wanted(&self) -> impl Iterator<Item = &ResourceName> {
        let slots = self.slots.iter().filter(|(_, slot)| !slot.watchers.is_empty());
        self.collections.keys().chain(slots.map(|(name, _)| name))
    }

    pub(in crate::client) fn entry(&self, name: &ResourceName) -> Option<&CacheEntry> {
        self.slots.entry(name)
    }

    /// Returns true if a resource is a member of a collection that is watched.
    pub(super) fn is_member_of_any(&self, name: &ResourceName) -> bool {
        self.collections.values().any(|collection| collection.members.contains(name))
    }

    pub(in crate::client) fn entries(&self) -> impl Iterator<Item = (&ResourceName, &CacheEntry)> {
        self.slots.iter().map(|(name, slot)| (name, &slot.entry))
    }

    /// Returns false while nothing of its source can be used (C-043).
    pub(in crate::client) fn is_usable(&self) -> bool {
        self.unusable.is_none()
    }

    /// Returns true if there is no such resource as far as is known: it is watched and missing, or a
    /// collection that it would be in has been told in full without it.
    pub(super) fn is_known_missing(&self, name: &ResourceName) -> bool {
        match self.slots.entry(name) {
            Some(entry) => entry.is_known_missing(),
            None => {
                let mut collections = self.collections.iter();
                collections
                    .any(|(collection, it)| it.is_known_whole() && is_member(collection, name))
            }
        }
    }

    /// Returns true if a server has still to speak of a name: nothing is held, or only what another
    /// server gave. That may be used until it has (C-088), and need not be true for ever.
    pub(in crate::client) fn is_awaited(&self, name: &ResourceName, server: ServerId) -> bool {
        if !is_collection(name) {
            return self.slots.entry(name).is_some_and(|entry| !entry.is_from(server));
        }
        self.collections.get(name).is_some_and(|collection| {
            !collection.is_complete() || self.members_not_from(collection, server).next().is_some()
        })
    }

    /// Returns true if something is held, and nothing that another server gave or said, or that had to
    /// be dropped since.
    pub(super) fn is_all_from(&self, server: ServerId) -> bool {
        let mut some = false;
        let all = self.entries().all(|(_, entry)| {
            some |= entry.is_from(server);
            entry.is_as_said_by(server)
        });
        some && all && self.collections.values().all(Collection::is_complete)
    }

    /// Returns the resources that this server has to say again: that of this name, or members of the
    /// collection.
    pub(in crate::client) fn unconfirmed<'a>(
        &'a self,
        name: &'a ResourceName,
        server: ServerId,
    ) -> impl Iterator<Item = &'a ResourceName> {
        let members = self.collections.get(name).into_iter().flat_map(|it| &it.members);
        let is_unconfirmed = move |name: &&ResourceName| {
            self.slots.entry(name).is_some_and(|entry| entry.is_unconfirmed_by(server))
        };
        members.chain([name]).filter(is_unconfirmed)
    }

    /// Returns the members of a collection that this server has not spoken of in its time, and that
    /// it would have to: those that another one gave, or this one before it was given up or in an
    /// earlier run.
    pub(in crate::client) fn overdue_members(
        &self,
        name: &ResourceName,
        server: ServerId,
        was_announced: impl Fn(&ResourceName) -> bool,
    ) -> BTreeSet<ResourceName> {
        let Some(collection) = self.collections.get(name) else { return BTreeSet::new() };
        let unconfirmed = self.unconfirmed(name, server).filter(|name| !was_announced(name));
        self.members_not_from(collection, server).chain(unconfirmed).cloned().collect()
    }

    fn members_not_from<'a>(
        &'a self,
        collection: &'a Collection,
        server: ServerId,
    ) -> impl Iterator<Item = &'a ResourceName> {
        let knows = move |name: &ResourceName| {
            self.slots.entry(name).is_some_and(|entry| entry.is_known_from(server))
        };
        collection.members.iter().filter(move |name| !knows(name))
    }

    /// Returns the watched collections that a resource of this name is in.
    pub(in crate::client) fn collections_of(&self, name: &ResourceName) -> Vec<ResourceName> {
        let everything = self.collections.get_key_value(EVERYTHING);
        let glob = name.collection().and_then(|name| self.collections.get_key_value(&name));
        everything.into_iter().chain(glob).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the collections that a response completes, if the server was asked for them: `*` by any
    /// response, a glob by one that names a member, or if nothing else was asked for.
    pub(in crate::client) fn collections_told_by(
        &self,
        present: &BTreeSet<ResourceName>,
    ) -> Vec<ResourceName> {
        let is_alone = self.wanted().nth(1).is_none();
        let open = self.collections.iter().filter(|(_, collection)| !collection.is_complete());
        let told = open.filter(|(name, collection)| {
            let has_member = || present.iter().any(|one| collection.members.contains(one));
            name.as_str() == EVERYTHING || is_alone || has_member()
        });
        told.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the names that may be those of resources that nobody can name: collections, and
    /// resources of which there is no value and no better word.
    pub(in crate::client) fn may_be_nameless(&self) -> impl Iterator<Item = &ResourceName> {
        self.wanted().filter(|name| {
            let entry = self.slots.entry(name);
            is_collection(name) || entry.is_some_and(CacheEntry::may_be_nameless)
        })
    }

    /// Returns the resources that were received: those that are held, and those that only a collection
    /// has.
    pub(in crate::client) fn received(&self) -> impl Iterator<Item = &ResourceName> {
        let received = |(_, slot): &(&ResourceName, &CacheSlot)| {
            slot.entry.cached().is_some() || slot.watchers.is_empty()
        };
        self.slots.iter().filter(received).map(|(name, _)| name)
    }

    /// Returns the other names under which a resource is watched.
    pub(in crate::client) fn aliases_of(&self, name: &ResourceName) -> Vec<ResourceName> {
        if !self.has_aliases {
            return Vec::new();
        }
        let is_alias = |(watched, entry): &(&ResourceName, &CacheEntry)| {
            *watched != name && entry.cached().is_some_and(|it| it.resource.name() == name)
        };
        self.entries().filter(is_alias).map(|(watched, _)| watched.clone()).collect()
    }

    /// Returns what is true of a name for a watcher.
    pub(in crate::client) fn view(
        &self,
        subject: &WatchSubject,
        name: &ResourceName,
    ) -> ResourceView<'_> {
        if !subject.is_collection() {
            return self.slots.entry(name).map_or(ResourceView::Gone, |entry| {
                let error = entry.error_during(self.outage.as_ref());
                ResourceView::Resource { cached: entry.cached(), error }
            });
        }
        let collection = self.collections.get(&subject.name);
        if *name == subject.name {
            let error = collection.and_then(Collection::problem);
            // A server that is away has said nothing since.
            let error = self.outage.as_ref().or(error).or(self.unusable.as_ref());
            return ResourceView::Collection { error };
        }
        let is_member = collection.is_some_and(|it| it.members.contains(name));
        match self.slots.entry(name).filter(|_| is_member) {
            Some(entry) => ResourceView::Resource { cached: entry.cached(), error: entry.error() },
            None => ResourceView::Gone,
        }
    }
}

/// Watches.
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
        let is_unknown = self.slots.put(name, |slot| {
            if let Some(restored) = restored {
                slot.entry.restore(restored);
            }
            slot.watchers.push(id);
            slot.entry.is_unknown()
        });
        if !is_unknown || self.outage.is_some() {
            notifier.notify(&[id], name, Some(Change::Value));
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
            self.slots.put(&name, |slot| slot.entry.restore(cached));
        }
        let members = || held_members(&self.slots, name);
        let new = || Collection::new(name.clone(), members());
        let collection = self.collections.entry(name.clone()).or_insert_with(new);
        collection.watchers.push(id);
        for member in &collection.members {
            notifier.notify(&[id], member, Some(Change::Value));
            if self.slots.entry(member).is_some_and(CacheEntry::is_restored) {
                notifier.assume_known(&[id], member);
            }
        }
        if collection.is_complete() {
            notifier.mark_complete(&[id]);
        }
        if collection.problem().is_some() || self.outage.is_some() || self.unusable.is_some() {
            notifier.notify(&[id], name, Some(Change::Ambient));
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

    /// Takes back what is left of an earlier run, if it is watched and nothing newer is known. It is
    /// handed back if nobody watches it.
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
        if self.slots.put(&name, |slot| slot.entry.restore(cached)) {
            for collection in &collections {
                if let Some(collection) = self.collections.get_mut(collection) {
                    collection.members.insert(name.clone());
                }
            }
            let listeners = self.listeners(&name);
            notifier.assume_known(&listeners, &name);
            notifier.notify(&listeners, &name, Some(Change::Value));
        }
        Ok(())
    }

    /// A resource of an earlier run is known to be gone: watchers of its collections are told that it
    /// was removed.
    pub(super) fn restore_gone(&self, name: &ResourceName, notifier: &mut Notifier<'_>) {
        for collection in self.collections_of(name).iter().filter_map(|it| self.collections.get(it))
        {
            notifier.assume_known(&collection.watchers, name);
            notifier.notify(&collection.watchers, name, Some(Change::Value));
        }
    }

    /// Returns all watchers that hear of a resource: by its name, and with the collections it is in.
    fn listeners(&self, name: &ResourceName) -> Vec<WatchId> {
        let mut all = self.slots.get(name).map(|slot| slot.watchers.clone()).unwrap_or_default();
        for collection in self.collections_of(name).iter().filter_map(|it| self.collections.get(it))
        {
            all.extend(&collection.watchers);
        }
        all
    }

    /// Forgets a resource that neither a watcher nor a collection has.
    fn remove_unwatched(&mut self, name: &ResourceName) {
        let is_member = self.collections.values().any(|it| it.members.contains(name));
        let is_watched = self.slots.get(name).is_some_and(|slot| !slot.watchers.is_empty());
        if !is_member && !is_watched {
            self.slots.remove(name);
        }
    }
}

/// Changes.
impl TypeCache {
    /// Changes a resource, if it is concerned, and tells its watchers.
    pub(super) fn apply(
        &mut self,
        name: &ResourceName,
        membership: Membership,
        notifier: &mut Notifier<'_>,
        mut act: impl FnMut(&mut CacheSlot) -> Option<Change>,
    ) -> Option<AppliedChange> {
        let collections = self.collections_of(name);
        let has_aliases = &mut self.has_aliases;
        let mut apply = |slot: &mut CacheSlot| {
            let change = act(slot);
            notifier.notify(&slot.watchers, name, change);
            *has_aliases |= slot.entry.cached().is_some_and(|it| it.resource.name() != name);
            (change, AppliedChange::of(slot, change))
        };
        let (change, applied) = if membership == Membership::Joins && !collections.is_empty() {
            self.slots.put(name, &mut apply)
        } else {
            self.slots.change(name, &mut apply)?
        };
        self.change_membership(name, &collections, membership, change, notifier);
        self.remove_unwatched(name);
        Some(applied)
    }

    /// A resource that a server was asked for did not come in time. Returns false if it is there.
    pub(super) fn time_out(
        &mut self,
        name: &ResourceName,
        error: WatchError,
        server: ServerId,
        on_error: OnError,
        notifier: &mut Notifier<'_>,
    ) -> bool {
        let change = self.slots.change(name, |slot| {
            let is_late = !slot.entry.is_from(server) || !slot.entry.is_confirmed();
            is_late.then(|| slot.entry.set_error(error, on_error))
        });
        let change = change.flatten();
        notifier.notify(&self.listeners(name), name, change.flatten());
        change.is_some()
    }

    fn change_membership(
        &mut self,
        name: &ResourceName,
        collections: &[ResourceName],
        membership: Membership,
        change: Option<Change>,
        notifier: &mut Notifier<'_>,
    ) {
        let mut is_other = false;
        let mut listeners = Vec::new();
        for collection in collections {
            if let Some(collection) = self.collections.get_mut(collection) {
                is_other |= match membership {
                    Membership::Joins => {
                        collection.clear_error(notifier);
                        collection.members.insert(name.clone())
                    }
                    Membership::Leaves => collection.members.remove(name),
                    Membership::Stays => false,
                };
                listeners.extend(&collection.watchers);
            }
        }
        let change = if is_other { Some(Change::Value) } else { change };
        notifier.notify(&listeners, name, change);
    }

    /// Returns a collection that is watched.
    pub(in crate::client) fn collection_mut(
        &mut self,
        name: &ResourceName,
    ) -> Option<&mut Collection> {
        self.collections.get_mut(name)
    }

    /// The server that gave what is held is given up.
    pub(in crate::client) fn mark_unconfirmed(&mut self, server: ServerId) {
        self.slots.change_all(|_, slot| slot.entry.mark_unconfirmed(server));
    }

    /// Everything in the newest response had a name.
    pub(in crate::client) fn clear_rejected(&mut self, notifier: &mut Notifier<'_>) {
        self.collections.values_mut().for_each(|it| it.clear_rejected(notifier));
    }

    /// Nothing of the source can be used, which goes with all that is held (C-043).
    pub(in crate::client) fn set_unusable(
        &mut self,
        error: &WatchError,
        notifier: &mut Notifier<'_>,
    ) {
        self.unusable = Some(Arc::new(error.clone()));
        self.slots.change_all(|name, slot| {
            let change = slot.entry.set_error(error.clone(), OnError::Keep);
            notifier.notify(&slot.watchers, name, change);
        });
        self.notify_collections(notifier);
    }

    /// The source can be used again. `missing` is the error of a resource that it did not have.
    pub(in crate::client) fn clear_unusable(
        &mut self,
        missing: impl Fn(&ResourceName) -> WatchError,
        notifier: &mut Notifier<'_>,
    ) {
        if let Some(error) = self.unusable.take() {
            self.slots.change_all(|name, slot| {
                let change = slot.entry.clear_error(&error, || missing(name));
                notifier.notify(&slot.watchers, name, change);
            });
            self.notify_collections(notifier);
        }
    }

    /// The servers cannot be reached for this reason, or can be again. While there is another server,
    /// a resource that is known not to exist is no reason to ask it, and its watchers hear nothing
    /// (C-090).
    pub(super) fn set_outage(
        &mut self,
        outage: Option<&Arc<WatchError>>,
        is_last_server: bool,
        notifier: &mut Notifier<'_>,
    ) {
        if self.outage.as_ref() == outage {
            return;
        }
        self.outage = outage.cloned();
        self.slots.change_all(|name, slot| {
            let change = match outage {
                Some(_) if !is_last_server && slot.entry.is_without_value() => return,
                Some(_) => slot.entry.begin_outage(),
                None => slot.entry.end_outage(),
            };
            notifier.notify(&slot.watchers, name, change);
        });
        self.notify_collections(notifier);
    }

    /// The servers can still not be reached: watchers that heard something else meanwhile, as that a
    /// resource did not come in time, hear that again.
    pub(super) fn repeat_outage(&mut self, is_last_server: bool, notifier: &mut Notifier<'_>) {
        self.slots.change_all(|name, slot| {
            if is_last_server || !slot.entry.is_without_value() {
                let change = slot.entry.repeat_outage();
                notifier.notify(&slot.watchers, name, change);
            }
        });
    }

    fn notify_collections(&self, notifier: &mut Notifier<'_>) {
        self.collections.values().for_each(|collection| collection.notify(notifier));
    }
}

impl AppliedChange {
    fn of(slot: &CacheSlot, change: Option<Change>) -> Self {
        let cached = slot.entry.cached();
        let version = || cached.map(|cached| Arc::clone(&cached.version));
        let state = change.map(|_| StateChange { state: slot.entry.state(), version: version() });
        Self { expires: cached.and_then(|cached| cached.expires), state }
    }
}

/// Returns the members of a new collection that are held already, as a server of delta does not send
/// them again. A resource that is held although its server says that it is no more is no member.
fn held_members(slots: &CacheSlots, collection: &ResourceName) -> BTreeSet<ResourceName> {
    let is_held = |entry: &CacheEntry| entry.cached().is_some() && !entry.has_missing_error();
    let held = slots.iter().filter(|(_, slot)| is_held(&slot.entry));
    held.map(|(name, _)| name).filter(|name| is_member(collection, name)).cloned().collect()
}
