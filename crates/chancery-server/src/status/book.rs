//! The book of a store: the cards of its streams, those that are gone, loads, and events.
//!
//! Streams write into it at what happens anyway, and wait for nobody: each lock here is held for a few steps,
//! and none of them by whoever looks at all streams.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use chancery_catalog::ContentHash;
use chancery_core::{TypeUrl, Variant};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::bounds::StatusBounds;
use super::card::{MachineState, RejectionNote, StreamCard};
use super::clock::Clock;
use super::events::{EventStream, Events, StatusEventKind};
use super::fleet::Fleet;
use super::gone::{GoneStream, GoneStreams};
use super::loads::Loads;
use super::polls::{DecidedPoll, Polls};
use super::stream_status::StreamStatus;
use crate::policy::Peer;
use crate::store::Place;

/// The book of a store.
pub(crate) struct Book {
    clock: Clock,
    bounds: ArcSwap<StatusBounds>,
    last_stream: AtomicU64,
    cards: Mutex<BTreeMap<u64, Arc<StreamCard>>>,
    gone: Mutex<GoneStreams>,
    polls: Mutex<Polls>,
    /// The number of the last load that was shown to all whom it concerns.
    load: AtomicU64,
    pub(super) loads: Mutex<Loads>,
    pub(super) events: Events,
    /// The number of rejections that were noted, and of those that were repaired.
    verdicts: AtomicU64,
    /// The number of times that clients were told to ask for their audiences again.
    reassignments: AtomicU64,
    /// The number of changes of what a look at all streams would find.
    changes: AtomicU64,
    pub(super) changed: Notify,
    /// The number of those who wait for a change.
    waiters: AtomicUsize,
    /// The last look at all streams, and when it began.
    fleet: Mutex<Option<(Arc<Fleet>, Instant)>>,
    /// Permits for those who ask many streams.
    pub(super) askers: Semaphore,
}

/// The number of those who ask many streams at once. The others wait for their turn.
const MOST_ASKERS: usize = 4;

impl Default for Book {
    fn default() -> Self {
        Self {
            clock: Clock::new(),
            bounds: ArcSwap::default(),
            last_stream: AtomicU64::new(0),
            cards: Mutex::default(),
            gone: Mutex::default(),
            polls: Mutex::default(),
            load: AtomicU64::new(0),
            loads: Mutex::default(),
            events: Events::new(),
            verdicts: AtomicU64::new(0),
            reassignments: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            changed: Notify::new(),
            waiters: AtomicUsize::new(0),
            fleet: Mutex::default(),
            askers: Semaphore::new(MOST_ASKERS),
        }
    }
}

/// Streams tell this.
impl Book {
    /// A number that no other stream has.
    pub(crate) fn next_stream(&self) -> u64 {
        self.last_stream.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Begins the card of a stream.
    pub(crate) fn opened(
        &self,
        id: u64,
        peer: &Arc<Peer>,
        variant: Variant,
        only: Option<TypeUrl>,
    ) -> Arc<StreamCard> {
        let card = Arc::new(StreamCard::new(id, peer, variant, only, self.clock));
        lock(&self.cards).insert(id, Arc::clone(&card));
        card
    }

    /// The policy has chosen where a stream belongs.
    pub(crate) fn placed(&self, card: &StreamCard, place: Place) {
        let to = place.audience().without_values();
        let stream = || event_stream(card);
        let kind = match card.placed(place) {
            None => StatusEventKind::Appeared { stream: stream(), audience: to },
            Some(from) if from != to => StatusEventKind::Moved { stream: stream(), from, to },
            Some(_) => return,
        };
        if !card.only_looks() {
            self.event(kind);
        }
        self.touch();
    }

    /// Takes in what the machine of a stream says after it did something.
    pub(crate) fn note(&self, card: &StreamCard, state: MachineState, now: Instant) {
        let silent = card.unanswered_for(self.clock, now);
        if card.note(state, self.clock, now) {
            self.touch();
        }
        let Some(after) = silent else { return };
        let silent_after = self.bounds.load().silent_after;
        if after >= silent_after && card.has_answered(silent_after, self.clock, now) {
            self.event(StatusEventKind::Answered { stream: event_stream(card), after });
        }
    }

    /// The client of a stream takes a part of a large response.
    pub(crate) fn takes(&self, card: &StreamCard, now: Instant) {
        card.takes(self.clock.millis(now));
    }

    /// The client of a stream said something.
    pub(crate) fn heard(&self, card: &StreamCard, now: Instant) {
        card.heard(self.clock.millis(now));
    }

    /// The client accepted a response.
    pub(crate) fn acknowledged(&self, card: &StreamCard, now: Instant) {
        card.acknowledged(self.clock.millis(now));
    }

    /// Returns true if one more rejection may be noted now.
    pub(crate) fn admits_rejection(&self, card: &StreamCard, now: Instant) -> bool {
        card.admits_rejection(self.clock.millis(now))
    }

    /// The client rejected a response.
    pub(crate) fn rejected(&self, card: &StreamCard, note: RejectionNote) {
        if card.rejected(note.clone()) {
            let stream = event_stream(card);
            self.event(StatusEventKind::Rejected { stream, rejection: Box::new(note) });
            self.verdicts.fetch_add(1, Ordering::Release);
        }
        self.touch();
    }

    /// Nothing that the client rejected of a type waits for a change any more.
    pub(crate) fn repaired(&self, card: &StreamCard, type_url: &TypeUrl) {
        if card.repaired(type_url) {
            let (stream, type_url) = (event_stream(card), type_url.clone());
            self.event(StatusEventKind::Repaired { stream, type_url });
            self.verdicts.fetch_add(1, Ordering::Release);
            self.touch();
        }
    }

    /// A client that polls over REST is given an answer.
    pub(crate) fn polled(&self, poll: &DecidedPoll<'_>) {
        if !poll.node.only_looks() {
            lock(&self.polls).decided(poll, || self.next_stream(), &self.bounds());
            self.touch();
        }
    }

    /// A stream ended.
    pub(crate) fn closed(&self, card: &StreamCard, code: Option<i32>) {
        let now = Instant::now();
        let status = self.status_of(card);
        let rejections = card.rejections(now);
        if let Some(audience) = status.audience.filter(|_| !card.only_looks()) {
            if let Some(node) = &status.node {
                let mut gone = GoneStream {
                    id: card.id,
                    node: node.id.as_str().into(),
                    cluster: node.cluster.as_str().into(),
                    peer: card.peer.without_certificates(),
                    audience: audience.clone(),
                    variant: card.variant,
                    type_url: card.only.clone(),
                    at: SystemTime::now(),
                    since: Duration::ZERO,
                    code,
                    landed: status.landed,
                    rejections,
                    went: now,
                    before: 0,
                };
                let bounds = self.bounds();
                let mut streams = lock(&self.gone);
                if card.compare() {
                    streams.is_back(card.id, node, card.only.as_ref());
                }
                gone.before = self.last_stream.load(Ordering::Relaxed);
                streams.add(gone, &bounds);
            }
            self.event(StatusEventKind::Gone { stream: event_stream(card), audience, code });
        }
        lock(&self.cards).remove(&card.id);
        card.leave();
        self.touch();
    }

    fn event(&self, kind: StatusEventKind) {
        self.events.add(kind, &self.bounds());
    }

    /// Something is not as it was at the last look.
    pub(super) fn touch(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        // One who waits is counted before it looks at the changes, so one of the two sees the other.
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.changed.notify_waiters();
        }
    }
}

/// Those who load tell this.
impl Book {
    /// The last load that was shown to all whom it concerns.
    pub(crate) fn load(&self) -> u64 {
        self.load.load(Ordering::Acquire)
    }

    /// Clients have to ask for their audiences again from now on.
    pub(crate) fn reassigned(&self) {
        self.reassignments.fetch_add(1, Ordering::Release);
        self.touch();
    }

    /// The number of times that clients had to ask for their audiences again.
    pub(crate) fn reassignments(&self) -> u64 {
        self.reassignments.load(Ordering::Acquire)
    }

    /// A load was shown to all whom it concerns: streams have been reassigned, and see the new state when they
    /// look.
    pub(crate) fn shown(&self, revision: Option<(u64, ContentHash)>, began: Instant) {
        let mut loads = lock(&self.loads);
        let next = self.load() + 1;
        let number = revision.map_or(next, |(number, _)| number.max(next));
        loads.add(number, revision, began, self.bounds().loads);
        self.load.store(number, Ordering::Release);
        // Under the lock, so that the events of loads are in their order.
        self.event(StatusEventKind::Loaded { load: number });
        drop(loads);
        self.touch();
    }

    /// A load is about to be shown: looks whether the one before has landed, unless that was looked at just
    /// now.
    pub(crate) fn before_load(&self, now: Instant) {
        if lock(&self.loads).is_to_be_looked_at(now, LOOKED_AT) {
            self.look_at_load(now);
        }
    }

    /// Looks whether the last load has landed. Returns the times that loads took since the last call.
    pub(crate) fn converged(&self) -> Vec<Duration> {
        self.look_at_load(Instant::now());
        // Nobody asks any more.
        lock(&self.fleet).take_if(|(_, began)| began.elapsed() > KEPT);
        lock(&self.loads).take_converged()
    }

    fn look_at_load(&self, now: Instant) {
        let Some((load, shown)) = lock(&self.loads).open() else { return };
        let (mut streams, mut last, mut waits) = (0, None, false);
        let gone = self.visit(now, |stream| {
            if stream.audience.is_some() && stream.counts {
                streams += 1;
                waits |= stream.landed < load || stream.is_asking;
                last = last.max(stream.landed_ago.and_then(|ago| now.checked_sub(ago)));
            }
        });
        let grace = self.bounds().grace;
        waits |= gone.iter().any(|stream| stream.landed < load && stream.since <= grace);
        if waits {
            return;
        }
        let after = last.map_or(Duration::ZERO, |at| at.saturating_duration_since(shown));
        let mut loads = lock(&self.loads);
        if loads.landed(load, after, streams) {
            self.event(StatusEventKind::Landed { load, after });
        }
    }
}

/// Those who look ask this.
impl Book {
    /// The age of the oldest load that has not landed, nor any after it.
    pub(crate) fn oldest_load(&self) -> Option<Duration> {
        lock(&self.loads).oldest(Instant::now())
    }

    pub(super) fn bounds(&self) -> Arc<StatusBounds> {
        self.bounds.load_full()
    }

    pub(crate) fn set_bounds(&self, bounds: StatusBounds) {
        self.bounds.store(Arc::new(bounds));
    }

    /// A number that grows when a client rejects something new, and when nothing of that waits for a change any more.
    pub(crate) fn verdicts(&self) -> u64 {
        self.verdicts.load(Ordering::Acquire)
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Counts one who waits for a change, until that is dropped.
    pub(super) fn waiter(&self) -> Waiter<'_> {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Waiter(&self.waiters)
    }

    pub(super) fn card(&self, stream: u64) -> Option<Arc<StreamCard>> {
        lock(&self.cards).get(&stream).cloned()
    }

    /// Takes those out of these numbers that are of clients which poll.
    pub(super) fn polls_of(&self, numbers: &mut Vec<u64>) -> Vec<u64> {
        if numbers.is_empty() {
            return Vec::new();
        }
        let known = lock(&self.polls).ids();
        numbers.extract_if(.., |id| known.contains(id)).collect()
    }

    /// All streams, as of a moment after this one; as of shortly before now, if there is none.
    pub(super) fn fleet_since(&self, moment: Option<Instant>) -> (Arc<Fleet>, Instant) {
        let mut fleet = lock(&self.fleet);
        if let Some((known, began)) = &*fleet {
            let is_recent = match moment {
                Some(moment) => *began > moment,
                None => known.load == self.load() && began.elapsed() < RECENT,
            };
            if is_recent {
                return (Arc::clone(known), *began);
            }
        }
        let began = Instant::now();
        let new = Arc::new(self.look_at_all(began));
        *fleet = Some((Arc::clone(&new), began));
        (new, began)
    }

    fn look_at_all(&self, now: Instant) -> Fleet {
        // First what may change, and then what is looked at.
        let (mark, load) = (self.changes(), self.load());
        let mut streams = Vec::new();
        let gone = self.visit(now, |stream| streams.push(stream));
        streams.sort_unstable_by_key(|stream: &StreamStatus| stream.id);
        Fleet { load, streams, gone, grace: self.bounds().grace, mark }
    }

    /// The streams of one node. It costs little beside a look at all.
    pub(super) fn fleet_of(&self, node: &str) -> Fleet {
        let (mark, load, now) = (self.changes(), self.load(), Instant::now());
        let mut streams = Vec::new();
        let gone = self.visit_some(now, Some(node), |stream| streams.push(stream));
        streams.sort_unstable_by_key(|stream: &StreamStatus| stream.id);
        Fleet { load, streams, gone, grace: self.bounds().grace, mark }
    }

    /// Gives `see` the streams and polls, those of one kind after the other. Returns those that are gone.
    pub(crate) fn visit(&self, now: Instant, see: impl FnMut(StreamStatus)) -> Vec<GoneStream> {
        self.visit_some(now, None, see)
    }

    /// The same of one node, if that is given.
    fn visit_some(
        &self,
        now: Instant,
        only: Option<&str>,
        mut see: impl FnMut(StreamStatus),
    ) -> Vec<GoneStream> {
        let (load, bounds) = (self.load(), self.bounds());
        // Another look may see a new stream for which this one comes too early, and forget the old one.
        let before = lock(&self.gone).list();
        let cards: Vec<_> = lock(&self.cards).values().cloned().collect();
        let mut new = Vec::new();
        for card in cards.iter().filter(|card| only.is_none_or(|node| card.is_of(node))) {
            let status = card.status(load, bounds.silent_after, self.clock);
            if let Some(node) = &status.node {
                if node.only_looks() {
                    continue;
                }
                if status.audience.is_some() && !card.is_compared() {
                    new.push((card, Arc::clone(node)));
                }
            }
            see(status);
        }
        // Before the polls: what a poll was decided by comes after it.
        let reassignments = self.reassignments();
        let polls = lock(&self.polls).list();
        let is_wanted = |status: &StreamStatus| {
            only.is_none_or(|only| status.node.as_ref().is_some_and(|node| node.id == only))
        };
        polls.statuses(&bounds, reassignments, now).filter(is_wanted).for_each(see);
        // A stream is among those that are gone before its card is taken out: here it is one or the other.
        let (streams, back) = {
            let mut gone = lock(&self.gone);
            gone.forget_old(&bounds);
            // Only whoever has seen the new stream forgets the old one.
            let new = new.into_iter().filter(|(card, _)| card.compare());
            let back =
                new.filter_map(|(card, node)| gone.is_back(card.id, &node, card.only.as_ref()));
            let back: BTreeSet<u64> = back.collect();
            (gone.list(), back)
        };
        let streams = before.into_iter().filter(|(at, _)| !back.contains(at)).chain(streams);
        let aged = |stream: Arc<GoneStream>| {
            let since = now.saturating_duration_since(stream.went);
            GoneStream { since, ..(*stream).clone() }
        };
        // If it was known before as well, what is known now counts.
        let streams: BTreeMap<_, _> = streams.collect();
        let is_wanted = |stream: &GoneStream| only.is_none_or(|only| &*stream.node == only);
        let streams = streams.into_values().rev().filter(|stream| is_wanted(stream));
        let mut gone: Vec<_> = streams.map(aged).collect();
        gone.extend(polls.gone(&bounds, now).into_iter().filter(is_wanted));
        gone.sort_by_key(|stream| std::cmp::Reverse(stream.went));
        gone
    }

    /// Gives `see` the rejections of open streams that wait for a change.
    pub(crate) fn visit_rejections(&self, mut see: impl FnMut(&RejectionNote)) {
        let cards: Vec<_> = lock(&self.cards).values().cloned().collect();
        cards.iter().for_each(|card| card.visit_rejections(&mut see));
    }

    fn status_of(&self, card: &StreamCard) -> StreamStatus {
        card.status(self.load(), self.bounds().silent_after, self.clock)
    }
}

/// The age at which a look at all streams is forgotten.
const KEPT: Duration = Duration::from_secs(2);

/// The shortest time between two looks of one who waits.
const PACE: Duration = Duration::from_millis(20);

/// The number of those who wait for each of which it is as much longer.
const WAITERS: usize = 16;

/// One who waits for a change.
pub(super) struct Waiter<'a>(&'a AtomicUsize);

impl Waiter<'_> {
    /// The time between two looks: longer if many wait, so that all together do not look more often.
    pub(super) fn pace(&self) -> Duration {
        let others = self.0.load(Ordering::Relaxed) / WAITERS;
        PACE * u32::try_from(1 + others).unwrap_or(u32::MAX)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The time between two looks whether the load before has landed.
const LOOKED_AT: Duration = Duration::from_millis(100);

/// The age up to which a look at all streams serves others who ask.
const RECENT: Duration = Duration::from_millis(20);

fn event_stream(card: &StreamCard) -> EventStream {
    let node = card.node();
    let node = node.map(|node| (Arc::from(&*node.id), Arc::from(&*node.cluster)));
    EventStream { id: card.id, node, peer: card.peer.without_certificates() }
}

/// No code panics with one of these locks held, and what they guard would be whole even then.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
