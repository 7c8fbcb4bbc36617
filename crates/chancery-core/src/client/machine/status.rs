//! The state of each watched resource and of each server, as CSDS and metrics report it (C-061,
//! C-136, C-137).

use std::sync::Arc;

use super::Machine;
use crate::client::authority_key::AuthorityKey;
use crate::client::error::WatchError;
use crate::client::ids::{ServerId, StreamId};
use crate::client::resource::{CachedResource, Rejection, ResourceState};
use crate::{ResourceName, Time, TypeUrl};

/// One resource of a client.
#[derive(Clone, Copy, Debug)]
pub struct ResourceStatus<'a> {
    /// Its authority.
    pub authority: &'a AuthorityKey,
    /// Its type.
    pub type_url: &'a TypeUrl,
    /// Its name.
    pub name: &'a ResourceName,
    /// Its state.
    pub state: ResourceState,
    /// The value that is held, if one is.
    pub cached: Option<&'a CachedResource>,
    /// The error that goes with it.
    pub error: Option<&'a Arc<WatchError>>,
    /// The version that was rejected last.
    pub rejection: Option<&'a Rejection>,
}

/// Questions about the state of the client, which change nothing.
impl Machine {
    /// Returns all resources that are watched, by name or with a collection.
    pub fn resources(&self) -> impl Iterator<Item = ResourceStatus<'_>> {
        let caches = self.cache.iter().flat_map(|(authority, it)| {
            it.caches().map(move |(type_url, cache)| (authority, type_url, cache))
        });
        caches.flat_map(|(authority, type_url, cache)| {
            cache.entries().map(move |(name, entry)| ResourceStatus {
                authority,
                type_url,
                name,
                state: entry.state(),
                cached: entry.cached(),
                error: entry.error(),
                rejection: entry.rejection(),
            })
        })
    }

    /// Returns the errors that hold of a resource that is watched: why there is none, or why it may be
    /// older than what its server has; and the outage of its servers.
    pub fn errors_of(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> impl Iterator<Item = &Arc<WatchError>> {
        self.cache.errors_of(type_url, name)
    }

    /// Returns true if there is no such resource as far as the client knows: it is watched and
    /// missing, or a collection that it would be in has been told in full without it.
    pub fn is_known_missing(&self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        self.cache.is_known_missing(type_url, name)
    }

    /// Returns the reason why nothing is heard on a stream, as far as that is known.
    pub fn connection_error(&self, stream: &StreamId) -> Option<&Arc<WatchError>> {
        self.servers.find(stream.server)?.stream(&stream.scope)?.outage()
    }

    /// Returns the server whose word counts for an authority (C-052).
    pub fn active_server(&self, authority: &AuthorityKey) -> Option<ServerId> {
        self.cache.get(authority)?.active_server()
    }

    /// Returns the time of the next attempt to reach a server, if nothing is heard of it and no
    /// attempt goes on (C-069).
    pub fn next_attempt(&self, server: ServerId) -> Option<Time> {
        self.servers.find(server)?.next_attempt()
    }

    /// Returns true if a server can be reached, as far as is known: after a failure, only when it
    /// has spoken again (C-137). `None` if nobody asks it.
    pub fn is_connected(&self, server: ServerId) -> Option<bool> {
        self.servers.find(server)?.is_connected()
    }
}
