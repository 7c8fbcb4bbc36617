//! The meaning of a response: for the resources in it, for those that are not in it, and for its
//! answer.
//!
//! ```text
//!   response --> judge --> apply: what it says of names     --> complete: what follows from what it
//!                          (statements)                         does not say (absence, nameless)
//!                                                           --> answer
//! ```
//!
//! Good resources of a bad response are used (C-055); the answer names all that is bad (C-063), and
//! is owed at once, whatever the watchers do, and whatever is sent before it ([ACK and NACK],
//! C-062).
//!
//! [ACK and NACK]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ack-nack-and-resource-type-instance-version

mod absence;
mod judge;
mod nameless;
mod statements;

use std::sync::Arc;

use self::judge::Judged;
use super::Machine;
use crate::client::cache::{CacheSlot, Membership, OnError, ResourceCache, StateChange, Statement};
use crate::client::error::{ErrorKind, WatchError};
use crate::client::event::Event;
use crate::client::ids::{ServerId, StreamId};
use crate::client::response::{InvalidResource, Response};
use crate::client::servers::ClientSubscription;
use crate::client::setup::Setup;
use crate::client::watching::{ChangeKind, NewsOrigin, Watchers};
use crate::{ErrorDetail, ResourceName, Time, TypeUrl};

/// A response that is being taken in, and the parts of the client that it concerns.
struct Reception<'a> {
    now: Time,
    stream: &'a StreamId,
    type_url: &'a TypeUrl,
    version: &'a Arc<str>,
    /// The treatment of what is held when data is wrong (C-070).
    on_data_error: OnError,
    setup: &'a Setup,
    cache: &'a mut ResourceCache,
    subscription: &'a mut ClientSubscription,
    watchers: &'a mut Watchers,
    events: &'a mut Vec<Event>,
}

impl Machine {
    /// A response came.
    pub(super) fn received(&mut self, now: Time, id: &StreamId, response: Response) {
        let Some(server) = self.servers.server_of(id) else { return };
        server.end_poll(now, &id.scope, &self.setup.settings);
        if !server.was_asked(&id.scope, &response.type_url) {
            let (stream, type_url) = (id.clone(), response.type_url);
            return self.events.push(Event::Unrequested { stream, type_url });
        }
        server.mark_reachable(&id.scope);
        let reverted = self.choice(now).revert(id.server, &response);
        let judged = Judged::of(response);
        self.take_in(now, id, &judged);
        for authority in &reverted {
            self.servers[id.server].ask_again_for_ignored(authority);
        }
        self.events.push(judged.into_event(id.clone()));
    }

    /// A poll was answered: nothing is new, but the server is there.
    pub(super) fn unchanged(&mut self, now: Time, id: &StreamId) {
        if let Some(server) = self.servers.server_of(id) {
            server.end_poll(now, &id.scope, &self.setup.settings);
            server.mark_reachable(&id.scope);
        }
    }

    /// The source of a type is there, and nothing in it can be used. That says nothing of what is
    /// held, so all of it stays, also if the source is believed when it takes a resource away
    /// (C-043).
    pub(super) fn unusable(&mut self, now: Time, id: &StreamId, kind: ErrorKind, why: &str) {
        self.unchanged(now, id);
        if let Some(type_url) = id.scope.only() {
            let error = self.setup.source_error(kind, id.server, type_url, why);
            let notifier = &mut self.watchers.notifier(NewsOrigin { stream: id, now });
            for cache in self.cache.believing_mut(id.server, type_url) {
                cache.set_unusable(&error, notifier);
            }
            self.events.push(Event::Unusable { stream: id.clone(), why: why.to_owned() });
        }
    }

    fn take_in(&mut self, now: Time, id: &StreamId, judged: &Judged) {
        let type_url = &judged.type_url;
        let asked = self.servers[id.server].asked_subscription(&id.scope, type_url);
        let Some((subscription, accepted)) = asked else { return };
        let mut reception = Reception {
            now,
            stream: id,
            type_url,
            version: &judged.version,
            on_data_error: OnError::of_data(self.setup.features(id.server)),
            setup: &self.setup,
            cache: &mut self.cache,
            subscription,
            watchers: &mut self.watchers,
            events: &mut self.events,
        };
        reception.apply(judged);
        reception.complete(judged);
        reception.owe_answer(judged, accepted);
    }
}

impl Reception<'_> {
    /// Owes the answer: it accepts the version, or says all that is wrong with the resources.
    fn owe_answer(&mut self, judged: &Judged, accepted: &mut Arc<str>) {
        let invalid: Vec<_> = judged.invalid().map(InvalidResource::to_string).collect();
        if invalid.is_empty() {
            *accepted = Arc::clone(self.version);
        }
        let error = (!invalid.is_empty()).then(|| ErrorDetail {
            code: ErrorDetail::INVALID_ARGUMENT,
            message: invalid.join("; "),
        });
        self.subscription.owe_answer(&judged.nonce, Arc::clone(accepted), error);
    }

    /// Changes a resource wherever it is watched, if the word of the server counts there.
    fn change_resource(
        &mut self,
        name: &ResourceName,
        membership: Membership,
        act: impl FnMut(&mut CacheSlot) -> Option<ChangeKind>,
    ) {
        self.counts(name);
        let server = self.server();
        let statement = Statement { server, type_url: self.type_url, name };
        let notifier =
            &mut self.watchers.notifier(NewsOrigin { stream: self.stream, now: self.now });
        for StateChange { state, version } in self.cache.apply(statement, membership, notifier, act)
        {
            let (type_url, name) = (self.type_url.clone(), name.clone());
            self.events.push(Event::StateChanged { server, type_url, name, state, version });
        }
    }

    /// Something is wrong with a resource.
    fn set_error(
        &mut self,
        name: &ResourceName,
        membership: Membership,
        error: &WatchError,
        on_error: OnError,
    ) {
        self.change_resource(name, membership, |slot| {
            slot.entry.set_error(error.clone(), on_error)
        });
    }

    /// Returns true if the word of the server on a name counts: not while a worse one is believed
    /// (C-089). If it does not, that is noted.
    fn counts(&mut self, name: &ResourceName) -> bool {
        let counts = self.cache.counts(self.server(), name);
        if counts {
            self.subscription.note_received(name);
        } else {
            let collections = self.cache.collections_of(self.type_url, name);
            collections.iter().chain([name]).for_each(|it| self.subscription.note_ignored(it));
        }
        counts
    }

    fn error(&self, kind: ErrorKind, name: &ResourceName, why: &str) -> WatchError {
        let (server, type_url) = (self.server(), self.type_url);
        self.setup.resource_error(kind, server, type_url, name.as_str(), why)
    }

    fn server(&self) -> ServerId {
        self.stream.server
    }
}
