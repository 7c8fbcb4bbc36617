//! The cache as a whole: the authorities of a client with all that is watched and held under them,
//! and the resources of an earlier run.
//!
//! A watch belongs to one authority (C-051), and an outage of a server concerns each authority that
//! believes it. Not here: the changes that a server's statements make (`statements`), the servers
//! of one authority (`authority`), and the resources of one type (`type_cache`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::authority::AuthorityCache;
use super::collection::WatchedCollection;
use super::expiries::Expiries;
use super::restored::RestoredResources;
use super::type_cache::TypeCache;
use crate::client::authority_key::AuthorityKey;
use crate::client::error::WatchError;
use crate::client::ids::{ServerId, StreamId, WatchId};
use crate::client::resource::CachedResource;
use crate::client::setup::Setup;
use crate::client::watching::{WatchSubject, Watchers};
use crate::{ResourceName, Time, TypeUrl};

/// All that a client watches and holds.
#[derive(Debug)]
pub(crate) struct ResourceCache {
    pub(super) authorities: BTreeMap<AuthorityKey, AuthorityCache>,
    restored: RestoredResources,
    pub(super) expiries: Expiries,
}

/// Questions.
impl ResourceCache {
    pub(crate) fn new(setup: &Setup) -> Self {
        let authorities = setup.authorities().iter();
        Self {
            authorities: authorities
                .map(|(key, setup)| (key.clone(), AuthorityCache::new(setup.clone())))
                .collect(),
            restored: RestoredResources::default(),
            expiries: Expiries::default(),
        }
    }

    pub(crate) fn get(&self, authority: &AuthorityKey) -> Option<&AuthorityCache> {
        self.authorities.get(authority)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AuthorityKey, &AuthorityCache)> {
        self.authorities.iter()
    }

    pub(crate) fn iter_mut(
        &mut self,
    ) -> impl Iterator<Item = (&AuthorityKey, &mut AuthorityCache)> {
        self.authorities.iter_mut()
    }

    /// Returns the authorities that ask a server.
    pub(crate) fn asking(&self, server: ServerId) -> impl Iterator<Item = &AuthorityCache> {
        self.authorities.values().filter(move |authority| authority.asks(server))
    }

    /// Returns the resources of a type under the authorities that believe a server.
    pub(crate) fn believing<'a>(
        &'a self,
        server: ServerId,
        type_url: &'a TypeUrl,
    ) -> impl Iterator<Item = &'a TypeCache> {
        let believing = self.authorities.values().filter(move |it| it.believes(server));
        believing.filter_map(|authority| authority.cache(type_url))
    }

    /// Returns the resources of a type under the authorities that believe a server.
    pub(crate) fn believing_mut<'a>(
        &'a mut self,
        server: ServerId,
        type_url: &'a TypeUrl,
    ) -> impl Iterator<Item = &'a mut TypeCache> {
        let believing = self.authorities.values_mut().filter(move |it| it.believes(server));
        believing.filter_map(|authority| authority.types.get_mut(type_url))
    }

    /// Returns the resources of a type under the authority of a name.
    fn of_name(&self, type_url: &TypeUrl, name: &ResourceName) -> Option<&TypeCache> {
        self.get(&AuthorityKey::of(name))?.cache(type_url)
    }

    /// Returns the resources of a type under the authority of a name, if that believes a server.
    pub(crate) fn of_name_believing(
        &self,
        server: ServerId,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Option<&TypeCache> {
        let authority = self.get(&AuthorityKey::of(name)).filter(|it| it.believes(server))?;
        authority.cache(type_url)
    }

    /// Returns the resources of the type and the authority of a subject.
    pub(crate) fn of_subject(&self, subject: &WatchSubject) -> Option<&TypeCache> {
        self.get(&subject.authority)?.cache(&subject.type_url)
    }

    /// Returns a collection that is watched.
    pub(crate) fn collection_mut(
        &mut self,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Option<&mut WatchedCollection> {
        let authority = self.authorities.get_mut(&AuthorityKey::of(name))?;
        authority.types.get_mut(type_url)?.collection_mut(name)
    }

    /// Returns true if there is no such resource as far as is known.
    pub(crate) fn is_known_missing(&self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        self.of_name(type_url, name).is_some_and(|cache| cache.is_known_missing(name))
    }

    /// Returns the error that goes with a resource that is watched, and the outage of its servers.
    pub(crate) fn errors_of(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> impl Iterator<Item = &Arc<WatchError>> {
        let cache = self.of_name(type_url, name);
        let error = cache.and_then(|cache| cache.entry(name)?.error());
        error.into_iter().chain(cache.and_then(|cache| cache.outage.as_ref()))
    }

    /// Returns true if the words of a server on a name count: not while a worse one is believed
    /// (C-089).
    pub(crate) fn counts(&self, server: ServerId, name: &ResourceName) -> bool {
        let authority = self.get(&AuthorityKey::of(name));
        authority.is_none_or(|it| it.believes(server) || !it.asks(server))
    }

    /// Returns the watched collections that a resource of this name is in.
    pub(crate) fn collections_of(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Vec<ResourceName> {
        self.of_name(type_url, name).map(|cache| cache.collections_of(name)).unwrap_or_default()
    }

    /// Returns the other names under which a resource is watched, under any authority.
    pub(crate) fn aliases_of(&self, type_url: &TypeUrl, name: &ResourceName) -> Vec<ResourceName> {
        let caches = self.authorities.values().filter_map(|it| it.cache(type_url));
        caches.flat_map(|cache| cache.aliases_of(name)).collect()
    }

    /// Returns the resources that a whole state lacks (C-056, C-077): those that were received
    /// before and are not in it. Only the authorities that believe its server are judged.
    pub(crate) fn absent(
        &self,
        server: ServerId,
        type_url: &TypeUrl,
        present: &BTreeSet<ResourceName>,
    ) -> BTreeSet<ResourceName> {
        let received = self.believing(server, type_url).flat_map(TypeCache::received);
        received.filter(|name| !present.contains(*name)).cloned().collect()
    }

    /// Returns the time at which the next resource must not be used any more.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.expiries.next()
    }
}

/// Watches.
impl ResourceCache {
    /// Adds a watcher, and tells it what is known (C-048).
    pub(crate) fn watch(&mut self, subject: &WatchSubject, id: WatchId, watchers: &mut Watchers) {
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

    /// Removes a watcher. What nobody else watches is forgotten (C-050); returns true if its
    /// subject is.
    pub(crate) fn unwatch(&mut self, subject: &WatchSubject, id: WatchId) -> bool {
        let authority = self.authorities.get_mut(&subject.authority);
        let cache = authority.and_then(|it| it.types.get_mut(&subject.type_url));
        cache.is_none_or(|cache| {
            cache.unwatch(&subject.name, id);
            !cache.wants(&subject.name)
        })
    }

    /// Takes away a type of which nothing is left.
    pub(crate) fn remove_unwatched(&mut self, subject: &WatchSubject) {
        if let Some(authority) = self.authorities.get_mut(&subject.authority) {
            authority.remove_unwatched(&subject.type_url);
        }
    }

    /// Keeps a resource of an earlier run for whoever watches it, now or later. What is known
    /// already is newer.
    pub(crate) fn restore(
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
        left.into_iter().for_each(|cached| self.restored.insert(type_url.clone(), cached));
    }
}

/// Outages.
impl ResourceCache {
    /// Tells the watchers of servers that cannot be reached, or can be again, when there is no
    /// other to ask (C-090). `outage_of` says why a server is not heard of a type.
    pub(crate) fn set_outages<'s>(
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
    pub(crate) fn repeat_outage(&mut self, stream: &StreamId, watchers: &mut Watchers) {
        let notifier = &mut watchers.local_notifier();
        for authority in self.authorities.values_mut().filter(|it| it.believes(stream.server)) {
            let is_last = authority.is_at_last_server();
            let types = authority.types.iter_mut().filter(|(url, _)| stream.scope.carries(url));
            types.for_each(|(_, cache)| cache.repeat_outage(is_last, notifier));
        }
    }
}
