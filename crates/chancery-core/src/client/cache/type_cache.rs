//! The resources of one type under one authority, and the collections that they are members of.
//!
//! Here are the fields and the questions. A value of another server may be used until the server
//! that is asked has spoken (C-088). Not here: the changes (`type_changes`), and watchers that come
//! and go (`type_watches`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::collection::{WatchedCollection, is_member};
use super::entry::CacheEntry;
use super::slots::{CacheSlot, CacheSlots};
use crate::ResourceName;
use crate::client::error::WatchError;
use crate::client::ids::ServerId;
use crate::client::watching::{EVERYTHING, ResourceView, WatchSubject, is_collection};

/// The resources of one type under one authority.
#[derive(Debug, Default)]
pub(crate) struct TypeCache {
    pub(super) slots: CacheSlots,
    pub(super) collections: BTreeMap<ResourceName, WatchedCollection>,
    /// The reason why no server can be reached, once that is known.
    pub(super) outage: Option<Arc<WatchError>>,
    /// True if a resource was ever given under a name that is not its own.
    pub(super) has_aliases: bool,
    /// The reason why the newest of what there is cannot be used as a whole (C-043).
    pub(super) unusable: Option<Arc<WatchError>>,
}

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
    pub(crate) fn wants(&self, name: &ResourceName) -> bool {
        self.collections.contains_key(name)
            || self.slots.get(name).is_some_and(|slot| !slot.watchers.is_empty())
    }

    /// Returns true if a resource is watched by its name or with a collection.
    pub(crate) fn concerns(&self, name: &ResourceName) -> bool {
        self.wants(name) || !self.collections_of(name).is_empty()
    }

    /// Returns all names that are to be asked for.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = &ResourceName> {
        let slots = self.slots.iter().filter(|(_, slot)| !slot.watchers.is_empty());
        self.collections.keys().chain(slots.map(|(name, _)| name))
    }

    pub(super) fn entry(&self, name: &ResourceName) -> Option<&CacheEntry> {
        self.slots.entry(name)
    }

    /// Returns true if a resource is a member of a collection that is watched.
    pub(super) fn is_member_of_any(&self, name: &ResourceName) -> bool {
        self.collections.values().any(|collection| collection.members.contains(name))
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&ResourceName, &CacheEntry)> {
        self.slots.iter().map(|(name, slot)| (name, &slot.entry))
    }

    /// Returns false while nothing of its source can be used (C-043).
    pub(crate) fn is_usable(&self) -> bool {
        self.unusable.is_none()
    }

    /// Returns true if there is no such resource as far as is known: it is watched and missing, or
    /// a collection that it would be in has been told in full without it.
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
    pub(crate) fn is_awaited(&self, name: &ResourceName, server: ServerId) -> bool {
        if !is_collection(name) {
            return self.slots.entry(name).is_some_and(|entry| !entry.is_from(server));
        }
        self.collections.get(name).is_some_and(|collection| {
            !collection.is_complete() || self.members_not_from(collection, server).next().is_some()
        })
    }

    /// Returns true if something is held, and nothing that another server gave or said, or that had
    /// to be dropped since.
    pub(super) fn is_all_from(&self, server: ServerId) -> bool {
        let mut some = false;
        let all = self.entries().all(|(_, entry)| {
            some |= entry.is_from(server);
            entry.is_as_said_by(server)
        });
        some && all && self.collections.values().all(WatchedCollection::is_complete)
    }

    /// Returns the resources that this server has to say again: that of this name, or members of
    /// the collection.
    pub(crate) fn unconfirmed<'a>(
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
    pub(super) fn overdue_members(
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
        collection: &'a WatchedCollection,
        server: ServerId,
    ) -> impl Iterator<Item = &'a ResourceName> {
        let knows = move |name: &ResourceName| {
            self.slots.entry(name).is_some_and(|entry| entry.is_known_from(server))
        };
        collection.members.iter().filter(move |name| !knows(name))
    }

    /// Returns the watched collections that a resource of this name is in.
    pub(crate) fn collections_of(&self, name: &ResourceName) -> Vec<ResourceName> {
        let everything = self.collections.get_key_value(EVERYTHING);
        let glob = name.collection().and_then(|name| self.collections.get_key_value(&name));
        everything.into_iter().chain(glob).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the collections that a response completes, if the server was asked for them: `*` by
    /// any response, a glob by one that names a member, or if nothing else was asked for.
    pub(crate) fn collections_told_by(
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
    pub(crate) fn may_be_nameless(&self) -> impl Iterator<Item = &ResourceName> {
        self.wanted().filter(|name| {
            let entry = self.slots.entry(name);
            is_collection(name) || entry.is_some_and(CacheEntry::may_be_nameless)
        })
    }

    /// Returns the resources that were received: those that are held, and those that only a
    /// collection has.
    pub(super) fn received(&self) -> impl Iterator<Item = &ResourceName> {
        let received = |(_, slot): &(&ResourceName, &CacheSlot)| {
            slot.entry.cached().is_some() || slot.watchers.is_empty()
        };
        self.slots.iter().filter(received).map(|(name, _)| name)
    }

    /// Returns the other names under which a resource is watched.
    pub(super) fn aliases_of(&self, name: &ResourceName) -> Vec<ResourceName> {
        if !self.has_aliases {
            return Vec::new();
        }
        let is_alias = |(watched, entry): &(&ResourceName, &CacheEntry)| {
            *watched != name && entry.cached().is_some_and(|it| it.resource.name() == name)
        };
        self.entries().filter(is_alias).map(|(watched, _)| watched.clone()).collect()
    }

    /// Returns what is true of a name for a watcher.
    pub(crate) fn view(&self, subject: &WatchSubject, name: &ResourceName) -> ResourceView<'_> {
        if !subject.is_collection() {
            return self.slots.entry(name).map_or(ResourceView::Gone, |entry| {
                let error = entry.error_during(self.outage.as_ref());
                ResourceView::Resource { cached: entry.cached(), error }
            });
        }
        let collection = self.collections.get(&subject.name);
        if *name == subject.name {
            let error = collection.and_then(WatchedCollection::problem);
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
