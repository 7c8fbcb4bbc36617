//! The stream of load reports to one server: when there is one, and what is sent on it.
//!
//! ```text
//!   needed: a cluster reports --> opened --> introduced --> answered --> a report at each interval
//!   not needed any more       --> the last report --> the end of the client's half
//! ```
//!
//! A driver opens a stream when it [is due](LoadReporter::is_due), asks for the
//! [next message](LoadReporter::next_message) whenever the wire has room, and looks again at the
//! [deadline](LoadReporter::deadline). The life of the stream is that of all streams (`lifecycle`).

use std::sync::Arc;
use std::time::Duration;

use super::counters::ClusterCounters;
use super::store::LoadStore;
use crate::client::lifecycle::{Lifecycle, StreamEnd};
use crate::client::setup::Settings;
use crate::load::{ClusterSelection, ClusterStats, LoadKey, LoadReport, LoadResponse};
use crate::{ErrorDetail, Node, Time};

/// The load reports to one server.
#[derive(Debug)]
pub struct LoadReporter {
    node: Arc<Node>,
    settings: Settings,
    store: LoadStore,
    life: Lifecycle<ReportStream>,
    /// True if no more is to be reported than the last report.
    is_closing: bool,
    events: Vec<LoadEvent>,
}

/// An open stream of reports.
#[derive(Debug)]
struct ReportStream {
    is_introduced: bool,
    terms: ReportTerms,
    /// The time of the last report.
    last: Time,
    ending: Ending,
}

/// The reports that the server wants.
#[derive(Debug)]
enum ReportTerms {
    /// It has not said.
    Unknown,
    /// It wants these.
    Known { clusters: ClusterSelection, interval: Duration },
    /// It said something that cannot be obeyed.
    Unusable,
}

/// The progress of the end of the client's half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    NotBegun,
    /// The last report has been made.
    Reported,
    /// And the end has been sent.
    Ended,
}

/// A message on the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadMessage {
    /// A report.
    Report(LoadReport),
    /// The end of the client's half of the stream.
    End,
}

/// Something worth a line in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadEvent {
    /// The stream is there.
    Opened,
    /// It ended, or could not be opened.
    Ended {
        /// The error it ended with.
        error: ErrorDetail,
        /// True if the server had said nothing on it.
        is_trouble: bool,
    },
    /// The server said which reports it wants.
    Answered {
        /// The clusters that it wants reports of.
        clusters: ClusterSelection,
        /// The time between reports.
        interval: Duration,
    },
    /// It said something that cannot be obeyed.
    Unusable {
        /// The reason.
        why: String,
    },
    /// Calls were lost that the server will never hear of: it was not there until their clusters
    /// were gone.
    Lost {
        /// The number of calls.
        calls: u64,
    },
}

/// Reports are not made more often than this, whatever a server asks for.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

impl LoadReporter {
    /// The reporter of a server to which nobody reports yet. `number` tells its waits from those of
    /// others.
    pub fn new(node: Arc<Node>, settings: Settings, number: u64) -> Self {
        Self {
            node,
            settings,
            store: LoadStore::default(),
            life: Lifecycle::new(number),
            is_closing: false,
            events: Vec::new(),
        }
    }

    /// A cluster reports to this server, until it is [removed](Self::remove_cluster) as often.
    pub fn add_cluster(&mut self, now: Time, key: LoadKey) -> Arc<ClusterCounters> {
        self.store.open(now, key)
    }

    /// A cluster reports no longer. Its last counts are reported if the stream is there, or comes
    /// back while others need it.
    pub fn remove_cluster(&mut self, key: &LoadKey) {
        let lost = self.store.close(key);
        self.note_lost(lost);
        self.rest_if_unneeded();
    }

    /// Nothing is reported any more but once, and that now (C-133).
    pub fn close(&mut self) {
        self.is_closing = true;
        self.rest_if_unneeded();
    }

    /// Returns true if there is no stream, and none is being opened.
    pub fn is_at_rest(&self) -> bool {
        self.life.is_at_rest()
    }

    /// Returns true if anybody reports.
    pub fn is_wanted(&self) -> bool {
        !self.is_closing && self.store.is_open()
    }

    /// Returns true if a stream is to be opened now. It is asked once for each stream: whoever
    /// hears that it is, opens it, and says how that went.
    pub fn is_due(&mut self, now: Time) -> bool {
        self.is_wanted() && self.life.begin_opening(now)
    }

    /// The stream is there, and something can be sent on it.
    pub fn opened(&mut self, now: Time) {
        let stream = ReportStream {
            is_introduced: false,
            terms: ReportTerms::Unknown,
            last: now,
            ending: Ending::NotBegun,
        };
        if self.life.opened(now, stream) {
            self.events.push(LoadEvent::Opened);
        }
    }

    /// The stream ended, or could not be opened.
    pub fn ended(&mut self, now: Time, error: ErrorDetail) {
        if let Some(end) = self.life.ended(now, &self.settings) {
            let is_trouble = end == StreamEnd::WithoutResponse && self.is_wanted();
            self.events.push(LoadEvent::Ended { error, is_trouble });
            self.rest_if_unneeded();
        }
    }

    /// The server says what it wants to hear. A later word takes the place of an earlier one
    /// (C-131).
    pub fn answered(&mut self, now: Time, response: LoadResponse) {
        let Some(stream) = self.life.stream_mut() else { return };
        let Some(interval) = response.interval.filter(|interval| !interval.is_zero()) else {
            stream.terms = ReportTerms::Unusable;
            let why = "the interval between load reports is missing, or is none".to_owned();
            return self.events.push(LoadEvent::Unusable { why });
        };
        let clusters = response.clusters;
        self.events.push(LoadEvent::Answered { clusters: clusters.clone(), interval });
        let terms = ReportTerms::Known { clusters, interval: interval.max(LEAST_INTERVAL) };
        match stream.terms {
            ReportTerms::Unknown => (stream.terms, stream.last) = (terms, now),
            ReportTerms::Known { .. } => stream.terms = terms,
            ReportTerms::Unusable => {}
        }
        self.life.respond();
    }

    /// Returns the next message for a stream that has room for it.
    pub fn next_message(&mut self, now: Time) -> Option<LoadMessage> {
        let is_wanted = self.is_wanted();
        let stream = self.life.stream_mut()?;
        // A cluster that comes after the last report waits for the next stream.
        if !is_wanted || stream.is_ending() {
            return stream.next_at_end(now, &mut self.store);
        }
        if !std::mem::replace(&mut stream.is_introduced, true) {
            let node = Some(Arc::clone(&self.node));
            return Some(LoadMessage::Report(LoadReport { node, clusters: Vec::new() }));
        }
        let due = stream.next_report()?;
        if now < due {
            return None;
        }
        stream.last = now;
        let clusters = stream.take(now, &mut self.store);
        Some(LoadMessage::Report(LoadReport { node: None, clusters }))
    }

    /// Returns the time at which [`next_message`](Self::next_message) or [`is_due`](Self::is_due)
    /// has to be asked, if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        let retry = self.life.next_attempt().filter(|_| self.is_wanted());
        let open = self.life.stream().filter(|stream| stream.ending == Ending::NotBegun);
        retry.or_else(|| open?.next_report())
    }

    /// A report could not be written: its counts are still to be reported.
    pub fn not_sent(&mut self, now: Time, report: &LoadReport) {
        self.store.give_back(now, &report.clusters);
    }

    /// Returns what has happened since this was asked last.
    pub fn take_events(&mut self) -> Vec<LoadEvent> {
        std::mem::take(&mut self.events)
    }

    /// Nobody reports and there is no stream: nothing is kept for one that will not come.
    fn rest_if_unneeded(&mut self) {
        if !self.is_wanted() && self.is_at_rest() {
            self.life.close();
            let lost = self.store.forget_left();
            self.note_lost(lost);
        }
    }

    fn note_lost(&mut self, calls: u64) {
        if calls > 0 {
            self.events.push(LoadEvent::Lost { calls });
        }
    }
}

impl ReportStream {
    /// Returns true if no report is to follow but the last.
    fn is_ending(&self) -> bool {
        self.ending != Ending::NotBegun || matches!(self.terms, ReportTerms::Unusable)
    }

    /// Returns the time of the next report, once the server has said how often it wants one.
    fn next_report(&self) -> Option<Time> {
        match self.terms {
            ReportTerms::Known { interval, .. } => Some(self.last + interval),
            ReportTerms::Unknown | ReportTerms::Unusable => None,
        }
    }

    /// Takes out what the server wants to hear.
    fn take(&self, now: Time, store: &mut LoadStore) -> Vec<ClusterStats> {
        match &self.terms {
            ReportTerms::Known { clusters, .. } => store.take(now, clusters),
            ReportTerms::Unknown | ReportTerms::Unusable => Vec::new(),
        }
    }

    /// Returns the last report, if there is something to tell, and the end after it.
    fn next_at_end(&mut self, now: Time, store: &mut LoadStore) -> Option<LoadMessage> {
        if self.ending == Ending::NotBegun {
            self.ending = Ending::Reported;
            let clusters = self.take(now, store);
            if !clusters.is_empty() {
                return Some(LoadMessage::Report(LoadReport { node: None, clusters }));
            }
        }
        let before = std::mem::replace(&mut self.ending, Ending::Ended);
        (before == Ending::Reported).then_some(LoadMessage::End)
    }
}
