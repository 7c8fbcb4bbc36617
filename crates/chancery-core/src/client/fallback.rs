//! Which server of an authority is believed, and how that changes: down the list when one cannot be
//! reached and something is missing (C-087, C-088), and up again when a better one delivers (C-089).
//!
//! Not here: what a response means (`receive`), and which streams there are (`machine`).

use super::machine::{is_needed, missing_after};
use super::receive::names_of;
use super::{AuthorityKey, Event, Machine, Response, ResponseItem, ServerId, StreamId};
use crate::Time;

impl Machine {
    /// C-087: a server that cannot be reached, and something is missing.
    pub(super) fn fall_back(&mut self, now: Time) {
        let mut back = Vec::new();
        for (authority, realm) in &mut self.authorities {
            while let Some(believed) = realm.active_server() {
                let in_trouble = |server: &ServerId| {
                    let channel = self.servers.get(server.index());
                    channel.is_some_and(|channel| realm.outage_of(channel).is_some())
                };
                if !in_trouble(&believed) {
                    break;
                }
                // One that spoke since it was given up, and had nothing to deliver.
                if let Some(better) =
                    realm.asked_servers().iter().copied().find(|id| !in_trouble(id))
                {
                    back.push((authority.clone(), better, realm.revert_to(better)));
                    break;
                }
                let Some(server) = realm.next() else { break };
                realm.advance();
                for shelf in realm.types.values_mut() {
                    shelf.slots.change_all(|_, slot| slot.entry.mark_unconfirmed(believed));
                }
                self.events.push(Event::FellBack { authority: authority.clone(), server });
                // What it said on the streams that it still has does not count any more.
                if let Some(channel) = self.servers.get_mut(believed.index()) {
                    for (type_url, shelf) in &realm.types {
                        let Some(topic) = channel.topic(type_url) else { continue };
                        shelf.wanted().for_each(|name| topic.note_ignored(name));
                    }
                }
                let Some(channel) = self.servers.get_mut(server.index()) else { break };
                for (type_url, shelf) in &realm.types {
                    let Some(topic) = channel.topic(type_url) else { continue };
                    shelf.wanted().for_each(|name| topic.names_changed(name));
                }
            }
        }
        for (authority, server, left) in back {
            self.came_back(now, authority.clone(), server, &left);
            self.ask_unheard(&authority, server);
        }
    }

    /// C-089: a better server delivers, so the worse ones are let go. Nothing that it said before
    /// counts, and all that it says from now on does.
    pub(super) fn come_back(
        &mut self,
        now: Time,
        server: ServerId,
        reply: &Response,
    ) -> Vec<AuthorityKey> {
        let mut back = Vec::new();
        for (authority, realm) in &mut self.authorities {
            if realm.active_server() == Some(server) || !realm.asks(server) {
                continue;
            }
            let channel = self.servers.get(server.index());
            let in_trouble = channel.is_some_and(|it| realm.outage_of(it).is_some());
            if in_trouble && realm.needs_another_server() {
                continue; // It would be left again at once, because of another type.
            }
            let Some(shelf) = realm.types.get(&reply.type_url) else { continue };
            let good = reply
                .resources
                .iter()
                .flatten()
                .filter(|item| matches!(item, ResponseItem::Resource(_)));
            let mut good = good.flat_map(names_of);
            if !good.any(|name| shelf.wants(name) || !shelf.collections_of(name).is_empty()) {
                continue;
            }
            back.push((authority.clone(), realm.revert_to(server)));
        }
        for (authority, left) in &back {
            self.came_back(now, authority.clone(), server, left);
        }
        back.into_iter().map(|(authority, _)| authority).collect()
    }

    /// An authority believes a better server again (C-089). What that was silent about gets its
    /// time now, also if a worse one has given it.
    fn came_back(
        &mut self,
        now: Time,
        authority: AuthorityKey,
        server: ServerId,
        left: &[ServerId],
    ) {
        self.leave(&authority, left);
        let (realm, channel) =
            (self.authorities.get(&authority), self.servers.get_mut(server.index()));
        if let (Some(realm), Some(channel)) = (realm, channel) {
            let until = now + missing_after(&self.setup, channel.setup.key.features);
            for (type_url, shelf) in &realm.types {
                let Some(topic) = channel.topic(type_url) else { continue };
                shelf.unconfirmed(server).for_each(|name| topic.start_timer(name, until));
                for name in shelf.wanted() {
                    if shelf.old(name, server).any(|one| !topic.was_announced(one)) {
                        topic.start_timer(name, until);
                    }
                }
            }
        }
        self.events.push(Event::Reverted { authority, server });
    }

    /// What a server said before it was believed has to be said again.
    pub(super) fn ask_unheard(&mut self, authority: &AuthorityKey, server: ServerId) {
        let Some(channel) = self.servers.get_mut(server.index()) else { return };
        for topic in channel.subscriptions() {
            topic.ask_again_for_ignored(|name| AuthorityKey::of(name) == *authority);
        }
    }

    /// Servers that are not asked any more are let go at once (C-089).
    fn leave(&mut self, authority: &AuthorityKey, servers: &[ServerId]) {
        let Some(realm) = self.authorities.get(authority) else { return };
        for server in servers {
            let Some(channel) = self.servers.get_mut(server.index()) else { continue };
            for (type_url, shelf) in &realm.types {
                let Some(topic) = channel.topic(type_url) else { continue };
                shelf.wanted().for_each(|name| topic.names_changed(name));
            }
            for (scope, stream) in &mut channel.streams {
                let id = StreamId { server: *server, scope: scope.clone() };
                if !is_needed(&self.authorities, &id) {
                    stream.closes = Some(Time::default());
                }
            }
        }
    }
}
