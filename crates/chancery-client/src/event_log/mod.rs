//! The log of a client: one event is one line, without the body of any resource, and the number of
//! lines is bounded (C-139).
//!
//! It is written for those who operate the program: node, server and resource stand in each line
//! that is about them. Not here: the bound (`budget`), the numbers (`metrics`), and the text of
//! errors (`errors`).

mod budget;

use chancery_core::TypeUrl;
use chancery_core::client::load::{ClusterSelection, LoadEvent};
use chancery_core::client::{Event, InvalidResource, ResourceState, ServerId, Setup, StreamId};
use tracing::{Level, debug, enabled, info, warn};

use budget::LogBudget;

/// Logs the events of the machines of one client.
#[derive(Debug)]
pub(crate) struct EventLog {
    setup: Setup,
    budget: LogBudget,
}

/// A response of which some resources were rejected.
struct Rejected<'a> {
    stream: &'a StreamId,
    type_url: &'a TypeUrl,
    version: &'a str,
    nonce: &'a str,
    flaws: &'a [InvalidResource],
}

/// The number of resources of one response that get a line of their own.
const LINES: usize = 10;

impl EventLog {
    pub(crate) fn new(setup: Setup) -> Self {
        Self { setup, budget: LogBudget::new() }
    }

    /// Logs the events of discovery.
    pub(crate) fn events(&self, events: &[Event]) {
        let nonce = events.iter().find_map(|event| match event {
            Event::Received { nonce, .. } => Some(&**nonce),
            _ => None,
        });
        for event in events {
            match event {
                Event::StateChanged { server, type_url, name, state, version } => {
                    let version = version.as_deref().unwrap_or_default();
                    let nonce = nonce.unwrap_or_default();
                    self.became(*server, type_url, name.as_str(), *state, (version, nonce));
                }
                Event::Received {
                    stream,
                    type_url,
                    version,
                    nonce,
                    accepted: good,
                    invalid: flaws,
                } => {
                    let (server, type_url) = (stream.server, type_url);
                    if flaws.is_empty() {
                        self.accepted(server, type_url, version, nonce, *good);
                    } else {
                        self.rejected(&Rejected { stream, type_url, version, nonce, flaws });
                    }
                }
                other if self.may() => self.log_event(other),
                _ => {}
            }
        }
    }

    /// Logs the events of load reports.
    pub(crate) fn loads(&self, server: &str, events: &[LoadEvent]) {
        events.iter().filter(|_| self.may()).for_each(|event| self.load(server, event));
    }

    /// Logs the new state of a resource. A rejection has lines of its own, which say why.
    fn became(
        &self,
        server: ServerId,
        type_url: &TypeUrl,
        name: &str,
        state: ResourceState,
        (version, nonce): (&str, &str),
    ) {
        let (node, server, type_url) = (self.node(), self.uri(server), type_url.short());
        let missed = |text: &str| {
            if self.may() {
                warn!(node, server, type_url, name, version, nonce, "{text}");
            }
        };
        match state {
            ResourceState::Acked | ResourceState::Nacked | ResourceState::Requested => {
                if enabled!(Level::DEBUG) && self.may() {
                    debug!(node, server, type_url, name, version, nonce, "is {state:?}");
                }
            }
            ResourceState::DoesNotExist => missed("a resource does not exist"),
            ResourceState::ReceivedError => {
                missed("the server sent an error in place of a resource")
            }
            ResourceState::Timeout => missed("the server sent nothing of a resource in time"),
        }
    }

    /// Logs a response that was accepted, at level debug. That happens all the time, so a line that
    /// nobody reads must not use up the budget.
    fn accepted(
        &self,
        server: ServerId,
        type_url: &TypeUrl,
        version: &str,
        nonce: &str,
        good: usize,
    ) {
        if enabled!(Level::DEBUG) && self.may() {
            let (node, server) = (self.node(), self.uri(server));
            debug!(node, server, type_url = type_url.short(), version, nonce, good, "accepted");
        }
    }

    /// Logs the rejected resources of a response, which may be thousands; the answer to the server
    /// names them all.
    fn rejected(&self, what: &Rejected<'_>) {
        let Rejected { stream, type_url, version, nonce, flaws } = *what;
        let (node, server, type_url) = (self.node(), self.uri(stream.server), type_url.short());
        for flaw in flaws.iter().take(LINES).filter(|_| self.may()) {
            warn!(node, server, type_url, version, nonce, "rejected {flaw}");
        }
        if flaws.len() > LINES && self.may() {
            let more = flaws.len() - LINES;
            warn!(node, server, type_url, version, nonce, "rejected {more} more");
        }
    }

    fn log_event(&self, event: &Event) {
        let (node, uri) = (self.node(), |server| self.uri(server));
        match event {
            Event::Opened(stream) => {
                info!(node, server = uri(stream.server), "stream opened");
            }
            Event::Ended { stream, error, is_trouble: true, wait } => {
                let (server, why, wait) = (uri(stream.server), &error.message, wait.as_secs_f64());
                warn!(node, server, "cannot reach the server: {why}; next attempt in {wait:.1}s");
            }
            Event::Ended { stream, error, is_trouble: false, .. } => {
                info!(node, server = uri(stream.server), "stream ended: {}", error.message);
            }
            Event::Unusable { stream, why } => {
                let type_url = stream.scope.only().map_or("", |type_url| type_url.short());
                warn!(node, server = uri(stream.server), type_url, "nothing can be used: {why}");
            }
            Event::Unrequested { stream, type_url } => {
                let (server, type_url) = (uri(stream.server), type_url.as_str());
                warn!(node, server, type_url, "a response of a type nobody asked for is ignored");
            }
            Event::TimedOut { server, type_url, name } => {
                let (server, type_url) = (uri(*server), type_url.short());
                warn!(node, server, type_url, %name, "did not come in time");
            }
            Event::FellBack { authority, server } => {
                warn!(node, %authority, server = uri(*server), "fell back to another server");
            }
            Event::Reverted { authority, server } => {
                info!(node, %authority, server = uri(*server), "back at a better server");
            }
            // These events have lines of their own.
            Event::Received { .. } | Event::StateChanged { .. } => {}
        }
    }

    fn load(&self, server: &str, event: &LoadEvent) {
        let node = self.node();
        match event {
            LoadEvent::Opened => info!(node, server, "stream of load reports opened"),
            LoadEvent::Ended { error, is_trouble: true } => {
                warn!(node, server, "cannot report loads to the server: {}", error.message);
            }
            LoadEvent::Ended { error, is_trouble: false } => {
                info!(node, server, "stream of load reports ended: {}", error.message);
            }
            LoadEvent::Answered { clusters, interval } => {
                let clusters = match clusters {
                    ClusterSelection::All => "all".to_owned(),
                    ClusterSelection::Named(names) => names.len().to_string(),
                };
                info!(node, server, ?interval, "the server asks for loads of {clusters} clusters");
            }
            LoadEvent::Unusable { why } => warn!(node, server, "loads are not reported: {why}"),
            LoadEvent::Lost { calls } => {
                warn!(node, server, calls, "calls were counted that could not be reported");
            }
        }
    }

    /// Returns true if one more line may be written.
    fn may(&self) -> bool {
        match self.budget.next() {
            None => false,
            Some(0) => true,
            Some(left_out) => {
                warn!(node = self.node(), left_out, "lines were left out of the log");
                true
            }
        }
    }

    fn node(&self) -> &str {
        &self.setup.node.id
    }

    fn uri(&self, server: ServerId) -> &str {
        self.setup.find(server).map_or("", |server| &*server.key.uri)
    }
}
