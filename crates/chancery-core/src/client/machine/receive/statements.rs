//! The things that a response says of names: a body, a heartbeat, a fault, an error, a removal.
//!
//! Each is applied for itself, so that a bad resource takes no good one with it (C-055). Not here:
//! the reading of the response (`judge`), the names that it does not mention (`absence`,
//! `nameless`), and the cache that takes the changes (`cache::statements`).

use std::sync::Arc;

use super::Reception;
use super::judge::Judged;
use crate::client::cache::{Membership, OnError};
use crate::client::error::ErrorKind;
use crate::client::resource::{CachedResource, Rejection};
use crate::client::response::{HeartbeatResource, InvalidResource, ReceivedResource, ResponseItem};
use crate::client::watching::{NewsOrigin, is_collection};
use crate::{ErrorDetail, ResourceName, Version};

impl Reception<'_> {
    /// Applies all that a response says of names.
    pub(super) fn apply(&mut self, judged: &Judged) {
        for item in &judged.items {
            match item {
                // A name in both lists is not valid (C-071).
                Ok(ResponseItem::Resource(received))
                    if judged.errors.contains_key(received.resource.name()) => {}
                Ok(ResponseItem::Resource(received)) => self.accept(received),
                Ok(ResponseItem::Heartbeat(heartbeat)) if heartbeat.ttl.is_some() => {
                    self.renew(heartbeat);
                }
                Ok(ResponseItem::Heartbeat(heartbeat)) => self.deny(heartbeat),
                Err(invalid) => self.reject(invalid),
            }
        }
        for (name, error) in &judged.errors {
            self.refuse(name, error, judged.removed.contains(name));
        }
        // The error says more than that it is no more.
        for name in judged.removed.iter().filter(|name| !judged.errors.contains_key(*name)) {
            self.remove(name);
        }
    }

    /// The server gives a resource and its body.
    fn accept(&mut self, received: &ReceivedResource) {
        let resource = &received.resource;
        let cached = CachedResource {
            resource: Arc::clone(resource),
            decoded: received.decoded.clone(),
            version: match resource.version() {
                Version::Explicit(version) => Arc::clone(version),
                Version::Content(_) => Arc::clone(self.version),
            },
            last_updated: self.now,
            server: self.server(),
            expires: resource.ttl().map(|ttl| self.now + ttl),
        };
        self.change_resource(resource.name(), Membership::Joins, |slot| {
            slot.entry.accept(cached.clone())
        });
        for alias in resource.aliases() {
            self.change_resource(alias, Membership::Stays, |slot| {
                slot.entry.accept(cached.clone())
            });
        }
    }

    /// The server gives a time to live and no body: what it gave before lives on ([TTL], C-045).
    ///
    /// [TTL]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ttl
    fn renew(&mut self, heartbeat: &HeartbeatResource) {
        let (now, server) = (self.now, self.server());
        let expires = heartbeat.ttl.map(|ttl| now + ttl);
        for name in heartbeat.names() {
            let mut is_held = false;
            self.change_resource(name, Membership::Stays, |slot| {
                if slot.entry.is_from(server) {
                    slot.entry.renew(now, expires);
                    is_held = true;
                }
                None
            });
            if !is_held {
                self.ask_again(name);
            }
        }
    }

    /// The server gives neither a body nor a time to live: a name that is not held cannot be
    /// resolved.
    fn deny(&mut self, heartbeat: &HeartbeatResource) {
        let (now, why) = (self.now, "the server says that there is no such resource");
        let missing = self.error(ErrorKind::Missing, &heartbeat.name, why);
        for name in heartbeat.names() {
            self.change_resource(name, Membership::Stays, |slot| {
                if slot.entry.cached().is_some() {
                    slot.entry.renew(now, None);
                    return None;
                }
                slot.entry.set_error(missing.clone(), OnError::Keep)
            });
        }
    }

    /// The server believes that the client has this resource, and it has not, or not any more: it
    /// must say it again (C-045).
    fn ask_again(&mut self, name: &ResourceName) {
        for cache in self.cache.believing(self.stream.server, self.type_url) {
            let collections = cache.collections_of(name);
            collections.iter().for_each(|collection| self.subscription.ask_again(collection));
            if cache.wants(name) {
                self.subscription.ask_again(name);
            }
        }
    }

    /// A resource cannot be used.
    fn reject(&mut self, invalid: &InvalidResource) {
        if let Some(name) = &invalid.name {
            let error = self.error(ErrorKind::Rejected, name, &invalid.why);
            let rejection = Rejection {
                version: Arc::clone(self.version),
                why: invalid.why.as_str().into(),
                at: self.now,
            };
            let on_error = self.on_data_error;
            self.change_resource(name, Membership::Joins, |slot| {
                slot.entry.reject(rejection.clone());
                slot.entry.set_error(error.clone(), on_error)
            });
        }
    }

    /// The server says why it does not give a resource (C-071).
    fn refuse(&mut self, name: &ResourceName, detail: &ErrorDetail, is_removed: bool) {
        let error = self.error(ErrorKind::Refused(detail.code), name, &detail.message);
        if is_collection(name) {
            if self.counts(name)
                && let Some(collection) = self.cache.collection_mut(self.type_url, name)
            {
                let origin = NewsOrigin { stream: self.stream, now: self.now };
                let notifier = &mut self.watchers.notifier(origin);
                collection.set_error(error, notifier);
                collection.mark_complete(notifier);
            }
            return;
        }
        let is_about_data =
            matches!(detail.code, ErrorDetail::NOT_FOUND | ErrorDetail::PERMISSION_DENIED);
        let on_error = if is_about_data { self.on_data_error } else { OnError::Keep };
        let is_gone = is_removed || error.is_missing();
        let membership = if is_gone { Membership::Leaves } else { Membership::Stays };
        self.set_error(name, membership, &error, on_error);
    }

    /// The server took a resource away.
    pub(super) fn remove(&mut self, name: &ResourceName) {
        if is_collection(name) {
            if self.counts(name) {
                self.mark_complete(name);
            }
            return;
        }
        let error = self.error(ErrorKind::Missing, name, "the server removed it");
        for name in self.cache.aliases_of(self.type_url, name).iter().chain([name]) {
            self.set_error(name, Membership::Leaves, &error, self.on_data_error);
        }
    }

    /// The server has told all that there is in a collection.
    fn mark_complete(&mut self, collection: &ResourceName) {
        if let Some(collection) = self.cache.collection_mut(self.type_url, collection) {
            let origin = NewsOrigin { stream: self.stream, now: self.now };
            collection.mark_complete(&mut self.watchers.notifier(origin));
        }
    }
}
