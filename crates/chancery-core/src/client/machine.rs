//! The client: watches in, requests out, and which server is asked.
//!
//! ```text
//!   watch, unwatch --> [Realm: authority, type, name] --wanted--> [Topic on Stream] --> requests
//!                            ^          |                                  ^
//!                            |          +--> Watchers --> events           |
//!                            +------------ replies, judged (receive) ------+
//! ```
//!
//! A driver calls [`Machine::handle`] with what happened, then [`Machine::poll`] until there is no
//! effect left, and [`Machine::handle`] again no later than [`Machine::deadline`]. What is said on a
//! stream is asked for when the wire has room ([`Machine::request`]), and what a watcher is told when
//! it can take it ([`Machine::event`]), so that nothing is queued.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::cache::authority::{Authorities, Authority, TypeCache, WantedNames};
use super::cache::entry::Change;
use super::cache::expiries::Expiries;
use super::cache::restored::RestoredResources;
use super::servers::server::{Server, Stream, StreamState};
use super::watching::watchers::{WatchSubject, Watchers};
use super::{
    AuthorityKey, CachedResource, ErrorKind, Event, Response, ServerId, Setup, StreamId,
    WatchError, WatchId,
};
use crate::{ErrorDetail, Request, ResourceName, Scope, Time, TypeUrl, Variant};

/// A client of any number of servers, as a value.
#[derive(Debug)]
pub struct Machine {
    pub(super) setup: Setup,
    pub(super) authorities: Authorities,
    pub(super) servers: Vec<Server>,
    pub(super) watchers: Watchers,
    pub(super) expiries: Expiries,
    pub(super) events: Vec<Event>,
    stock: RestoredResources,
    pub(super) effects: Effects,
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The stream is there, and requests can be sent on it.
    Opened(StreamId),
    /// It ended, or it could not be opened.
    Ended(StreamId, ErrorDetail),
    /// The server said something.
    Received(StreamId, Response),
    /// A poll was answered: nothing is new (C-044).
    Unchanged(StreamId),
    /// A poll was answered with nothing that could be used at all, as a broken file is (C-043). What
    /// is held stays, and everybody who watches is told why.
    Unusable(StreamId, ErrorKind, String),
    /// Time has passed.
    TimePassed,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open this stream, connecting if need be, and say how it went.
    Open(StreamId),
    /// Close it. Nothing more is to be said of it.
    Close(StreamId),
    /// There may be a [request](Machine::request) for it.
    Send(StreamId),
    /// It [may be read](Machine::may_read) again.
    Read(StreamId),
    /// There may be an [event](Machine::event) for it.
    Notify(WatchId),
}

/// Effects that are due, each once.
#[derive(Debug, Default)]
pub(super) struct Effects {
    open: BTreeSet<StreamId>,
    close: BTreeSet<StreamId>,
    pub(super) send: BTreeSet<StreamId>,
}

impl Machine {
    /// A client that watches nothing and has asked nobody.
    pub fn new(setup: Setup) -> Self {
        let realms = setup.authorities().iter();
        Self {
            authorities: realms
                .map(|(key, setup)| (key.clone(), Authority::new(setup.clone())))
                .collect(),
            servers: setup.servers().map(|(_, server)| Server::new(server.clone())).collect(),
            watchers: Watchers::default(),
            expiries: Expiries::default(),
            events: Vec::new(),
            stock: RestoredResources::default(),
            effects: Effects::default(),
            setup,
        }
    }

    /// What the client was told when it began.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Keeps a resource of an earlier run for whoever watches it, now or later. What is known of it
    /// already is newer. If it is gone by the time a watcher of its group reads, the watcher is told
    /// that it was removed.
    pub fn restore(&mut self, type_url: TypeUrl, held: CachedResource) {
        let name = held.resource.name().clone();
        let is_gone = self.is_known_missing(&type_url, &name);
        let realm = self.authorities.get_mut(&AuthorityKey::of(&name));
        let Some(shelf) = realm.and_then(|realm| realm.types.get_mut(&type_url)) else {
            return self.stock.put(type_url, held);
        };
        if is_gone {
            let groups = shelf.collections_of(&name);
            let watchers = groups.iter().filter_map(|group| shelf.collections.get(group));
            let watchers: Vec<_> = watchers.flat_map(|group| group.watchers.clone()).collect();
            self.watchers.assume_known(&watchers, &name);
            return self.watchers.notify(&watchers, &name, Change::Changed, None);
        }
        match shelf.restore(held) {
            Ok(listeners) => {
                self.watchers.assume_known(&listeners, &name);
                self.watchers.notify(&listeners, &name, Change::Changed, None);
            }
            Err(held) => self.stock.put(type_url, held),
        }
    }

    /// Watches a resource by its name; `*` stands for all resources of the type, and the glob of a
    /// collection for those in it.
    pub fn watch(&mut self, now: Time, type_url: &TypeUrl, name: &str) -> WatchId {
        let subject = self.subject(type_url, name);
        let id = self.watchers.add(subject.clone().map_err(Arc::new));
        let Ok(subject) = subject else { return id };
        self.enrol(id, &subject);
        self.renamed(&subject);
        self.settle(now);
        id
    }

    /// Ends a watch. What nobody else watches is forgotten (C-050).
    pub fn unwatch(&mut self, now: Time, id: WatchId) {
        let Some(watcher) = self.watchers.remove(id) else { return };
        let Ok(subject) = watcher.subject else { return };
        self.strike(id, &subject);
        self.renamed(&subject);
        self.forgotten(&subject);
        if let Some(realm) = self.authorities.get_mut(&subject.authority) {
            realm.remove_unwatched_type(&subject.type_url);
        }
        self.settle(now);
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Time, input: Input) -> Vec<Event> {
        match input {
            Input::Opened(stream) => self.opened(now, &stream),
            Input::Ended(stream, error) => self.ended(now, &stream, &error),
            Input::Received(stream, reply) => self.received(now, &stream, reply),
            Input::Unchanged(stream) => self.unchanged(now, &stream),
            Input::Unusable(stream, kind, why) => self.unusable(now, &stream, kind, &why),
            Input::TimePassed => {}
        }
        self.pass(now);
        self.settle(now);
        std::mem::take(&mut self.events)
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Effect> {
        if let Some(stream) = self.effects.close.pop_first() {
            return Some(Effect::Close(stream));
        }
        if let Some(stream) = self.effects.open.pop_first() {
            return Some(Effect::Open(stream));
        }
        if let Some(stream) = self.effects.send.pop_first() {
            return Some(Effect::Send(stream));
        }
        if let Some(watch) = self.watchers.next_ready() {
            return Some(Effect::Notify(watch));
        }
        self.watchers.next_resumed().map(Effect::Read)
    }

    /// The next request for a stream that has room for one.
    pub fn request(&mut self, now: Time, stream: &StreamId) -> Option<Request> {
        let channel = self.servers.get_mut(stream.server.index())?;
        let open = channel.streams.get_mut(&stream.scope)?;
        if open.state != StreamState::Open || open.is_asked {
            open.is_due = false;
            return None;
        }
        let protocol = channel.setup.protocol;
        let (variant, is_polled) = (protocol.variant(), protocol.is_polled());
        // What is polled has a pace of its own.
        let limit = self.setup.settings.rate_limit;
        if !is_polled && open.is_paused(now, limit) {
            open.is_due = false;
            return None;
        }
        let is_time = open.is_time_to_poll(now);
        let was_full = !open.may_owe();
        let until = now + missing_after(&self.setup, channel.setup.key.features);
        let request = open.subscriptions.values_mut().find_map(|topic| {
            let type_url = topic.type_url.clone();
            let wants = WantedNames {
                realms: &self.authorities,
                server: stream.server,
                type_url: &type_url,
            };
            match variant {
                _ if is_polled => {
                    let version = channel.accepted.get(&type_url).cloned().unwrap_or_default();
                    topic.poll(&wants, &version, until, is_time).map(Request::Sotw)
                }
                Variant::Sotw => {
                    // To a new stream, a version says what the client has (C-031).
                    let says = topic.was_asked() || wants.holds_its_version();
                    let version = channel.accepted.get(&type_url).filter(|_| says).cloned();
                    let version = version.unwrap_or_default();
                    topic.sotw(&wants, &version, until).map(Request::Sotw)
                }
                Variant::Delta => topic.delta(&wants, until).map(Request::Delta),
            }
        });
        if is_time || request.is_some() {
            open.next_poll = None;
        }
        let Some(mut request) = request else {
            open.is_due = false;
            return None;
        };
        open.said(now, limit, request.error().is_some());
        if was_full && open.may_owe() {
            self.watchers.resume(stream);
        }
        open.is_asked = is_polled;
        if !is_polled {
            open.ask(until);
        }
        if !std::mem::replace(&mut open.introduced, true) || is_polled {
            request.introduce(&self.setup.node);
        }
        Some(request)
    }

    /// Returns true if there may be a request for a stream.
    pub fn may_request(&self, now: Time, stream: &StreamId) -> bool {
        let channel = self.servers.get(stream.server.index());
        let open = channel.and_then(|channel| {
            let is_polled = channel.setup.protocol.is_polled();
            channel.streams.get(&stream.scope).map(|open| (open, is_polled))
        });
        open.is_some_and(|(open, is_polled)| open.is_open() && open.may_be_due(now, is_polled))
    }

    /// Returns true if the watchers have applied what came on the stream, and most of it was
    /// answered, so that more may be read (C-038, C-062).
    pub fn may_read(&self, stream: &StreamId) -> bool {
        let channel = self.servers.get(stream.server.index());
        let open = channel.and_then(|channel| channel.streams.get(&stream.scope));
        self.watchers.have_applied(stream) && open.is_none_or(Stream::may_owe)
    }

    /// When [`handle`](Self::handle) must be called, if nothing happens before.
    pub fn deadline(&mut self) -> Option<Time> {
        let streams = self.servers.iter_mut().flat_map(|channel| channel.streams.values_mut());
        let waits = streams.filter_map(Stream::deadline).min();
        let patience = self.watchers.deadline(self.setup.settings.patience);
        [waits, self.expiries.next(), patience].into_iter().flatten().min()
    }

    fn subject(&self, type_url: &TypeUrl, name: &str) -> Result<WatchSubject, WatchError> {
        let refused = |kind, why: String| {
            let node = &self.setup.node.id;
            let text = format!("{} `{name}` (node `{node}`): {why}", type_url.short()).into();
            WatchError { kind, text, server: None, is_nameless: false }
        };
        let name = ResourceName::read_of(name, type_url)
            .map_err(|fault| refused(ErrorKind::Name, fault.to_string()))?;
        let authority = AuthorityKey::of(&name);
        let why = match self.authorities.get(&authority).map(Authority::active_server) {
            Some(Some(_)) => None,
            Some(None) => Some(format!("authority `{authority}` has no servers")),
            None => Some(format!("the bootstrap has no authority `{authority}`")),
        };
        if let Some(why) = why {
            return Err(refused(ErrorKind::Authority, why));
        }
        if name.is_glob() && !self.knows_globs(&authority) {
            let why = "a collection can be asked for over streams of delta alone".to_owned();
            return Err(refused(ErrorKind::Name, why));
        }
        Ok(WatchSubject { authority, type_url: type_url.clone(), name })
    }

    /// Whether any server of an authority can be asked for a collection, or has all there is, as
    /// sources that are polled do (C-027).
    fn knows_globs(&self, authority: &AuthorityKey) -> bool {
        let servers = self.authorities.get(authority).map(Authority::servers).unwrap_or_default();
        let mut protocols = servers.iter().filter_map(|id| self.setup.find(*id));
        protocols.any(|server| {
            server.protocol.variant() == Variant::Delta || server.protocol.is_polled()
        })
    }

    /// Adds a watcher, and has it told what is known (C-048).
    fn enrol(&mut self, id: WatchId, subject: &WatchSubject) {
        let Some(realm) = self.authorities.get_mut(&subject.authority) else { return };
        let shelf = realm.types.entry(subject.type_url.clone()).or_default();
        let unreachable = shelf.outage.is_some();
        if subject.is_group() {
            for held in self.stock.take_in(&subject.type_url, &subject.name) {
                let name = held.resource.name().clone();
                shelf.slots.put(&name, |slot| slot.entry.restore(held));
            }
            let group = shelf.collection(&subject.name);
            group.watchers.push(id);
            for name in &group.members {
                self.watchers.notify(&[id], name, Change::Changed, None);
            }
            let is_wrong = group.error.is_some() || group.rejected.is_some();
            let settled = group.complete;
            let slots = &shelf.slots;
            let members =
                shelf.collections.get(&subject.name).into_iter().flat_map(|it| &it.members);
            let restored = |name: &ResourceName| slots.get(name).map(|it| it.entry.is_restored());
            for name in members.filter(|name| restored(name) == Some(true)) {
                self.watchers.assume_known(&[id], name);
            }
            if settled {
                self.watchers.mark_complete(&[id], None);
            }
            if unreachable || is_wrong || shelf.unusable.is_some() {
                self.watchers.notify(&[id], &subject.name, Change::Ambient, None);
            }
            return;
        }
        let is_new = !shelf.slots.contains(&subject.name);
        let left = is_new.then(|| self.stock.take(&subject.type_url, &subject.name)).flatten();
        let is_unknown = shelf.slots.put(&subject.name, |slot| {
            if let Some(held) = left {
                slot.entry.restore(held);
            }
            slot.watchers.push(id);
            slot.entry.is_unknown()
        });
        if !is_unknown || unreachable {
            self.watchers.notify(&[id], &subject.name, Change::Changed, None);
            self.watchers.notify(&[id], &subject.name, Change::Ambient, None);
        }
    }

    fn strike(&mut self, id: WatchId, subject: &WatchSubject) {
        let Some(realm) = self.authorities.get_mut(&subject.authority) else { return };
        let Some(shelf) = realm.types.get_mut(&subject.type_url) else { return };
        if !subject.is_group() {
            shelf.slots.change(&subject.name, |slot| slot.watchers.retain(|one| *one != id));
            return shelf.drop_unwatched(&subject.name);
        }
        let Some(group) = shelf.collections.get_mut(&subject.name) else { return };
        group.watchers.retain(|watcher| *watcher != id);
        if group.watchers.is_empty() {
            let members = std::mem::take(&mut group.members);
            shelf.collections.remove(&subject.name);
            members.iter().for_each(|name| shelf.drop_unwatched(name));
        }
    }

    /// If nothing is left of what was watched, whoever watches it again has to be told again (C-050).
    fn forgotten(&mut self, subject: &WatchSubject) {
        let Some(realm) = self.authorities.get(&subject.authority) else { return };
        let shelf = realm.types.get(&subject.type_url);
        if shelf.is_some_and(|shelf| shelf.wants(&subject.name)) {
            return;
        }
        for server in realm.asked_servers() {
            let Some(channel) = self.servers.get_mut(server.index()) else { continue };
            if let Some(topic) = channel.topic(&subject.type_url) {
                topic.ask_again(&subject.name);
            }
        }
    }

    /// A name may have become wanted or unwanted.
    fn renamed(&mut self, subject: &WatchSubject) {
        let Some(realm) = self.authorities.get(&subject.authority) else { return };
        for server in realm.asked_servers() {
            let Some(channel) = self.servers.get_mut(server.index()) else { continue };
            if let Some(topic) = channel.topic(&subject.type_url) {
                topic.names_changed(&subject.name);
            }
        }
    }

    fn opened(&mut self, now: Time, id: &StreamId) {
        let Some(channel) = self.servers.get_mut(id.server.index()) else { return };
        let Some(stream) = channel.streams.get_mut(&id.scope) else { return };
        if stream.state != StreamState::Opening {
            return;
        }
        stream.open(now);
        let is_polled = channel.setup.protocol.is_polled();
        let asking = self.authorities.values().filter(|realm| realm.asks(id.server));
        for type_url in asking.flat_map(|realm| realm.types.keys()) {
            if id.scope.carries(type_url) {
                stream.topic(type_url);
            }
        }
        if !is_polled {
            self.events.push(Event::Opened(id.clone()));
        }
    }

    /// What follows from the state alone: which servers are asked, and which streams there are.
    fn settle(&mut self, now: Time) {
        self.fall_back(now);
        self.spread_trouble();
        self.keep_streams(now);
    }

    fn keep_streams(&mut self, now: Time) {
        for ((server, _), channel) in self.setup.servers().zip(&mut self.servers) {
            for scope in needed_streams(&self.authorities, server, channel) {
                channel.streams.entry(scope).or_default();
            }
            let is_polled = channel.setup.protocol.is_polled();
            let mut recovers = false;
            for (scope, stream) in &mut channel.streams {
                let id = StreamId { server, scope: scope.clone() };
                let is_needed = is_needed(&self.authorities, &id);
                // The server is reached or not whatever becomes of this stream from now on.
                recovers |= !is_needed && stream.closes.is_none() && stream.outage.is_some();
                self.effects.keep(now, self.setup.settings.idle, &id, stream, is_needed);
            }
            channel.streams.retain(|_, stream| stream.state != StreamState::Closed);
            if recovers {
                channel.ask_again_for_ignored();
            }
            for (scope, stream) in &mut channel.streams {
                let id = StreamId { server, scope: scope.clone() };
                self.effects.say(now, &id, stream, is_polled);
            }
        }
    }

    pub(super) fn shelf(&self, authority: &AuthorityKey, type_url: &TypeUrl) -> Option<&TypeCache> {
        self.authorities.get(authority)?.types.get(type_url)
    }
}

impl Effects {
    /// Opens what is needed, and closes what is not.
    fn keep(
        &mut self,
        now: Time,
        idle: Duration,
        id: &StreamId,
        stream: &mut Stream,
        is_needed: bool,
    ) {
        if is_needed {
            stream.closes = None;
        } else if now >= *stream.closes.get_or_insert(now + idle) {
            return self.drop_stream(id, stream);
        }
        let due = match stream.state {
            StreamState::Closed => true,
            StreamState::Waiting(at) => is_needed && at <= now,
            StreamState::Opening | StreamState::Open => false,
        };
        if due {
            stream.state = StreamState::Opening;
            self.open.insert(id.clone());
        }
    }

    /// Has said what is due.
    fn say(&mut self, now: Time, id: &StreamId, stream: &mut Stream, is_polled: bool) {
        stream.paused = stream.paused.filter(|until| *until > now);
        if stream.is_open() && !stream.is_due && stream.may_be_due(now, is_polled) {
            stream.is_due = true;
            self.send.insert(id.clone());
        }
    }

    fn drop_stream(&mut self, id: &StreamId, stream: &mut Stream) {
        let was_there = matches!(stream.state, StreamState::Open | StreamState::Opening);
        stream.close();
        self.send.remove(id);
        // The driver has not heard of a stream that it was not yet told to open.
        if was_there && !self.open.remove(id) {
            self.close.insert(id.clone());
        }
    }
}

pub(super) fn missing_after(setup: &Setup, features: super::ServerFeatures) -> Duration {
    let wait = if features.resource_timer_is_transient_error {
        setup.settings.timeout_after
    } else {
        setup.settings.missing_after
    };
    if wait.is_zero() { Duration::MAX } else { wait }
}

fn needed_streams(realms: &Authorities, server: ServerId, channel: &Server) -> BTreeSet<Scope> {
    let asking = realms.values().filter(|realm| realm.asks(server));
    let watched =
        asking.flat_map(|realm| realm.types.iter()).filter(|(_, shelf)| shelf.is_watched());
    watched.map(|(type_url, _)| channel.scope_of(type_url)).collect()
}

pub(super) fn is_needed(realms: &Authorities, id: &StreamId) -> bool {
    let mut asking = realms.values().filter(|realm| realm.asks(id.server));
    asking.any(|realm| match &id.scope {
        Scope::Only(type_url) => realm.types.get(type_url).is_some_and(TypeCache::is_watched),
        Scope::Aggregated => realm.is_watched(),
    })
}
