//! The machine while it runs: a lock, a clock, and the wakers of the tasks that wait.
//!
//! ```text
//!   a task, a watch, a handle --update--> [state]: the machine, under the lock
//!                                            |
//!                                            v effects
//!   wakers of tasks and watches, the keeper <-- woken when the lock is free
//! ```
//!
//! Nothing is queued here: a stream takes its next request when it has room for one, and a watch
//! takes its next event when it is polled. The code of the program never runs under the lock
//! (C-053): not its wakers, its decoders or its log, and not the `Drop` of its values
//! ([`crate::drop_later`]).
//!
//! If a task of the client panics, the client is broken for good, and every watch gets an error
//! (C-074).

mod state;

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use chancery_core::client::{
    self, CachedResource, Input, Machine, Response, ServerId, Setup, WatchEvent, WatchId,
};
use chancery_core::{ErrorDetail, Request, Time, TypeUrl};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::drop_later::Deferral;
use crate::event_log::EventLog;
use crate::metrics::Metrics;
pub(crate) use state::StreamHandle;
use state::{EngineState, register};

/// One client's machine, shared by its tasks, its watches and its handles.
pub(crate) struct Engine {
    state: Mutex<EngineState>,
    began: Instant,
    event_log: Arc<EventLog>,
    /// Wakes the keeper when the machine has an earlier deadline than the keeper knows of.
    earlier_deadline: Notify,
    /// Wakes the disk cache when the cache may have changed.
    cache_changed: Notify,
    /// The reason for which every response is rejected, if the program wants that.
    reject: Option<String>,
}

/// The next thing that a watch gets.
pub(crate) enum NextEvent {
    Event(WatchEvent),
    /// The client is broken, for this reason.
    Broken(Arc<str>),
    /// The client was closed.
    Ended,
}

/// The lock. Its fields are dropped in this order, so the values of the program that the machine
/// has dropped are dropped after the lock is released.
struct EngineGuard<'a> {
    state: MutexGuard<'a, EngineState>,
    _deferral: Deferral,
}

impl Engine {
    pub(crate) fn new(setup: Setup, event_log: Arc<EventLog>, reject: Option<String>) -> Self {
        Self {
            state: Mutex::new(EngineState::new(Machine::new(setup))),
            began: Instant::now(),
            event_log,
            earlier_deadline: Notify::new(),
            cache_changed: Notify::new(),
            reject,
        }
    }

    /// Reads the machine. No code of the program may run in `inspect`.
    pub(crate) fn inspect<T>(&self, inspect: impl FnOnce(&Machine) -> T) -> T {
        inspect(&self.lock().machine)
    }

    /// Returns the counted metrics, with the state of the machine.
    pub(crate) fn metrics(&self) -> Metrics {
        let state = self.lock();
        state.counts.metrics(&state.machine)
    }

    /// Changes the machine, and wakes the tasks and watches that this concerns. No code of the
    /// program may run in `update`.
    pub(crate) fn update<T>(&self, update: impl FnOnce(&mut Machine, Time) -> T) -> T {
        let now = self.now();
        self.update_state(|state| update(&mut state.machine, now))
    }

    /// Changes the machine and the state that is kept beside it, and wakes as `update` does.
    fn update_state<T>(&self, update: impl FnOnce(&mut EngineState) -> T) -> T {
        let mut state = self.lock();
        let answer = update(&mut state);
        let wakers = state.run_effects();
        let is_earlier = state.has_earlier_deadline();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if is_earlier {
            self.earlier_deadline.notify_one();
        }
        answer
    }

    /// Gives an input of a stream to the machine. Returns false if the machine has closed the stream
    /// meanwhile.
    pub(crate) fn handle(&self, stream: &StreamHandle, mut input: Input) -> bool {
        if let (Some(why), Input::Received(_, response)) = (&self.reject, &mut input) {
            response.reject(why);
        }
        let (now, server) = (self.now(), stream.stream.server);
        // Both steps happen under one lock, because another stream may have the same place a moment
        // later.
        let events = self
            .update_state(|state| state.is_open(stream).then(|| state.handle(now, server, input)));
        let Some(events) = events else { return false };
        self.event_log.events(&events);
        if events.iter().any(|event| matches!(event, client::Event::Received { .. })) {
            self.cache_changed.notify_one();
        }
        true
    }

    pub(crate) fn opened(&self, stream: &StreamHandle) -> bool {
        self.set_live(stream, true);
        self.handle(stream, Input::Opened(stream.stream.clone()))
    }

    pub(crate) fn ended(&self, stream: &StreamHandle, error: ErrorDetail) {
        self.set_live(stream, false);
        self.handle(stream, Input::Ended(stream.stream.clone(), error));
    }

    pub(crate) fn received(&self, stream: &StreamHandle, response: Response) -> bool {
        self.handle(stream, Input::Received(stream.stream.clone(), response))
    }

    /// Waits until the cache may have changed.
    pub(crate) async fn cache_changed(&self) {
        self.cache_changed.notified().await;
    }

    /// Gives the machine the resources of the cache of an earlier run.
    pub(crate) fn restore(&self, resources: Vec<(TypeUrl, CachedResource)>) {
        self.update(|machine, _| {
            for (type_url, resource) in resources {
                machine.restore(type_url, resource);
            }
        });
    }

    fn set_live(&self, stream: &StreamHandle, is_live: bool) {
        let mut state = self.lock();
        let Some(slot) = state.slot(stream) else { return };
        slot.is_live = is_live;
        let wakers = std::mem::take(&mut state.closing.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Has all streams end once their due requests are sent.
    pub(crate) fn begin_close(&self) {
        let wakers = self.lock().begin_close();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until there is no stream.
    pub(crate) async fn streams_ended(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if !state.has_live_stream() {
                return Poll::Ready(());
            }
            let wakers = &mut state.closing.wakers;
            if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                wakers.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Gives the machine the present time.
    fn time_passed(&self) {
        let events = self.update(|machine, now| machine.handle(now, Input::TimePassed));
        self.event_log.events(&events);
    }

    /// Returns the next request of a stream that has room for one; `None` if the stream sends no
    /// more.
    pub(crate) fn poll_request(
        &self,
        stream: &StreamHandle,
        cx: &Context<'_>,
    ) -> Poll<Option<Request>> {
        let now = self.now();
        // The time for the resources of a request begins with it, and it may allow the stream to be
        // read again.
        self.update_state(|state| state.poll_request(now, stream, cx))
    }

    /// Returns true if there may be a request for a stream.
    pub(crate) fn may_request(&self, stream: &StreamHandle) -> bool {
        let (now, state) = (self.now(), self.lock());
        state.is_open(stream) && state.machine.may_request(now, &stream.stream)
    }

    /// Waits until the stream may be read (C-038); `false` if it is closed.
    pub(crate) fn poll_read(&self, stream: &StreamHandle, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        let Some(slot) = state.slot(stream) else { return Poll::Ready(false) };
        // The waker stays even if the stream may be read, because its task has to learn of a close.
        register(&mut slot.reader, cx);
        if state.machine.may_read(&stream.stream) { Poll::Ready(true) } else { Poll::Pending }
    }

    /// Waits until the machine closes the stream.
    pub(crate) async fn closed(&self, stream: &StreamHandle) {
        poll_fn(|cx| {
            let mut state = self.lock();
            match state.slot(stream) {
                Some(slot) => {
                    register(&mut slot.reader, cx);
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
        .await;
    }

    pub(crate) fn watch(&self, type_url: &TypeUrl, name: &str) -> WatchId {
        self.update(|machine, now| machine.watch(now, type_url, name))
    }

    pub(crate) fn unwatch(&self, id: WatchId) {
        self.update(|machine, now| machine.unwatch(now, id));
        // This is dropped after the lock is released: a waker may own the task that waits.
        let waker = self.lock().watches.remove(&id);
        drop(waker);
    }

    /// Returns the next event of a watch.
    pub(crate) fn poll_event(&self, id: WatchId, cx: &Context<'_>) -> Poll<NextEvent> {
        let mut replaced = None;
        let next = self.update_state(|state| {
            if let Some(why) = &state.broken {
                return Poll::Ready(NextEvent::Broken(Arc::clone(why)));
            }
            if state.closing.is_over {
                return Poll::Ready(NextEvent::Ended);
            }
            match state.machine.event(id) {
                Some(event) => Poll::Ready(NextEvent::Event(event)),
                None => {
                    replaced = state.watches.insert(id, cx.waker().clone());
                    Poll::Pending
                }
            }
        });
        // This is dropped after the lock is released: a waker may own the task that waits.
        drop(replaced);
        next
    }

    /// Notes that a watch has applied the events it has taken.
    pub(crate) fn applied(&self, id: WatchId) {
        self.update(|machine, _| machine.applied(id));
    }

    /// Waits for the next stream of a server that is to be opened.
    pub(crate) async fn stream_to_open(&self, server: ServerId) -> StreamHandle {
        poll_fn(|cx| self.lock().poll_stream_to_open(server, cx)).await
    }

    /// Waits until the machine has to be given the time, or until that has to happen earlier.
    pub(crate) async fn wait_for_deadline(&self) {
        let deadline = self.lock().note_deadline();
        // A time beyond the range of the clock never comes.
        match deadline.and_then(|at| self.began.checked_add(at.0)) {
            Some(at) => {
                let is_over = timeout_at(at, self.earlier_deadline.notified()).await.is_err();
                if is_over {
                    self.time_passed();
                }
            }
            None => self.earlier_deadline.notified().await,
        }
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&self) {
        let wakers = self.lock().end_watches();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Breaks the client for good, for this reason.
    pub(crate) fn give_up(&self, why: &str) {
        let wakers = self.lock().give_up(why);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// Takes the lock, also after a panic: the machine is a plain value, and the keeper reports the
    /// panic.
    fn lock(&self) -> EngineGuard<'_> {
        let _deferral = Deferral::begin();
        EngineGuard { state: self.state.lock().unwrap_or_else(PoisonError::into_inner), _deferral }
    }
}

impl Deref for EngineGuard<'_> {
    type Target = EngineState;
    fn deref(&self) -> &EngineState {
        &self.state
    }
}

impl DerefMut for EngineGuard<'_> {
    fn deref_mut(&mut self) -> &mut EngineState {
        &mut self.state
    }
}
