//! How each watched resource stands, as CSDS tells it (C-061, C-136).

use std::sync::Arc;

use super::cache::authority::{Authority, Collection};
use super::servers::server::Stream;
use super::{
    AuthorityKey, CachedResource, Machine, Rejection, ResourceState, ServerId, StreamId, WatchError,
};
use crate::{ResourceName, Time, TypeUrl};

/// One resource of a client.
#[derive(Clone, Copy, Debug)]
pub struct ResourceStatus<'a> {
    /// Who is responsible for it.
    pub authority: &'a AuthorityKey,
    /// Its type.
    pub type_url: &'a TypeUrl,
    /// Its name.
    pub name: &'a ResourceName,
    /// How it stands.
    pub state: ResourceState,
    /// What is held of it.
    pub cached: Option<&'a CachedResource>,
    /// What is wrong with it.
    pub error: Option<&'a Arc<WatchError>>,
    /// What of it was rejected last.
    pub rejection: Option<&'a Rejection>,
}

impl Machine {
    /// All resources that are watched, by name or with a group.
    pub fn resources(&self) -> impl Iterator<Item = ResourceStatus<'_>> {
        self.authorities.iter().flat_map(|(authority, realm)| {
            realm.types.iter().flat_map(move |(type_url, shelf)| {
                shelf.slots.iter().map(move |(name, slot)| ResourceStatus {
                    authority,
                    type_url,
                    name,
                    state: slot.entry.state(),
                    cached: slot.entry.cached(),
                    error: slot.entry.error(),
                    rejection: slot.entry.rejection(),
                })
            })
        })
    }

    /// Whether there is no such resource as far as the client knows: it is watched and missing, or a
    /// group that it would be in has been told in full without it.
    pub fn is_known_missing(&self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        let Some(shelf) = self.shelf(&AuthorityKey::of(name), type_url) else { return false };
        if let Some(slot) = shelf.slots.get(name) {
            let error = slot.entry.error();
            return slot.entry.cached().is_none() && error.is_some_and(|error| error.is_missing());
        }
        let mut groups = shelf.collections.iter();
        groups.any(|(group, it)| {
            it.complete && it.rejected.is_none() && Collection::covers(group, name)
        })
    }

    /// Why nothing is heard on a stream, as far as that is known.
    pub fn connection_error(&self, stream: &StreamId) -> Option<&Arc<WatchError>> {
        let channel = self.servers.get(stream.server.index())?;
        channel.streams.get(&stream.scope)?.outage.as_ref()
    }

    /// The server whose word counts for an authority (C-052).
    pub fn active_server(&self, authority: &AuthorityKey) -> Option<ServerId> {
        self.authorities.get(authority).and_then(Authority::active_server)
    }

    /// When it is tried again to reach a server, if nothing is heard of it and no attempt goes on
    /// (C-069).
    pub fn next_attempt(&self, server: ServerId) -> Option<Time> {
        let channel = self.servers.get(server.index())?;
        channel.streams.values().filter_map(Stream::next_attempt).min()
    }

    /// Whether a server can be reached, as far as is known: after a failure, only when it has spoken
    /// again (C-137). `None` if nobody asks it.
    pub fn is_connected(&self, server: ServerId) -> Option<bool> {
        let channel = self.servers.get(server.index())?;
        let mut streams = channel.streams.values().peekable();
        streams.peek()?;
        Some(streams.all(|stream| stream.outage.is_none()))
    }
}
