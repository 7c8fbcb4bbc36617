//! The stream of load reports to one server: when there is one, and what is said on it.
//!
//! ```text
//!   Closed --a cluster reports--> Opening --> Open: introduced --> answered --> reports
//!      ^                             |                                             |
//!      +------ nobody reports -------+-------> Waiting, longer each time <---------+
//! ```
//!
//! A driver opens a stream when it [is due](LoadReporter::is_due), asks for the
//! [next message](LoadReporter::next_message) whenever the wire has room, and looks again at the
//! [deadline](LoadReporter::deadline).

use std::sync::Arc;
use std::time::Duration;

use super::counters::ClusterCounters;
use super::stats::{ClusterSelection, LoadKey, LoadReport, LoadResponse};
use super::store::LoadStore;
use crate::client::Settings;
use crate::client::lifecycle::backoff::Backoff;
use crate::{ErrorDetail, Node, Time};

/// The load reports to one server.
#[derive(Debug)]
pub struct LoadReporter {
    node: Arc<Node>,
    settings: Settings,
    /// Tells its waits from those of others.
    number: u64,
    book: LoadStore,
    state: State,
    backoff: Backoff,
    /// Whether no more is to be said than the last word.
    closing: bool,
    events: Vec<LoadEvent>,
}

#[derive(Debug)]
enum State {
    Closed,
    Waiting(Time),
    Opening,
    Open(Stream),
}

#[derive(Debug)]
struct Stream {
    opened: Time,
    introduced: bool,
    terms: Option<Terms>,
    /// When the last report was written.
    last: Time,
    /// Whether the answer of the server cannot be obeyed.
    unusable: bool,
    ending: Ending,
}

/// What the server wants.
#[derive(Debug)]
struct Terms {
    clusters: ClusterSelection,
    interval: Duration,
}

/// How far the end of what is said has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// The last report has been made.
    Told,
    /// And the end has been said.
    Said,
}

/// What is to be said on the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadMessage {
    /// This.
    Report(LoadReport),
    /// Nothing any more: the client's half of the stream ends.
    End,
}

/// Something worth a line in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadEvent {
    /// The stream is there.
    Opened,
    /// It ended, or could not be opened.
    Ended {
        /// Why.
        error: ErrorDetail,
        /// Whether the server had said nothing on it.
        is_trouble: bool,
    },
    /// The server said what it wants to hear.
    Answered {
        /// Of which clusters.
        clusters: ClusterSelection,
        /// How often.
        interval: Duration,
    },
    /// It said something that cannot be obeyed.
    Unusable {
        /// What is wrong.
        why: String,
    },
    /// Calls that the server will never hear of: it was not there until their clusters were gone.
    Lost {
        /// How many.
        calls: u64,
    },
}

/// Reports are not made more often than this, whatever a server asks for.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

impl LoadReporter {
    /// Of a server to which nobody reports yet. `number` tells its waits from those of others.
    pub fn new(node: Arc<Node>, settings: Settings, number: u64) -> Self {
        Self {
            node,
            settings,
            number,
            book: LoadStore::default(),
            state: State::Closed,
            backoff: Backoff::default(),
            closing: false,
            events: Vec::new(),
        }
    }

    /// A cluster reports to this server, until it is [left](Self::leave) as often.
    pub fn add_cluster(&mut self, now: Time, key: LoadKey) -> Arc<ClusterCounters> {
        self.book.open(now, key)
    }

    /// A cluster reports no longer. What it has to tell yet is told if the stream is there, or
    /// comes back while others need it.
    pub fn remove_cluster(&mut self, key: &LoadKey) {
        let untold = self.book.close(key);
        self.untold(untold);
        self.rest();
    }

    /// Nothing is reported any more but once, and that now (C-133).
    pub fn close(&mut self) {
        self.closing = true;
        self.rest();
    }

    /// Whether there is a stream, or one is being opened.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Closed | State::Waiting(_))
    }

    /// Whether anybody reports.
    pub fn is_wanted(&self) -> bool {
        !self.closing && self.book.is_open()
    }

    /// Whether a stream is to be opened now. It is asked once for each stream: whoever hears that
    /// it is, opens it, and says how that went.
    pub fn is_due(&mut self, now: Time) -> bool {
        let is_due = match self.state {
            State::Closed => self.is_wanted(),
            State::Waiting(at) => self.is_wanted() && at <= now,
            State::Opening | State::Open(_) => false,
        };
        if is_due {
            self.state = State::Opening;
        }
        is_due
    }

    /// The stream is there, and something can be said on it.
    pub fn opened(&mut self, now: Time) {
        if !matches!(self.state, State::Opening) {
            return;
        }
        self.state = State::Open(Stream {
            opened: now,
            introduced: false,
            terms: None,
            last: now,
            unusable: false,
            ending: Ending::No,
        });
        self.events.push(LoadEvent::Opened);
    }

    /// The stream ended, or could not be opened.
    pub fn ended(&mut self, now: Time, error: ErrorDetail) {
        let (opened, responded) = match &self.state {
            State::Opening => (now, false),
            State::Open(stream) => (stream.opened, stream.terms.is_some()),
            State::Closed | State::Waiting(_) => return,
        };
        let is_trouble = !responded && self.is_wanted();
        let wait = self.backoff.wait(&self.settings, self.number);
        // As for streams of discovery: one that lived is opened again at once.
        let at = if responded { now.max(opened + wait) } else { now + wait };
        if responded {
            self.backoff.reset();
        }
        self.state = State::Waiting(at);
        self.events.push(LoadEvent::Ended { error, is_trouble });
        self.rest();
    }

    /// The server says what it wants to hear. A later word takes the place of an earlier one
    /// (C-131).
    pub fn answered(&mut self, now: Time, answer: LoadResponse) {
        let State::Open(stream) = &mut self.state else { return };
        let interval = answer.interval.filter(|interval| !interval.is_zero());
        let Some(interval) = interval else {
            stream.unusable = true;
            let why = "the interval between load reports is missing, or is none".to_owned();
            return self.events.push(LoadEvent::Unusable { why });
        };
        self.backoff.reset();
        if stream.terms.is_none() {
            stream.last = now;
        }
        let clusters = answer.clusters;
        self.events.push(LoadEvent::Answered { clusters: clusters.clone(), interval });
        let interval = interval.max(LEAST_INTERVAL);
        stream.terms = Some(Terms { clusters, interval });
    }

    /// The next thing to say on a stream that has room for it.
    pub fn next_message(&mut self, now: Time) -> Option<LoadMessage> {
        let is_wanted = self.is_wanted();
        let State::Open(stream) = &mut self.state else { return None };
        // A cluster that comes after the last word waits for the next stream.
        if !is_wanted || stream.unusable || stream.ending != Ending::No {
            return self.last_word(now);
        }
        if !std::mem::replace(&mut stream.introduced, true) {
            let node = Some(Arc::clone(&self.node));
            return Some(LoadMessage::Report(LoadReport { node, clusters: Vec::new() }));
        }
        let terms = stream.terms.as_ref()?;
        if now < stream.last + terms.interval {
            return None;
        }
        stream.last = now;
        let clusters = self.book.take(now, &terms.clusters);
        Some(LoadMessage::Report(LoadReport { node: None, clusters }))
    }

    /// When [`next`](Self::next) or [`is_due`](Self::is_due) has to be asked, if nothing happens
    /// before.
    pub fn deadline(&self) -> Option<Time> {
        match &self.state {
            State::Waiting(at) => Some(*at).filter(|_| self.is_wanted()),
            State::Open(stream) if stream.ending == Ending::No => {
                stream.terms.as_ref().map(|terms| stream.last + terms.interval)
            }
            State::Closed | State::Opening | State::Open(_) => None,
        }
    }

    /// A report could not be written: what it tells is still to be told.
    pub fn not_sent(&mut self, now: Time, report: &LoadReport) {
        self.book.give_back(now, &report.clusters);
    }

    /// What has happened since this was asked last.
    pub fn take_events(&mut self) -> Vec<LoadEvent> {
        std::mem::take(&mut self.events)
    }

    fn last_word(&mut self, now: Time) -> Option<LoadMessage> {
        let State::Open(stream) = &mut self.state else { return None };
        if stream.ending == Ending::No {
            stream.ending = Ending::Told;
            let terms = stream.terms.as_ref().filter(|_| !stream.unusable);
            let clusters = terms.map(|terms| self.book.take(now, &terms.clusters));
            if let Some(clusters) = clusters.filter(|clusters| !clusters.is_empty()) {
                return Some(LoadMessage::Report(LoadReport { node: None, clusters }));
            }
        }
        (std::mem::replace(&mut stream.ending, Ending::Said) == Ending::Told)
            .then_some(LoadMessage::End)
    }

    /// Nobody reports and there is no stream: nothing is kept for one that will not come.
    fn rest(&mut self) {
        if self.is_wanted() || !self.is_at_rest() {
            return;
        }
        self.state = State::Closed;
        let untold = self.book.forget_left();
        self.untold(untold);
    }

    fn untold(&mut self, calls: u64) {
        if calls > 0 {
            self.events.push(LoadEvent::Lost { calls });
        }
    }
}
