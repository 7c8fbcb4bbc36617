//! What a response means: for the resources in it, for those that are not in it, and for its
//! answer.
//!
//! Good resources of a bad response are used (C-055); the answer names all that is bad (C-063), and
//! is owed at once, whatever the watchers do, and whatever comes before it was said (C-062).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cache::authority::Authority;
use super::cache::entry::{Change, Rejection};
use super::cache::expiries::Expiry;
use super::cache::slots::CacheSlot;
use super::timeouts::expires;
use super::watching::watchers::{EVERYTHING, Watchers, is_group};
use super::{
    AuthorityKey, CachedResource, ErrorKind, Event, HeartbeatResource, InvalidResource, Machine,
    ReceivedResource, ResourceState, Response, ResponseItem, ServerId, StreamId, WatchError,
};
use crate::{ErrorDetail, NameError, ResourceName, Time, TypeUrl, Variant, Version};

/// A response that is being taken in.
pub(super) struct Reception<'a> {
    pub(super) now: Time,
    pub(super) stream: &'a StreamId,
    pub(super) type_url: &'a TypeUrl,
    version: &'a Arc<str>,
}

impl Machine {
    pub(super) fn received(&mut self, now: Time, stream: &StreamId, reply: Response) {
        if !self.hears(now, stream, &reply.type_url) {
            return;
        }
        let back = self.come_back(now, stream.server, &reply);
        let taking = Reception { now, stream, type_url: &reply.type_url, version: &reply.version };
        let mut present = BTreeSet::new();
        let mut flaws = Vec::new();
        let mut good = 0;
        let errors: BTreeMap<_, _> = reply.errors.iter().filter_map(named).collect();
        for item in reply.resources {
            match item {
                Ok(item) => {
                    present.extend(names_of(&item).cloned());
                    good += 1;
                    match item {
                        // A name in both lists is not valid (C-071).
                        ResponseItem::Resource(given)
                            if errors.contains_key(given.resource.name()) => {}
                        ResponseItem::Resource(given) => self.give(&taking, &given),
                        ResponseItem::Heartbeat(bare) => self.renew(&taking, &bare),
                    }
                }
                Err(flaw) => {
                    present.extend(flaw.name.clone());
                    self.reject(&taking, &flaw);
                    flaws.push(flaw);
                }
            }
        }
        let removed = reply.removed.iter().filter_map(|name| ResourceName::read(name).ok());
        let removed: BTreeSet<_> = removed.collect();
        for (name, error) in &errors {
            self.refuse(&taking, name, error, removed.contains(name));
        }
        // The error says more than that it is no more.
        for name in removed.iter().filter(|name| !errors.contains_key(*name)) {
            self.remove(&taking, name);
        }
        present.extend(removed.into_iter().chain(errors.into_keys()));
        // A resource that cannot be named may be any of those that are missing.
        let is_whole = flaws.iter().all(|flaw| flaw.name.is_some());
        if reply.variant == Variant::Sotw && reply.type_url.rules().full_state && is_whole {
            self.remove_absent(&taking, &present);
        }
        self.recover(&taking);
        self.weigh_nameless(&taking, &present, &flaws);
        if is_whole {
            self.settle_groups(&taking, &present);
        }
        back.iter().for_each(|authority| self.ask_unheard(authority, stream.server));
        self.answer(&taking, &reply.nonce, &flaws);
        self.events.push(Event::Received {
            stream: stream.clone(),
            type_url: reply.type_url,
            version: reply.version,
            nonce: reply.nonce,
            accepted: good,
            invalid: flaws,
        });
    }

    /// The server spoke. Whether it speaks of something it was asked for on this stream (C-035).
    fn hears(&mut self, now: Time, id: &StreamId, type_url: &TypeUrl) -> bool {
        self.answered(now, id);
        let Some(channel) = self.servers.get_mut(id.server.index()) else { return false };
        let Some(stream) = channel.streams.get_mut(&id.scope) else { return false };
        let asked = stream
            .subscriptions
            .get(type_url)
            .is_some_and(super::servers::subscription::ClientSubscription::was_asked);
        if asked {
            self.respond(id);
        } else {
            let (stream, type_url) = (id.clone(), type_url.clone());
            self.events.push(Event::Unrequested { stream, type_url });
        }
        asked
    }

    /// The server said nothing, but is there.
    pub(super) fn unchanged(&mut self, now: Time, id: &StreamId) {
        self.answered(now, id);
        self.respond(id);
    }

    /// The server is there. Once it is for all that it is asked for, it has to say again what did
    /// not count while it was not, or it may have nothing to come back with (C-089).
    fn respond(&mut self, id: &StreamId) {
        let Some(channel) = self.servers.get_mut(id.server.index()) else { return };
        let Some(stream) = channel.streams.get_mut(&id.scope) else { return };
        if stream.respond() {
            channel.ask_again_for_ignored();
        }
    }

    /// A poll is over, if it was one.
    fn answered(&mut self, now: Time, id: &StreamId) {
        let Some(channel) = self.servers.get_mut(id.server.index()) else { return };
        let Some(stream) = channel.streams.get_mut(&id.scope) else { return };
        if let super::Protocol::Poll { refresh } = channel.setup.protocol {
            stream.poll_again(now, refresh, &self.setup.settings, id.server.index() as u64);
        }
    }

    /// The source of a type is there, and nothing in it can be used. That says nothing of what is held,
    /// so all of it stays, also if the source is believed when it takes a resource away (C-043).
    pub(super) fn unusable(&mut self, now: Time, id: &StreamId, kind: ErrorKind, why: &str) {
        self.unchanged(now, id);
        let Some(type_url) = id.scope.only() else { return };
        let uri = self.setup.find(id.server).map_or("", |server| &server.key.uri);
        let (short, node) = (type_url.short(), &self.setup.node.id);
        let text = format!("{short} from {uri} (node `{node}`): {why}").into();
        let server = Some(id.server);
        // If what it says was rejected, any resource may be in it.
        let is_nameless = kind == ErrorKind::Rejected;
        let error = WatchError { kind, text, server, is_nameless };
        for realm in self.authorities.values_mut() {
            if realm.active_server() != Some(id.server) {
                continue;
            }
            let Some(shelf) = realm.types.get_mut(type_url) else { continue };
            shelf.unusable = Some(Arc::new(error.clone()));
            shelf.slots.change_all(|name, slot| {
                let news = slot.entry.set_error(error.clone(), false);
                self.watchers.notify(&slot.watchers, name, news, Some((id, now)));
            });
            for (name, group) in &shelf.collections {
                self.watchers.notify(&group.watchers, name, Change::Ambient, Some((id, now)));
            }
        }
        self.events.push(Event::Unusable { stream: id.clone(), why: why.to_owned() });
    }

    /// The source can be used again: what was wrong with it as a whole is over.
    fn recover(&mut self, taking: &Reception<'_>) {
        let Reception { now, stream, type_url, .. } = *taking;
        let node = Arc::clone(&self.setup.node);
        for realm in self.authorities.values_mut() {
            if realm.active_server() != Some(stream.server) {
                continue;
            }
            let Some(shelf) = realm.types.get_mut(type_url) else { continue };
            let Some(was) = shelf.unusable.take() else { continue };
            shelf.slots.change_all(|name, slot| {
                let (short, node) = (type_url.short(), &node.id);
                let text = format!("{short} `{name}` (node `{node}`): there is none").into();
                let (kind, server) = (ErrorKind::Missing, Some(stream.server));
                let missing = WatchError { kind, text, server, is_nameless: false };
                let news = slot.entry.recover(&was, missing);
                self.watchers.notify(&slot.watchers, name, news, Some((stream, now)));
            });
            for (name, group) in &shelf.collections {
                self.watchers.notify(&group.watchers, name, Change::Ambient, Some((stream, now)));
            }
        }
    }

    /// Whether what a server says of a name counts: not while a worse one is believed (C-089). If it
    /// does not, that is noted.
    fn counts(&mut self, taking: &Reception<'_>, name: &ResourceName) -> bool {
        let server = taking.stream.server;
        let realm = self.authorities.get(&AuthorityKey::of(name));
        let counts = realm.is_none_or(|it| it.active_server() == Some(server) || !it.asks(server));
        let channel = self.servers.get_mut(server.index());
        let Some(topic) = channel.and_then(|it| it.topic(taking.type_url)) else { return counts };
        if counts {
            topic.note_received(name);
            return true;
        }
        let shelf = realm.and_then(|realm| realm.types.get(taking.type_url));
        let groups = shelf.map(|shelf| shelf.collections_of(name)).unwrap_or_default();
        groups.iter().chain([name]).for_each(|name| topic.note_ignored(name));
        false
    }

    /// A resource and its body.
    fn give(&mut self, taking: &Reception<'_>, given: &ReceivedResource) {
        let resource = &given.resource;
        let expires = resource.ttl().map(|ttl| taking.now + ttl);
        let held = CachedResource {
            resource: Arc::clone(resource),
            decoded: given.decoded.clone(),
            version: match resource.version() {
                Version::Explicit(version) => Arc::clone(version),
                Version::Content(_) => Arc::clone(taking.version),
            },
            last_updated: taking.now,
            server: taking.stream.server,
            expires,
        };
        self.touch(taking, resource.name(), Presence::Creates, |slot| {
            slot.entry.accept(held.clone())
        });
        for alias in resource.aliases() {
            self.touch(taking, alias, Presence::Finds, |slot| slot.entry.accept(held.clone()));
        }
    }

    /// A wrapper without a body. With a time to live it is a heartbeat: what this server gave lives
    /// on. Without one, what is not held does not exist.
    fn renew(&mut self, taking: &Reception<'_>, bare: &HeartbeatResource) {
        let (server, is_beat) = (taking.stream.server, bare.ttl.is_some());
        let expires = bare.ttl.map(|ttl| taking.now + ttl);
        let missing = self.error(
            ErrorKind::Missing,
            taking,
            &bare.name,
            "the server says that there is no such resource",
        );
        for name in std::iter::once(&bare.name).chain(&bare.aliases) {
            let lives = Cell::new(false);
            self.touch(taking, name, Presence::Finds, |slot| {
                if slot.entry.is_from(server) || (!is_beat && slot.entry.cached().is_some()) {
                    slot.entry.renew(taking.now, expires);
                    lives.set(true);
                    return Change::None;
                }
                if is_beat { Change::None } else { slot.entry.set_error(missing.clone(), false) }
            });
            if is_beat && !lives.get() {
                self.ask_again(taking, name);
            }
        }
    }

    /// The server believes that the client has this resource, and it has not, or not any more: it
    /// must say it again (C-045).
    fn ask_again(&mut self, taking: &Reception<'_>, name: &ResourceName) {
        let server = taking.stream.server;
        let Some(channel) = self.servers.get_mut(server.index()) else { return };
        let Some(topic) = channel.topic(taking.type_url) else { return };
        let believing =
            self.authorities.values().filter(|realm| realm.active_server() == Some(server));
        for shelf in believing.filter_map(|realm| realm.types.get(taking.type_url)) {
            shelf.collections_of(name).iter().for_each(|group| topic.ask_again(group));
            if shelf.wants(name) {
                topic.ask_again(name);
            }
        }
    }

    /// A resource that cannot be used.
    fn reject(&mut self, taking: &Reception<'_>, flaw: &InvalidResource) {
        let Some(name) = &flaw.name else { return };
        let drops = self.drops(taking.stream.server);
        let error = self.error(ErrorKind::Rejected, taking, name, &flaw.why);
        let rejection = Rejection {
            version: Arc::clone(taking.version),
            why: flaw.why.as_str().into(),
            at: taking.now,
        };
        self.touch(taking, name, Presence::Creates, |slot| {
            slot.entry.reject(rejection.clone());
            slot.entry.set_error(error.clone(), drops)
        });
    }

    /// The server says why it does not give a resource (C-071).
    fn refuse(
        &mut self,
        taking: &Reception<'_>,
        name: &ResourceName,
        detail: &ErrorDetail,
        is_removed: bool,
    ) {
        let about_data =
            matches!(detail.code, ErrorDetail::NOT_FOUND | ErrorDetail::PERMISSION_DENIED);
        let drops = about_data && self.drops(taking.stream.server);
        let error = self.error(ErrorKind::Refused(detail.code), taking, name, &detail.message);
        if is_group(name) {
            return self.refuse_group(taking, name, error);
        }
        let is_gone = is_removed || error.is_missing();
        let how = if is_gone { Presence::Removes } else { Presence::Finds };
        self.touch(taking, name, how, |slot| slot.entry.set_error(error.clone(), drops));
    }

    /// Nothing is known of the members of a group, and whoever watches it hears why.
    fn refuse_group(&mut self, taking: &Reception<'_>, name: &ResourceName, error: WatchError) {
        if !self.counts(taking, name) {
            return;
        }
        let Some(realm) = self.authorities.get_mut(&AuthorityKey::of(name)) else { return };
        let Some(shelf) = realm.types.get_mut(taking.type_url) else { return };
        let Some(group) = shelf.collections.get_mut(name) else { return };
        if group.error.as_deref() != Some(&error) {
            group.error = Some(Arc::new(error));
            let stream = Some((taking.stream, taking.now));
            self.watchers.notify(&group.watchers, name, Change::Ambient, stream);
        }
        self.settle_group(taking, name);
    }

    /// The server took a resource away.
    fn remove(&mut self, taking: &Reception<'_>, name: &ResourceName) {
        if is_group(name) {
            if self.counts(taking, name) {
                self.settle_group(taking, name);
            }
            return;
        }
        let drops = self.drops(taking.stream.server);
        let error = self.error(ErrorKind::Missing, taking, name, "the server removed it");
        for name in self.aliases(taking, name).iter().chain([name]) {
            self.touch(taking, name, Presence::Removes, |slot| {
                slot.entry.set_error(error.clone(), drops)
            });
        }
    }

    /// Other names under which a resource is watched.
    fn aliases(&self, taking: &Reception<'_>, name: &ResourceName) -> Vec<ResourceName> {
        let shelves = self.authorities.values().filter_map(|it| it.types.get(taking.type_url));
        let slots = shelves.filter(|shelf| shelf.has_aliases).flat_map(|shelf| &shelf.slots);
        let same = slots.filter(|(watched, slot)| {
            *watched != name && slot.entry.cached().is_some_and(|held| held.resource.name() == name)
        });
        same.map(|(watched, _)| watched.clone()).collect()
    }

    /// C-056, C-077: what was received before and is not in a whole state is no more, and what only
    /// a group has was received. Only this server's authorities are judged.
    fn remove_absent(&mut self, taking: &Reception<'_>, present: &BTreeSet<ResourceName>) {
        let server = taking.stream.server;
        let believing =
            self.authorities.values().filter(|realm| realm.active_server() == Some(server));
        let slots = believing.filter_map(|realm| realm.types.get(taking.type_url));
        let held = slots
            .flat_map(|shelf| &shelf.slots)
            .filter(|(_, slot)| slot.entry.cached().is_some() || slot.watchers.is_empty())
            .filter(|(name, _)| !present.contains(*name));
        let absent: BTreeSet<_> = held.map(|(name, _)| name.clone()).collect();
        let known: Vec<_> = absent.into_iter().filter(|name| self.was_told(taking, name)).collect();
        known.iter().for_each(|name| self.remove(taking, name));
    }

    /// Returns true if the server knows that the name is wanted, by itself, with its collection or
    /// with all others.
    fn was_told(&mut self, taking: &Reception<'_>, name: &ResourceName) -> bool {
        let Some(channel) = self.servers.get_mut(taking.stream.server.index()) else {
            return false;
        };
        let Some(topic) = channel.topic(taking.type_url) else { return false };
        let in_collection = name.collection().is_some_and(|glob| topic.is_subscribed(&glob));
        topic.is_subscribed(name) || in_collection || topic.is_subscribed_to_all()
    }

    /// Does something to a resource wherever it is watched, and tells whoever has to hear of it.
    pub(super) fn touch(
        &mut self,
        taking: &Reception<'_>,
        name: &ResourceName,
        how: Presence,
        act: impl Fn(&mut CacheSlot) -> Change,
    ) {
        let server = taking.stream.server;
        self.counts(taking, name);
        let mut expiring = Vec::new();
        for (authority, realm) in &mut self.authorities {
            if realm.active_server() != Some(server) {
                continue;
            }
            let Some(found) = change(realm, taking.type_url, name, how, &act) else { continue };
            found.tell(&mut self.watchers, name, Some((taking.stream, taking.now)));
            if let Some((state, version)) = found.stands {
                let (type_url, name) = (taking.type_url.clone(), name.clone());
                self.events.push(Event::StateChanged { server, type_url, name, state, version });
            }
            if let Some(at) = found.expires {
                let (authority, type_url) = (authority.clone(), taking.type_url.clone());
                expiring.push(Expiry { at, authority, type_url, name: name.clone() });
            }
        }
        for expiry in expiring {
            self.expiries.add(expiry, |one| expires(&self.authorities, one));
        }
    }

    /// A group has been told all there is once the server spoke of it: of `*` with any response, of
    /// a collection with one that names a member, or if nothing else was asked for.
    fn settle_groups(&mut self, taking: &Reception<'_>, present: &BTreeSet<ResourceName>) {
        let server = taking.stream.server;
        let mut spoken = Vec::new();
        for realm in self.authorities.values().filter(|realm| realm.active_server() == Some(server))
        {
            let Some(shelf) = realm.types.get(taking.type_url) else { continue };
            let alone = shelf.wanted().nth(1).is_none();
            for (name, group) in shelf.collections.iter().filter(|(_, group)| !group.complete) {
                let member = || present.iter().any(|one| group.members.contains(one));
                if name.as_str() == EVERYTHING || alone || member() {
                    spoken.push(name.clone());
                }
            }
        }
        for name in &spoken {
            if self.servers.get_mut(server.index()).is_some_and(|channel| {
                channel.topic(taking.type_url).is_some_and(|topic| topic.is_subscribed(name))
            }) {
                self.settle_group(taking, name);
            }
        }
    }

    fn settle_group(&mut self, taking: &Reception<'_>, name: &ResourceName) {
        self.settled(Some((taking.stream, taking.now)), taking.type_url, name);
    }

    pub(super) fn settled(
        &mut self,
        stream: Option<(&StreamId, Time)>,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) {
        let Some(realm) = self.authorities.get_mut(&AuthorityKey::of(name)) else { return };
        let Some(shelf) = realm.types.get_mut(type_url) else { return };
        let Some(group) = shelf.collections.get_mut(name) else { return };
        if !std::mem::replace(&mut group.complete, true) {
            self.watchers.mark_complete(&group.watchers, stream);
        }
    }

    fn answer(&mut self, taking: &Reception<'_>, nonce: &Arc<str>, flaws: &[InvalidResource]) {
        let Some(channel) = self.servers.get_mut(taking.stream.server.index()) else { return };
        if flaws.is_empty() {
            channel.accepted.insert(taking.type_url.clone(), Arc::clone(taking.version));
        }
        let version = channel.accepted.get(taking.type_url).cloned().unwrap_or_default();
        let Some(topic) = channel.topic(taking.type_url) else { return };
        let error = (!flaws.is_empty()).then(|| {
            let all: Vec<_> = flaws.iter().map(ToString::to_string).collect();
            ErrorDetail { code: ErrorDetail::INVALID_ARGUMENT, message: all.join("; ") }
        });
        topic.owe_answer(nonce, version, error);
    }

    /// Whether a data error of this server makes the client drop what it holds (C-070).
    pub(super) fn drops(&self, server: ServerId) -> bool {
        self.setup.find(server).is_some_and(|server| server.key.features.fail_on_data_errors)
    }

    pub(super) fn error(
        &self,
        kind: ErrorKind,
        taking: &Reception<'_>,
        name: &ResourceName,
        why: &str,
    ) -> WatchError {
        self.error_of(kind, taking.type_url, name, taking.stream.server, why)
    }

    pub(super) fn error_of(
        &self,
        kind: ErrorKind,
        type_url: &TypeUrl,
        name: &ResourceName,
        server: ServerId,
        why: &str,
    ) -> WatchError {
        let uri = self.setup.find(server).map_or("", |server| &server.key.uri);
        let (short, node) = (type_url.short(), &self.setup.node.id);
        let text = format!("{short} `{name}` from {uri} (node `{node}`): {why}").into();
        WatchError { kind, text, server: Some(server), is_nameless: false }
    }
}

/// What happens to a resource that a response speaks of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// A member of a group comes to be.
    Creates,
    /// Only what is watched by name, or is a member already, is concerned.
    Finds,
    /// A member of a group is no more.
    Removes,
}

/// Who has to hear of it.
pub(super) struct Outcome {
    watchers: Vec<super::WatchId>,
    news: Change,
    groups: Vec<super::WatchId>,
    news_of_group: Change,
    /// Groups of which nothing is wrong any more, and who watches them.
    mended: Vec<(ResourceName, Vec<super::WatchId>)>,
    /// When it must not be used any more.
    expires: Option<Time>,
    /// How it stands and which version is held, if that is news.
    stands: Option<(ResourceState, Option<Arc<str>>)>,
}

impl Outcome {
    pub(super) fn tell(
        &self,
        watchers: &mut Watchers,
        name: &ResourceName,
        stream: Option<(&StreamId, Time)>,
    ) {
        watchers.notify(&self.watchers, name, self.news, stream);
        watchers.notify(&self.groups, name, self.news_of_group, stream);
        for (group, ids) in &self.mended {
            watchers.notify(ids, group, Change::Ambient, stream);
        }
    }
}

pub(super) fn change(
    realm: &mut Authority,
    type_url: &TypeUrl,
    name: &ResourceName,
    how: Presence,
    act: &impl Fn(&mut CacheSlot) -> Change,
) -> Option<Outcome> {
    let shelf = realm.types.get_mut(type_url)?;
    let groups = shelf.collections_of(name);
    let news = if how == Presence::Creates && !groups.is_empty() {
        shelf.slots.put(name, act)
    } else {
        shelf.slots.change(name, act)?
    };
    let slot = shelf.slots.get(name)?;
    shelf.has_aliases |= slot.entry.cached().is_some_and(|held| held.resource.name() != name);
    let watchers = slot.watchers.clone();
    let held = slot.entry.cached();
    let expires = held.and_then(|held| held.expires);
    let version = || held.map(|held| Arc::clone(&held.version));
    let stands = (news != Change::None).then(|| (slot.entry.state(), version()));
    let (mut listeners, mut membership, mut mended) = (Vec::new(), false, Vec::new());
    for name_of_group in groups {
        let Some(group) = shelf.collections.get_mut(&name_of_group) else { continue };
        if how == Presence::Creates && group.error.take().is_some() {
            mended.push((name_of_group, group.watchers.clone()));
        }
        membership |= match how {
            Presence::Creates => group.members.insert(name.clone()),
            Presence::Removes => group.members.remove(name),
            Presence::Finds => false,
        };
        listeners.extend(&group.watchers);
    }
    shelf.drop_unwatched(name);
    let news_of_group = if membership { Change::Changed } else { news };
    Some(Outcome { watchers, news, groups: listeners, news_of_group, mended, expires, stands })
}

pub(super) fn names_of(item: &ResponseItem) -> impl Iterator<Item = &ResourceName> {
    let (name, aliases) = match item {
        ResponseItem::Resource(given) => (given.resource.name(), given.resource.aliases()),
        ResponseItem::Heartbeat(bare) => (&bare.name, bare.aliases.as_slice()),
    };
    std::iter::once(name).chain(aliases)
}

fn named(error: &NameError) -> Option<(ResourceName, ErrorDetail)> {
    Some((ResourceName::read(&error.name).ok()?, error.error.clone()))
}

impl std::fmt::Display for InvalidResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "`{name}`: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}
