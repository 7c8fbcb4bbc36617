//! The lines that a peer can have the server log, again and again: no peer floods the log.
//!
//! The first line about a node, a type and a version is written, and repeats are counted; a summary
//! says how many there were. So one noisy node behind a balancer hides none of the others. First
//! lines have budgets by connection, by address and in all, because a peer can call itself
//! anything, and a line over them is counted with its address. All memory is bounded: keys are
//! forgotten when others are used, which writes a line twice at most.
//!
//! Time is an input. Not here: the texts of the lines, and their cut (`chancery_core::printable`).

mod budgets;
mod recent;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chancery_core::Time;
use chancery_core::printable::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, cut};
use tokio::time::Instant;
use tracing::warn;

use self::budgets::{Budgets, PeerAddress, address_of};
use self::recent::Recent;

/// The number of first lines that are remembered, twice as many at most.
const REMEMBERED: usize = 16 * 1024;

/// The time over which repeats are counted before a summary says how many there were.
const INTERVAL: Duration = Duration::from_secs(60);

/// The number of keys that may wait for their summary.
const MAX_DUE: usize = 4 * REMEMBERED;

/// The number of summaries at once; one more says how many lines the others would have.
const SUMMARIES: usize = 10;

/// A line that a peer can cause.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum PeerLine {
    /// A stream was opened, moved or closed. There is no first one: each is news.
    StreamChanged,
    /// A response was rejected.
    Rejected,
    /// The server ended a stream because of its client.
    StreamRefused,
    /// A secret that a client asks for is withheld.
    SecretWithheld,
    /// A node on a stream claimed to be another one.
    IdentityIgnored,
    /// The first request of a type named nothing.
    Unnamed,
    /// A response is too large for some clients.
    TooLarge,
    /// A poll repeats, as if its response was rejected.
    NotAccepted,
    /// A poll was refused.
    PollRefused,
    /// A poll could not be answered.
    Unanswerable,
    /// A connection could not be accepted.
    NotConnected,
    /// Parts of a load report were left out.
    LoadLeftOut,
    /// A handshake of TLS failed.
    HandshakeFailed,
}

/// The peer that causes a line, and all that makes the line differ from others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineOrigin<'a> {
    pub(crate) peer: Option<SocketAddr>,
    /// True if the client has acknowledged a response.
    pub(crate) proven: bool,
    pub(crate) node: &'a str,
    /// The type, or nothing.
    pub(crate) of: &'a str,
    /// The version, or the reason.
    pub(crate) detail: &'a str,
}

/// Decides which lines are written, and counts the others.
#[derive(Debug)]
pub(crate) struct LogLimiter {
    began: Instant,
    hasher: RandomState,
    state: Mutex<LimiterState>,
}

#[derive(Debug)]
struct LimiterState {
    lines: Recent<u64, Repeats>,
    addresses: Recent<PeerAddress, Repeats>,
    /// The times of the last lines about clients that only look, by their addresses.
    looks: Recent<PeerAddress, Option<Time>>,
    /// The budgets of lines about trouble, and those of streams that come and go.
    trouble: Budgets,
    changes: Budgets,
    /// The entries of which a summary is due, those due first in front.
    due: VecDeque<(Time, RepeatKey)>,
    /// The repeats of entries that were forgotten before their summary.
    forgotten: u64,
}

#[derive(Clone, Copy, Debug)]
enum RepeatKey {
    Line(u64),
    Address(PeerAddress),
}

/// Lines that were not written since the last summary.
#[derive(Debug, Default)]
struct Repeats {
    count: u64,
    /// The description of the lines; empty until one is counted.
    text: Box<str>,
}

/// Some lines that were not written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The number of the lines.
    pub(crate) more: u64,
    /// A description of the lines.
    pub(crate) of: Box<str>,
}

impl LogLimiter {
    pub(crate) fn new(began: Instant) -> Self {
        let state = LimiterState {
            lines: Recent::new(REMEMBERED),
            addresses: Recent::new(REMEMBERED),
            looks: Recent::new(REMEMBERED),
            trouble: Budgets::new(),
            changes: Budgets::new(),
            due: VecDeque::new(),
            forgotten: 0,
        };
        Self { began, hasher: RandomState::new(), state: Mutex::new(state) }
    }

    /// Returns true if a line is to be written now. Otherwise the line is counted.
    pub(crate) fn admits(&self, line: PeerLine, origin: &LineOrigin<'_>, now: Instant) -> bool {
        let now = self.time(now);
        let LineOrigin { peer, proven, node, of, detail } = *origin;
        let address = address_of(peer);
        // A client without a name is known by its connection. After a handshake that failed it comes
        // with another one.
        let is_known = node.is_empty() && line != PeerLine::HandshakeFailed;
        let connection = is_known.then_some(peer);
        let key = self.hasher.hash_one((line, address, connection, node, of, detail));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if line == PeerLine::StreamChanged {
            return state.changes.take(peer, proven, now) || state.over_budget(address, now);
        }
        if state.lines.get_mut(&key).is_some() {
            return state.repeated(key, now, || describe(line, origin));
        }
        if !state.trouble.take(peer, proven, now) {
            return state.over_budget(address, now);
        }
        state.remember(key);
        true
    }

    /// Returns true if a line is to be written now about clients of this address that only look: once in a while, because
    /// one look at what a server gives has many streams.
    pub(crate) fn admits_look(&self, peer: Option<SocketAddr>, now: Instant) -> bool {
        let now = self.time(now);
        let address = address_of(peer);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, _) = state.looks.entry(&address, |_| ());
        let is_due = last.is_none_or(|last| now >= last + INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due && state.changes.take(peer, false, now)
    }

    /// The summaries that are due; all of them if `all` is true.
    pub(crate) fn summaries(&self, now: Instant, all: bool) -> Vec<Summary> {
        let now = self.time(now);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.summaries(now, all)
    }

    /// Logs the summaries that are due.
    pub(crate) fn log_summaries(&self, now: Instant, all: bool) {
        for Summary { more, of } in self.summaries(now, all) {
            warn!(more, of = &*of, "more lines like one before were left out");
        }
    }

    fn time(&self, now: Instant) -> Time {
        Time(now.saturating_duration_since(self.began))
    }
}

impl LimiterState {
    fn remember(&mut self, key: u64) {
        let forgotten = &mut self.forgotten;
        self.lines.entry(&key, |lost: Repeats| *forgotten += lost.count);
    }

    /// Counts a line that was written before. It is not written: the result is false.
    fn repeated(&mut self, key: u64, now: Time, text: impl FnOnce() -> String) -> bool {
        let forgotten = &mut self.forgotten;
        let (repeats, _) = self.lines.entry(&key, |lost: Repeats| *forgotten += lost.count);
        if repeats.count() {
            repeats.text = text().into();
            self.note(now, RepeatKey::Line(key));
        }
        false
    }

    /// Counts a line for which its peer has no budget. It is not written: the result is false.
    fn over_budget(&mut self, address: PeerAddress, now: Time) -> bool {
        let forgotten = &mut self.forgotten;
        let (repeats, _) = self.addresses.entry(&address, |lost: Repeats| *forgotten += lost.count);
        if repeats.count() {
            let shown = address.map_or_else(|| "unix".to_owned(), |address| address.to_string());
            repeats.text = format!("any line of peers at {shown}").into();
            self.note(now, RepeatKey::Address(address));
        }
        false
    }

    /// Notes that a summary is due after the interval. If too many are, those due first have to do
    /// without a description.
    fn note(&mut self, now: Time, key: RepeatKey) {
        if self.due.len() >= MAX_DUE
            && let Some((_, first)) = self.due.pop_front()
        {
            self.forgotten += self.take(first).map_or(0, |summary| summary.more);
        }
        self.due.push_back((now + INTERVAL, key));
    }

    /// The lines that were counted under a key, which has none then.
    fn take(&mut self, key: RepeatKey) -> Option<Summary> {
        let repeats = match key {
            RepeatKey::Line(key) => self.lines.get_mut(&key),
            RepeatKey::Address(address) => self.addresses.get_mut(&address),
        };
        let Repeats { count: more, text: of } = std::mem::take(repeats?);
        (more > 0).then_some(Summary { more, of })
    }

    fn summaries(&mut self, now: Time, all: bool) -> Vec<Summary> {
        let mut summaries = Vec::new();
        while let Some(&(due, key)) = self.due.front()
            && (all || due <= now)
        {
            self.due.pop_front();
            summaries.extend(self.take(key));
        }
        // The order of equal ones is that in which they began.
        summaries.sort_by_key(|summary| std::cmp::Reverse(summary.more));
        let rest = summaries.split_off(summaries.len().min(SUMMARIES));
        let more = rest.iter().map(|summary| summary.more).sum::<u64>()
            + std::mem::take(&mut self.forgotten);
        if more > 0 {
            summaries.push(Summary { more, of: "other lines".into() });
        }
        summaries
    }
}

impl Repeats {
    /// Counts a line. Returns true if it is the first one since the last summary.
    fn count(&mut self) -> bool {
        self.count += 1;
        self.count == 1
    }
}

/// A name that a peer chose, as long as a log line may have it.
pub(crate) fn name(text: &str) -> Cow<'_, str> {
    cut(text, MAX_NAME_BYTES)
}

/// A message of a peer, as long as a log line may have it.
pub(crate) fn message(text: &str) -> Cow<'_, str> {
    cut(text, MAX_MESSAGE_BYTES)
}

/// The lines that are counted together, in words.
fn describe(line: PeerLine, origin: &LineOrigin<'_>) -> String {
    let LineOrigin { peer, node, of, detail, .. } = *origin;
    let peer = peer.map(|peer| format!("peer {peer}"));
    let node =
        Some(node).filter(|node| !node.is_empty()).map(|node| format!("node {}", name(node)));
    let rest = [of, detail].into_iter().filter(|part| !part.is_empty());
    let mut text = line.to_string();
    for part in node.into_iter().chain(peer).chain(rest.map(|part| name(part).into_owned())) {
        text += ", ";
        text += &part;
    }
    text
}

impl Display for PeerLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StreamChanged => "stream opened",
            Self::Rejected => "rejected",
            Self::StreamRefused => "stream closed",
            Self::SecretWithheld => "secrets are withheld",
            Self::IdentityIgnored => "another identity",
            Self::Unnamed => "no resource named",
            Self::TooLarge => "large",
            Self::NotAccepted => "served, but not accepted",
            Self::PollRefused => "a poll was refused",
            Self::Unanswerable => "no answer over REST",
            Self::NotConnected => "connection not accepted",
            Self::LoadLeftOut => "parts of load reports left out",
            Self::HandshakeFailed => "no TLS with a client",
        })
    }
}

#[cfg(test)]
mod tests;
