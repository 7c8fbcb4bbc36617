//! The server that is active for each authority, and how that changes: down the list when one
//! cannot be reached and something is missing (C-087, C-088), and up again when a better one
//! delivers (C-089, [gRFC A71]).
//!
//! Not here: what a response means (`receive`), and which streams there are (`servers`).
//!
//! [gRFC A71]: https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md

use crate::client::authority_key::AuthorityKey;
use crate::client::cache::{AuthorityCache, ResourceCache};
use crate::client::event::Event;
use crate::client::ids::ServerId;
use crate::client::response::{Response, ResponseItem};
use crate::client::servers::{ClientSubscription, ServerChannel, Servers};
use crate::client::setup::Setup;
use crate::{ResourceName, Time};

/// Chooses the active servers.
pub(super) struct ServerChoice<'a> {
    pub(super) now: Time,
    pub(super) setup: &'a Setup,
    pub(super) cache: &'a mut ResourceCache,
    pub(super) servers: &'a mut Servers,
    pub(super) events: &'a mut Vec<Event>,
}

/// An authority that went back to a better server.
struct Reversion {
    authority: AuthorityKey,
    server: ServerId,
    /// The servers that are not asked any more.
    left: Vec<ServerId>,
}

impl ServerChoice<'_> {
    /// Turns to other servers where the active one cannot be reached and something is missing
    /// (C-087).
    pub(super) fn fall_back(&mut self) {
        let mut reversions = Vec::new();
        for (key, authority) in self.cache.iter_mut() {
            while let Some(active) = authority.active_server() {
                if !has_outage(&self.servers[active], authority) {
                    break;
                }
                // A better one spoke since it was given up, and had nothing to deliver.
                let mut asked = authority.asked_servers().iter().copied();
                if let Some(server) = asked.find(|id| !has_outage(&self.servers[*id], authority)) {
                    let left = authority.revert_to(server);
                    reversions.push(Reversion { authority: key.clone(), server, left });
                    break;
                }
                let Some(server) = authority.fall_back() else { break };
                self.events.push(Event::FellBack { authority: key.clone(), server });
                // Statements on the streams that it still has do not count any more.
                let ignore = ClientSubscription::note_ignored;
                change_wanted(&mut self.servers[active], authority, ignore);
                let ask = ClientSubscription::name_changed;
                change_wanted(&mut self.servers[server], authority, ask);
            }
        }
        for reversion in reversions {
            self.finish(&reversion);
            self.servers[reversion.server].ask_again_for_ignored(&reversion.authority);
        }
    }

    /// Goes back to a better server that delivers, so the worse ones are let go (C-089). Nothing
    /// that it said before counts, and all that it says from now on does. Returns the authorities
    /// that believe it again.
    pub(super) fn revert(&mut self, server: ServerId, response: &Response) -> Vec<AuthorityKey> {
        let mut reversions = Vec::new();
        for (key, authority) in self.cache.iter_mut() {
            if authority.believes(server) || !authority.asks(server) {
                continue;
            }
            let has_outage = has_outage(&self.servers[server], authority);
            if has_outage && authority.needs_another_server() {
                continue; // It would be left again at once, because of another type.
            }
            if delivers(response, authority) {
                let left = authority.revert_to(server);
                reversions.push(Reversion { authority: key.clone(), server, left });
            }
        }
        reversions.iter().for_each(|reversion| self.finish(reversion));
        reversions.into_iter().map(|reversion| reversion.authority).collect()
    }

    /// Lets the worse servers go. The better one gets its time now for what it was silent about,
    /// also if a worse one has given that.
    fn finish(&mut self, reversion: &Reversion) {
        let Reversion { authority: key, server, left } = reversion;
        if let Some(authority) = self.cache.get(key) {
            for id in left {
                let ask = ClientSubscription::name_changed;
                change_wanted(&mut self.servers[*id], authority, ask);
                self.servers[*id].release_unneeded(self.cache);
            }
            let features = self.servers[*server].setup().key.features;
            let until = self.now + self.setup.settings.resource_timeout(features);
            start_timers(&mut self.servers[*server], authority, until);
        }
        self.events.push(Event::Reverted { authority: key.clone(), server: *server });
    }
}

/// Returns true if a server cannot be reached for anything that an authority watches.
fn has_outage(server: &ServerChannel, authority: &AuthorityCache) -> bool {
    authority.types().any(|type_url| server.outage_of(type_url).is_some())
}

/// Returns true if a response brings a resource that an authority watches.
fn delivers(response: &Response, authority: &AuthorityCache) -> bool {
    let Some(cache) = authority.cache(&response.type_url) else { return false };
    let items = response.resources.iter().flatten();
    let resources = items.filter(|item| matches!(item, ResponseItem::Resource(_)));
    resources.flat_map(ResponseItem::names).any(|name| cache.concerns(name))
}

/// Changes the subscriptions of a server for every name that an authority wants.
fn change_wanted(
    server: &mut ServerChannel,
    authority: &AuthorityCache,
    change: impl Fn(&mut ClientSubscription, &ResourceName),
) {
    for (type_url, cache) in authority.caches() {
        if let Some(subscription) = server.subscription(type_url) {
            cache.wanted().for_each(|name| change(subscription, name));
        }
    }
}

/// Gives a server until then to speak of what it has not confirmed.
fn start_timers(server: &mut ServerChannel, authority: &AuthorityCache, until: Time) {
    let id = server.id();
    for (type_url, cache) in authority.caches() {
        if let Some(subscription) = server.subscription(type_url) {
            for name in cache.wanted() {
                let mut unconfirmed = cache.unconfirmed(name, id);
                if cache.is_awaited(name, id)
                    || unconfirmed.any(|one| !subscription.was_announced(one))
                {
                    subscription.start_timer(name, until);
                }
            }
        }
    }
}
