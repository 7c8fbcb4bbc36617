//! What follows from the time alone: resources that did not come (C-065, C-066), those that were not
//! renewed (C-045), and servers that say nothing.
//!
//! Not here: how the times are kept (`topic`, `expiry`, `channel`).

use std::collections::BTreeSet;

use super::cache::authority::{Authorities, Authority};
use super::cache::expiries::Expiry;
use super::cache::slots::CacheSlot;
use super::machine::missing_after;
use super::receive::{Presence, change};
use super::watching::watchers::is_group;
use super::{AuthorityKey, ErrorKind, Event, Machine, ServerId, WatchError};
use crate::{ResourceName, Time, TypeUrl};

impl Machine {
    /// What follows from the time alone.
    pub(super) fn pass(&mut self, now: Time) {
        self.watchers.stop_waiting(now, self.setup.settings.patience);
        for channel in &mut self.servers {
            let variant = channel.setup.protocol.variant();
            let mut recovers = false;
            for stream in channel.streams.values_mut() {
                recovers |= stream.hear_silence(now, variant);
            }
            if recovers {
                channel.ask_again_for_ignored();
            }
        }
        while let Some((server, type_url, name)) = self.next_overdue(now) {
            self.overdue(server, &type_url, &name);
        }
        while let Some(expiry) = self.expiries.next_expired(now) {
            self.expired(&expiry);
        }
    }

    /// The next resource that did not come in time. A poll has a time of its own (C-044): while it goes
    /// on, nobody knows whether the resource comes with its answer, or whether there is a server.
    fn next_overdue(&mut self, now: Time) -> Option<(ServerId, TypeUrl, ResourceName)> {
        for ((server, _), channel) in self.setup.servers().zip(&mut self.servers) {
            let streams = channel.streams.values_mut().filter(|stream| !stream.is_asked);
            for topic in streams.flat_map(|stream| stream.subscriptions.values_mut()) {
                if let Some(name) = topic.next_timed_out(now) {
                    return Some((server, topic.type_url.clone(), name));
                }
            }
        }
        None
    }

    /// A resource did not come in time (C-065, C-066). The silence of a server that is not believed
    /// means nothing.
    fn overdue(&mut self, server: ServerId, type_url: &TypeUrl, name: &ResourceName) {
        let realm = self.authorities.get(&AuthorityKey::of(name));
        if realm.and_then(Authority::active_server) != Some(server) {
            return;
        }
        // While a source cannot be used, what it does not say means nothing (C-043).
        let is_usable = realm.and_then(|it| it.types.get(type_url)?.unusable.as_ref()).is_none();
        if is_group(name) {
            self.settled(None, type_url, name);
            return if is_usable {
                self.dismiss(server, type_url, name)
            };
        }
        let Some(error) = self.late(server, type_url, name).filter(|_| is_usable) else { return };
        // A resource that the server does not have is a data error, as its removal is (C-070).
        let drops = error.is_missing() && self.drops(server);
        let Some(realm) = self.authorities.get_mut(&AuthorityKey::of(name)) else { return };
        let Some(shelf) = realm.types.get_mut(type_url) else { return };
        let news = shelf.slots.change(name, |slot| {
            let is_due = !slot.entry.is_from(server) || slot.entry.is_old();
            is_due.then(|| slot.entry.set_error(error, drops))
        });
        if let Some(news) = news.flatten() {
            self.watchers.notify(&shelf.listeners(name), name, news, None);
            let (type_url, name) = (type_url.clone(), name.clone());
            self.events.push(Event::TimedOut { server, type_url, name });
        }
    }

    /// Members of a group that another server gave, or this one before it was given up or in an
    /// earlier run, and that it has not spoken of in its time, are in it no more. A server of delta
    /// need not speak of what it knows the client to have (C-040).
    fn dismiss(&mut self, server: ServerId, type_url: &TypeUrl, group: &ResourceName) {
        let authority = AuthorityKey::of(group);
        let Some(shelf) = self.shelf(&authority, type_url) else { return };
        let Some(strangers) =
            shelf.collections.get(group).map(|it| shelf.members_not_from(it, server))
        else {
            return;
        };
        let channel = self.servers.get(server.index());
        let claimed = |name: &ResourceName| channel.is_some_and(|it| it.claimed(type_url, name));
        let old = shelf.old(group, server).filter(|name| !claimed(name));
        for name in strangers.chain(old).cloned().collect::<BTreeSet<_>>() {
            let Some(error) = self.late(server, type_url, &name) else { return };
            let Some(realm) = self.authorities.get_mut(&authority) else { return };
            let act = |slot: &mut CacheSlot| slot.entry.set_error(error.clone(), false);
            if let Some(found) = change(realm, type_url, &name, Presence::Removes, &act) {
                found.tell(&mut self.watchers, &name, None);
            }
        }
    }

    /// What is wrong with a resource that did not come in time.
    fn late(
        &self,
        server: ServerId,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Option<WatchError> {
        let features = self.setup.find(server)?.key.features;
        let wait = missing_after(&self.setup, features);
        let kind = if features.resource_timer_is_transient_error {
            ErrorKind::Late
        } else {
            ErrorKind::Missing
        };
        let why = format!("it did not come within {wait:?}");
        Some(self.error_of(kind, type_url, name, server, &why))
    }

    /// A resource was not refreshed in time (C-045).
    fn expired(&mut self, expiry: &Expiry) {
        if !expires(&self.authorities, expiry) {
            return;
        }
        let Expiry { authority, type_url, name, .. } = expiry;
        let Some(shelf) = self.shelf(authority, type_url) else { return };
        let held = shelf.slots.get(name).and_then(|slot| slot.entry.cached());
        let Some(server) = held.map(|held| held.server) else { return };
        let why = "its time to live is over and the server did not renew it";
        let error = self.error_of(ErrorKind::Missing, type_url, name, server, why);
        let Some(realm) = self.authorities.get_mut(authority) else { return };
        let act = |slot: &mut CacheSlot| slot.entry.expire(error.clone());
        if let Some(found) = change(realm, type_url, name, Presence::Removes, &act) {
            found.tell(&mut self.watchers, name, None);
        }
    }
}

/// Whether this is still when a resource must not be used any more.
pub(super) fn expires(realms: &Authorities, expiry: &Expiry) -> bool {
    let shelf = realms.get(&expiry.authority).and_then(|it| it.types.get(&expiry.type_url));
    let held = shelf.and_then(|shelf| shelf.slots.get(&expiry.name)?.entry.cached());
    held.is_some_and(|held| held.expires == Some(expiry.at))
}
