//! Responses with a resource that nobody can name: it does not decode, is of another type, or has
//! an empty name (C-064).
//!
//! A watcher that waits for a resource may wait for this one, and a collection may have it for a
//! member. They hear that it was rejected, and nothing else follows: neither that what is not in
//! the response does not exist, nor that a collection was told in full. The time that a name has
//! begins again with the next response in which everything has a name.

use std::collections::BTreeSet;

use super::Reception;
use super::judge::Judged;
use crate::ResourceName;
use crate::client::cache::{Membership, OnError, TypeCache};
use crate::client::error::{ErrorKind, WatchError};
use crate::client::response::InvalidResource;
use crate::client::watching::{NewsOrigin, is_collection};

impl Reception<'_> {
    /// Tells those who may have asked for the nameless resources of a response.
    pub(super) fn note_nameless(&mut self, judged: &Judged, first: &InvalidResource) {
        let why = match judged.nameless().skip(1).count() {
            0 => first.why.clone(),
            more => format!("{}; and {more} more", first.why),
        };
        for name in self.names_that_wait(&judged.present) {
            if is_collection(&name) {
                let why = format!("a resource without a name was rejected: {why}");
                let error = self.nameless(&name, &why);
                if let Some(collection) = self.cache.collection_mut(self.type_url, &name) {
                    let origin = NewsOrigin { stream: self.stream, now: self.now };
                    collection.set_rejected(error, &mut self.watchers.notifier(origin));
                }
            } else {
                let why = format!("it may be the resource without a name that was rejected: {why}");
                let error = self.nameless(&name, &why);
                self.set_error(&name, Membership::Stays, &error, OnError::Keep);
            }
            self.subscription.suspend_timer(&name);
        }
    }

    /// Everything in a response has a name.
    pub(super) fn forget_nameless(&mut self) {
        let features = self.setup.features(self.server());
        self.subscription.resume_timers(self.now + self.setup.settings.resource_timeout(features));
        let notifier =
            &mut self.watchers.notifier(NewsOrigin { stream: self.stream, now: self.now });
        for cache in self.cache.believing_mut(self.stream.server, self.type_url) {
            cache.clear_rejected(notifier);
        }
    }

    /// Returns the names that the server was asked for, that the response does not name, and that
    /// may be those of its nameless resources.
    fn names_that_wait(&self, present: &BTreeSet<ResourceName>) -> Vec<ResourceName> {
        let caches = self.cache.believing(self.stream.server, self.type_url);
        let waiting = caches.flat_map(TypeCache::may_be_nameless);
        let asked = waiting
            .filter(|name| self.subscription.is_subscribed(name) && !present.contains(*name));
        asked.cloned().collect()
    }

    fn nameless(&self, name: &ResourceName, why: &str) -> WatchError {
        WatchError { is_nameless: true, ..self.error(ErrorKind::Rejected, name, why) }
    }
}
