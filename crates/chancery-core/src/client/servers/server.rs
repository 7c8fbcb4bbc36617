//! One server: its streams, whether it can be reached, and the versions it is known to have given.
//!
//! ```text
//!    Closed --needed--> Opening --opened--> Open
//!      ^                   |                 |
//!      |                   +---- ended ------+
//!      |                   v
//!      +--not needed-- Waiting --its time--> Opening
//! ```
//!
//! A stream that cannot be opened, or that ends before the server said anything on it, is in trouble
//! until the server says something (C-067); one that ends after a response is nothing to speak of
//! (C-068). Silence is an answer once the server has had its time, if nothing is owed to the client,
//! as to one of delta that has all there is. In SotW, which has no other word for what there is not,
//! it shows at least that somebody is there.
//!
//! A stream nobody needs is kept for a while, open or not: whoever asks again soon does not begin
//! with the first wait again (C-069).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::client::lifecycle::backoff::Backoff;
use crate::client::lifecycle::token_bucket::TokenBucket;
use crate::client::servers::subscription::ClientSubscription;
use crate::client::{RateLimit, ServerSetup, Settings, WatchError};
use crate::{ResourceName, Scope, Time, TypeUrl, Variant};

/// How often a stream may reject. Some servers answer a rejection with the same again, at once: that
/// would keep both busy for as long as the resource is bad.
const REJECTIONS: RateLimit = RateLimit { burst: 100, interval: Duration::from_millis(100) };

/// The number of responses of a stream that may be without an answer. Then no more is read until
/// one was said, so that a server that says much and reads nothing costs no memory (C-062).
const UNANSWERED: usize = 16;

/// One server.
#[derive(Debug)]
pub(in crate::client) struct Server {
    pub(in crate::client) setup: ServerSetup,
    /// The streams that are needed, by the types they carry.
    pub(in crate::client) streams: BTreeMap<Scope, Stream>,
    /// The versions accepted from this server (C-031).
    pub(in crate::client) accepted: BTreeMap<TypeUrl, Arc<str>>,
}

/// One stream of one server.
#[derive(Debug, Default)]
pub(in crate::client) struct Stream {
    pub(in crate::client) state: StreamState,
    pub(in crate::client) subscriptions: BTreeMap<TypeUrl, ClientSubscription>,
    /// Why nothing is heard on it.
    pub(in crate::client) outage: Option<Arc<WatchError>>,
    backoff: Backoff,
    pace: TokenBucket,
    rejections: TokenBucket,
    /// Until when nothing may be asked, although there may be something to ask (C-045).
    pub(in crate::client) paused: Option<Time>,
    /// Whether the server has said anything on it.
    responded: bool,
    /// How long the server has to say something, if it has not and was asked.
    silence: Option<Time>,
    opened: Time,
    /// Whether it was said who is asking.
    pub(in crate::client) introduced: bool,
    /// Whether the driver knows that there may be something to say.
    pub(in crate::client) is_due: bool,
    /// When it is closed, because nobody needs it (C-039).
    pub(in crate::client) closes: Option<Time>,
    /// When it is polled again, if it is polled and has answered.
    pub(in crate::client) next_poll: Option<Time>,
    /// Whether an answer to a poll is awaited: there is one at a time (C-044).
    pub(in crate::client) is_asked: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::client) enum StreamState {
    #[default]
    Closed,
    Opening,
    Open,
    Waiting(Time),
}

impl Server {
    pub(in crate::client) fn new(server: ServerSetup) -> Self {
        Self { setup: server, streams: BTreeMap::new(), accepted: BTreeMap::new() }
    }

    /// The stream that carries a type.
    pub(in crate::client) fn scope_of(&self, type_url: &TypeUrl) -> Scope {
        self.setup.protocol.scope_of(type_url)
    }

    /// Why nothing is heard of a type.
    pub(in crate::client) fn outage_of(&self, type_url: &TypeUrl) -> Option<&Arc<WatchError>> {
        self.streams.get(&self.scope_of(type_url))?.outage.as_ref()
    }

    /// Returns true if it can be reached for all that it is asked for. A stream that nobody needs
    /// is not opened again, so what was wrong with it says nothing.
    fn is_reached(&self) -> bool {
        self.streams.values().all(|stream| stream.outage.is_none() || stream.closes.is_some())
    }

    /// Returns true if it knows which version the client has of a resource from before.
    pub(in crate::client) fn claimed(&self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        let stream = self.streams.get(&self.scope_of(type_url));
        let topic = stream.and_then(|stream| stream.subscriptions.get(type_url));
        topic.is_some_and(|topic| topic.was_announced(name))
    }

    /// It can be reached again: what it said before that did not count.
    pub(in crate::client) fn ask_again_for_ignored(&mut self) {
        if self.is_reached() {
            self.subscriptions().for_each(|topic| topic.ask_again_for_ignored(|_| true));
        }
    }

    /// All that is said.
    pub(in crate::client) fn subscriptions(
        &mut self,
    ) -> impl Iterator<Item = &mut ClientSubscription> {
        self.streams.values_mut().flat_map(|stream| stream.subscriptions.values_mut())
    }

    /// What is said of a type, on its stream if that is open.
    pub(in crate::client) fn topic(
        &mut self,
        type_url: &TypeUrl,
    ) -> Option<&mut ClientSubscription> {
        let key = self.scope_of(type_url);
        let stream =
            self.streams.get_mut(&key).filter(|stream| stream.state == StreamState::Open)?;
        Some(stream.topic(type_url))
    }
}

impl Stream {
    pub(in crate::client) fn topic(&mut self, type_url: &TypeUrl) -> &mut ClientSubscription {
        self.subscriptions
            .entry(type_url.clone())
            .or_insert_with(|| ClientSubscription::new(type_url.clone()))
    }

    pub(in crate::client) fn open(&mut self, now: Time) {
        self.lose();
        self.state = StreamState::Open;
        self.opened = now;
    }

    /// The server said something. Whether it was in trouble until now.
    pub(in crate::client) fn respond(&mut self) -> bool {
        self.responded = true;
        self.silence = None;
        // What is to be said may be something else now.
        self.paused = None;
        self.backoff.reset();
        self.outage.take().is_some()
    }

    /// The server was asked something, and has until then.
    pub(in crate::client) fn ask(&mut self, until: Time) {
        if !self.responded {
            self.silence.get_or_insert(until);
        }
    }

    /// A server that has had its time may be there although it says nothing. Whether it was in
    /// trouble until now.
    pub(in crate::client) fn hear_silence(&mut self, now: Time, variant: Variant) -> bool {
        if self.silence.is_none_or(|until| until > now) || !self.is_open() {
            return false;
        }
        self.silence = None;
        if self.subscriptions.values().all(ClientSubscription::awaits_nothing) {
            return self.respond();
        }
        variant == Variant::Sotw && self.outage.take().is_some()
    }

    /// It ended, or could not be opened. Whether that is trouble.
    pub(in crate::client) fn end(&mut self, now: Time, settings: &Settings, number: u64) -> bool {
        let trouble = !self.responded;
        let wait = self.backoff.wait(settings, number);
        // One that lived for a while is opened again at once; one that is closed after each
        // response is not hammered.
        let at = if trouble { now + wait } else { now.max(self.opened + wait) };
        if !trouble {
            self.backoff.reset();
        }
        self.lose();
        self.state = StreamState::Waiting(at);
        trouble
    }

    pub(in crate::client) fn is_open(&self) -> bool {
        self.state == StreamState::Open
    }

    /// Whether there may be something to say. A poll carries the answer to the one before, and is
    /// not made for that.
    pub(in crate::client) fn may_be_due(&self, now: Time, is_polled: bool) -> bool {
        let topic = if is_polled {
            ClientSubscription::may_ask_more
        } else {
            ClientSubscription::may_be_due
        };
        !self.is_asked
            && self.paused.is_none()
            && (self.subscriptions.values().any(topic) || self.is_time_to_poll(now))
    }

    /// Returns true if another response may be read, and its answer be owed.
    pub(in crate::client) fn may_owe(&self) -> bool {
        self.subscriptions.values().map(ClientSubscription::owed_answers).sum::<usize>()
            < UNANSWERED
    }

    /// Whether nothing may be said yet. It is asked again when that is over.
    pub(in crate::client) fn is_paused(&mut self, now: Time, limit: Option<RateLimit>) -> bool {
        let pace = limit.map(|limit| self.pace.next_token(limit));
        let rejects = self.subscriptions.values().any(ClientSubscription::rejects);
        let rejection = rejects.then(|| self.rejections.next_token(REJECTIONS));
        self.paused = pace.max(rejection).filter(|next| *next > now);
        self.paused.is_some()
    }

    /// Something is said.
    pub(in crate::client) fn said(
        &mut self,
        now: Time,
        limit: Option<RateLimit>,
        is_rejection: bool,
    ) {
        if let Some(limit) = limit {
            self.pace.take(now, limit);
        }
        if is_rejection {
            self.rejections.take(now, REJECTIONS);
        }
    }

    pub(in crate::client) fn is_time_to_poll(&self, now: Time) -> bool {
        self.next_poll.is_some_and(|at| at <= now)
    }

    /// A poll was answered (C-044).
    pub(in crate::client) fn poll_again(
        &mut self,
        now: Time,
        refresh: Duration,
        settings: &Settings,
        number: u64,
    ) {
        self.is_asked = false;
        self.next_poll = Some(now + self.backoff.spread(settings, number, refresh));
    }

    /// When it is opened again, if it ended and is needed.
    pub(in crate::client) fn next_attempt(&self) -> Option<Time> {
        match self.state {
            StreamState::Waiting(at) => Some(at).filter(|_| self.closes.is_none()),
            StreamState::Closed | StreamState::Opening | StreamState::Open => None,
        }
    }

    /// When something follows from the time alone.
    pub(in crate::client) fn deadline(&mut self) -> Option<Time> {
        let topics = self.subscriptions.values_mut().filter_map(ClientSubscription::deadline).min();
        let topics = topics.filter(|_| !self.is_asked);
        let retry = self.next_attempt();
        let poll = self.next_poll.filter(|_| !self.is_due);
        let all = [topics, retry, poll, self.paused, self.silence, self.closes];
        all.into_iter().flatten().min()
    }

    pub(in crate::client) fn close(&mut self) {
        self.lose();
        self.outage = None;
        self.state = StreamState::Closed;
    }

    /// What belongs to the stream goes with it.
    fn lose(&mut self) {
        self.subscriptions.clear();
        self.responded = false;
        self.silence = None;
        self.introduced = false;
        self.is_due = false;
        self.paused = None;
        self.next_poll = None;
        self.is_asked = false;
    }
}
