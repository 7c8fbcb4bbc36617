//! The last events of all streams and loads, with numbers by which a reader goes on.
//!
//! Whoever makes an event never waits for a reader: a slow reader misses events, and is told how many.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use chancery_core::TypeUrl;
use tokio::sync::watch;

use super::bounds::StatusBounds;
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
    ring: Mutex<Ring>,
    last: watch::Sender<u64>,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Arc<StatusEvent>>,
    /// The bytes that they keep, about.
    bytes: usize,
}

impl StatusEventKind {
    /// The bytes that the event keeps, about.
    fn bytes(&self) -> usize {
        let texts = match self {
            Self::Loaded { .. } | Self::Landed { .. } => 0,
            Self::Appeared { stream, .. }
            | Self::Moved { stream, .. }
            | Self::Gone { stream, .. }
            | Self::Repaired { stream, .. } => stream.bytes(),
            Self::Rejected { stream, rejection } => stream.bytes() + rejection.bytes(),
        };
        size_of::<StatusEvent>() + texts
    }
}

impl EventStream {
    fn bytes(&self) -> usize {
        self.node.as_ref().map_or(0, |(id, cluster)| id.len() + cluster.len())
    }
}

impl Events {
    pub(super) fn new() -> Self {
        Self { ring: Mutex::default(), last: watch::Sender::new(0) }
    }

    /// Adds an event, and forgets the oldest ones, as far as the bounds want it.
    pub(super) fn add(&self, kind: StatusEventKind, bounds: &StatusBounds) {
        let mut ring = self.lock();
        let id = *self.last.borrow() + 1;
        ring.bytes += kind.bytes();
        ring.events.push_back(Arc::new(StatusEvent { id, at: SystemTime::now(), kind }));
        while ring.events.len() > bounds.events.max(1) || ring.bytes > bounds.event_bytes {
            let Some(oldest) = ring.events.pop_front() else { break };
            ring.bytes -= oldest.kind.bytes();
        }
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
        let Some(first) = ring.events.front().map(|event| event.id) else {
            return EventPage { missed: last - id, next: last, ..EventPage::default() };
        };
        let missed = first.saturating_sub(id + 1);
        let skip = usize::try_from((id + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        let events: Vec<_> = ring.events.iter().skip(skip).take(limit).cloned().collect();
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
    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(id: u64, name: usize) -> StatusEventKind {
        let peer = Arc::new(Peer { address: None, tls: false, certificates: Vec::new() });
        let node = Some(("n".repeat(name).into(), "".into()));
        let stream = EventStream { id, node, peer };
        StatusEventKind::Gone { stream, audience: "all".into(), code: None }
    }

    #[test]
    fn long_names_make_fewer_events_that_are_remembered() {
        let bounds = StatusBounds { event_bytes: 100_000, ..StatusBounds::default() };
        let events = Events::new();
        (0..1000).for_each(|id| events.add(gone(id, 4096), &bounds));
        let page = events.after(0, usize::MAX);
        assert!((20..25).contains(&page.events.len()), "{}", page.events.len());
        assert_eq!(page.missed + page.events.len() as u64, 1000);
        (0..5000).for_each(|id| events.add(gone(id, 0), &bounds));
        let kept = events.lock().events.iter().map(|event| event.kind.bytes()).sum::<usize>();
        assert_eq!(events.lock().bytes, kept);
        assert!(kept <= 100_000);
    }

    #[test]
    fn a_number_of_an_earlier_server_begins_anew() {
        let events = Events::new();
        events.add(gone(1, 1), &StatusBounds::default());
        let page = events.after(77, 10);
        assert_eq!((page.events.len(), page.missed, page.next), (1, 0, 1));
    }
}
