//! One authority: its servers, which of them is asked, and the resources under it by type.
//!
//! The server that is asked is a place in the authority's list, so that several authorities share a
//! server and one can move (C-052, [gRFC A71]): all servers up to that place are asked for all that
//! is watched, and the word of the last of them counts (C-088, C-089).
//!
//! [gRFC A71]: https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md

use std::collections::BTreeMap;

use super::type_cache::TypeCache;
use crate::client::ids::ServerId;
use crate::client::setup::{AuthoritySetup, Fallback};
use crate::{Scope, TypeUrl};

/// One authority.
#[derive(Debug)]
pub(crate) struct AuthorityCache {
    setup: AuthoritySetup,
    /// The place of the active server.
    active: usize,
    pub(super) types: BTreeMap<TypeUrl, TypeCache>,
}

impl AuthorityCache {
    pub(super) fn new(setup: AuthoritySetup) -> Self {
        Self { setup, active: 0, types: BTreeMap::new() }
    }

    /// Returns the servers that can be asked, the best first.
    pub(crate) fn servers(&self) -> &[ServerId] {
        &self.setup.servers
    }

    /// Returns the servers that are asked, the best first.
    pub(crate) fn asked_servers(&self) -> &[ServerId] {
        let end = self.setup.servers.len().min(self.active + 1);
        &self.setup.servers[..end]
    }

    /// Returns true if a server is asked.
    pub(crate) fn asks(&self, server: ServerId) -> bool {
        self.asked_servers().contains(&server)
    }

    /// Returns the active server, whose word counts.
    pub(crate) fn active_server(&self) -> Option<ServerId> {
        self.setup.servers.get(self.active).copied()
    }

    pub(crate) fn believes(&self, server: ServerId) -> bool {
        self.active_server() == Some(server)
    }

    /// Returns true if no other server is left to turn to.
    pub(super) fn is_at_last_server(&self) -> bool {
        self.active + 1 >= self.setup.servers.len()
    }

    /// Returns true if an active server that cannot be reached is worth another one (C-087, C-091).
    pub(crate) fn needs_another_server(&self) -> bool {
        match self.setup.fallback {
            Fallback::Reachability => self.types.values().any(TypeCache::is_watched),
            Fallback::Needed => self.types.values().any(TypeCache::is_unresolved),
        }
    }

    /// Turns to the next server, now that the active one cannot be reached, if that is worth it and
    /// there is one. Returns the next one.
    pub(crate) fn fall_back(&mut self) -> Option<ServerId> {
        let given_up = self.active_server()?;
        let next = self.setup.servers.get(self.active + 1).copied()?;
        if !self.needs_another_server() {
            return None;
        }
        self.active += 1;
        self.types.values_mut().for_each(|cache| cache.mark_unconfirmed(given_up));
        Some(next)
    }

    /// Makes a better server the active one again. Returns the servers that are not asked any more.
    pub(crate) fn revert_to(&mut self, server: ServerId) -> Vec<ServerId> {
        let place = self.asked_servers().iter().position(|asked| *asked == server);
        let Some(place) = place.filter(|place| *place < self.active) else { return Vec::new() };
        let left = self.asked_servers()[place + 1..].to_vec();
        self.active = place;
        left
    }

    /// Returns the types of which something is watched or held.
    pub(crate) fn types(&self) -> impl Iterator<Item = &TypeUrl> {
        self.types.keys()
    }

    /// Returns the types of which something is watched.
    pub(crate) fn watched_types(&self) -> impl Iterator<Item = &TypeUrl> {
        self.types.iter().filter(|(_, cache)| cache.is_watched()).map(|(type_url, _)| type_url)
    }

    /// Returns the resources by type.
    pub(crate) fn caches(&self) -> impl Iterator<Item = (&TypeUrl, &TypeCache)> {
        self.types.iter()
    }

    /// Returns the resources of a type.
    pub(crate) fn cache(&self, type_url: &TypeUrl) -> Option<&TypeCache> {
        self.types.get(type_url)
    }

    /// Returns true if a stream of this scope is needed.
    pub(crate) fn needs(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Only(type_url) => self.types.get(type_url).is_some_and(TypeCache::is_watched),
            Scope::Aggregated => self.types.values().any(TypeCache::is_watched),
        }
    }

    /// Takes away a type of which nothing is left.
    pub(super) fn remove_unwatched(&mut self, type_url: &TypeUrl) {
        if self.types.get(type_url).is_some_and(TypeCache::is_empty) {
            self.types.remove(type_url);
        }
        if self.types.is_empty() {
            self.active = 0; // Nothing is left that only the worse server had.
        }
    }
}
