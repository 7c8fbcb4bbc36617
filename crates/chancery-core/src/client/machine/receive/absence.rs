//! The things that follow from a response as a whole: resources that a whole state lacks, a source
//! that can be used again, and collections that have been told in full ([deleting], C-056).
//!
//! [deleting]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#deleting-resources

use std::collections::BTreeSet;

use super::Reception;
use super::judge::Judged;
use crate::ResourceName;
use crate::client::cache::TypeCache;
use crate::client::error::{ErrorKind, WatchError};
use crate::client::watching::NewsOrigin;

impl Reception<'_> {
    /// Does what follows from a response as a whole.
    pub(super) fn complete(&mut self, judged: &Judged) {
        if judged.is_whole_state() {
            self.remove_absent(&judged.present);
        }
        self.clear_unusable();
        match judged.nameless().next() {
            Some(first) => self.note_nameless(judged, first),
            None => {
                self.forget_nameless();
                self.tell_collections(judged);
            }
        }
    }

    /// A resource that was received before and is not in a whole state is no more (C-056, C-077),
    /// if the server knows that it is wanted.
    fn remove_absent(&mut self, present: &BTreeSet<ResourceName>) {
        let absent = self.cache.absent(self.server(), self.type_url, present);
        let known: Vec<_> = absent.iter().filter(|name| self.subscription.covers(name)).collect();
        known.into_iter().for_each(|name| self.remove(name));
    }

    /// The source can be used again: what was wrong with it as a whole is over.
    fn clear_unusable(&mut self) {
        let (setup, type_url, server) = (self.setup, self.type_url, self.stream.server);
        let missing = |name: &ResourceName| {
            let (kind, name) = (ErrorKind::Missing, name.as_str());
            let error = setup.name_error(kind, type_url, name, "there is none");
            WatchError { server: Some(server), ..error }
        };
        let notifier =
            &mut self.watchers.notifier(NewsOrigin { stream: self.stream, now: self.now });
        for cache in self.cache.believing_mut(server, type_url) {
            cache.clear_unusable(missing, notifier);
        }
    }

    /// A collection has been told in full once the server spoke of it, unless it says that more
    /// comes. Then it has the time again for the next part.
    fn tell_collections(&mut self, judged: &Judged) {
        let caches = self.cache.believing(self.server(), self.type_url);
        let told = |cache: &TypeCache| cache.collections_told_by(&judged.present);
        let told: Vec<_> = caches.flat_map(told).collect();
        let timeout = self.setup.settings.resource_timeout(self.setup.features(self.server()));
        for name in told.iter().filter(|name| self.subscription.is_subscribed(name)) {
            let Some(collection) = self.cache.collection_mut(self.type_url, name) else { continue };
            if judged.is_part() {
                collection.note_part();
            } else {
                let origin = NewsOrigin { stream: self.stream, now: self.now };
                collection.mark_complete(&mut self.watchers.notifier(origin));
            }
        }
        if judged.is_part() {
            let until = self.now + timeout;
            told.iter().for_each(|name| self.subscription.start_timer(name, until));
        }
    }
}
