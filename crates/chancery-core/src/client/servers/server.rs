//! One server as a client knows it: its streams, whether it can be reached, and the version that
//! was accepted last of each type.
//!
//! The accepted versions outlive the streams, so that a new stream can state them (C-031). Not
//! here: one stream (`stream`), the content of requests (`requests`), and the choice of the server
//! that an authority asks (`machine::fallback`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::requests::RequestContext;
use super::stream::{DiscoveryStream, OpenStream, StreamChange};
use super::subscription::ClientSubscription;
use crate::client::authority_key::AuthorityKey;
use crate::client::cache::{AuthorityCache, ResourceCache};
use crate::client::error::WatchError;
use crate::client::ids::{ServerId, StreamId};
use crate::client::lifecycle::StreamEnd;
use crate::client::setup::{Protocol, ServerSetup, Settings, Setup};
use crate::{Request, ResourceName, Scope, Time, TypeUrl};

/// One server.
#[derive(Debug)]
pub(crate) struct ServerChannel {
    id: ServerId,
    setup: ServerSetup,
    /// The streams that are needed, or were a moment ago.
    streams: BTreeMap<Scope, DiscoveryStream>,
    /// The versions that were accepted from this server (C-031).
    accepted: BTreeMap<TypeUrl, Arc<str>>,
}

impl ServerChannel {
    pub(super) fn new(id: ServerId, setup: ServerSetup) -> Self {
        Self { id, setup, streams: BTreeMap::new(), accepted: BTreeMap::new() }
    }

    pub(crate) fn id(&self) -> ServerId {
        self.id
    }

    pub(crate) fn setup(&self) -> &ServerSetup {
        &self.setup
    }

    pub(crate) fn stream(&self, scope: &Scope) -> Option<&DiscoveryStream> {
        self.streams.get(scope)
    }

    /// Returns the subscription to a type, if its stream is open.
    pub(crate) fn subscription(&mut self, type_url: &TypeUrl) -> Option<&mut ClientSubscription> {
        let stream = self.streams.get_mut(&self.setup.protocol.scope_of(type_url))?;
        Some(stream.open_mut()?.subscription(type_url))
    }

    /// Returns true if the server was asked for a type on a stream (C-035).
    pub(crate) fn was_asked(&self, scope: &Scope, type_url: &TypeUrl) -> bool {
        let open = self.streams.get(scope).and_then(DiscoveryStream::open);
        let subscription = open.and_then(|open| open.known_subscription(type_url));
        subscription.is_some_and(ClientSubscription::was_asked)
    }

    /// Returns true if so many responses are without an answer that no more may be read (C-062).
    pub(crate) fn is_full(&self, scope: &Scope) -> bool {
        let open = self.streams.get(scope).and_then(DiscoveryStream::open);
        open.is_some_and(|open| !open.may_owe())
    }

    /// Returns the subscription to a type, and the version that was accepted last, if the server
    /// was asked for the type on a stream.
    pub(crate) fn asked_subscription(
        &mut self,
        scope: &Scope,
        type_url: &TypeUrl,
    ) -> Option<(&mut ClientSubscription, &mut Arc<str>)> {
        let stream = self.streams.get_mut(scope)?.open_mut()?;
        let subscription = stream.asked_subscription(type_url)?;
        Some((subscription, self.accepted.entry(type_url.clone()).or_default()))
    }

    /// Returns true if the server knows which version the client has of a resource from before.
    pub(crate) fn was_announced(&self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        let stream = self.streams.get(&self.setup.protocol.scope_of(type_url));
        let open = stream.and_then(DiscoveryStream::open);
        let subscription = open.and_then(|open| open.known_subscription(type_url));
        subscription.is_some_and(|it| it.was_announced(name))
    }

    /// Returns the reason why nothing is heard of a type.
    pub(crate) fn outage_of(&self, type_url: &TypeUrl) -> Option<&Arc<WatchError>> {
        self.streams.get(&self.setup.protocol.scope_of(type_url))?.outage()
    }

    /// Returns true if the server can be reached as far as is known: after a failure, only when it
    /// has spoken again (C-137). `None` if nobody asks it.
    pub(crate) fn is_connected(&self) -> Option<bool> {
        let all = self.streams.values().all(|stream| stream.outage().is_none());
        (!self.streams.is_empty()).then_some(all)
    }

    /// Returns the time of the next attempt to reach it, if none goes on (C-069).
    pub(crate) fn next_attempt(&self) -> Option<Time> {
        self.streams.values().filter_map(DiscoveryStream::next_attempt).min()
    }

    /// A stream is there, for the types that its server is asked for.
    pub(crate) fn opened(&mut self, now: Time, scope: &Scope, cache: &ResourceCache) -> bool {
        let asking = cache.asking(self.id);
        let types =
            asking.flat_map(AuthorityCache::types).filter(|type_url| scope.carries(type_url));
        self.streams.get_mut(scope).is_some_and(|stream| stream.opened(now, types))
    }

    /// A stream ended, or could not be opened.
    pub(super) fn ended(
        &mut self,
        now: Time,
        scope: &Scope,
        settings: &Settings,
    ) -> Option<(StreamEnd, &mut DiscoveryStream)> {
        let stream = self.streams.get_mut(scope)?;
        let end = stream.ended(now, settings)?;
        Some((end, stream))
    }

    /// The server is there, and a poll is over, if it was one.
    pub(crate) fn end_poll(&mut self, now: Time, scope: &Scope, settings: &Settings) {
        if let Some(stream) = self.streams.get_mut(scope) {
            stream.end_poll(now, self.setup.protocol, settings);
        }
    }

    /// The server is heard on a stream. Once it is on all of them, it has to say again what did not
    /// count while it was not, or it may have nothing to come back with (C-089).
    pub(crate) fn mark_reachable(&mut self, scope: &Scope) {
        if self.streams.get_mut(scope).is_some_and(DiscoveryStream::respond) {
            self.recovered();
        }
    }

    /// The server may be there although it says nothing.
    pub(super) fn presume_reachable(&mut self, now: Time) {
        let variant = self.setup.protocol.variant();
        let mut recovers = false;
        for stream in self.streams.values_mut() {
            recovers |= stream.presume_reachable(now, variant);
        }
        if recovers {
            self.recovered();
        }
    }

    /// An authority believes this server again: it has to say again what did not count before.
    pub(crate) fn ask_again_for_ignored(&mut self, authority: &AuthorityKey) {
        for subscription in self.subscriptions() {
            subscription.ask_again_for_ignored(|name| AuthorityKey::of(name) == *authority);
        }
    }

    /// Returns the next resource that did not come in time.
    pub(super) fn next_timed_out(&mut self, now: Time) -> Option<(TypeUrl, ResourceName)> {
        let mut open = self.streams.values_mut().filter_map(DiscoveryStream::open_mut);
        open.find_map(|stream| stream.next_timed_out(now))
    }

    /// Returns the next request on a stream, if one is due and may be sent.
    pub(crate) fn request(
        &mut self,
        now: Time,
        scope: &Scope,
        setup: &Setup,
        cache: &ResourceCache,
    ) -> Option<Request> {
        let timeout = setup.settings.resource_timeout(self.setup.key.features);
        let context = RequestContext {
            node: &setup.node,
            settings: &setup.settings,
            server: self.id,
            protocol: self.setup.protocol,
            accepted: &self.accepted,
            cache,
            until: now + timeout,
        };
        self.streams.get_mut(scope)?.request(now, &context)
    }

    /// Returns true if there may be a request for a stream.
    pub(crate) fn may_request(&self, now: Time, scope: &Scope) -> bool {
        let open = self.streams.get(scope).and_then(DiscoveryStream::open);
        open.is_some_and(|open| open.may_be_due(now, self.setup.protocol.is_polled()))
    }

    /// Streams that nobody needs any more are closed at once (C-089).
    pub(crate) fn release_unneeded(&mut self, cache: &ResourceCache) {
        for stream in self.streams.values_mut() {
            if !is_needed(cache, stream.id()) {
                stream.release();
            }
        }
    }

    /// Opens the streams that are needed, and closes the others in time.
    pub(super) fn keep_streams(
        &mut self,
        now: Time,
        settings: &Settings,
        cache: &ResourceCache,
    ) -> Vec<(StreamId, StreamChange)> {
        for scope in self.needed_scopes(cache) {
            let id = StreamId { server: self.id, scope };
            self.streams.entry(id.scope.clone()).or_insert_with(|| DiscoveryStream::new(id));
        }
        let mut changes = Vec::new();
        let mut recovers = false;
        for stream in self.streams.values_mut() {
            let is_needed = is_needed(cache, stream.id());
            // The server is reached or not whatever becomes of this stream from now on.
            recovers |= !is_needed && stream.is_needed() && stream.outage().is_some();
            let change = stream.keep(now, settings, is_needed);
            changes.extend(change.map(|change| (stream.id().clone(), change)));
        }
        self.streams.retain(|_, stream| !stream.is_closed());
        if recovers {
            self.recovered();
        }
        changes
    }

    /// Returns the streams on which there may be something to say since the driver was told so
    /// last.
    pub(super) fn take_send_due(&mut self, now: Time) -> Vec<StreamId> {
        let is_polled = self.setup.protocol.is_polled();
        let streams = self.streams.values_mut();
        let due = streams.filter_map(|stream| {
            let is_due = stream.open_mut()?.take_send_due(now, is_polled);
            is_due.then(|| stream.id().clone())
        });
        due.collect()
    }

    pub(super) fn deadline(&mut self) -> Option<Time> {
        self.streams.values_mut().filter_map(DiscoveryStream::deadline).min()
    }

    /// The server can be reached again for one type. If it can for all that it is asked for, it has
    /// to say again what did not count. A stream that nobody needs is not opened again, so its
    /// outage says nothing.
    fn recovered(&mut self) {
        let is_out = |stream: &DiscoveryStream| stream.outage().is_some() && stream.is_needed();
        if !self.streams.values().any(is_out) {
            for subscription in self.subscriptions() {
                subscription.ask_again_for_ignored(|_| true);
            }
        }
    }

    fn subscriptions(&mut self) -> impl Iterator<Item = &mut ClientSubscription> {
        let open = self.streams.values_mut().filter_map(DiscoveryStream::open_mut);
        open.flat_map(OpenStream::subscriptions)
    }

    fn needed_scopes(&self, cache: &ResourceCache) -> BTreeSet<Scope> {
        let asking = cache.asking(self.id);
        let protocol: Protocol = self.setup.protocol;
        asking.flat_map(AuthorityCache::watched_types).map(|it| protocol.scope_of(it)).collect()
    }
}

fn is_needed(cache: &ResourceCache, id: &StreamId) -> bool {
    cache.asking(id.server).any(|authority| authority.needs(&id.scope))
}
