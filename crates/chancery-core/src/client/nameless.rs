//! Responses with a resource that nobody can name: it does not decode, is of another type, or has an
//! empty name (C-064).
//!
//! Whoever waits for a resource may wait for this one, and a group may have it for a member. They hear
//! that it was rejected, and nothing else follows: neither that what is not in the response does not
//! exist, nor that a group was told in full. The time that a name has begins again with the next
//! response in which everything has a name.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cache::entry::Change;
use super::cache::slots::CacheSlot;
use super::machine::missing_after;
use super::receive::{Presence, Reception};
use super::watching::watchers::is_group;
use super::{AuthorityKey, ErrorKind, InvalidResource, Machine, WatchError};
use crate::ResourceName;

impl Machine {
    /// Tells those who may have asked for the nameless resources of a response; or, if it has none,
    /// that this is over.
    pub(super) fn weigh_nameless(
        &mut self,
        taking: &Reception<'_>,
        present: &BTreeSet<ResourceName>,
        flaws: &[InvalidResource],
    ) {
        let mut nameless = flaws.iter().filter(|flaw| flaw.name.is_none());
        let Some(first) = nameless.next() else { return self.forget_nameless(taking) };
        let why = match nameless.count() {
            0 => first.why.clone(),
            more => format!("{}; and {more} more", first.why),
        };
        for name in self.names_that_wait(taking, present) {
            if is_group(&name) {
                let why = format!("a resource without a name was rejected: {why}");
                self.reject_group(taking, &name, self.nameless(taking, &name, &why));
            } else {
                let why = format!("it may be the resource without a name that was rejected: {why}");
                let error = self.nameless(taking, &name, &why);
                let act = |slot: &mut CacheSlot| slot.entry.set_error(error.clone(), false);
                self.touch(taking, &name, Presence::Finds, act);
            }
            let channel = self.servers.get_mut(taking.stream.server.index());
            let topic = channel.and_then(|channel| channel.topic(taking.type_url));
            topic.into_iter().for_each(|topic| topic.suspend_timer(&name));
        }
    }

    /// Groups, and resources of which there is no value and no better word, that the server was asked
    /// for, and that the response does not name.
    fn names_that_wait(
        &mut self,
        taking: &Reception<'_>,
        present: &BTreeSet<ResourceName>,
    ) -> Vec<ResourceName> {
        let server = taking.stream.server;
        let channel = self.servers.get_mut(server.index());
        let Some(topic) = channel.and_then(|it| it.topic(taking.type_url)) else {
            return Vec::new();
        };
        let believing =
            self.authorities.values().filter(|realm| realm.active_server() == Some(server));
        let shelves = believing.filter_map(|realm| realm.types.get(taking.type_url));
        let waiting = shelves.flat_map(|shelf| {
            shelf.wanted().filter(|name| {
                let slot = shelf.slots.get(name);
                is_group(name) || slot.is_some_and(|slot| slot.entry.may_be_nameless())
            })
        });
        let asked = waiting.filter(|name| topic.is_subscribed(name) && !present.contains(*name));
        asked.cloned().collect()
    }

    fn reject_group(&mut self, taking: &Reception<'_>, name: &ResourceName, error: WatchError) {
        let Some(realm) = self.authorities.get_mut(&AuthorityKey::of(name)) else { return };
        let Some(shelf) = realm.types.get_mut(taking.type_url) else { return };
        let Some(group) = shelf.collections.get_mut(name) else { return };
        if group.rejected.as_deref() != Some(&error) {
            group.rejected = Some(Arc::new(error));
            let stream = Some((taking.stream, taking.now));
            self.watchers.notify(&group.watchers, name, Change::Ambient, stream);
        }
    }

    /// Everything in a response has a name.
    fn forget_nameless(&mut self, taking: &Reception<'_>) {
        let server = taking.stream.server;
        let Some(channel) = self.servers.get_mut(server.index()) else { return };
        let until = taking.now + missing_after(&self.setup, channel.setup.key.features);
        if let Some(topic) = channel.topic(taking.type_url) {
            topic.resume_timers(until);
        }
        for realm in
            self.authorities.values_mut().filter(|realm| realm.active_server() == Some(server))
        {
            let Some(shelf) = realm.types.get_mut(taking.type_url) else { continue };
            for (name, group) in &mut shelf.collections {
                if group.rejected.take().is_some() {
                    let stream = Some((taking.stream, taking.now));
                    self.watchers.notify(&group.watchers, name, Change::Ambient, stream);
                }
            }
        }
    }

    fn nameless(&self, taking: &Reception<'_>, name: &ResourceName, why: &str) -> WatchError {
        let error = self.error(ErrorKind::Rejected, taking, name, why);
        WatchError { is_nameless: true, ..error }
    }
}
