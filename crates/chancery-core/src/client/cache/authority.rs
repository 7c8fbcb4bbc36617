//! One authority: its servers, which of them is asked, and what is watched and held under it.
//!
//! The first level of the cache is the authority, the second the type, the third the name (C-051).
//! Which server is asked is a place in the authority's list, so that several authorities share a
//! server and one can move (C-052): all servers up to that place are asked for all that is watched,
//! and the last of them is believed (C-088, C-089).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::cache::entry::{CacheEntry, Change};
use crate::client::cache::slots::CacheSlots;
use crate::client::servers::server::Server;
use crate::client::watching::watchers::{EVERYTHING, WatchId, Watchers, is_group};
use crate::client::{AuthorityKey, AuthoritySetup, CachedResource, Fallback, ServerId, WatchError};
use crate::{ResourceName, TypeUrl, Version, Versions};

/// All authorities.
pub(in crate::client) type Authorities = BTreeMap<AuthorityKey, Authority>;

#[derive(Debug)]
pub(in crate::client) struct Authority {
    setup: AuthoritySetup,
    /// The place of the server that is believed.
    active: usize,
    pub(in crate::client) types: BTreeMap<TypeUrl, TypeCache>,
}

/// What is watched and held of one type.
#[derive(Debug, Default)]
pub(in crate::client) struct TypeCache {
    pub(in crate::client) slots: CacheSlots,
    pub(in crate::client) collections: BTreeMap<ResourceName, Collection>,
    /// Why no server can be reached, once that is known.
    pub(in crate::client) outage: Option<Arc<WatchError>>,
    /// Whether a resource was ever given under a name that is not its own.
    pub(in crate::client) has_aliases: bool,
    /// Why the newest of what there is cannot be used as a whole (C-043).
    pub(in crate::client) unusable: Option<Arc<WatchError>>,
}

/// A collection, or all resources of a type.
#[derive(Debug, Default)]
pub(in crate::client) struct Collection {
    pub(in crate::client) watchers: Vec<WatchId>,
    pub(in crate::client) members: BTreeSet<ResourceName>,
    /// Whether the server has said what there is, or has had the time to.
    pub(in crate::client) complete: bool,
    /// Why the server does not say.
    pub(in crate::client) error: Option<Arc<WatchError>>,
    /// Why a resource was rejected that nobody can name, if the newest response had one.
    pub(in crate::client) rejected: Option<Arc<WatchError>>,
}

impl Collection {
    /// Whether a resource of this name is in the group of that one.
    pub(in crate::client) fn covers(group: &ResourceName, name: &ResourceName) -> bool {
        group.as_str() == EVERYTHING || name.collection().as_ref() == Some(group)
    }
}

impl Authority {
    pub(in crate::client) fn new(setup: AuthoritySetup) -> Self {
        Self { setup, active: 0, types: BTreeMap::new() }
    }

    /// Why a server cannot be reached, if that is so for anything that is watched.
    pub(in crate::client) fn outage_of<'c>(
        &self,
        channel: &'c Server,
    ) -> Option<&'c Arc<WatchError>> {
        self.types.keys().find_map(|type_url| channel.outage_of(type_url))
    }

    /// The servers that can be asked, the best first.
    pub(in crate::client) fn servers(&self) -> &[ServerId] {
        &self.setup.servers
    }

    /// The servers that are asked, the best first.
    pub(in crate::client) fn asked_servers(&self) -> &[ServerId] {
        let end = self.setup.servers.len().min(self.active + 1);
        &self.setup.servers[..end]
    }

    /// The server that is believed.
    pub(in crate::client) fn active_server(&self) -> Option<ServerId> {
        self.setup.servers.get(self.active).copied()
    }

    /// Returns true if no other server is left to turn to.
    pub(in crate::client) fn is_at_last(&self) -> bool {
        self.active + 1 >= self.setup.servers.len()
    }

    /// The server to turn to now that the believed one cannot be reached (C-087, C-091).
    pub(in crate::client) fn next(&self) -> Option<ServerId> {
        let next = self.setup.servers.get(self.active + 1).copied()?;
        self.needs_another_server().then_some(next)
    }

    /// Whether a server that cannot be reached is worth another one.
    pub(in crate::client) fn needs_another_server(&self) -> bool {
        match self.setup.fallback {
            Fallback::Reachability => self.is_watched(),
            Fallback::Needed => self.types.values().any(TypeCache::is_unresolved),
        }
    }

    /// Believes the next server.
    pub(in crate::client) fn advance(&mut self) {
        self.active += 1;
    }

    /// Believes a better server again. The servers that are not asked any more.
    pub(in crate::client) fn revert_to(&mut self, server: ServerId) -> Vec<ServerId> {
        let place = self.asked_servers().iter().position(|asked| *asked == server);
        let Some(place) = place.filter(|place| *place < self.active) else { return Vec::new() };
        let left = self.asked_servers()[place + 1..].to_vec();
        self.active = place;
        left
    }

    pub(in crate::client) fn asks(&self, server: ServerId) -> bool {
        self.asked_servers().contains(&server)
    }

    pub(in crate::client) fn is_watched(&self) -> bool {
        self.types.values().any(TypeCache::is_watched)
    }

    /// Takes away what nobody watches.
    pub(in crate::client) fn remove_unwatched_type(&mut self, type_url: &TypeUrl) {
        if self.types.get(type_url).is_some_and(TypeCache::is_empty) {
            self.types.remove(type_url);
        }
        if self.types.is_empty() {
            self.active = 0; // Nothing is left that only the worse server had.
        }
    }
}

impl TypeCache {
    fn is_unresolved(&self) -> bool {
        self.slots.is_any_unresolved() || self.collections.values().any(|group| !group.complete)
    }

    fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.collections.is_empty()
    }

    pub(in crate::client) fn is_watched(&self) -> bool {
        !self.collections.is_empty() || self.slots.values().any(|slot| !slot.watchers.is_empty())
    }

    pub(in crate::client) fn wants(&self, name: &ResourceName) -> bool {
        self.collections.contains_key(name)
            || self.slots.get(name).is_some_and(|slot| !slot.watchers.is_empty())
    }

    /// All that is to be asked for.
    pub(in crate::client) fn wanted(&self) -> impl Iterator<Item = &ResourceName> {
        let slots = self.slots.iter().filter(|(_, slot)| !slot.watchers.is_empty());
        self.collections.keys().chain(slots.map(|(name, _)| name))
    }

    /// All that this server has still to speak of.
    pub(in crate::client) fn unconfirmed(
        &self,
        server: ServerId,
    ) -> impl Iterator<Item = &ResourceName> {
        self.wanted().filter(move |name| self.is_unconfirmed(name, server))
    }

    /// Whether a server has still to speak of a name: nothing is held, or only what another server
    /// gave. That may be used until it has (C-088), and need not be true for ever.
    fn is_unconfirmed(&self, name: &ResourceName, server: ServerId) -> bool {
        if !is_group(name) {
            return self.slots.get(name).is_some_and(|slot| !slot.entry.is_from(server));
        }
        let is_open = |group: &Collection| {
            !group.complete || self.members_not_from(group, server).next().is_some()
        };
        self.collections.get(name).is_some_and(is_open)
    }

    /// Whether something is held, and nothing that another server gave or said, or that had to be
    /// dropped since.
    fn is_all_from(&self, server: ServerId) -> bool {
        let mut some = false;
        let mut slots = self.slots.values();
        let all = slots.all(|slot| {
            some |= slot.entry.is_from(server);
            slot.entry.is_as_said_by(server)
        });
        some && all && self.collections.values().all(|group| group.complete)
    }

    /// Members of a group that this server has not spoken of.
    pub(in crate::client) fn members_not_from<'a>(
        &'a self,
        group: &'a Collection,
        server: ServerId,
    ) -> impl Iterator<Item = &'a ResourceName> {
        let knows = move |name: &ResourceName| {
            self.slots.get(name).is_some_and(|slot| slot.entry.is_known_from(server))
        };
        group.members.iter().filter(move |name| !knows(name))
    }

    /// Returns the resources that this server has to say again: that of this name, or members of
    /// the group.
    pub(in crate::client) fn old<'a>(
        &'a self,
        name: &'a ResourceName,
        server: ServerId,
    ) -> impl Iterator<Item = &'a ResourceName> {
        let group = self.collections.get(name).into_iter().flat_map(|group| &group.members);
        let slot = |name: &ResourceName| self.slots.get(name);
        let all = group.chain([name]);
        all.filter(move |name| slot(name).is_some_and(|slot| slot.entry.is_old_to(server)))
    }

    /// Tells the watchers that servers cannot be reached, or can be again. While there is another
    /// server, a resource that is known not to exist is no reason to ask it, and its watchers hear
    /// nothing (C-090).
    pub(in crate::client) fn set_outage(&mut self, is_last: bool, watchers: &mut Watchers) {
        let is_away = self.outage.is_some();
        self.slots.change_all(|name, slot| {
            if is_away && !is_last && slot.entry.is_without_value() {
                return;
            }
            let news = slot.entry.cut_off(is_away);
            watchers.notify(&slot.watchers, name, news, None);
        });
        for (name, group) in &self.collections {
            watchers.notify(&group.watchers, name, Change::Ambient, None);
        }
    }

    /// Tells those who heard something else meanwhile, as that a resource did not come in time, that
    /// servers can still not be reached.
    pub(in crate::client) fn repeat_outage(&mut self, is_last: bool, watchers: &mut Watchers) {
        self.slots.change_all(|name, slot| {
            if !is_last && slot.entry.is_without_value() {
                return;
            }
            let news = slot.entry.cut_off_again();
            watchers.notify(&slot.watchers, name, news, None);
        });
    }

    /// Adds a group, with those of its members that are held already: a delta server does not send
    /// them again. What is held although its server says that it is no more is no member.
    pub(in crate::client) fn collection(&mut self, name: &ResourceName) -> &mut Collection {
        let slots = &self.slots;
        self.collections.entry(name.clone()).or_insert_with(|| {
            let is_gone =
                |entry: &CacheEntry| entry.error().is_some_and(|error| error.is_missing());
            let held = slots
                .iter()
                .filter(|(_, slot)| slot.entry.cached().is_some() && !is_gone(&slot.entry));
            let members = held.map(|(one, _)| one).filter(|one| Collection::covers(name, one));
            Collection { members: members.cloned().collect(), ..Collection::default() }
        })
    }

    /// The groups that a resource of this name is in, if they are watched.
    pub(in crate::client) fn collections_of(&self, name: &ResourceName) -> Vec<ResourceName> {
        let everything = self.collections.get_key_value(EVERYTHING);
        let collection = name.collection().and_then(|name| self.collections.get_key_value(&name));
        everything.into_iter().chain(collection).map(|(group, _)| group.clone()).collect()
    }

    /// Everybody who hears of a resource: who watches it, and who watches a group it is in.
    pub(in crate::client) fn listeners(&self, name: &ResourceName) -> Vec<WatchId> {
        let slot = self.slots.get(name).map(|slot| slot.watchers.as_slice()).unwrap_or_default();
        let mut all = slot.to_vec();
        for group in
            self.collections_of(name).iter().filter_map(|group| self.collections.get(group))
        {
            all.extend(&group.watchers);
        }
        all
    }

    /// Takes back what is left of an earlier run, if it is watched and nothing newer is known. Who
    /// hears of it; or it is handed back, to be kept for others.
    pub(in crate::client) fn restore(
        &mut self,
        held: CachedResource,
    ) -> Result<Vec<WatchId>, CachedResource> {
        let name = held.resource.name().clone();
        let groups = self.collections_of(&name);
        if groups.is_empty() && !self.slots.contains(&name) {
            return Err(held);
        }
        let is_news = self.slots.put(&name, |slot| slot.entry.restore(held));
        if !is_news {
            return Ok(Vec::new());
        }
        for group in groups {
            let group = self.collections.get_mut(&group);
            group.into_iter().for_each(|group| {
                group.members.insert(name.clone());
            });
        }
        Ok(self.listeners(&name))
    }

    /// Forgets a resource that neither a watcher nor a group has.
    pub(in crate::client) fn drop_unwatched(&mut self, name: &ResourceName) {
        let grouped = self.collections.values().any(|group| group.members.contains(name));
        let watched = self.slots.get(name).is_some_and(|slot| !slot.watchers.is_empty());
        if !grouped && !watched {
            self.slots.remove(name);
        }
    }
}

/// What one server is asked for of one type.
pub(in crate::client) struct WantedNames<'a> {
    pub(in crate::client) realms: &'a Authorities,
    pub(in crate::client) server: ServerId,
    pub(in crate::client) type_url: &'a TypeUrl,
}

impl<'a> WantedNames<'a> {
    /// All names that are wanted.
    pub(in crate::client) fn names(&self) -> BTreeSet<ResourceName> {
        self.type_caches().flat_map(TypeCache::wanted).cloned().collect()
    }

    /// Whether one name is wanted.
    pub(in crate::client) fn wants(&self, name: &ResourceName) -> bool {
        self.type_cache_of(name).is_some_and(|shelf| shelf.wants(name))
    }

    /// Whether the server has to speak of it, so that its time runs once it was asked for (C-065).
    pub(in crate::client) fn is_awaited(&self, name: &ResourceName) -> bool {
        self.type_cache_of(name).is_some_and(|shelf| shelf.is_unconfirmed(name, self.server))
    }

    /// The same, or it is only known from before: a server that repeats what it has must repeat this
    /// too.
    pub(in crate::client) fn is_awaited_whole(&self, name: &ResourceName) -> bool {
        self.is_awaited(name) || self.old(name).next().is_some()
    }

    /// Returns the resources that the server has to say again: that of this name, or members of the
    /// group.
    pub(in crate::client) fn old<'n>(
        &self,
        name: &'n ResourceName,
    ) -> impl Iterator<Item = &'n ResourceName>
    where
        'a: 'n,
    {
        let server = self.server;
        self.type_cache_of(name).into_iter().flat_map(move |shelf| shelf.old(name, server))
    }

    /// Whether a version of this server stands for what is held of the type, under all authorities
    /// that ask it (C-031). Servers that compare nothing else would be silent about the others.
    pub(in crate::client) fn holds_its_version(&self) -> bool {
        let asking = self.asking().filter(|realm| realm.types.contains_key(self.type_url));
        let mut shelves = asking.map(|realm| {
            let is_believed = realm.active_server() == Some(self.server);
            realm.types.get(self.type_url).filter(|_| is_believed)
        });
        let mut some = false;
        let all = shelves.all(|shelf| {
            some = true;
            shelf.is_some_and(|shelf| shelf.is_all_from(self.server))
        });
        some && all
    }

    /// What is held from this very server, with the versions it gave (C-031, C-040). If something
    /// is wrong with it all the same, the server has to say again what is true now; and all of it
    /// while another one is believed, because that is how it shows that it is back (C-089).
    pub(in crate::client) fn versions(&self) -> Versions {
        let believing = self.asking().filter(|realm| realm.active_server() == Some(self.server));
        let shelves = believing.filter_map(|realm| realm.types.get(self.type_url));
        let mut all = BTreeMap::new();
        for shelf in shelves {
            for (name, slot) in &shelf.slots {
                let held = slot.entry.cached().filter(|held| held.server == self.server);
                let Some(Version::Explicit(version)) = held.map(|it| it.resource.version()) else {
                    continue;
                };
                if slot.entry.error().is_none() && self.is_held_by_all(name) {
                    all.insert(name, &**version);
                } else if shelf.collections.values().any(|group| group.members.contains(name)) {
                    // No version is the one it has: it must be sent, or be said to be gone.
                    all.insert(name, "");
                }
            }
        }
        let mut versions = Versions::default();
        all.into_iter().for_each(|(name, version)| versions.push(name.as_str(), version));
        versions
    }

    /// Returns true if all who want a name believe this server and have it from there, and nothing
    /// is wrong with it. Who watches everything may hold what another authority lacks, and the
    /// other way round; and to the server they are one client.
    fn is_held_by_all(&self, name: &ResourceName) -> bool {
        let own = AuthorityKey::of(name);
        let realms = [self.realms.get(&AuthorityKey::Old), self.realms.get(&own)];
        let asking = realms.into_iter().flatten().filter(|realm| realm.asks(self.server));
        let mut shelves = asking.filter_map(|realm| {
            let shelf = realm.types.get(self.type_url)?;
            Some((shelf, realm.active_server() == Some(self.server)))
        });
        shelves.all(|(shelf, is_believed)| {
            let is_wanted = shelf.wants(name) || !shelf.collections_of(name).is_empty();
            let slot = shelf.slots.get(name);
            let is_right =
                |entry: &CacheEntry| entry.is_from(self.server) && entry.error().is_none();
            !is_wanted || (is_believed && slot.is_some_and(|slot| is_right(&slot.entry)))
        })
    }

    fn type_caches(&self) -> impl Iterator<Item = &'a TypeCache> {
        self.asking().filter_map(|realm| realm.types.get(self.type_url))
    }

    fn asking(&self) -> impl Iterator<Item = &'a Authority> {
        self.realms.values().filter(|realm| realm.asks(self.server))
    }

    fn type_cache_of(&self, name: &ResourceName) -> Option<&'a TypeCache> {
        let realm = self.realms.get(&AuthorityKey::of(name))?;
        if realm.asks(self.server) { realm.types.get(self.type_url) } else { None }
    }
}
