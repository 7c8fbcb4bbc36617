//! Events on the streams of a test server, kept until the test takes them.
//!
//! They are plain values that a test can compare. The queue is bounded, and drops its oldest
//! events. Not here: the methods that wait for a certain event (`server`), and the events of the
//! server itself (`chancery_server::StreamEvent`).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use chancery_core::TypeUrl;
use chancery_server::{AudienceName, Observer, StreamEvent, StreamEventKind};
use tokio::sync::Notify;

/// An event on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestEvent {
    /// The number of the stream; each stream of a server has its own.
    pub stream: u64,
    /// The node id of the client, once a request has stated it.
    pub node: Option<String>,
    /// The audience of the client, once it is assigned.
    pub audience: Option<AudienceName>,
    /// The kind of the event, with its data.
    pub kind: TestEventKind,
}

/// The kinds of events on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TestEventKind {
    /// The stream was opened.
    Connected,
    /// The client was assigned to an audience.
    Assigned,
    /// The client changed its subscription.
    Subscribed {
        /// The type of the subscription.
        type_url: TypeUrl,
        /// True if the client subscribes to all resources of the type.
        wildcard: bool,
        /// The number of names it subscribes to.
        names: usize,
    },
    /// The server sent a response.
    Sent {
        /// The type of the response.
        type_url: TypeUrl,
        /// The version of the response.
        version: String,
        /// The number of resources in it.
        resources: usize,
    },
    /// The client acknowledged a response.
    Acknowledged {
        /// The type of the response.
        type_url: TypeUrl,
        /// The version of the response.
        version: String,
    },
    /// The client has acknowledged everything that it should have.
    Landed,
    /// The client rejected a response.
    Rejected {
        /// The type of the response.
        type_url: TypeUrl,
        /// The version of the response.
        version: String,
        /// The message of the client.
        error: String,
    },
    /// The stream ended.
    Gone,
}

/// Events that the test has not taken yet. If there are too many, the oldest are dropped.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    waiting: Mutex<VecDeque<TestEvent>>,
    came: Notify,
}

impl Observer for EventQueue {
    fn observe(&self, event: &StreamEvent<'_>) {
        let Some(kind) = kind_of(&event.kind) else { return };
        let node = event.node.map(|node| node.id.clone());
        let audience = event.audience.cloned();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == LIMIT {
            waiting.pop_front();
        }
        waiting.push_back(TestEvent { stream: event.stream, node, audience, kind });
        drop(waiting);
        self.came.notify_one();
    }
}

impl EventQueue {
    /// Takes the oldest event. This is cancel-safe.
    pub(super) async fn next(&self) -> TestEvent {
        loop {
            let came = self.came.notified();
            if let Some(seen) = self.take() {
                return seen;
            }
            came.await;
        }
    }

    fn take(&self) -> Option<TestEvent> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

fn kind_of(kind: &StreamEventKind<'_>) -> Option<TestEventKind> {
    Some(match kind {
        StreamEventKind::Connected { .. } => TestEventKind::Connected,
        StreamEventKind::Assigned => TestEventKind::Assigned,
        StreamEventKind::Subscribed { type_url, wildcard, names } => TestEventKind::Subscribed {
            type_url: (*type_url).clone(),
            wildcard: *wildcard,
            names: *names,
        },
        StreamEventKind::Sent { type_url, version, resources, .. } => TestEventKind::Sent {
            type_url: (*type_url).clone(),
            version: (*version).to_owned(),
            resources: *resources,
        },
        StreamEventKind::Acknowledged { type_url, version, .. } => TestEventKind::Acknowledged {
            type_url: (*type_url).clone(),
            version: (*version).to_owned(),
        },
        StreamEventKind::Rejected { type_url, version, error } => TestEventKind::Rejected {
            type_url: (*type_url).clone(),
            version: (*version).to_owned(),
            error: error.message.clone(),
        },
        StreamEventKind::Landed => TestEventKind::Landed,
        StreamEventKind::Gone { .. } => TestEventKind::Gone,
        _ => return None,
    })
}

/// The number of events that are kept: more than a test leaves unread.
const LIMIT: usize = 10_000;
