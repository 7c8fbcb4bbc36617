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

use crate::event_log::Observer;
use crate::metrics::{Counts, Metrics};

/// One client's machine, shared by its tasks, its watches and its handles.
pub(crate) struct Engine {
    state: Mutex<State>,
    began: Instant,
    observer: Arc<Observer>,
    /// Rung when the keeper has something to do.
    bell: Notify,
    /// Rung when what is held may have changed.
    news: Notify,
    /// Why every response is rejected.
    reject: Option<String>,
}

struct State {
    machine: Machine,
    watches: HashMap<WatchId, Waker>,
    lines: BTreeMap<StreamId, Line>,
    /// The number of the last line.
    last: u64,
    orders: BTreeMap<ServerId, Orders>,
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
struct Line {
    number: u64,
    /// Whether there is a stream.
    live: bool,
    writer: Option<Waker>,
    reader: Option<Waker>,
}

/// Streams of one server that are to be opened.
#[derive(Default)]
struct Orders {
    due: BTreeSet<Ticket>,
    channel: Option<Waker>,
}

/// The right to serve one stream, until it is closed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) stream: StreamId,
    /// Tells it from streams that had the same place before.
    number: u64,
}

/// What a watch is told, or that nobody is there any more to tell it.
pub(crate) enum Told {
    Event(WatchEvent),
    Broken(Arc<str>),
    Ended,
}

impl Engine {
    pub(crate) fn new(setup: Setup, observer: Arc<Observer>, reject: Option<String>) -> Self {
        let state = State {
            machine: Machine::new(setup),
            watches: HashMap::new(),
            lines: BTreeMap::new(),
            last: 0,
            orders: BTreeMap::new(),
            alarm: None,
            broken: None,
            closing: Closing::default(),
            counts: Counts::default(),
        };
        let (bell, news) = (Notify::new(), Notify::new());
        Self { state: Mutex::new(state), began: Instant::now(), observer, bell, news, reject }
    }

    /// Looks at the machine, without telling it anything.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.lock().machine)
    }

    /// What was counted, and how the machine stands.
    pub(crate) fn metrics(&self) -> Metrics {
        let state = self.lock();
        state.counts.told(&state.machine)
    }

    /// Tells the machine something, and wakes whoever that concerns.
    pub(crate) fn tell<T>(&self, tell: impl FnOnce(&mut Machine, Time) -> T) -> T {
        let now = self.now();
        self.tell_all(|state| tell(&mut state.machine, now))
    }

    /// The same, with what is known beside the machine.
    fn tell_all<T>(&self, tell: impl FnOnce(&mut State) -> T) -> T {
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
    pub(crate) fn happened(&self, ticket: &Ticket, mut input: Input) -> bool {
        if let (Some(why), Input::Received(_, reply)) = (&self.reject, &mut input) {
            reply.reject(why);
        }
        let (now, server) = (self.now(), ticket.stream.server);
        // Under one lock: another stream may have the same place a moment later.
        let events =
            self.tell_all(|state| state.has(ticket).then(|| state.handle(now, server, input)));
        let Some(events) = events else { return false };
        self.observer.events(&events);
        if events.iter().any(|event| matches!(event, client::Event::Received { .. })) {
            self.news.notify_one();
        }
        true
    }

    pub(crate) fn opened(&self, ticket: &Ticket) -> bool {
        self.set_live(ticket, true);
        self.happened(ticket, Input::Opened(ticket.stream.clone()))
    }

    pub(crate) fn ended(&self, ticket: &Ticket, error: ErrorDetail) {
        self.set_live(ticket, false);
        self.happened(ticket, Input::Ended(ticket.stream.clone(), error));
    }

    pub(crate) fn received(&self, ticket: &Ticket, reply: Response) -> bool {
        self.happened(ticket, Input::Received(ticket.stream.clone(), reply))
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

    fn set_live(&self, ticket: &Ticket, live: bool) {
        let mut state = self.lock();
        if let Some(line) = state.line_of(ticket) {
            line.live = live;
            state.closing.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Has all streams end once everything is said that is due now.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closing.begun = true;
        let writers: Vec<_> =
            state.lines.values_mut().filter_map(|line| line.writer.take()).collect();
        drop(state);
        writers.into_iter().for_each(Waker::wake);
    }

    /// Waits until there is no stream.
    pub(crate) async fn quiet(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            if !state.lines.values().any(|line| line.live) {
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
        self.observer.events(&events);
    }

    /// The next request of a stream that has room for one; `None` if there will be none.
    pub(crate) fn poll_request(&self, ticket: &Ticket, cx: &Context<'_>) -> Poll<Option<Request>> {
        let now = self.now();
        // The keeper does not know yet of the time that what was asked for has, and what was said may
        // make room for what is to be read.
        self.tell_all(|state| state.poll_request(now, ticket, cx))
    }

    /// Returns true if there may be a request for a stream.
    pub(crate) fn may_ask(&self, ticket: &Ticket) -> bool {
        let (now, state) = (self.now(), self.lock());
        state.has(ticket) && state.machine.may_request(now, &ticket.stream)
    }

    /// Waits until the stream may be read (C-038); `false` if it is closed.
    pub(crate) fn poll_read(&self, ticket: &Ticket, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        let Some(line) = state.line_of(ticket) else { return Poll::Ready(false) };
        // The waker stays also when reading goes on: a close has to be heard of.
        keep(&mut line.reader, cx);
        if state.machine.may_read(&ticket.stream) { Poll::Ready(true) } else { Poll::Pending }
    }

    /// Waits until the stream is closed by the machine.
    pub(crate) async fn closed(&self, ticket: &Ticket) {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            match state.line_of(ticket) {
                Some(line) => {
                    keep(&mut line.reader, cx);
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
    pub(crate) fn poll_event(&self, id: WatchId, cx: &Context<'_>) -> Poll<Told> {
        let mut before = None;
        let told = self.tell_all(|state| {
            if let Some(why) = &state.broken {
                return Poll::Ready(Told::Broken(Arc::clone(why)));
            }
            if state.closing.over {
                return Poll::Ready(Told::Ended);
            }
            match state.machine.event(id) {
                Some(event) => Poll::Ready(Told::Event(event)),
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
    pub(crate) async fn order(&self, server: ServerId) -> Ticket {
        std::future::poll_fn(|cx| {
            let mut state = self.lock();
            let State { orders, lines, .. } = &mut *state;
            let orders = orders.entry(server).or_default();
            while let Some(ticket) = orders.due.pop_first() {
                if lines.get(&ticket.stream).is_some_and(|line| line.number == ticket.number) {
                    return Poll::Ready(ticket);
                }
            }
            keep(&mut orders.channel, cx);
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
        state.lines.clear();
        let watches = std::mem::take(&mut state.watches);
        drop(state);
        watches.into_values().for_each(Waker::wake);
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// The machine is a value: whatever panicked with the lock held has been told of elsewhere.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
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
        ticket: &Ticket,
        cx: &Context<'_>,
    ) -> Poll<Option<Request>> {
        if !self.has(ticket) {
            return Poll::Ready(None);
        }
        let request = self.machine.request(now, &ticket.stream);
        if let (None, Some(line)) = (&request, self.line_of(ticket)) {
            keep(&mut line.writer, cx);
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
                    self.lines.insert(stream.clone(), Line { number, ..Line::default() });
                    let orders = self.orders.entry(stream.server).or_default();
                    orders.due.insert(Ticket { stream, number });
                    wakes.extend(orders.channel.take());
                }
                Effect::Close(stream) => {
                    let line = self.lines.remove(&stream);
                    wakes.extend(
                        line.into_iter().flat_map(|line| [line.writer, line.reader]).flatten(),
                    );
                }
                Effect::Send(stream) => wakes.extend(self.line(&stream, |line| &mut line.writer)),
                Effect::Read(stream) => wakes.extend(self.line(&stream, |line| &mut line.reader)),
                Effect::Notify(watch) => wakes.extend(self.watches.remove(&watch)),
            }
        }
        let ring = self.is_sooner();
        (wakes, ring)
    }

    /// Whether a stream has not been closed.
    fn has(&self, ticket: &Ticket) -> bool {
        self.lines.get(&ticket.stream).is_some_and(|line| line.number == ticket.number)
    }

    /// A stream that has not been closed.
    fn line_of(&mut self, ticket: &Ticket) -> Option<&mut Line> {
        self.lines.get_mut(&ticket.stream).filter(|line| line.number == ticket.number)
    }

    /// Whether the machine has to see the time before the keeper would wake.
    fn is_sooner(&mut self) -> bool {
        let deadline = self.machine.deadline();
        deadline.is_some_and(|at| self.alarm.is_none_or(|alarm| at < alarm))
    }

    fn line(
        &mut self,
        stream: &StreamId,
        waker: impl FnOnce(&mut Line) -> &mut Option<Waker>,
    ) -> Option<Waker> {
        waker(self.lines.get_mut(stream)?).take()
    }
}

fn keep(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}
