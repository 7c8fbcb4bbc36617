//! The client: watches and responses in, requests and events out.
//!
//! ```text
//!   watch --> [ResourceCache] --names that are wanted--> [Servers] --> requests
//!                 |       ^
//!                 |       +---- statements of responses (receive) <-- streams
//!                 +--> [Watchers] --> events
//! ```
//!
//! A driver calls [`Machine::handle`] with what happened, then [`Machine::poll`] until there is no
//! effect left, and [`Machine::handle`] again no later than [`Machine::deadline`]. A request is
//! made when the wire has room for it ([`Machine::request`]), and the event of a watcher when it
//! can take one ([`Machine::event`]), so that nothing is queued.

mod errors;
mod fallback;
mod receive;
pub(super) mod status;
mod timeouts;

use self::fallback::ServerChoice;
use crate::client::authority_key::AuthorityKey;
use crate::client::cache::{AuthorityCache, ResourceCache};
use crate::client::error::{ErrorKind, WatchError};
use crate::client::event::Event;
use crate::client::ids::{StreamId, WatchId};
use crate::client::input::{Effect, Input};
use crate::client::lifecycle::StreamEnd;
use crate::client::resource::CachedResource;
use crate::client::servers::{ClientSubscription, Servers};
use crate::client::setup::Setup;
use crate::client::watching::{WatchEvent, WatchSubject, Watchers};
use crate::{ErrorDetail, Request, ResourceName, Time, TypeUrl, Variant};

/// A client of any number of servers, as a value.
#[derive(Debug)]
pub struct Machine {
    setup: Setup,
    cache: ResourceCache,
    servers: Servers,
    watchers: Watchers,
    events: Vec<Event>,
}

impl Machine {
    /// A client that watches nothing and has asked nobody.
    pub fn new(setup: Setup) -> Self {
        Self {
            cache: ResourceCache::new(&setup),
            servers: Servers::new(&setup),
            watchers: Watchers::default(),
            events: Vec::new(),
            setup,
        }
    }

    /// Returns the setup of the client.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Keeps a resource of an earlier run for whoever watches it, now or later. What is known
    /// already is newer. If it is gone by the time a watcher of its collection reads, the watcher
    /// is told that it was removed.
    pub fn restore(&mut self, type_url: TypeUrl, cached: CachedResource) {
        self.cache.restore(type_url, cached, &mut self.watchers);
    }

    /// Watches a resource by its name; `*` stands for all resources of the type, and the glob of a
    /// collection for those in it.
    pub fn watch(&mut self, now: Time, type_url: &TypeUrl, name: &str) -> WatchId {
        match self.subject(type_url, name) {
            Err(error) => self.watchers.add_failed(error),
            Ok(subject) => {
                let id = self.watchers.add(subject.clone());
                self.cache.watch(&subject, id, &mut self.watchers);
                self.change_subscriptions(&subject, ClientSubscription::name_changed);
                self.follow_up(now);
                id
            }
        }
    }

    /// Ends a watch. What nobody else watches is forgotten (C-050).
    pub fn unwatch(&mut self, now: Time, id: WatchId) {
        if let Some(subject) = self.watchers.remove(id) {
            let is_forgotten = self.cache.unwatch(&subject, id);
            self.change_subscriptions(&subject, ClientSubscription::name_changed);
            if is_forgotten {
                self.change_subscriptions(&subject, ClientSubscription::ask_again);
            }
            self.cache.remove_unwatched(&subject);
            self.follow_up(now);
        }
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Time, input: Input) -> Vec<Event> {
        match input {
            Input::Opened(stream) => self.opened(now, &stream),
            Input::Ended(stream, error) => self.ended(now, &stream, &error),
            Input::Received(stream, response) => self.received(now, &stream, response),
            Input::Unchanged(stream) => self.unchanged(now, &stream),
            Input::Unusable(stream, kind, why) => self.unusable(now, &stream, kind, &why),
            Input::TimePassed => {}
        }
        self.pass_time(now);
        self.follow_up(now);
        std::mem::take(&mut self.events)
    }

    /// Returns the next thing to do.
    pub fn poll(&mut self) -> Option<Effect> {
        let effect = self.servers.next_effect();
        let effect = effect.or_else(|| self.watchers.next_ready().map(Effect::Notify));
        effect.or_else(|| self.watchers.next_resumed().map(Effect::Read))
    }

    /// Returns the next request for a stream that has room for one.
    pub fn request(&mut self, now: Time, stream: &StreamId) -> Option<Request> {
        let server = self.servers.server_of(stream)?;
        let was_full = server.is_full(&stream.scope);
        let request = server.request(now, &stream.scope, &self.setup, &self.cache)?;
        if was_full && !server.is_full(&stream.scope) {
            self.watchers.resume(stream);
        }
        Some(request)
    }

    /// Returns true if there may be a request for a stream.
    pub fn may_request(&self, now: Time, stream: &StreamId) -> bool {
        let server = self.servers.find(stream.server);
        server.is_some_and(|server| server.may_request(now, &stream.scope))
    }

    /// Returns true if the watchers have applied what came on the stream, and most of it was
    /// answered, so that more may be read (C-038, C-062).
    pub fn may_read(&self, stream: &StreamId) -> bool {
        let server = self.servers.find(stream.server);
        let is_full = server.is_some_and(|server| server.is_full(&stream.scope));
        self.watchers.have_applied(stream) && !is_full
    }

    /// Returns the next event of a watch. If what there was to tell is not true any more, and the
    /// watcher has applied what it was told before, no stream waits for it.
    pub fn event(&mut self, id: WatchId) -> Option<WatchEvent> {
        if let Some(failure) = self.watchers.next_failure(id) {
            return Some(failure);
        }
        let subject = self.watchers.subject(id)?.clone();
        let cache = self.cache.of_subject(&subject)?;
        self.watchers.next_event(id, |name| cache.view(&subject, name))
    }

    /// A watcher has applied what it was told. What it has not been told yet keeps its stream
    /// waiting (C-038).
    pub fn applied(&mut self, id: WatchId) {
        self.watchers.applied(id);
    }

    /// Returns the time at which [`handle`](Self::handle) must be called, if nothing happens
    /// before.
    pub fn deadline(&mut self) -> Option<Time> {
        let watchers = self.watchers.deadline(self.setup.settings.patience);
        [self.servers.deadline(), self.cache.deadline(), watchers].into_iter().flatten().min()
    }

    /// Returns the subject of a watch, or why nothing can be watched.
    fn subject(&self, type_url: &TypeUrl, name: &str) -> Result<WatchSubject, WatchError> {
        let error = |kind, why: &str| self.setup.name_error(kind, type_url, name, why);
        let name = ResourceName::read_of(name, type_url)
            .map_err(|fault| error(ErrorKind::Name, &fault.to_string()))?;
        let key = AuthorityKey::of(&name);
        let authority = self.cache.get(&key).ok_or_else(|| {
            error(ErrorKind::Authority, &format!("the bootstrap has no authority `{key}`"))
        })?;
        if authority.servers().is_empty() {
            let why = format!("authority `{key}` has no servers");
            return Err(error(ErrorKind::Authority, &why));
        }
        if name.is_glob() && !self.knows_globs(authority) {
            let why = "a collection can be asked for over streams of delta alone";
            return Err(error(ErrorKind::Name, why));
        }
        Ok(WatchSubject { authority: key, type_url: type_url.clone(), name })
    }

    /// Returns true if any server of an authority can be asked for a collection, or has all there
    /// is, as sources that are polled do (C-027).
    fn knows_globs(&self, authority: &AuthorityCache) -> bool {
        authority.servers().iter().any(|server| {
            let protocol = self.servers[*server].setup().protocol;
            protocol.variant() == Variant::Delta || protocol.is_polled()
        })
    }

    /// Changes the subscriptions that a subject is asked for with.
    fn change_subscriptions(
        &mut self,
        subject: &WatchSubject,
        change: impl Fn(&mut ClientSubscription, &ResourceName),
    ) {
        let authority = self.cache.get(&subject.authority);
        for server in authority.map(AuthorityCache::asked_servers).unwrap_or_default() {
            if let Some(subscription) = self.servers[*server].subscription(&subject.type_url) {
                change(subscription, &subject.name);
            }
        }
    }

    fn opened(&mut self, now: Time, id: &StreamId) {
        let Some(server) = self.servers.server_of(id) else { return };
        let is_expected = server.opened(now, &id.scope, &self.cache);
        if is_expected && !server.setup().protocol.is_polled() {
            self.events.push(Event::Opened(id.clone()));
        }
    }

    fn ended(&mut self, now: Time, id: &StreamId, error: &ErrorDetail) {
        let ended = self.servers.ended(now, id, &self.setup.settings);
        let Some((end, stream)) = ended else { return };
        let is_trouble = end == StreamEnd::WithoutResponse;
        let outage = || self.setup.server_error(id.server, &error.message);
        let is_repeated = is_trouble && !stream.set_outage(outage);
        let wait = stream.next_wait(now);
        if is_repeated {
            self.cache.repeat_outage(id, &mut self.watchers);
        }
        let (stream, error) = (id.clone(), error.clone());
        self.events.push(Event::Ended { stream, error, is_trouble, wait });
    }

    /// Does what follows from the state alone: which servers are asked, who hears of outages, and
    /// which streams there are.
    fn follow_up(&mut self, now: Time) {
        self.choice(now).fall_back();
        let servers = &self.servers;
        self.cache.set_outages(&mut self.watchers, |id, type_url| servers[id].outage_of(type_url));
        self.servers.keep_streams(now, &self.setup.settings, &self.cache);
    }

    fn choice(&mut self, now: Time) -> ServerChoice<'_> {
        let Self { setup, cache, servers, events, .. } = self;
        ServerChoice { now, setup, cache, servers, events }
    }
}
