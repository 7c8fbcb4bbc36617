//! The state under the lock of an engine: the machine, its streams and their tasks, and the wakers
//! of the tasks that wait.
//!
//! A stream has a number, so that a task that is late cannot act on the stream that follows in the
//! same place. Not here: the lock, and the wakes after it is released (`engine`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::take;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use chancery_core::client::{Effect, Event, Input, Machine, ServerId, StreamId, WatchId};
use chancery_core::{Request, Time};

use crate::metrics::Counts;

/// All that is under the lock.
pub(super) struct EngineState {
    pub(super) machine: Machine,
    /// The wakers of watches that wait.
    pub(super) watches: HashMap<WatchId, Waker>,
    pub(super) closing: Closing,
    /// The reason why the client is broken.
    pub(super) broken: Option<Arc<str>>,
    pub(super) counts: Counts,
    streams: BTreeMap<StreamId, StreamSlot>,
    /// The number of the stream that was opened last.
    last_number: u64,
    to_open: BTreeMap<ServerId, StreamsToOpen>,
    /// The time at which the keeper wakes by itself.
    deadline: Option<Time>,
}

/// The state of a client that is being closed.
#[derive(Default)]
pub(super) struct Closing {
    has_begun: bool,
    pub(super) is_over: bool,
    /// The wakers of the tasks that wait for the end of all streams.
    pub(super) wakers: Vec<Waker>,
}

/// A stream that the machine wants, and the wakers of the task that serves it.
#[derive(Default)]
pub(super) struct StreamSlot {
    number: u64,
    /// True while the stream exists on the network.
    pub(super) is_live: bool,
    writer: Option<Waker>,
    pub(super) reader: Option<Waker>,
}

/// The streams of one server that are to be opened, and the waker of its driver.
#[derive(Default)]
struct StreamsToOpen {
    streams: BTreeSet<StreamHandle>,
    driver: Option<Waker>,
}

/// The right to serve one stream, until it is closed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamHandle {
    pub(crate) stream: StreamId,
    /// The number that tells the stream from earlier ones in the same place.
    number: u64,
}

impl EngineState {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            machine,
            watches: HashMap::new(),
            closing: Closing::default(),
            broken: None,
            counts: Counts::default(),
            streams: BTreeMap::new(),
            last_number: 0,
            to_open: BTreeMap::new(),
            deadline: None,
        }
    }

    /// Gives an input to the machine, and counts the events that follow.
    pub(super) fn handle(&mut self, now: Time, server: ServerId, input: Input) -> Vec<Event> {
        let was_connected = self.machine.is_connected(server);
        let events = self.machine.handle(now, input);
        self.counts.add(&events);
        if was_connected == Some(true) && self.machine.is_connected(server) == Some(false) {
            self.counts.failed(server);
        }
        events
    }

    pub(super) fn poll_request(
        &mut self,
        now: Time,
        stream: &StreamHandle,
        cx: &Context<'_>,
    ) -> Poll<Option<Request>> {
        if !self.is_open(stream) {
            return Poll::Ready(None);
        }
        let request = self.machine.request(now, &stream.stream);
        if let (None, Some(slot)) = (&request, self.slot(stream)) {
            register(&mut slot.writer, cx);
        }
        match request {
            Some(request) => Poll::Ready(Some(request)),
            None if self.closing.has_begun => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    pub(super) fn poll_stream_to_open(
        &mut self,
        server: ServerId,
        cx: &Context<'_>,
    ) -> Poll<StreamHandle> {
        let to_open = self.to_open.entry(server).or_default();
        while let Some(stream) = to_open.streams.pop_first() {
            let slot = self.streams.get(&stream.stream);
            if slot.is_some_and(|slot| slot.number == stream.number) {
                return Poll::Ready(stream);
            }
        }
        register(&mut to_open.driver, cx);
        Poll::Pending
    }

    /// Carries out the effects of the machine, and returns the wakers of the tasks and watches that
    /// they concern.
    pub(super) fn run_effects(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(effect) = self.machine.poll() {
            match effect {
                Effect::Open(_) if self.closing.has_begun => {}
                Effect::Open(stream) => wakers.extend(self.open(stream)),
                Effect::Close(stream) => {
                    let slot = self.streams.remove(&stream);
                    wakers.extend(slot.into_iter().flat_map(StreamSlot::into_wakers));
                }
                Effect::Send(stream) => {
                    let slot = self.streams.get_mut(&stream);
                    wakers.extend(slot.and_then(|slot| slot.writer.take()));
                }
                Effect::Read(stream) => {
                    let slot = self.streams.get_mut(&stream);
                    wakers.extend(slot.and_then(|slot| slot.reader.take()));
                }
                Effect::Notify(watch) => wakers.extend(self.watches.remove(&watch)),
            }
        }
        wakers
    }

    /// Has a stream opened, and returns the waker of the driver that has to do so.
    fn open(&mut self, stream: StreamId) -> Option<Waker> {
        self.last_number += 1;
        let number = self.last_number;
        self.streams.insert(stream.clone(), StreamSlot { number, ..StreamSlot::default() });
        let to_open = self.to_open.entry(stream.server).or_default();
        to_open.streams.insert(StreamHandle { stream, number });
        to_open.driver.take()
    }

    /// Returns true if a stream has not been closed.
    pub(super) fn is_open(&self, stream: &StreamHandle) -> bool {
        self.streams.get(&stream.stream).is_some_and(|slot| slot.number == stream.number)
    }

    /// Returns the slot of a stream that has not been closed.
    pub(super) fn slot(&mut self, stream: &StreamHandle) -> Option<&mut StreamSlot> {
        self.streams.get_mut(&stream.stream).filter(|slot| slot.number == stream.number)
    }

    pub(super) fn has_live_stream(&self) -> bool {
        self.streams.values().any(|slot| slot.is_live)
    }

    /// Returns true if the machine has to be given the time before the keeper would wake.
    pub(super) fn has_earlier_deadline(&mut self) -> bool {
        let deadline = self.machine.deadline();
        deadline.is_some_and(|at| self.deadline.is_none_or(|known| at < known))
    }

    /// Notes the time at which the keeper will wake, and returns it.
    pub(super) fn note_deadline(&mut self) -> Option<Time> {
        self.deadline = self.machine.deadline();
        self.deadline
    }

    /// Has all streams end once they have no more requests, and returns the wakers of their tasks.
    pub(super) fn begin_close(&mut self) -> Vec<Waker> {
        self.closing.has_begun = true;
        self.streams.values_mut().filter_map(|slot| slot.writer.take()).collect()
    }

    pub(super) fn end_watches(&mut self) -> Vec<Waker> {
        self.closing.is_over = true;
        take(&mut self.watches).into_values().collect()
    }

    pub(super) fn give_up(&mut self, why: &str) -> Vec<Waker> {
        self.broken.get_or_insert_with(|| why.into());
        self.streams.clear();
        take(&mut self.watches).into_values().collect()
    }
}

impl StreamSlot {
    fn into_wakers(self) -> impl Iterator<Item = Waker> {
        [self.writer, self.reader].into_iter().flatten()
    }
}

/// Keeps the waker of a task that waits. Returns the one that it replaces, if that is another one.
pub(super) fn register(place: &mut Option<Waker>, cx: &Context<'_>) -> Option<Waker> {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => None,
        place => place.replace(cx.waker().clone()),
    }
}
