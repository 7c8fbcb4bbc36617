//! The names that one server is asked for of one type, and what it should say of them.
//!
//! This is a view of the cache without state of its own, made for each request. To a server all
//! authorities are one client, so it is told a version only if they all hold it. Not here: the
//! request (`servers::requests`), and the names that the server was told (`servers::subscription`).

use std::collections::{BTreeMap, BTreeSet};

use super::authority::AuthorityCache;
use super::entry::CacheEntry;
use super::resource_cache::ResourceCache;
use super::type_cache::TypeCache;
use crate::client::authority_key::AuthorityKey;
use crate::client::ids::ServerId;
use crate::{ResourceName, TypeUrl, Version, Versions};

/// The names that one server is asked for of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedNames<'a> {
    cache: &'a ResourceCache,
    server: ServerId,
    type_url: &'a TypeUrl,
}

impl<'a> WantedNames<'a> {
    pub(crate) fn new(cache: &'a ResourceCache, server: ServerId, type_url: &'a TypeUrl) -> Self {
        Self { cache, server, type_url }
    }

    /// Returns all names that are wanted.
    pub(crate) fn names(&self) -> BTreeSet<ResourceName> {
        let asking = self.cache.asking(self.server);
        let caches = asking.filter_map(|authority| authority.cache(self.type_url));
        caches.flat_map(TypeCache::wanted).cloned().collect()
    }

    /// Returns true if a name is wanted.
    pub(crate) fn wants(&self, name: &ResourceName) -> bool {
        self.cache_of(name).is_some_and(|cache| cache.wants(name))
    }

    /// Returns true if the server has to speak of a name, so that its time runs once it was asked
    /// for (C-065).
    pub(crate) fn is_awaited(&self, name: &ResourceName) -> bool {
        self.cache_of(name).is_some_and(|cache| cache.is_awaited(name, self.server))
    }

    /// Returns true if the server has to speak of a name, or it is only known from before: a server
    /// that repeats what it has must repeat this too.
    pub(crate) fn is_awaited_whole(&self, name: &ResourceName) -> bool {
        self.is_awaited(name) || self.unconfirmed(name).next().is_some()
    }

    /// Returns the resources that the server has to say again: that of this name, or members of the
    /// collection.
    pub(crate) fn unconfirmed<'n>(
        &self,
        name: &'n ResourceName,
    ) -> impl Iterator<Item = &'n ResourceName>
    where
        'a: 'n,
    {
        let server = self.server;
        self.cache_of(name).into_iter().flat_map(move |cache| cache.unconfirmed(name, server))
    }

    /// Returns true if a version of this server stands for what is held of the type, under all
    /// authorities that ask it (C-031). Servers that compare nothing else would be silent about the
    /// others.
    pub(crate) fn holds_its_version(&self) -> bool {
        let asking = self.cache.asking(self.server);
        let mut caches = asking.filter_map(|authority| {
            let cache = authority.cache(self.type_url)?;
            Some(authority.believes(self.server) && cache.is_all_from(self.server))
        });
        caches.next().is_some_and(|first| first && caches.all(|all| all))
    }

    /// Returns the resources that are held from this very server, with the versions it gave (C-031,
    /// C-040). If something is wrong with one all the same, the server has to say again what is
    /// true now; and all of them while another one is believed, because that is how it shows that
    /// it is back (C-089).
    pub(crate) fn versions(&self) -> Versions {
        let mut all = BTreeMap::new();
        for cache in self.cache.believing(self.server, self.type_url) {
            for (name, entry) in cache.entries() {
                let cached = entry.cached().filter(|cached| cached.server == self.server);
                let Some(Version::Explicit(version)) = cached.map(|it| it.resource.version())
                else {
                    continue;
                };
                if entry.error().is_none() && self.is_held_by_all(name) {
                    all.insert(name, &**version);
                } else if cache.is_member_of_any(name) {
                    // No version is the one it has: it must be sent, or be said to be gone.
                    all.insert(name, "");
                }
            }
        }
        let mut versions = Versions::default();
        all.into_iter().for_each(|(name, version)| versions.push(name.as_str(), version));
        versions
    }

    /// Returns true if all that want a name believe this server and have it from there, and nothing
    /// is wrong with it. A watch of everything may hold what another authority lacks, and the other
    /// way round; and to the server they are one client.
    fn is_held_by_all(&self, name: &ResourceName) -> bool {
        let own = AuthorityKey::of(name);
        let authorities = [self.cache.get(&AuthorityKey::Old), self.cache.get(&own)];
        let asking = authorities.into_iter().flatten().filter(|it| it.asks(self.server));
        let has_it = |authority: &AuthorityCache, cache: &TypeCache| {
            let is_right =
                |entry: &CacheEntry| entry.is_from(self.server) && entry.error().is_none();
            authority.believes(self.server) && cache.entry(name).is_some_and(is_right)
        };
        let mut caches = asking.filter_map(|it| Some((it, it.cache(self.type_url)?)));
        caches.all(|(authority, cache)| !cache.concerns(name) || has_it(authority, cache))
    }

    fn cache_of(&self, name: &ResourceName) -> Option<&'a TypeCache> {
        let authority = self.cache.get(&AuthorityKey::of(name))?;
        if authority.asks(self.server) { authority.cache(self.type_url) } else { None }
    }
}
