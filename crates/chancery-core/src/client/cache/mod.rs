//! The cache of a client: what is watched, what is held of it, and which server is asked for it.
//!
//! ```text
//!   [Cache] --> [Authority] --> [TypeCache] --> [CacheSlot] --> [CacheEntry]
//!                                    |              ^
//!                                    +--> [Collection], by the names of its members
//! ```
//!
//! The first level is the authority, the second the type, the third the name (C-051). Every change
//! tells the watchers that it concerns. Not here: what a response means (`receive`), and what is sent
//! (`servers`).

mod authority;
mod collection;
mod entry;
mod expiries;
mod resource;
mod restored;
mod slots;
mod type_cache;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) use self::authority::Authority;
pub(super) use self::collection::Collection;
pub(super) use self::entry::OnError;
use self::expiries::{Expiries, Expiry};
pub use self::resource::{CachedResource, Rejection, ResourceState};
use self::restored::RestoredResources;
pub(super) use self::slots::CacheSlot;
pub(super) use self::type_cache::{Membership, StateChange, TypeCache};
pub(super) use self::wanted::WantedNames;
use super::error::WatchError;
use super::naming::AuthorityKey;
use super::setup::{ServerId, Setup, StreamId};
use super::watching::WatchId;
use super::watching::{Change, Notifier, WatchSubject, Watchers};
use crate::{ResourceName, Time, TypeUrl};

/// All that a client watches and holds.
#[derive(Debug)]
pub(super) struct Cache {
    authorities: BTreeMap<AuthorityKey, Authority>,
    restored: RestoredResources,
    expiries: Expiries,
}

/// A resource that a server speaks of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement<'a> {
    pub(super) server: ServerId,
    pub(super) type_url: &'a TypeUrl,
    pub(super) name: &'a ResourceName,
    pub(super) membership: Membership,
}

/// Questions.
impl Cache {
    pub(super) fn new(setup: &Setup) -> Self {
        let authorities = setup.authorities().iter();
        Self {
            authorities: authorities
                .map(|(key, setup)| (key.clone(), Authority::new(setup.clone())))
                .collect(),
            restored: RestoredResources::default(),
            expiries: Expiries::default(),
        }
    }

    pub(super) fn get(&self, authority: &AuthorityKey) -> Option<&Authority> {
        self.authorities.get(authority)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&AuthorityKey, &Authority)> {
        self.authorities.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&AuthorityKey, &mut Authority)> {
        self.authorities.iter_mut()
    }

    /// Returns the authorities that ask a server.
    pub(super) fn asking(&self, server: ServerId) -> impl Iterator<Item = &Authority> {
        self.authorities.values().filter(move |authority| authority.asks(server))
    }

    /// Returns the resources of a type under the authorities that believe a server.
    pub(super) fn believing<'a>(
        &'a self,
        server: ServerId,
        type_url: &'a TypeUrl,
    ) -> impl Iterator<Item = &'a TypeCache> {
        let believing = self.authorities.values().filter(move |it| it.believes(server));
        believing.filter_map(|authority| authority.cache(type_url))
    }

    /// Returns the resources of a type under the authorities that believe a server.
    pub(super) fn believing_mut<'a>(
        &'a mut self,
        server: ServerId,
        type_url: &'a TypeUrl,
    ) -> impl Iterator<Item = &'a mut TypeCache> {
        let believing = self.authorities.values_mut().filter(move |it| it.believes(server));
        believing.filter_map(|authority| authority.types.get_mut(type_url))
    }

    /// Returns the resources of a type under the authority of a name.
    pub(super) fn of_name(&self, type_url: &TypeUrl, name: &ResourceName) -> Option<&TypeCache> {
        self.get(&AuthorityKey::of(name))?.cache(type_url)
    }

    /// Returns the resources of a type under the authority of a name, if that believes a server.
    pub(super) fn of_name_believing(
        &self,
        server: ServerId,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Option<&TypeCache> {
        let authority = self.get(&AuthorityKey::of(name)).filter(|it| it.believes(server))?;
        authority.cache(type_url)
    }

    /// Returns the resources of the type and the authority of a subject.
    pub(super) fn of_subject(&self, subject: &WatchSubject) -> Option<&TypeCache> {
        self.get(&subject.authority)?.cache(&subject.type_url)
    }

    /// Returns a collection that is watched.
    pub(super) fn collection_mut(
        &mut self,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Option<&mut Collection> {
        let authority = self.authorities.get_mut(&AuthorityKey::of(name))?;
        authority.types.get_mut(type_url)?.collection_mut(name)
    }

    /// Returns true if there is no such resource as far as is known.
    pub(super) fn is_known_missing(&self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        self.of_name(type_url, name).is_some_and(|cache| cache.is_known_missing(name))
    }

    /// Returns true if the words of a server on a name count: not while a worse one is believed
    /// (C-089).
    pub(super) fn counts(&self, server: ServerId, name: &ResourceName) -> bool {
        let authority = self.get(&AuthorityKey::of(name));
        authority.is_none_or(|it| it.believes(server) || !it.asks(server))
    }

    /// Returns the watched collections that a resource of this name is in.
    pub(super) fn collections_of(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Vec<ResourceName> {
        self.of_name(type_url, name).map(|cache| cache.collections_of(name)).unwrap_or_default()
    }

    /// Returns the other names under which a resource is watched, under any authority.
    pub(super) fn aliases_of(&self, type_url: &TypeUrl, name: &ResourceName) -> Vec<ResourceName> {
        let caches = self.authorities.values().filter_map(|it| it.cache(type_url));
        caches.flat_map(|cache| cache.aliases_of(name)).collect()
    }
}

/// Watches.
impl Cache {
    /// Adds a watcher, and tells it what is known (C-048).
    pub(super) fn watch(&mut self, subject: &WatchSubject, id: WatchId, watchers: &mut Watchers) {
        let WatchSubject { authority, type_url, name } = subject;
        let notifier = &mut watchers.local_notifier();
        if let Some(authority) = self.authorities.get_mut(authority) {
            let cache = authority.types.entry(type_url.clone()).or_default();
            if subject.is_collection() {
                let restored = self.restored.take_members(type_url, name);
                cache.watch_collection(name, id, restored, notifier);
            } else {
                let is_new = !cache.slots.contains(name);
                let restored = is_new.then(|| self.restored.take(type_url, name)).flatten();
                cache.watch_resource(name, id, restored, notifier);
            }
        }
    }

    /// Removes a watcher. What nobody else watches is forgotten (C-050); returns true if its subject
    /// is.
    pub(super) fn unwatch(&mut self, subject: &WatchSubject, id: WatchId) -> bool {
        let authority = self.authorities.get_mut(&subject.authority);
        let cache = authority.and_then(|it| it.types.get_mut(&subject.type_url));
        cache.is_none_or(|cache| {
            cache.unwatch(&subject.name, id);
            !cache.wants(&subject.name)
        })
    }

    /// Takes away a type of which nothing is left.
    pub(super) fn remove_unwatched(&mut self, subject: &WatchSubject) {
        if let Some(authority) = self.authorities.get_mut(&subject.authority) {
            authority.remove_unwatched(&subject.type_url);
        }
    }

    /// Keeps a resource of an earlier run for whoever watches it, now or later. What is known already
    /// is newer.
    pub(super) fn restore(
        &mut self,
        type_url: TypeUrl,
        cached: CachedResource,
        watchers: &mut Watchers,
    ) {
        let notifier = &mut watchers.local_notifier();
        let name = cached.resource.name();
        let authority = self.authorities.get_mut(&AuthorityKey::of(name));
        let left = match authority.and_then(|it| it.types.get_mut(&type_url)) {
            Some(cache) if cache.is_known_missing(name) => {
                cache.restore_gone(name, notifier);
                None
            }
            Some(cache) => cache.restore(cached, notifier).err(),
            None => Some(cached),
        };
        left.into_iter().for_each(|cached| self.restored.put(type_url.clone(), cached));
    }
}

/// Changes.
impl Cache {
    /// Changes a resource under all authorities that believe the server that speaks of it, and tells
    /// its watchers. Returns the states that are new.
    pub(super) fn apply(
        &mut self,
        statement: Statement<'_>,
        notifier: &mut Notifier<'_>,
        mut act: impl FnMut(&mut CacheSlot) -> Option<Change>,
    ) -> Vec<StateChange> {
        let Statement { server, type_url, name, membership } = statement;
        let mut changes = Vec::new();
        let mut expiring = Vec::new();
        for (key, authority) in &mut self.authorities {
            let believing = authority.believes(server).then_some(&mut authority.types);
            let cache = believing.and_then(|types| types.get_mut(type_url));
            let applied = cache.and_then(|it| it.apply(name, membership, notifier, &mut act));
            if let Some(applied) = applied {
                changes.extend(applied.state);
                expiring.extend(applied.expires.map(|at| Expiry {
                    at,
                    authority: key.clone(),
                    type_url: type_url.clone(),
                    name: name.clone(),
                }));
            }
        }
        for expiry in expiring {
            let authorities = &self.authorities;
            self.expiries.add(expiry, |expiry| expiring_server(authorities, expiry).is_some());
        }
        changes
    }

    /// A resource that a server was asked for did not come in time. Returns false if it is there.
    pub(super) fn time_out(
        &mut self,
        statement: Statement<'_>,
        error: WatchError,
        on_error: OnError,
        watchers: &mut Watchers,
    ) -> bool {
        let Statement { server, type_url, name, .. } = statement;
        let authority = self.authorities.get_mut(&AuthorityKey::of(name));
        let cache = authority.and_then(|authority| authority.types.get_mut(type_url));
        let notifier = &mut watchers.local_notifier();
        cache.is_some_and(|cache| cache.time_out(name, error, server, on_error, notifier))
    }

    /// The members of a collection that its server has not spoken of in time leave it. A server of
    /// delta need not speak of what it knows the client to have (C-040).
    pub(super) fn time_out_members(
        &mut self,
        statement: Statement<'_>,
        was_announced: impl Fn(&ResourceName) -> bool,
        error: impl Fn(&ResourceName) -> WatchError,
        watchers: &mut Watchers,
    ) {
        let Statement { server, type_url, name: collection, .. } = statement;
        let authority = self.authorities.get_mut(&AuthorityKey::of(collection));
        if let Some(cache) = authority.and_then(|authority| authority.types.get_mut(type_url)) {
            for name in cache.overdue_members(collection, server, was_announced) {
                let error = error(&name);
                cache.apply(&name, Membership::Leaves, &mut watchers.local_notifier(), |slot| {
                    slot.entry.set_error(error.clone(), OnError::Keep)
                });
            }
        }
    }

    /// Drops the resources whose time to live is over (C-045). `error` says what is wrong with one.
    pub(super) fn expire(
        &mut self,
        now: Time,
        watchers: &mut Watchers,
        error: impl Fn(ServerId, &TypeUrl, &ResourceName) -> WatchError,
    ) {
        while let Some(expiry) = self.expiries.next_expired(now) {
            let server = expiring_server(&self.authorities, &expiry);
            let Expiry { authority, type_url, name, .. } = &expiry;
            let authority = self.authorities.get_mut(authority);
            let cache = authority.and_then(|it| it.types.get_mut(type_url));
            if let (Some(cache), Some(server)) = (cache, server) {
                let error = error(server, type_url, name);
                cache.apply(name, Membership::Leaves, &mut watchers.local_notifier(), |slot| {
                    slot.entry.expire(error.clone())
                });
            }
        }
    }

    /// Returns the time at which the next resource must not be used any more.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.expiries.next()
    }

    /// Tells the watchers of servers that cannot be reached, or can be again, when there is no other
    /// to ask (C-090). `outage_of` says why a server is not heard of a type.
    pub(super) fn set_outages<'s>(
        &mut self,
        watchers: &mut Watchers,
        outage_of: impl Fn(ServerId, &TypeUrl) -> Option<&'s Arc<WatchError>>,
    ) {
        let notifier = &mut watchers.local_notifier();
        for authority in self.authorities.values_mut() {
            let (server, is_last) = (authority.active_server(), authority.is_at_last_server());
            for (type_url, cache) in &mut authority.types {
                let outage = server.and_then(|server| outage_of(server, type_url));
                cache.set_outage(outage, is_last, notifier);
            }
        }
    }

    /// A stream failed that had failed before.
    pub(super) fn repeat_outage(&mut self, stream: &StreamId, watchers: &mut Watchers) {
        let notifier = &mut watchers.local_notifier();
        for authority in self.authorities.values_mut().filter(|it| it.believes(stream.server)) {
            let is_last = authority.is_at_last_server();
            let types = authority.types.iter_mut().filter(|(url, _)| stream.scope.carries(url));
            types.for_each(|(_, cache)| cache.repeat_outage(is_last, notifier));
        }
    }

    /// Returns the resources that a whole state lacks (C-056, C-077): those that were received before
    /// and are not in it. Only the authorities that believe its server are judged.
    pub(super) fn absent(
        &self,
        server: ServerId,
        type_url: &TypeUrl,
        present: &BTreeSet<ResourceName>,
    ) -> BTreeSet<ResourceName> {
        let received = self.believing(server, type_url).flat_map(TypeCache::received);
        received.filter(|name| !present.contains(*name)).cloned().collect()
    }
}

/// Returns the server that gave a resource, if the resource still expires at that time.
fn expiring_server(
    authorities: &BTreeMap<AuthorityKey, Authority>,
    expiry: &Expiry,
) -> Option<ServerId> {
    let cache = authorities.get(&expiry.authority)?.cache(&expiry.type_url)?;
    let cached = cache.entry(&expiry.name)?.cached()?;
    (cached.expires == Some(expiry.at)).then_some(cached.server)
}
