//! One subscription of a client that polls over REST: the versions of its last polls, and how often it polls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_core::printable::MAX_NAME_BYTES;
use chancery_core::{Node, TypeUrl, Variant};
use tokio::time::Instant;

use super::bounds::StatusBounds;
use super::gone::GoneStream;
use super::polls::{DecidedPoll, Habits};
use super::stream_status::{PollVersions, StreamState, StreamStatus};
use crate::policy::Peer;
use crate::store::AudienceName;

/// One subscription of a client that polls.
#[derive(Clone)]
pub(super) struct Poller {
    pub(super) id: u64,
    pub(super) peer: Arc<Peer>,
    /// The last time at which it was given an answer, or is held because nothing is new.
    pub(super) last: Instant,
    node: Arc<Node>,
    type_url: TypeUrl,
    audience: AudienceName,
    opened: Instant,
    /// When its last poll came.
    began: Instant,
    /// The time between its last polls; `None` as long as there was one.
    pub(super) interval: Option<Duration>,
    since: Instant,
    stated: Arc<str>,
    /// The version that it was given last, until it states it.
    given: Option<Arc<str>>,
    /// The number of polls that stated another version than the one given before.
    refusals: u32,
    /// The number of reassignments before it asked for its audience.
    pub(super) reassignments: u64,
    seen: u64,
    landed: u64,
    /// When it first stated the version of the last load that has landed.
    landed_at: Option<Instant>,
}

/// The bytes of a node that are kept of a client that polls. Of a larger one the metadata are left out, and if
/// that is not enough, the client is not remembered.
const MOST_NODE_BYTES: usize = 2 * 1024;
/// The polls that state another version than the one given, after which the client counts as rejecting it. A
/// response may get lost.
const REFUSALS: u32 = 2;
/// The shortest time without a poll after which a client is silent of which nobody knows how often it polls.
const FIRST_PATIENCE: Duration = Duration::from_secs(120);

impl Poller {
    /// A subscription that polls for the first time; `None` if its node says too much.
    pub(super) fn new(id: u64, poll: &DecidedPoll<'_>, now: Instant) -> Option<Self> {
        Some(Self {
            id,
            node: short_node(poll.node)?,
            type_url: poll.type_url.clone(),
            peer: poll.peer.without_certificates(),
            audience: poll.audience.without_values(),
            opened: now,
            last: now,
            began: poll.began,
            interval: None,
            since: now,
            stated: "".into(),
            given: None,
            refusals: 0,
            reassignments: poll.reassignments,
            seen: 0,
            landed: 0,
            landed_at: None,
        })
    }

    /// Takes in that a poll was decided. That may be several times for one poll, which is held.
    pub(super) fn decided(&mut self, poll: &DecidedPoll<'_>, now: Instant) {
        let was_landed = self.given.is_none();
        if poll.began > self.began {
            let interval = poll.began.saturating_duration_since(self.began);
            self.interval = Some(interval.max(self.interval.unwrap_or_default() / 2));
            self.began = poll.began;
        }
        self.last = now;
        self.peer = poll.peer.without_certificates();
        if let Some(node) = short_node(poll.node) {
            self.node = node;
        }
        let audience = poll.audience.without_values();
        if self.audience != audience {
            // Nothing has landed on it there.
            (self.audience, self.landed) = (audience, 0);
        }
        self.reassignments = poll.reassignments;
        let accepts = self.given.as_ref().is_none_or(|given| **given == *poll.stated);
        self.refusals = if accepts { 0 } else { self.refusals.saturating_add(1) };
        self.stated = short(poll.stated);
        self.given = poll.given.map(short);
        self.seen = self.seen.max(poll.load);
        if self.given.is_none() {
            self.refusals = 0;
            if self.landed < poll.load {
                self.landed = poll.load;
                // As long as it has nothing new to state, nothing was acknowledged.
                self.landed_at = if was_landed { self.landed_at } else { Some(now) };
            }
        }
        if was_landed != self.given.is_none() {
            self.since = now;
        }
    }

    /// The bytes that it keeps, about.
    pub(super) fn bytes(&self) -> usize {
        let given = self.given.as_ref().map_or(0, |given| given.len());
        // Twice, for the maps.
        2 * size_of::<Self>()
            + self.node.held_bytes()
            + self.peer.held_bytes()
            + self.stated.len()
            + given
    }

    /// The time without a poll after which the client is silent.
    fn patience(&self, bounds: &StatusBounds, habits: Habits) -> Duration {
        let interval = self.interval.or(habits.interval);
        let usual = interval.map_or(FIRST_PATIENCE, |interval| interval.saturating_mul(3));
        bounds.silent_after.max(usual)
    }

    /// Returns true if the client polls no more for this although it went on polling for something else: it
    /// has ended the subscription.
    fn has_ended(&self, bounds: &StatusBounds, habits: Habits, now: Instant) -> bool {
        let patience = self.patience(bounds, habits);
        now.saturating_duration_since(self.last) > patience
            && habits.heard.saturating_duration_since(self.last) > patience / 2
    }

    /// The status; `None` if the client is gone, or has ended the subscription.
    pub(super) fn status(
        &self,
        bounds: &StatusBounds,
        habits: Habits,
        now: Instant,
    ) -> Option<StreamStatus> {
        let quiet = now.saturating_duration_since(self.last);
        let patience = self.patience(bounds, habits);
        let interval = self.interval.or(habits.interval);
        if self.is_gone(bounds, habits, now) || self.has_ended(bounds, habits, now) {
            return None;
        }
        let is_refused = self.refusals >= REFUSALS;
        let state = if is_refused {
            StreamState::Rejected
        } else if quiet > patience {
            StreamState::Silent
        } else if self.given.is_none() {
            StreamState::InStep
        } else {
            StreamState::Pending
        };
        Some(StreamStatus {
            id: self.id,
            node: Some(Arc::clone(&self.node)),
            peer: Arc::clone(&self.peer),
            audience: Some(self.audience.clone()),
            variant: Variant::Sotw,
            type_url: Some(self.type_url.clone()),
            poll: Some(PollVersions {
                stated: Arc::clone(&self.stated),
                given: self.given.clone(),
            }),
            age: now.saturating_duration_since(self.opened),
            state,
            since: now.saturating_duration_since(self.since),
            seen: self.seen,
            landed: self.landed,
            is_asking: false,
            counts: interval.is_some() || quiet <= bounds.grace,
            rejected_types: u32::from(is_refused),
            unanswered: (self.given.is_some() && !is_refused).then_some(quiet),
            acknowledged: None,
            heard: Some(quiet),
            landed_ago: self.landed_at.map(|at| now.saturating_duration_since(at)),
        })
    }

    fn is_gone(&self, bounds: &StatusBounds, habits: Habits, now: Instant) -> bool {
        let quiet = now.saturating_duration_since(self.last);
        quiet > self.patience(bounds, habits).saturating_add(bounds.grace)
    }

    /// The subscription as a gone stream, if the client is gone. It was waited for while it was silent, so the grace is over.
    pub(super) fn gone(
        &self,
        bounds: &StatusBounds,
        habits: Habits,
        now: Instant,
    ) -> Option<GoneStream> {
        if !self.is_gone(bounds, habits, now) || self.has_ended(bounds, habits, now) {
            return None;
        }
        let went = self.last + self.patience(bounds, habits);
        let since = now.saturating_duration_since(went);
        (since <= bounds.gone_for).then(|| GoneStream {
            id: self.id,
            node: self.node.id.as_str().into(),
            cluster: self.node.cluster.as_str().into(),
            peer: Arc::clone(&self.peer),
            audience: self.audience.clone(),
            variant: Variant::Sotw,
            type_url: Some(self.type_url.clone()),
            at: SystemTime::now() - since,
            since,
            code: None,
            landed: self.landed,
            rejections: Vec::new(),
            went,
            before: self.id,
        })
    }
}

/// A node, without its metadata if it is large; `None` if it is large without them.
fn short_node(node: &Arc<Node>) -> Option<Arc<Node>> {
    if node.held_bytes() <= MOST_NODE_BYTES {
        return Some(Arc::clone(node));
    }
    let node = Node {
        metadata: Arc::default(),
        client_features: Arc::default(),
        dynamic_parameters: BTreeMap::new(),
        ..(**node).clone()
    };
    (node.held_bytes() <= MOST_NODE_BYTES).then(|| Arc::new(node))
}

/// A version, cut to the length of a name.
fn short(version: &str) -> Arc<str> {
    version[..version.floor_char_boundary(MAX_NAME_BYTES)].into()
}
