//! What happened on the streams of a test server, kept until the test looks at it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use chancery_core::TypeUrl;
use chancery_server::{Observer, StreamEvent, StreamEventKind};
use tokio::sync::Notify;

/// Something that happened on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which stream.
    pub stream: u64,
    /// The client's name for itself, if it has told.
    pub node: Option<String>,
    /// The group it is in, if that is decided.
    pub group: Option<String>,
    /// What happened.
    pub what: What,
}

/// What can happen on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// It was opened.
    Connected,
    /// Its client was put into a group.
    Grouped,
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
    Accepted {
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
pub(super) struct Events {
    waiting: Mutex<VecDeque<Seen>>,
    came: Notify,
}

impl Observer for Events {
    fn observe(&self, event: &StreamEvent<'_>) {
        let Some(what) = what(&event.kind) else { return };
        let node = event.node.map(|node| node.id.clone());
        let group = event.audience.map(|group| group.as_str().to_owned());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == LIMIT {
            waiting.pop_front();
        }
        waiting.push_back(Seen { stream: event.stream, node, group, what });
        drop(waiting);
        self.came.notify_one();
    }
}

impl Events {
    /// The oldest event. Cancel-safe.
    pub(super) async fn next(&self) -> Seen {
        loop {
            let came = self.came.notified();
            if let Some(seen) = self.take() {
                return seen;
            }
            came.await;
        }
    }

    fn take(&self) -> Option<Seen> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

fn what(kind: &StreamEventKind<'_>) -> Option<What> {
    Some(match kind {
        StreamEventKind::Connected { .. } => What::Connected,
        StreamEventKind::Assigned => What::Grouped,
        StreamEventKind::Subscribed { type_url, wildcard, names } => {
            What::Subscribed { type_url: (*type_url).clone(), wildcard: *wildcard, names: *names }
        }
        StreamEventKind::Sent { type_url, version, resources, .. } => What::Sent {
            type_url: (*type_url).clone(),
            version: (*version).to_owned(),
            resources: *resources,
        },
        StreamEventKind::Acknowledged { type_url, version, .. } => {
            What::Accepted { type_url: (*type_url).clone(), version: (*version).to_owned() }
        }
        StreamEventKind::Rejected { type_url, version, error } => What::Rejected {
            type_url: (*type_url).clone(),
            version: (*version).to_owned(),
            error: error.message.clone(),
        },
        StreamEventKind::Landed => What::Landed,
        StreamEventKind::Gone { .. } => What::Gone,
        _ => return None,
    })
}

/// More than a test will let pass unseen.
const LIMIT: usize = 10_000;
