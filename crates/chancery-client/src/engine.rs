//! The machine while it runs: a lock, a clock, and who is to be woken.
//!
//! Whatever happens is told to the machine under the lock, which nobody holds for longer than that;
//! what the machine then wants is passed on as wakes. Nothing is queued here: a stream asks what to
//! say when it can say something, a watch what is new when it is polled.
//!
//! If a task of the client panics, the client is broken for good, and says so to every watch
//! (C-074).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use chancery_core::client::{
    self, CachedResource, Effect, Input, Machine, Response, ServerId, Setup, StreamId, WatchEvent,
    WatchId,
};
use chancery_core::{ErrorDetail, Request, Time, TypeUrl};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::event_log::EventLog;
use crate::metrics::{Counts, Metrics};

/// One client's machine, shared by its tasks, its watches and its handles.
pub(crate) struct Engine {
    state: Mutex<EngineState>,
    began: Instant,
    event_log: Arc<EventLog>,
    /// Rung when the keeper has something to do.
    bell: Notify,
    /// Rung when what is held may have changed.
    news: Notify,
    /// Why every response is rejected.
    reject: Option<String>,
}

struct EngineState {
    machine: Machine,
    watches: HashMap<WatchId, Waker>,
    streams: BTreeMap<StreamId, StreamSlot>,
    /// The number of the last slot.
    last: u64,
    to_open: BTreeMap<ServerId, StreamsToOpen>,
    /// When the keeper wakes by itself.
    alarm: Option<Time>,
    broken: Option<Arc<str>>,
    closing: Closing,
    counts: Counts,
}

/// Whether the client ends, and who waits for that.
#[derive(Default)]
struct Closing {
    begun: bool,
    over: bool,
    waker: Option<Waker>,
}

/// A stream that the machine wants, and the task that serves it.
#[derive(Default)]
struct StreamSlot {
    number: u64,
    /// Whether there is a stream.
    live: bool,
    writer: Option<Waker>,
    reader: Option<Waker>,
}

/// Streams of one server that are to be opened.
#[derive(Default)]
struct StreamsToOpen {
    due: BTreeSet<StreamHandle>,
    channel: Option<Waker>,
}

/// The right to serve one stream, until it is closed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamHandle {
    pub(crate) stream: StreamId,
    /// Tells it from streams that had the same place before.
    number: u64,
}

/// What a watch is told, or that nobody is there any more to tell it.
pub(crate) enum NextEvent {
    Event(WatchEvent),
    Broken(Arc<str>),
    Ended,
}

impl Engine {
    pub(crate) fn new(setup: Setup, event_log: Arc<EventLog>, reject: Option<String>) -> Self {
        let state = EngineState {
            machine: Machine::new(setup),
            watches: HashMap::new(),
            streams: BTreeMap::new(),
            last: 0,
            to_open: BTreeMap::new(),
            alarm: None,
            broken: None,
            closing: Closing::default(),
            counts: Counts::default(),
        };
        let (bell, news) = (Notify::new(), Notify::new());
        Self { state: Mutex::new(state), began: Instant::now(), event_log, bell, news, reject }
    }

    /// Looks at the machine, without telling it anything.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.lock().machine)
    }

    /// What was counted, and how the machine stands.
    pub(crate) fn metrics(&self) -> Metrics {
        let state = self.lock();
        state.counts.error_chain(&state.machine)
    }

    /// Tells the machine something, and wakes whoever that concerns.
    pub(crate) fn tell<T>(&self, tell: impl FnOnce(&mut Machine, Time) -> T) -> T {
        let now = self.now();
        self.tell_all(|state| tell(&mut state.machine, now))
    }

    /// The same, with what is known beside the machine.
    fn tell_all<T>(&self, tell: impl FnOnce(&mut EngineState) -> T) -> T {
        let mut state = self.lock();
        let answer = tell(&mut state);
        let (wakes, ring) = state.follow();
        drop(state);
        wakes.into_iter().for_each(Waker::wake);
        if ring {
            self.bell.notify_one();
        }
        answer
    }

    /// Tells the machine what happened on a stream, unless it has closed that meanwhile. Whether it
    /// has not.
    pub(crate) fn happened(&self, handle: &StreamHandle, mut input: Input) -> bool {
        if let (Some(why), Input::Received(_, reply)) = (&self.reject, &mut input) {
            reply.reject(why);
        }
        let (now, server) = (self.now(), handle.stream.server);
        // Under one lock: another stream may have the same place a moment later.
        let events =
            self.tell_all(|state| state.has(handle).then(|| state.handle(now, server, input)));
        let Some(events) = events else { return false };
        self.event_log.events(&events);
        if events.iter().any(|event| matches!(event, client::Event::Received { .. })) {
            self.news.notify_one();
        }
        true
    }

    pub(crate) fn opened(&self, handle: &StreamHandle) -> bool {
        self.set_live(handle, true);
        self.happened(handle, Input::Opened(handle.stream.clone()))
    }

    pub(crate) fn ended(&self, handle: &StreamHandle, error: ErrorDetail) {
        self.set_live(handle, false);
        self.happened(handle, Input::Ended(handle.stream.clone(), error));
    }

    pub(crate) fn received(&self, handle: &StreamHandle, reply: Response) -> bool {
        self.happened(handle, Input::Received(handle.stream.clone(), reply))
    }

    /// Waits until what is held may have changed.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// Hands over what was held in an earlier run.
    pub(crate) fn restore(&self, left: Vec<(TypeUrl, CachedResource)>) {
        self.tell(|machine, _| {
            for (type_url, held) in left {
                machine.restore(type_url, held);
            }
        });
    }

    fn set_live(&self, handle: &StreamHandle, live: bool) {
        let mut state = self.lock();
        if let Some(slot) = state.slot_of(handle) {
            slot.live = live;
            state.closing.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Has all streams end once everything is said that is due now.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closing.begun = true;
        let writers: Vec<_> =
            state.streams.values_mut().filter_map(|slot| slot.writer.take()).collect();
        drop(state);
        writers.into_iter().for_each(Waker::wake);
    }

    /// Waits until there is no stream.
    pub(crate) async fn quiet(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            if !state.streams.values().any(|slot| slot.live) {
                return Poll::Ready(());
            }
            keep(&mut state.closing.waker, cx);
            Poll::Pending
        })
        .await;
    }

    /// Lets the machine see what time it is.
    pub(crate) fn tick(&self) {
        let events = self.tell(|machine, now| machine.handle(now, Input::TimePassed));
        self.event_log.events(&events);
    }

    /// The next request of a stream that has room for one; `None` if there will be none.
    pub(crate) fn poll_request(
        &self,
        handle: &StreamHandle,
        cx: &Context<'_>,
    ) -> Poll<Option<Request>> {
        let now = self.now();
        // The keeper does not know yet of the time that what was asked for has, and what was said may
        // make room for what is to be read.
        self.tell_all(|state| state.poll_request(now, handle, cx))
    }

    /// Returns true if there may be a request for a stream.
    pub(crate) fn may_ask(&self, handle: &StreamHandle) -> bool {
        let (now, state) = (self.now(), self.lock());
        state.has(handle) && state.machine.may_request(now, &handle.stream)
    }

    /// Waits until the stream may be read (C-038); `false` if it is closed.
    pub(crate) fn poll_read(&self, handle: &StreamHandle, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        let Some(slot) = state.slot_of(handle) else { return Poll::Ready(false) };
        // The waker stays also when reading goes on: a close has to be heard of.
        keep(&mut slot.reader, cx);
        if state.machine.may_read(&handle.stream) { Poll::Ready(true) } else { Poll::Pending }
    }

    /// Waits until the stream is closed by the machine.
    pub(crate) async fn closed(&self, handle: &StreamHandle) {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            match state.slot_of(handle) {
                Some(slot) => {
                    keep(&mut slot.reader, cx);
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
        .await;
    }

    pub(crate) fn watch(&self, type_url: &TypeUrl, name: &str) -> WatchId {
        self.tell(|machine, now| machine.watch(now, type_url, name))
    }

    pub(crate) fn unwatch(&self, id: WatchId) {
        self.tell(|machine, now| machine.unwatch(now, id));
        // Dropped after the lock is: a waker may own whoever waits.
        let waker = self.lock().watches.remove(&id);
        drop(waker);
    }

    /// The next thing a watch is told.
    pub(crate) fn poll_event(&self, id: WatchId, cx: &Context<'_>) -> Poll<NextEvent> {
        let mut before = None;
        let told = self.tell_all(|state| {
            if let Some(why) = &state.broken {
                return Poll::Ready(NextEvent::Broken(Arc::clone(why)));
            }
            if state.closing.over {
                return Poll::Ready(NextEvent::Ended);
            }
            match state.machine.event(id) {
                Some(event) => Poll::Ready(NextEvent::Event(event)),
                None => {
                    before = state.watches.insert(id, cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        // Dropped after the lock is: a waker may own whoever waits.
        drop(before);
        told
    }

    /// A watch has applied what it was told.
    pub(crate) fn applied(&self, id: WatchId) {
        self.tell(|machine, _| machine.applied(id));
    }

    /// The next stream of a server that is to be opened.
    pub(crate) async fn order(&self, server: ServerId) -> StreamHandle {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            let EngineState { to_open, streams, .. } = &mut *state;
            let to_open = to_open.entry(server).or_default();
            while let Some(handle) = to_open.due.pop_first() {
                if streams.get(&handle.stream).is_some_and(|slot| slot.number == handle.number) {
                    return Poll::Ready(handle);
                }
            }
            keep(&mut to_open.channel, cx);
            Poll::Pending
        })
        .await
    }

    /// Waits until it is time to tell the machine so, or that time has changed.
    pub(crate) async fn rest(&self) {
        let alarm = {
            let mut state = self.lock();
            state.alarm = state.machine.deadline();
            state.alarm
        };
        // A time that no clock will ever show does not come.
        match alarm.and_then(|at| self.began.checked_add(at.0)) {
            Some(at) => {
                let late = tokio::time::timeout_at(at, self.bell.notified()).await;
                if late.is_err() {
                    self.tick();
                }
            }
            None => self.bell.notified().await,
        }
    }

    /// Nobody is told anything any more.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.closing.over = true;
        let watches = std::mem::take(&mut state.watches);
        drop(state);
        watches.into_values().for_each(Waker::wake);
    }

    /// Nothing will happen any more.
    pub(crate) fn give_up(&self, why: &str) {
        let mut state = self.lock();
        state.broken.get_or_insert_with(|| why.into());
        state.streams.clear();
        let watches = std::mem::take(&mut state.watches);
        drop(state);
        watches.into_values().for_each(Waker::wake);
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// The machine is a value: whatever panicked with the lock held has been told of elsewhere.
    fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EngineState {
    /// Tells the machine what happened on a stream, and counts what comes of it.
    fn handle(&mut self, now: Time, server: ServerId, input: Input) -> Vec<client::Event> {
        let was_connected = self.machine.is_connected(server);
        let events = self.machine.handle(now, input);
        self.counts.add(&events);
        if was_connected == Some(true) && self.machine.is_connected(server) == Some(false) {
            self.counts.failed(server);
        }
        events
    }

    fn poll_request(
        &mut self,
        now: Time,
        handle: &StreamHandle,
        cx: &Context<'_>,
    ) -> Poll<Option<Request>> {
        if !self.has(handle) {
            return Poll::Ready(None);
        }
        let request = self.machine.request(now, &handle.stream);
        if let (None, Some(slot)) = (&request, self.slot_of(handle)) {
            keep(&mut slot.writer, cx);
        }
        match request {
            Some(request) => Poll::Ready(Some(request)),
            None if self.closing.begun => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Passes on what the machine wants: whom to wake, and whether to ring for the keeper.
    fn follow(&mut self) -> (Vec<Waker>, bool) {
        let mut wakes = Vec::new();
        while let Some(effect) = self.machine.poll() {
            match effect {
                Effect::Open(_) if self.closing.begun => {}
                Effect::Open(stream) => {
                    self.last += 1;
                    let number = self.last;
                    self.streams
                        .insert(stream.clone(), StreamSlot { number, ..StreamSlot::default() });
                    let to_open = self.to_open.entry(stream.server).or_default();
                    to_open.due.insert(StreamHandle { stream, number });
                    wakes.extend(to_open.channel.take());
                }
                Effect::Close(stream) => {
                    let slot = self.streams.remove(&stream);
                    wakes.extend(
                        slot.into_iter().flat_map(|slot| [slot.writer, slot.reader]).flatten(),
                    );
                }
                Effect::Send(stream) => wakes.extend(self.slot(&stream, |slot| &mut slot.writer)),
                Effect::Read(stream) => wakes.extend(self.slot(&stream, |slot| &mut slot.reader)),
                Effect::Notify(watch) => wakes.extend(self.watches.remove(&watch)),
            }
        }
        let ring = self.is_sooner();
        (wakes, ring)
    }

    /// Whether a stream has not been closed.
    fn has(&self, handle: &StreamHandle) -> bool {
        self.streams.get(&handle.stream).is_some_and(|slot| slot.number == handle.number)
    }

    /// A stream that has not been closed.
    fn slot_of(&mut self, handle: &StreamHandle) -> Option<&mut StreamSlot> {
        self.streams.get_mut(&handle.stream).filter(|slot| slot.number == handle.number)
    }

    /// Whether the machine has to see the time before the keeper would wake.
    fn is_sooner(&mut self) -> bool {
        let deadline = self.machine.deadline();
        deadline.is_some_and(|at| self.alarm.is_none_or(|alarm| at < alarm))
    }

    fn slot(
        &mut self,
        stream: &StreamId,
        waker: impl FnOnce(&mut StreamSlot) -> &mut Option<Waker>,
    ) -> Option<Waker> {
        waker(self.streams.get_mut(stream)?).take()
    }
}

fn keep(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}
