//! What happened on the streams of a test server, kept until the test looks at it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use chancery_core::TypeUrl;
use chancery_server::{AudienceName, Observer, StreamEvent, StreamEventKind};
use tokio::sync::Notify;

/// Something that happened on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestEvent {
    /// Which stream.
    pub stream: u64,
    /// The client's name for itself, if it has told.
    pub node: Option<String>,
    /// The group it is in, if that is decided.
    pub audience: Option<AudienceName>,
    /// What happened.
    pub kind: TestEventKind,
}

/// What can happen on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TestEventKind {
    /// It was opened.
    Connected,
    /// Its client was put into a group.
    Assigned,
    /// The client asks for something else than before.
    Subscribed {
        /// Of which type.
        type_url: TypeUrl,
        /// Whether it asks for everything.
        wildcard: bool,
        /// How many names it asks for.
        names: usize,
    },
    /// The client was sent a response.
    Sent {
        /// Of which type.
        type_url: TypeUrl,
        /// In which version.
        version: String,
        /// How many resources were in it.
        resources: usize,
    },
    /// The client accepted a response.
    Acknowledged {
        /// Of which type.
        type_url: TypeUrl,
        /// In which version.
        version: String,
    },
    /// The client has acknowledged all it was owed.
    Landed,
    /// The client rejected a response.
    Rejected {
        /// Of which type.
        type_url: TypeUrl,
        /// In which version.
        version: String,
        /// Why, in the client's words.
        error: String,
    },
    /// It ended.
    Gone,
}

/// Events nobody has looked at yet. When there are too many, the oldest go.
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
    /// The oldest event. Cancel-safe.
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

/// More than a test will let pass unseen.
const LIMIT: usize = 10_000;
