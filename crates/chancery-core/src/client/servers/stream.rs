//! One stream of discovery: the requests it owes, and whether the server is heard on it.
//!
//! A stream that cannot be opened, or that ends before the server said anything on it, is an outage
//! until the server says something (C-067). Silence is an answer once the server has had its time,
//! if nothing is owed to the client, as to one of delta that has all there is. In SotW, which has
//! no other word for what there is not, it shows at least that somebody is there.
//!
//! A stream that nobody needs is kept for a while, open or not, so that whoever asks again soon
//! does not begin with the first wait again (C-039, C-069).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::requests::RequestContext;
use super::subscription::ClientSubscription;
use crate::client::error::WatchError;
use crate::client::ids::StreamId;
use crate::client::lifecycle::{Lifecycle, StreamEnd};
use crate::client::setup::{Protocol, Settings};
use crate::client::token_bucket::{RateLimit, TokenBucket};
use crate::{Request, Time, TypeUrl, Variant};

/// The bound on the rejections of a stream. Some servers answer a rejection with the same again, at
/// once: that would keep both busy for as long as the resource is bad.
const REJECTIONS: RateLimit = RateLimit { burst: 100, interval: Duration::from_millis(100) };

/// The number of responses of a stream that may be without an answer. Then no more is read until
/// one was sent, so that a server that says much and reads nothing costs no memory (C-062).
const MOST_UNANSWERED: usize = 16;

/// One stream of one server.
#[derive(Debug)]
pub(crate) struct DiscoveryStream {
    id: StreamId,
    life: Lifecycle<OpenStream>,
    /// The reason why nothing is heard on it.
    outage: Option<Arc<WatchError>>,
    limiter: RequestLimiter,
    need: Need,
}

/// The need for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Needed,
    /// Nobody needs it, and it is closed at this time.
    Unneeded {
        closes: Time,
    },
}

/// The change of a stream that follows from the need for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamChange {
    /// It is to be opened.
    Open,
    /// It is to be closed.
    Close,
    /// It was given up while there was none.
    Drop,
}

/// The bounds on requests and rejections. They outlive a connection, so that one that breaks again
/// and again is not a way around them.
#[derive(Debug, Default)]
struct RequestLimiter {
    requests: TokenBucket,
    rejections: TokenBucket,
}

/// A stream that is open.
#[derive(Debug, Default)]
pub(crate) struct OpenStream {
    subscriptions: BTreeMap<TypeUrl, ClientSubscription>,
    turn: PollTurn,
    /// The time that the server has to say something, if it was asked and has not.
    silence: Option<Time>,
    /// The time until which nothing may be said, although there may be something to say (C-045).
    paused: Option<Time>,
    /// True if it was said who is asking.
    is_introduced: bool,
    /// True if the driver knows that there may be something to say.
    is_send_due: bool,
}

/// The side that speaks next on a stream of polls, of which there is one at a time (C-044). On
/// other streams both may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PollTurn {
    /// The client may speak as soon as there is something to ask for.
    #[default]
    Client,
    /// A poll waits for its response.
    Server,
    /// The client asks again at this time, or as soon as there is something new to ask for.
    NextPoll(Time),
}

impl DiscoveryStream {
    pub(super) fn new(id: StreamId) -> Self {
        let life = Lifecycle::new(id.server.index() as u64);
        let limiter = RequestLimiter::default();
        Self { id, life, outage: None, limiter, need: Need::Needed }
    }

    pub(super) fn id(&self) -> &StreamId {
        &self.id
    }

    /// Returns the reason why nothing is heard on it.
    pub(crate) fn outage(&self) -> Option<&Arc<WatchError>> {
        self.outage.as_ref()
    }

    pub(super) fn open(&self) -> Option<&OpenStream> {
        self.life.stream()
    }

    pub(super) fn open_mut(&mut self) -> Option<&mut OpenStream> {
        self.life.stream_mut()
    }

    /// The stream is there, for these types. Returns false if nobody was opening it.
    pub(super) fn opened<'a>(
        &mut self,
        now: Time,
        types: impl Iterator<Item = &'a TypeUrl>,
    ) -> bool {
        let mut open = OpenStream::default();
        for type_url in types {
            open.subscription(type_url);
        }
        self.life.opened(now, open)
    }

    /// The stream ended, or could not be opened.
    pub(super) fn ended(&mut self, now: Time, settings: &Settings) -> Option<StreamEnd> {
        self.life.ended(now, settings)
    }

    /// The server cannot be reached. Returns true if that is new.
    pub(crate) fn set_outage(&mut self, error: impl FnOnce() -> WatchError) -> bool {
        let is_new = self.outage.is_none();
        self.outage.get_or_insert_with(|| Arc::new(error()));
        is_new
    }

    /// The server said something. Returns true if there was an outage until now.
    pub(super) fn respond(&mut self) -> bool {
        let Some(open) = self.life.stream_mut() else { return false };
        open.silence = None;
        // The next request may be another one now.
        open.paused = None;
        self.life.respond();
        self.outage.take().is_some()
    }

    /// The server responded to a poll: the next one has a time.
    pub(super) fn end_poll(&mut self, now: Time, protocol: Protocol, settings: &Settings) {
        if let Protocol::Poll { refresh } = protocol {
            let next = now + self.life.poll_wait(settings, refresh);
            if let Some(open) = self.life.stream_mut() {
                open.turn = PollTurn::NextPoll(next);
            }
        }
    }

    /// A server that has had its time may be there although it says nothing. Returns true if there
    /// was an outage until now.
    pub(super) fn presume_reachable(&mut self, now: Time, variant: Variant) -> bool {
        let silent = |open: &&mut OpenStream| open.silence.is_some_and(|until| until <= now);
        let Some(open) = self.life.stream_mut().filter(silent) else { return false };
        open.silence = None;
        if open.subscriptions.values().all(ClientSubscription::awaits_nothing) {
            return self.respond();
        }
        variant == Variant::Sotw && self.outage.take().is_some()
    }

    /// Returns the next request, if one is due and may be sent.
    pub(super) fn request(&mut self, now: Time, context: &RequestContext<'_>) -> Option<Request> {
        let has_responded = self.life.has_responded();
        let open = self.life.stream_mut()?;
        let request = open.request(now, context, &mut self.limiter);
        match &request {
            Some(_) if has_responded || context.is_polled() => {}
            Some(_) => {
                open.silence.get_or_insert(context.until);
            }
            None => open.is_send_due = false,
        }
        request
    }

    /// Returns true if it is needed, as far as was known last.
    pub(super) fn is_needed(&self) -> bool {
        self.need == Need::Needed
    }

    /// Nobody needs it, and nobody will: it is closed at once.
    pub(super) fn release(&mut self) {
        self.need = Need::Unneeded { closes: Time::default() };
    }

    /// Opens the stream if it is needed, and closes it if nobody has needed it for a while.
    pub(super) fn keep(
        &mut self,
        now: Time,
        settings: &Settings,
        is_needed: bool,
    ) -> Option<StreamChange> {
        self.need = match self.need {
            _ if is_needed => Need::Needed,
            Need::Needed => Need::Unneeded { closes: now + settings.idle },
            unneeded @ Need::Unneeded { .. } => unneeded,
        };
        match self.need {
            Need::Needed => self.life.begin_opening(now).then_some(StreamChange::Open),
            Need::Unneeded { closes } if closes > now => None,
            Need::Unneeded { .. } => {
                self.outage = None;
                Some(if self.life.close() { StreamChange::Close } else { StreamChange::Drop })
            }
        }
    }

    /// Returns true if it was given up.
    pub(super) fn is_closed(&self) -> bool {
        self.life.is_closed()
    }

    /// Returns the time at which it is opened again, if it ended and is needed.
    pub(super) fn next_attempt(&self) -> Option<Time> {
        self.life.next_attempt().filter(|_| self.is_needed())
    }

    /// Returns the time until it is opened again, if it ended and is needed.
    pub(crate) fn next_wait(&self, now: Time) -> Duration {
        self.next_attempt().map_or(Duration::ZERO, |at| at.0.saturating_sub(now.0))
    }

    /// Returns the next time at which something follows from the time alone.
    pub(super) fn deadline(&mut self) -> Option<Time> {
        let closes = match self.need {
            Need::Needed => None,
            Need::Unneeded { closes } => Some(closes),
        };
        let retry = self.next_attempt();
        let open = self.life.stream_mut().and_then(OpenStream::deadline);
        [retry, open, closes].into_iter().flatten().min()
    }
}

impl OpenStream {
    /// Returns the subscription to a type.
    pub(super) fn subscription(&mut self, type_url: &TypeUrl) -> &mut ClientSubscription {
        let new = || ClientSubscription::new(type_url.clone());
        self.subscriptions.entry(type_url.clone()).or_insert_with(new)
    }

    /// Returns the subscription to a type that the server was asked for.
    pub(super) fn asked_subscription(
        &mut self,
        type_url: &TypeUrl,
    ) -> Option<&mut ClientSubscription> {
        self.subscriptions.get_mut(type_url).filter(|subscription| subscription.was_asked())
    }

    pub(super) fn known_subscription(&self, type_url: &TypeUrl) -> Option<&ClientSubscription> {
        self.subscriptions.get(type_url)
    }

    pub(super) fn subscriptions(&mut self) -> impl Iterator<Item = &mut ClientSubscription> {
        self.subscriptions.values_mut()
    }

    /// Returns the next resource that did not come in time. A poll has a time of its own (C-044):
    /// while it goes on, nobody knows whether the resource comes with its response.
    pub(super) fn next_timed_out(&mut self, now: Time) -> Option<(TypeUrl, crate::ResourceName)> {
        if self.turn == PollTurn::Server {
            return None;
        }
        self.subscriptions.iter_mut().find_map(|(type_url, subscription)| {
            Some((type_url.clone(), subscription.next_timed_out(now)?))
        })
    }

    /// Returns true if another response may be read, and its answer be owed.
    pub(super) fn may_owe(&self) -> bool {
        self.subscriptions.values().map(ClientSubscription::owed_answers).sum::<usize>()
            < MOST_UNANSWERED
    }

    /// Returns true if there may be something to say. A poll carries the answer to the one before,
    /// and is not made for that.
    pub(super) fn may_be_due(&self, now: Time, is_polled: bool) -> bool {
        let is_due = if is_polled {
            ClientSubscription::may_ask_more
        } else {
            ClientSubscription::may_be_due
        };
        self.turn != PollTurn::Server
            && self.paused.is_none()
            && (self.subscriptions.values().any(is_due) || self.is_time_to_poll(now))
    }

    /// Returns true if the driver has to hear that there may be something to say. It hears so once.
    pub(super) fn take_send_due(&mut self, now: Time, is_polled: bool) -> bool {
        self.paused = self.paused.filter(|until| *until > now);
        let is_new = !self.is_send_due && self.may_be_due(now, is_polled);
        self.is_send_due |= is_new;
        is_new
    }

    fn request(
        &mut self,
        now: Time,
        context: &RequestContext<'_>,
        limiter: &mut RequestLimiter,
    ) -> Option<Request> {
        let limit = context.settings.rate_limit;
        // A source that is polled has a pace of its own.
        if self.turn == PollTurn::Server
            || (!context.is_polled() && self.pause(now, limit, limiter))
        {
            return None;
        }
        let is_time = self.is_time_to_poll(now);
        if is_time {
            self.turn = PollTurn::Client;
        }
        let mut subscriptions = self.subscriptions.values_mut();
        let mut request = subscriptions.find_map(|it| it.request(context, is_time))?;
        limiter.take(now, limit, request.error().is_some());
        if context.is_polled() {
            self.turn = PollTurn::Server;
        }
        if !std::mem::replace(&mut self.is_introduced, true) || context.is_polled() {
            request.introduce(context.node);
        }
        Some(request)
    }

    /// Returns true if nothing may be said yet. It is asked again when that is over.
    fn pause(&mut self, now: Time, limit: Option<RateLimit>, limiter: &RequestLimiter) -> bool {
        let next = limit.map(|limit| limiter.requests.next_token(limit));
        let rejects = self.subscriptions.values().any(ClientSubscription::rejects);
        let rejection = rejects.then(|| limiter.rejections.next_token(REJECTIONS));
        self.paused = next.max(rejection).filter(|next| *next > now);
        self.paused.is_some()
    }

    fn is_time_to_poll(&self, now: Time) -> bool {
        matches!(self.turn, PollTurn::NextPoll(at) if at <= now)
    }

    fn deadline(&mut self) -> Option<Time> {
        let timers = self.subscriptions.values_mut().filter_map(ClientSubscription::deadline).min();
        let timers = timers.filter(|_| self.turn != PollTurn::Server);
        let poll = match self.turn {
            PollTurn::NextPoll(at) if !self.is_send_due => Some(at),
            PollTurn::NextPoll(_) | PollTurn::Client | PollTurn::Server => None,
        };
        [timers, poll, self.paused, self.silence].into_iter().flatten().min()
    }
}

impl RequestLimiter {
    fn take(&mut self, now: Time, limit: Option<RateLimit>, is_rejection: bool) {
        if let Some(limit) = limit {
            self.requests.take(now, limit);
        }
        if is_rejection {
            self.rejections.take(now, REJECTIONS);
        }
    }
}
