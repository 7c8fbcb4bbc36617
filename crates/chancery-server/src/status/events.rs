//! The last events of all streams and loads, with numbers by which a reader goes on.
//!
//! Whoever makes an event never waits for a reader: a slow reader misses events, and is told how many. Clients
//! from one address that make many events push out their own, and not those of others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
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
    /// The other end of the connection, without its certificates.
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
        rejection: Box<RejectionNote>,
    },
    /// Nothing of a type that a client rejected waits for a change any more: the client accepted it after a
    /// change, does not want it any more, or it is gone.
    Repaired {
        /// The stream.
        stream: EventStream,
        /// The type.
        type_url: TypeUrl,
    },
    /// A client that was silent has answered all that was sent to it for so long.
    Answered {
        /// The stream.
        stream: EventStream,
        /// The time without an answer.
        after: Duration,
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
    events: BTreeMap<u64, Arc<StatusEvent>>,
    by_address: HashMap<Option<IpAddr>, OfAddress>,
    /// The bytes that they keep, about.
    bytes: usize,
}

/// The events of streams from one address.
#[derive(Default)]
struct OfAddress {
    numbers: BTreeSet<u64>,
    bytes: usize,
}

/// One address may take that part of the bounds before its own events are forgotten for its new ones.
const PARTS: usize = 8;

impl StatusEventKind {
    fn stream(&self) -> Option<&EventStream> {
        match self {
            Self::Loaded { .. } | Self::Landed { .. } => None,
            Self::Appeared { stream, .. }
            | Self::Moved { stream, .. }
            | Self::Gone { stream, .. }
            | Self::Rejected { stream, .. }
            | Self::Repaired { stream, .. }
            | Self::Answered { stream, .. } => Some(stream),
        }
    }

    /// The bytes that the event keeps, about.
    fn bytes(&self) -> usize {
        let rejection = match self {
            Self::Rejected { rejection, .. } => rejection.bytes(),
            _ => 0,
        };
        size_of::<StatusEvent>() + self.stream().map_or(0, EventStream::bytes) + rejection
    }
}

impl EventStream {
    fn bytes(&self) -> usize {
        let node = self.node.as_ref().map_or(0, |(id, cluster)| id.len() + cluster.len());
        self.peer.held_bytes() + node
    }
}

impl Ring {
    fn add(&mut self, event: StatusEvent, bounds: &StatusBounds) {
        let (id, bytes) = (event.id, event.kind.bytes());
        let address = event.kind.stream().map(|stream| stream.peer.ip());
        self.bytes += bytes;
        if let Some(address) = address {
            let of_address = self.by_address.entry(address).or_default();
            of_address.numbers.insert(id);
            of_address.bytes += bytes;
        }
        self.events.insert(id, Arc::new(event));
        while self.events.len() > bounds.events.max(1) || self.bytes > bounds.event_bytes {
            self.make_room(address, bounds);
        }
    }

    /// Forgets the oldest event: of those of an address, if it has more than its part.
    fn make_room(&mut self, address: Option<Option<IpAddr>>, bounds: &StatusBounds) {
        let mine = address.and_then(|address| self.by_address.get(&address));
        let mine = mine.filter(|of_address| {
            of_address.numbers.len() > bounds.events / PARTS
                || of_address.bytes > bounds.event_bytes / PARTS
        });
        let first = match mine {
            Some(mine) => mine.numbers.first(),
            None => self.events.keys().next(),
        };
        let Some(id) = first.copied() else { return };
        let Some(event) = self.events.remove(&id) else { return };
        let bytes = event.kind.bytes();
        self.bytes -= bytes;
        let Some(address) = event.kind.stream().map(|stream| stream.peer.ip()) else { return };
        if let Some(of_address) = self.by_address.get_mut(&address) {
            of_address.numbers.remove(&id);
            of_address.bytes -= bytes;
            if of_address.numbers.is_empty() {
                self.by_address.remove(&address);
            }
        }
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
        ring.add(StatusEvent { id, at: SystemTime::now(), kind }, bounds);
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
        let events: Vec<_> =
            ring.events.range(id + 1..).take(limit).map(|it| it.1.clone()).collect();
        let is_whole = events.len() < limit;
        let next = events.last().filter(|_| !is_whole).map_or(last, |event| event.id);
        let missed = (next - id).saturating_sub(events.len() as u64);
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
        gone_from(1, id, name)
    }

    fn gone_from(host: u8, id: u64, name: usize) -> StatusEventKind {
        let address = Some(([127, 0, 0, host], 1).into());
        let peer = Arc::new(Peer { address, tls: false, certificates: Vec::new() });
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
        let kept = events.lock().events.values().map(|event| event.kind.bytes()).sum::<usize>();
        assert_eq!(events.lock().bytes, kept);
        assert!(kept <= 100_000);
    }

    #[test]
    fn an_address_with_many_events_has_its_own_forgotten() {
        let bounds = StatusBounds { events: 16, ..StatusBounds::default() };
        let events = Events::new();
        events.add(gone_from(2, 1, 1), &bounds);
        (0..100).for_each(|id| events.add(gone(id, 1), &bounds));
        let page = events.after(0, 3);
        let numbers: Vec<_> = page.events.iter().map(|event| event.id).collect();
        assert_eq!((numbers, page.missed, page.next), (vec![1, 87, 88], 85, 88));
        let page = events.after(page.next, usize::MAX);
        assert_eq!((page.events.len(), page.missed, page.next), (13, 0, 101));
        (0..20).for_each(|load| events.add(StatusEventKind::Loaded { load }, &bounds));
        assert!(events.lock().by_address.is_empty());
    }

    #[test]
    fn a_number_of_an_earlier_server_begins_anew() {
        let events = Events::new();
        events.add(gone(1, 1), &StatusBounds::default());
        let page = events.after(77, 10);
        assert_eq!((page.events.len(), page.missed, page.next), (1, 0, 1));
    }
}
