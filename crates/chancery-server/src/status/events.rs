//! The last events of all streams and loads, with numbers by which a reader goes on.
//!
//! Whoever makes an event never waits for a reader: a slow reader misses events, and is told how many.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use chancery_core::TypeUrl;
use tokio::sync::watch;

use super::card::RejectionNote;
use crate::policy::Peer;
use crate::store::AudienceName;

/// An event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StatusEvent {
    /// Its number. The next event has the next number.
    pub id: u64,
    /// The time at which it happened.
    pub at: SystemTime,
    /// The event itself.
    pub kind: StatusEventKind,
}

/// The stream of an event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventStream {
    /// Its number.
    pub id: u64,
    /// The id and the cluster of its node, if the client states them.
    pub node: Option<(Arc<str>, Arc<str>)>,
    /// The other end of the connection.
    pub peer: Arc<Peer>,
}

/// The kinds of events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StatusEventKind {
    /// A load was shown.
    Loaded {
        /// Its number.
        load: u64,
    },
    /// A load has landed on all that count.
    Landed {
        /// Its number.
        load: u64,
        /// The time from the load to the last acknowledgement.
        after: Duration,
    },
    /// A stream has come, and belongs to an audience.
    Appeared {
        /// The stream.
        stream: EventStream,
        /// The audience.
        audience: AudienceName,
    },
    /// A stream belongs to another audience than before.
    Moved {
        /// The stream.
        stream: EventStream,
        /// The audience before.
        from: AudienceName,
        /// The audience now.
        to: AudienceName,
    },
    /// A stream is gone.
    Gone {
        /// The stream.
        stream: EventStream,
        /// The audience that it was in.
        audience: AudienceName,
        /// The status with which the server ended it; `None` if the client left.
        code: Option<i32>,
    },
    /// A client rejected something.
    Rejected {
        /// The stream.
        stream: EventStream,
        /// The rejection.
        rejection: RejectionNote,
    },
    /// A client accepted what it had rejected, because that was changed.
    Repaired {
        /// The stream.
        stream: EventStream,
        /// The type.
        type_url: TypeUrl,
    },
}

/// Some events after a number.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EventPage {
    /// The events, the oldest first.
    pub events: Vec<Arc<StatusEvent>>,
    /// The number of events between, which are not remembered any more.
    pub missed: u64,
    /// The number to ask with for what comes next.
    pub next: u64,
}

/// The last events.
pub(super) struct Events {
    ring: Mutex<VecDeque<Arc<StatusEvent>>>,
    last: watch::Sender<u64>,
}

impl Events {
    pub(super) fn new() -> Self {
        Self { ring: Mutex::default(), last: watch::Sender::new(0) }
    }

    /// Adds an event, and forgets the oldest ones past `limit`.
    pub(super) fn add(&self, kind: StatusEventKind, limit: usize) {
        let mut ring = self.lock();
        let id = *self.last.borrow() + 1;
        while ring.len() >= limit.max(1) {
            ring.pop_front();
        }
        ring.push_back(Arc::new(StatusEvent { id, at: SystemTime::now(), kind }));
        self.last.send_replace(id);
    }

    /// The number of the last event; 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// The events after one of this number, so many at most. A number that was never given is taken for that
    /// of the last event before the first that is remembered: a server that was started anew begins again.
    pub(super) fn after(&self, id: u64, limit: usize) -> EventPage {
        let ring = self.lock();
        let last = *self.last.borrow();
        let id = if id > last { 0 } else { id };
        let Some(first) = ring.front().map(|event| event.id) else {
            return EventPage { next: last, ..EventPage::default() };
        };
        let missed = first.saturating_sub(id + 1);
        let skip = usize::try_from((id + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        let events: Vec<_> = ring.iter().skip(skip).take(limit).cloned().collect();
        let next = events.last().map_or(last, |event| event.id);
        EventPage { events, missed, next }
    }

    /// Waits until there is an event after one of this number. Cancel-safe.
    pub(super) async fn come(&self, id: u64) {
        let mut last = self.last.subscribe();
        // The sender lives as long as this.
        _ = last.wait_for(|last| *last > id).await;
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<StatusEvent>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
