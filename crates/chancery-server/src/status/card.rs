//! The card of one stream: what is known of it without asking the stream itself.
//!
//! ```text
//!   the stream writes:  unsettle -> look at the audience -> ... -> settle      (never waits)
//!   a reader reads:     what was looked at -> is it settled?
//! ```
//!
//! A stream unsettles its card before it notes that it has seen another state of its audience, and settles
//! it when its client has acknowledged all of that state. A reader looks in the other order, so a card is
//! never taken for settled with a state that its client does not have.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_core::{ErrorDetail, Node, TypeUrl, Variant};
use tokio::time::Instant;

use super::clock::Clock;
use super::look::{Answer, Look, LookQuery};
use super::stream_status::{StreamState, StreamStatus};
use crate::policy::Peer;
use crate::store::{AudienceName, Place};

/// The card of one stream.
pub(crate) struct StreamCard {
    pub(crate) id: u64,
    pub(crate) peer: Arc<Peer>,
    pub(crate) variant: Variant,
    pub(crate) only: Option<TypeUrl>,
    opened: Instant,
    /// True if the client has acknowledged all of the state that the stream saw last.
    settled: AtomicBool,
    /// True if somebody asks the stream.
    asked: AtomicBool,
    /// True if the stream asks for its audience again: nobody knows what it should see.
    asks: AtomicBool,
    /// True if it is known whether the stream takes the place of one that is gone.
    is_compared: AtomicBool,
    /// The reason why the session is away, as [`AwayFor`].
    away: AtomicU8,
    /// The number of types with rejected content that waits for a change.
    rejected: AtomicU32,
    /// Until when as many rejections were noted as may be at once, in tenths of a second.
    noted: AtomicU32,
    /// The bytes of the rejections that are noted, about.
    noted_bytes: AtomicU32,
    /// The last load that was shown before the stream looked at its audience.
    seen: AtomicU64,
    /// The last load that it is known to have landed.
    landed: AtomicU64,
    /// When the last acknowledgement settled it with a newer load than before.
    landed_at: AtomicU64,
    /// When the last acknowledgement settled it.
    settled_at: AtomicU64,
    /// When it was first not settled any more.
    unsettled_at: AtomicU64,
    /// When the oldest response that is not answered was sent.
    unanswered: AtomicU64,
    /// When the client last took a part of a large response.
    taken: AtomicU64,
    /// When the client last accepted a response.
    acknowledged: AtomicU64,
    /// When the client last said anything.
    heard: AtomicU64,
    /// When somebody first woke the stream in vain, so that it looks at its audience.
    woken: AtomicU64,
    place: Mutex<CardPlace>,
}

/// The place of a stream, and what few streams have.
#[derive(Default)]
struct CardPlace {
    node: Option<Arc<Node>>,
    place: Option<Place>,
    notes: Option<Box<Notes>>,
    /// True if the stream has ended.
    has_left: bool,
}

/// Notes that few streams have.
#[derive(Default)]
struct Notes {
    rejections: Vec<RejectionNote>,
    looks: Vec<Look>,
}

/// A rejection of a client, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectionNote {
    /// The type.
    pub type_url: TypeUrl,
    /// The version of the response.
    pub version: Arc<str>,
    /// The reason in the client's words, as [`StreamEventKind::Rejected`](crate::StreamEventKind::Rejected)
    /// has it: cut, and without what must not be seen (S-138).
    pub error: ErrorDetail,
    /// The resources that the reason names, the first three of them.
    pub named: Vec<Arc<str>>,
    /// The resources of the rejected response that the client had not accepted like that before: first those
    /// that the reason names, and eight at most.
    pub suspects: Vec<Arc<str>>,
    /// The time since the client first rejected this version for this reason.
    pub age: Duration,
    pub(super) at: Instant,
    /// A mark of the reason as the client sent it, and of the number of resources.
    mark: u64,
}

/// The long work for which a session is away from its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwayFor {
    /// The session is there.
    Nothing,
    /// A request of the client, which may have its answer.
    Request,
    /// A response, or the questions of others.
    Other,
}

/// The state of the machine of a stream, after it did something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineState {
    pub(crate) has_landed: bool,
    pub(crate) unanswered_since: Option<Instant>,
    pub(crate) rejected_types: usize,
}

/// The most questions to a stream that wait at once.
const MOST_LOOKS: usize = 8;
/// The most types of which a rejection is noted.
const MOST_REJECTIONS: usize = 32;

/// The most rejections of a stream that are noted at once, and the time after which there may be one more: a
/// client can repeat itself as fast as it can, and each note is work and an event.
const MOST_AT_ONCE: u32 = 32;
const MILLIS_BETWEEN: u32 = 1000;

impl RejectionNote {
    /// A rejection as of now.
    pub(crate) fn new(type_url: &TypeUrl, version: &str, error: &ErrorDetail, mark: u64) -> Self {
        Self {
            type_url: type_url.clone(),
            version: version.into(),
            error: error.clone(),
            named: Vec::new(),
            suspects: Vec::new(),
            age: Duration::ZERO,
            at: Instant::now(),
            mark,
        }
    }

    /// The bytes that it keeps, about.
    pub(super) fn bytes(&self) -> usize {
        let names = self.named.iter().chain(&self.suspects).map(|name| name.len()).sum::<usize>();
        size_of::<Self>() + self.version.len() + self.error.message.len() + names
    }
}

/// The reason why a stream is not asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotAsked {
    Gone,
    TooMany,
}

impl CardPlace {
    fn forget_empty_notes(&mut self) {
        self.notes.take_if(|notes| notes.rejections.is_empty() && notes.looks.is_empty());
    }
}

impl StreamCard {
    pub(super) fn new(
        id: u64,
        peer: &Arc<Peer>,
        variant: Variant,
        only: Option<TypeUrl>,
        clock: Clock,
    ) -> Self {
        let opened = Instant::now();
        Self {
            id,
            peer: Arc::clone(peer),
            variant,
            only,
            opened,
            settled: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            asks: AtomicBool::new(false),
            is_compared: AtomicBool::new(false),
            away: AtomicU8::new(AwayFor::Nothing as u8),
            rejected: AtomicU32::new(0),
            noted: AtomicU32::new(0),
            noted_bytes: AtomicU32::new(0),
            seen: AtomicU64::new(0),
            landed: AtomicU64::new(0),
            landed_at: AtomicU64::new(0),
            settled_at: AtomicU64::new(0),
            unsettled_at: AtomicU64::new(clock.millis(opened)),
            unanswered: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            woken: AtomicU64::new(0),
            place: Mutex::default(),
        }
    }

    /// The stream is about to look at the state of its audience, which has at least this load. From here on it
    /// is not settled.
    pub(crate) fn unsettle(&self, load: u64) {
        self.settled.store(false, Ordering::Release);
        self.seen.store(load, Ordering::Release);
        // There may be something newer for what was rejected.
        self.rejected.store(0, Ordering::Release);
        self.woken.store(0, Ordering::Relaxed);
    }

    /// Takes in what the machine says after the stream did something. Returns true if its state
    /// has changed in a way for which somebody may wait.
    pub(super) fn note(&self, state: MachineState, clock: Clock, now: Instant) -> bool {
        let unanswered = state.unanswered_since.map_or(0, |since| clock.millis(since));
        self.unanswered.store(unanswered, Ordering::Relaxed);
        let rejected = u32::try_from(state.rejected_types).unwrap_or(u32::MAX);
        // Nobody but the stream writes it.
        let was_rejected = self.rejected.load(Ordering::Relaxed) > 0;
        self.rejected.store(rejected, Ordering::Relaxed);
        if !state.has_landed {
            self.settled.store(false, Ordering::Release);
            if self.unsettled_at.load(Ordering::Relaxed) == 0 {
                self.unsettled_at.store(clock.millis(now), Ordering::Relaxed);
            }
        } else if !self.settled.load(Ordering::Relaxed) {
            self.settle(clock.millis(now));
            return true;
        }
        was_rejected != (rejected > 0)
    }

    /// The time for which the client has owed an answer.
    pub(super) fn unanswered_for(&self, clock: Clock, now: Instant) -> Option<Duration> {
        match self.unanswered.load(Ordering::Relaxed) {
            0 => None,
            // A slow client cannot answer what it has not read.
            since => clock.since(since.max(self.taken.load(Ordering::Relaxed)), now),
        }
    }

    /// Returns true if the client, which was silent, has just said something, and owes no answer for that long any
    /// more. Old responses may also be forgotten without that.
    pub(super) fn has_answered(&self, silent_after: Duration, clock: Clock, now: Instant) -> bool {
        let heard = clock.since(self.heard.load(Ordering::Relaxed), now);
        let owes = self.unanswered_for(clock, now).is_some_and(|it| it >= silent_after);
        !owes && heard.is_some_and(|heard| heard < silent_after)
    }

    /// The client has acknowledged all of the state that the stream saw last.
    fn settle(&self, now: u64) {
        let before = self.settled_at.load(Ordering::Relaxed);
        let seen = self.seen.load(Ordering::Relaxed);
        let is_newer = self.landed.swap(seen, Ordering::Relaxed) < seen;
        // A look at a state in which nothing is new for the client changes nothing.
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        if before == 0 || acknowledged > before {
            self.settled_at.store(now, Ordering::Relaxed);
            if is_newer {
                // The stream may have settled some time after that, if more requests were expected.
                let last = if acknowledged == 0 { now } else { acknowledged };
                self.landed_at.store(last, Ordering::Relaxed);
            }
        }
        self.unsettled_at.store(0, Ordering::Relaxed);
        self.settled.store(true, Ordering::Release);
    }

    /// The client takes a part of a large response, or the stream gets in line to send it.
    pub(super) fn takes(&self, at: u64) {
        self.taken.store(at, Ordering::Relaxed);
    }

    /// The session leaves its connection to do long work, or is back.
    pub(crate) fn leaves(&self, why: AwayFor) {
        self.away.store(why as u8, Ordering::Relaxed);
    }

    fn is_away(&self, why: AwayFor) -> bool {
        self.away.load(Ordering::Relaxed) == why as u8
    }

    /// The client has said something.
    pub(super) fn heard(&self, at: u64) {
        self.heard.store(at, Ordering::Relaxed);
    }

    /// The client has accepted a response.
    pub(super) fn acknowledged(&self, at: u64) {
        self.acknowledged.store(at, Ordering::Relaxed);
    }

    /// The node of the client.
    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        self.lock().node.clone()
    }

    /// Returns true if its client says that it is the node with this id.
    pub(super) fn is_of(&self, node: &str) -> bool {
        self.lock().node.as_ref().is_some_and(|known| known.id == node)
    }

    /// Returns true if it is known whether the stream takes the place of one that is gone.
    pub(super) fn is_compared(&self) -> bool {
        self.is_compared.load(Ordering::Relaxed)
    }

    /// From here on it is known. Returns false if it was known before.
    pub(super) fn compare(&self) -> bool {
        !self.is_compared.swap(true, Ordering::Relaxed)
    }

    /// Notes the node of the client.
    pub(crate) fn identified(&self, node: &Arc<Node>) {
        self.lock().node = Some(Arc::clone(node));
    }

    /// The stream asks for its audience again.
    pub(crate) fn asks_again(&self) {
        self.asks.store(true, Ordering::Release);
    }

    /// It has, and belongs where the card says.
    pub(crate) fn has_asked(&self) {
        self.asks.store(false, Ordering::Release);
    }

    /// Returns true if the client says that it only looks, and holds nothing.
    pub(super) fn only_looks(&self) -> bool {
        self.lock().node.as_ref().is_some_and(|node| node.only_looks())
    }

    /// Notes where the stream belongs: nothing has landed on it there. Returns the audience it was in before.
    pub(super) fn placed(&self, place: Place) -> Option<AudienceName> {
        self.landed.store(0, Ordering::Release);
        let before = self.lock().place.replace(place);
        before.map(|place| place.audience().without_values())
    }

    /// Forgets where the stream belongs, which keeps parts of the store.
    pub(super) fn leave(&self) {
        let mut card = self.lock();
        *card = CardPlace { node: card.node.take(), has_left: true, ..CardPlace::default() };
    }

    /// Notes a rejection of a type. Returns false if it is known, or one of too many types.
    pub(super) fn rejected(&self, note: RejectionNote) -> bool {
        let mut card = self.lock();
        let rejections = &mut card.notes.get_or_insert_default().rejections;
        let is_full = rejections.len() >= MOST_REJECTIONS;
        let is_new = match rejections.iter_mut().find(|known| known.type_url == note.type_url) {
            Some(known) if known.version == note.version && known.mark == note.mark => false,
            Some(known) => {
                *known = note;
                true
            }
            None if is_full => false,
            None => {
                rejections.push(note);
                true
            }
        };
        self.count_notes(&card);
        is_new
    }

    fn count_notes(&self, card: &CardPlace) {
        let notes = card.notes.iter().flat_map(|notes| &notes.rejections);
        let bytes = notes.map(RejectionNote::bytes).sum::<usize>();
        self.noted_bytes.store(u32::try_from(bytes).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// The bytes that are kept of what the client said, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.noted_bytes.load(Ordering::Relaxed) as usize
    }

    /// Returns true if a rejection of this version for this reason is noted, or none of the type can be.
    pub(crate) fn knows_rejection(&self, type_url: &TypeUrl, version: &str, mark: u64) -> bool {
        let card = self.lock();
        let rejections = card.notes.as_ref().map_or(&[][..], |notes| &notes.rejections);
        match rejections.iter().find(|known| known.type_url == *type_url) {
            Some(known) => *known.version == *version && known.mark == mark,
            None => rejections.len() >= MOST_REJECTIONS,
        }
    }

    /// Returns true if one more rejection may be noted now.
    pub(super) fn admits_rejection(&self, now: u64) -> bool {
        // Tenths of a second are enough for thirteen years.
        let now = u32::try_from(now / 100).unwrap_or(u32::MAX);
        let (until, one) = (self.noted.load(Ordering::Relaxed).max(now), MILLIS_BETWEEN / 100);
        let is_admitted = until - now < MOST_AT_ONCE * one;
        if is_admitted {
            self.noted.store(until.saturating_add(one), Ordering::Relaxed);
        }
        is_admitted
    }

    /// The types of which a rejection is noted.
    pub(crate) fn rejected_types(&self) -> Vec<TypeUrl> {
        if self.held_bytes() == 0 {
            return Vec::new();
        }
        let card = self.lock();
        let rejections = card.notes.iter().flat_map(|notes| &notes.rejections);
        rejections.map(|known| known.type_url.clone()).collect()
    }

    /// Forgets the rejection of a type. Returns true if there was one.
    pub(super) fn repaired(&self, type_url: &TypeUrl) -> bool {
        let mut card = self.lock();
        let Some(notes) = &mut card.notes else { return false };
        let before = notes.rejections.len();
        notes.rejections.retain(|known| known.type_url != *type_url);
        let is_repaired = notes.rejections.len() < before;
        card.forget_empty_notes();
        self.count_notes(&card);
        is_repaired
    }

    /// The rejections of types of which the client has accepted nothing since.
    pub(crate) fn rejections(&self, now: Instant) -> Vec<RejectionNote> {
        if self.held_bytes() == 0 {
            return Vec::new();
        }
        let card = self.lock();
        let rejections = card.notes.iter().flat_map(|notes| &notes.rejections);
        let aged = |note: &RejectionNote| {
            let age = now.saturating_duration_since(note.at);
            RejectionNote { age, ..note.clone() }
        };
        rejections.map(aged).collect()
    }

    /// Gives `see` the rejections that wait for a change, as they were noted.
    pub(super) fn visit_rejections(&self, see: impl FnMut(&RejectionNote)) {
        if self.rejected.load(Ordering::Relaxed) > 0 {
            let card = self.lock();
            card.notes.iter().flat_map(|notes| &notes.rejections).for_each(see);
        }
    }

    /// Asks the stream, and wakes it. Those who ask the same share the answer.
    ///
    /// # Errors
    /// If the stream is gone, or is asked too much already.
    pub(super) fn ask(&self, query: &Arc<LookQuery>) -> Result<Answer, NotAsked> {
        let mut card = self.lock();
        if card.has_left {
            return Err(NotAsked::Gone);
        }
        let notes = card.notes.get_or_insert_default();
        notes.looks.retain(Look::is_wanted);
        let answer = match notes.looks.iter().find(|known| known.query == *query) {
            Some(known) => known.join(),
            None if notes.looks.len() >= MOST_LOOKS => return Err(NotAsked::TooMany),
            None => {
                let (look, answer) = Look::new(query);
                notes.looks.push(look);
                answer
            }
        };
        self.asked.store(true, Ordering::Release);
        if let Some(place) = &card.place {
            place.wake();
        }
        Ok(answer)
    }

    /// Takes the questions to the stream.
    pub(crate) fn take_looks(&self) -> Vec<Look> {
        let mut card = self.lock();
        self.asked.store(false, Ordering::Relaxed);
        let Some(notes) = &mut card.notes else { return Vec::new() };
        let looks = std::mem::take(&mut notes.looks);
        card.forget_empty_notes();
        looks
    }

    /// Returns true if somebody asks the stream.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The status of the stream. `load` is the last load that was shown before this was called; the stream is
    /// woken if it has not looked at the present state of its audience for a while.
    pub(super) fn status(&self, load: u64, silent_after: Duration, clock: Clock) -> StreamStatus {
        let now = Instant::now();
        let (node, place) = {
            let card = self.lock();
            (card.node.clone(), card.place.clone())
        };
        let standing = place.as_ref().map(Place::standing);
        let is_asking = standing.as_ref().is_some_and(|it| it.is_reassigned)
            || self.asks.load(Ordering::Acquire);
        // After what was looked at.
        let settled = self.settled.load(Ordering::Acquire);
        let is_current = standing.as_ref().is_some_and(|it| it.is_current);
        let in_step = is_current && settled;
        let mut unseen = None;
        if let (Some(standing), Some(place)) = (&standing, &place)
            && standing.is_unseen
        {
            let shown = standing.since.map(|at| now.saturating_duration_since(at));
            unseen = self.wake(place, shown, clock, now);
        }
        // The answer may be in what was not read yet.
        let is_away = self.is_away(AwayFor::Request);
        let unanswered = self.unanswered_for(clock, now).filter(|_| !is_away);
        let rejected_types = self.rejected.load(Ordering::Relaxed);
        let waits = [unanswered, unseen].into_iter().flatten().max();
        let state = if rejected_types > 0 && is_current {
            StreamState::Rejected
        } else if waits.is_some_and(|time| time >= silent_after) {
            StreamState::Silent
        } else if in_step {
            StreamState::InStep
        } else {
            StreamState::Pending
        };
        let shown = standing.as_ref().filter(|it| it.is_unseen).and_then(|it| it.since);
        let shown = shown.map(|at| now.saturating_duration_since(at));
        let begin = if settled { &self.settled_at } else { &self.unsettled_at };
        let since = clock.since(begin.load(Ordering::Relaxed), now).unwrap_or_default();
        let since = if settled { shown.unwrap_or(since) } else { since };
        let landed = if in_step { load } else { self.landed.load(Ordering::Relaxed) };
        StreamStatus {
            id: self.id,
            node,
            peer: Arc::clone(&self.peer),
            audience: place.map(|place| place.audience().without_values()),
            variant: self.variant,
            type_url: self.only.clone(),
            poll: None,
            age: now.saturating_duration_since(self.opened),
            state,
            since,
            seen: if is_current { load } else { self.seen.load(Ordering::Relaxed) },
            landed,
            is_asking,
            counts: true,
            rejected_types,
            unanswered,
            acknowledged: clock.since(self.acknowledged.load(Ordering::Relaxed), now),
            heard: clock.since(self.heard.load(Ordering::Relaxed), now),
            landed_ago: clock.since(self.landed_at.load(Ordering::Relaxed), now),
        }
    }

    /// Wakes a stream that has not looked at a state which is shown for that long. Returns the time for which
    /// it has been woken in vain.
    fn wake(
        &self,
        place: &Place,
        shown: Option<Duration>,
        clock: Clock,
        now: Instant,
    ) -> Option<Duration> {
        if shown.is_some_and(|time| time < NOT_YET) {
            return None;
        }
        place.wake();
        let at = clock.millis(now);
        match self.woken.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => None,
            // It is not its client that keeps it from looking.
            Err(_) if !self.is_away(AwayFor::Nothing) => None,
            Err(before) => clock.since(before, now),
        }
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, CardPlace> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time in which a stream that a change concerns looks at it, if its thread is not busy.
const NOT_YET: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn card(clock: Clock) -> StreamCard {
        let peer = Arc::new(Peer { address: None, tls: false, certificates: Vec::new() });
        StreamCard::new(1, &peer, Variant::Sotw, None, clock)
    }

    /// A machine whose client has not answered since then.
    fn unanswered(since: Instant) -> MachineState {
        MachineState { has_landed: false, unanswered_since: Some(since), rejected_types: 0 }
    }

    #[test]
    fn a_card_takes_little_memory() {
        // An idle stream has one.
        assert!(size_of::<StreamCard>() <= 216, "{}", size_of::<StreamCard>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_large_response_slowly_is_not_silent() {
        let clock = Clock::new();
        let (card, now) = (card(clock), Instant::now());
        card.note(unanswered(now), clock, now);
        let told = || card.status(0, Duration::from_secs(30), clock).state;
        for _ in 0..3 {
            advance(Duration::from_secs(29)).await;
            assert_eq!(told(), StreamState::Pending);
            card.takes(clock.millis(Instant::now()));
        }
        advance(Duration::from_secs(30)).await;
        assert_eq!(told(), StreamState::Silent);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_was_silent_has_answered_when_it_is_heard() {
        let clock = Clock::new();
        let (card, now, bound) = (card(clock), Instant::now(), Duration::from_secs(30));
        card.note(unanswered(now), clock, now);
        advance(Duration::from_secs(76)).await;
        let now = Instant::now();
        assert_eq!(card.unanswered_for(clock, now), Some(Duration::from_secs(76)));
        let newer = unanswered(now);
        card.note(newer, clock, now);
        assert!(!card.has_answered(bound, clock, now), "an old response was forgotten");
        card.heard(clock.millis(now));
        assert!(card.has_answered(bound, clock, now));
        card.note(unanswered(now - bound), clock, now);
        assert!(!card.has_answered(bound, clock, now), "something old is owed still");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_whose_request_waits_for_its_turn_is_not_silent() {
        let clock = Clock::new();
        let (card, now) = (card(clock), Instant::now());
        card.note(unanswered(now), clock, now);
        card.leaves(AwayFor::Request);
        advance(Duration::from_secs(300)).await;
        let told = || card.status(0, Duration::from_secs(30), clock).state;
        assert_eq!(told(), StreamState::Pending);
        // The request was no answer, or the work is none that the client asked for.
        for why in [AwayFor::Nothing, AwayFor::Other] {
            card.leaves(why);
            assert_eq!(told(), StreamState::Silent, "{why:?}");
        }
    }

    #[test]
    fn a_client_that_rejects_all_the_time_is_noted_now_and_then() {
        let card = card(Clock::new());
        let at_once = (0..100).filter(|_| card.admits_rejection(10_000)).count();
        assert_eq!(at_once, 32);
        let later = (0..100).filter(|_| card.admits_rejection(13_000)).count();
        assert_eq!(later, 3);
    }

    #[test]
    fn rejections_of_so_many_types_are_noted_and_no_others() {
        let card = card(Clock::new());
        let error = ErrorDetail { code: 3, message: "no".to_owned() };
        let rejected = |number: usize, mark| {
            let type_url = TypeUrl::new(&format!("t{number}"));
            let is_known = card.knows_rejection(&type_url, "1", mark);
            let is_new = card.rejected(RejectionNote::new(&type_url, "1", &error, mark));
            assert_ne!(is_known, is_new);
            is_new
        };
        assert_eq!((0..40).filter(|number| rejected(*number, 1)).count(), MOST_REJECTIONS);
        assert!(!rejected(0, 1) && rejected(0, 2), "another reason");
        assert_eq!(card.rejections(Instant::now()).len(), MOST_REJECTIONS);
        (0..40).for_each(|number| _ = card.repaired(&TypeUrl::new(&format!("t{number}"))));
        assert_eq!(card.held_bytes(), 0);
    }
}
