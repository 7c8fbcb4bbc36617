//! The line for long work: of the peers that wait, the one that was given least work comes first.
//!
//! Turns alone are not fair here. One piece of work may be a hundred times as long as another, and how
//! long it is shows only when it is done. So this is start-time fair queueing (Goyal, Vin and Cheng,
//! 1996): the next piece of a peer starts at the sum of the work that the peer was given, and the piece
//! with the earliest start comes first. The time of the line is the earliest start of those in it. A peer
//! that comes back starts at that time, so that nobody saves turns up.
//!
//! No piece is interrupted, because a machine of the core takes a request as a whole. So that a short piece
//! never waits for a long one to end, there are places that only short pieces take.
//!
//! Not here: clocks and threads (`work_threads`), and the sizes by which work is long (`slice`).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::budget::PeerKey;
use crate::slice::Length;
use crate::turns::Line;

/// The work that a piece counts as until it is done, and at least: it would not be long otherwise.
const LEAST: Duration = Duration::from_millis(10);
/// The most peers that are remembered although nothing of theirs waits or runs.
const MOST_REMEMBERED: usize = 1_024;

/// The pieces that wait, each as a `W`, and the places that are free. While any piece waits, none is free
/// that it may take: whoever adds one or ends one takes what comes [next](Self::next).
pub(crate) struct WorkLine<W> {
    /// The free places for any piece.
    free: usize,
    /// The free places for short pieces.
    free_short: usize,
    /// The time of the line. It never goes back while anything waits or runs.
    now: Duration,
    peers: HashMap<PeerKey, PeerWork<W>>,
    /// The first piece of each peer that waits.
    firsts: ByLength<BTreeMap<Position, PeerKey>>,
    /// The number of pieces that run.
    running: usize,
    /// The number of remembered peers of which nothing waits or runs.
    idle: usize,
    /// The number of the newest piece.
    last: u64,
}

/// The place of a piece among those of its peer: by its line, and then by its number.
type Order = (Line, u64);

/// The place of a piece in the line: by the start of its peer.
type Position = (Duration, Order);

/// The work of one peer.
struct PeerWork<W> {
    /// The time of the line at which its next piece starts.
    start: Duration,
    running: usize,
    waiting: ByLength<BTreeMap<Order, W>>,
}

/// Something for short pieces, and the same for long ones.
#[derive(Default)]
struct ByLength<T> {
    short: T,
    long: T,
}

/// A piece of work that waits or runs.
#[derive(Clone, Debug)]
pub(crate) struct WorkTicket {
    peer: PeerKey,
    order: Order,
    length: Length,
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkPlaceKind {
    /// Any piece may take it.
    Any,
    /// Only a short piece may take it.
    Short,
}

impl<W> WorkLine<W> {
    pub(crate) fn new(any: usize, short: usize) -> Self {
        Self {
            free: any.max(1),
            free_short: short,
            now: Duration::ZERO,
            peers: HashMap::new(),
            firsts: ByLength::default(),
            running: 0,
            idle: 0,
            last: 0,
        }
    }

    /// Adds a piece of work of a peer.
    pub(crate) fn add(
        &mut self,
        peer: &PeerKey,
        (line, length): (Line, Length),
        piece: W,
    ) -> WorkTicket {
        self.last += 1;
        let (order, now) = ((line, self.last), self.now);
        self.change(peer, |work| {
            if work.waiting.is_empty() {
                work.start = work.start.max(now);
            }
            work.waiting.of_mut(length).insert(order, piece);
        });
        WorkTicket { peer: peer.clone(), order, length }
    }

    /// Gives the piece whose turn it is a place, if there is one for it.
    pub(crate) fn next(&mut self) -> Option<(WorkTicket, WorkPlaceKind, W)> {
        let with_place = |length| Some((length, self.place_of_first(length)?));
        let (length, place) = Length::ALL.into_iter().find_map(with_place)?;
        let (position, peer) = self.firsts.of(length).first_key_value()?;
        let ((start, order), peer) = (*position, peer.clone());
        let piece = self.change(&peer, |work| {
            let piece = work.waiting.of_mut(length).remove(&order)?;
            work.running += 1;
            work.start += LEAST;
            Some(piece)
        })?;
        match place {
            WorkPlaceKind::Any => self.free -= 1,
            WorkPlaceKind::Short => self.free_short -= 1,
        }
        self.running += 1;
        let left =
            Length::ALL.into_iter().filter_map(|length| self.firsts.of(length).keys().next());
        let earliest = left.map(|(start, _)| *start).fold(start, Duration::min);
        self.now = self.now.max(earliest);
        Some((WorkTicket { peer, order, length }, place, piece))
    }

    /// Removes a piece that waits no more. Returns it, unless it was given a place.
    pub(crate) fn remove(&mut self, ticket: &WorkTicket) -> Option<W> {
        let WorkTicket { peer, order, length } = ticket;
        self.peers.get(peer)?;
        self.change(peer, |work| work.waiting.of_mut(*length).remove(order))
    }

    /// Takes back the place of a piece that is done, and counts the work that it was.
    pub(crate) fn end(&mut self, ticket: &WorkTicket, place: WorkPlaceKind, work: Duration) {
        match place {
            WorkPlaceKind::Any => self.free += 1,
            WorkPlaceKind::Short => self.free_short += 1,
        }
        self.running -= 1;
        self.change(&ticket.peer, |of_peer| {
            of_peer.running -= 1;
            of_peer.start += work.saturating_sub(LEAST);
        });
        if self.running == 0 && self.firsts.is_empty() {
            // Nobody waits for anybody.
            self.peers.clear();
            (self.idle, self.now) = (0, Duration::ZERO);
        }
    }

    /// Changes the work of a peer, and its place in the line by that. A peer that starts no later than a
    /// new one is forgotten, if nothing of it waits or runs.
    fn change<T>(&mut self, peer: &PeerKey, edit: impl FnOnce(&mut PeerWork<W>) -> T) -> T {
        let known = self.peers.remove(peer);
        self.idle -= usize::from(known.as_ref().is_some_and(PeerWork::is_idle));
        let mut work = known.unwrap_or_default();
        for length in Length::ALL {
            if let Some(position) = work.first(length) {
                self.firsts.of_mut(length).remove(&position);
            }
        }
        let edited = edit(&mut work);
        for length in Length::ALL {
            if let Some(position) = work.first(length) {
                self.firsts.of_mut(length).insert(position, peer.clone());
            }
        }
        let is_idle = work.is_idle();
        if !is_idle || work.start > self.now {
            self.peers.insert(peer.clone(), work);
            self.idle += usize::from(is_idle);
        }
        if self.idle > MOST_REMEMBERED {
            self.peers.retain(|_, work| !work.is_idle());
            self.idle = 0;
        }
        edited
    }

    /// The place that the first piece of this length may take, if there is one.
    fn place_of_first(&self, length: Length) -> Option<WorkPlaceKind> {
        let own = self.firsts.of(length).keys().next()?;
        let other = match length {
            Length::Short if self.free_short > 0 => return Some(WorkPlaceKind::Short),
            Length::Short => self.firsts.long.keys().next(),
            // A short one with a place of its own is not in the way.
            Length::Long => self.firsts.short.keys().next().filter(|_| self.free_short == 0),
        };
        (self.free > 0 && other.is_none_or(|other| own < other)).then_some(WorkPlaceKind::Any)
    }
}

impl<W> PeerWork<W> {
    /// The position of its first piece of this length, if one waits.
    fn first(&self, length: Length) -> Option<Position> {
        self.waiting.of(length).keys().next().map(|order| (self.start, *order))
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }
}

impl<W> Default for PeerWork<W> {
    fn default() -> Self {
        Self { start: Duration::ZERO, running: 0, waiting: ByLength::default() }
    }
}

impl<T> ByLength<T> {
    fn of(&self, length: Length) -> &T {
        match length {
            Length::Short => &self.short,
            Length::Long => &self.long,
        }
    }

    fn of_mut(&mut self, length: Length) -> &mut T {
        match length {
            Length::Short => &mut self.short,
            Length::Long => &mut self.long,
        }
    }
}

impl<K, V> ByLength<BTreeMap<K, V>> {
    fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }
}

#[cfg(test)]
impl<W> WorkLine<W> {
    /// Returns true if nothing waits or runs, and no peer is remembered.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.running + self.idle == 0 && self.peers.is_empty() && self.firsts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::tests::peers;

    /// A line with one place for any piece, and so many for short ones.
    struct Test {
        line: WorkLine<()>,
        peers: Vec<PeerKey>,
    }

    impl Test {
        fn new(short: usize) -> Self {
            let peers = peers(4).iter().map(|peer| peer.key().clone()).collect();
            Self { line: WorkLine::new(1, short), peers }
        }

        fn add(&mut self, peer: usize, length: Length) -> WorkTicket {
            self.line.add(&self.peers[peer], (Line::End, length), ())
        }

        /// The number of the piece that is given a place, and the kind of that.
        fn next(&mut self) -> Option<(u64, WorkPlaceKind)> {
            self.line.next().map(|(ticket, place, ())| (ticket.order.1, place))
        }

        /// Does the pieces as they come, each of which is so much work: the order of their tickets.
        fn order(&mut self, mut left: Vec<(WorkTicket, Duration)>) -> Vec<u64> {
            let mut order = Vec::new();
            while !left.is_empty() {
                let (ticket, place, ()) = self.line.next().expect("a piece has its turn");
                let is_next = |(one, _): &(WorkTicket, _)| one.order == ticket.order;
                let Some(at) = left.iter().position(is_next) else {
                    panic!("{ticket:?} is not one of these")
                };
                let (_, work) = left.remove(at);
                self.line.end(&ticket, place, work);
                order.push(ticket.order.1);
            }
            order
        }
    }

    const SECOND: Duration = Duration::from_secs(1);
    use Length::{Long, Short};

    #[test]
    fn the_peer_that_was_given_least_work_comes_first() {
        let mut test = Test::new(0);
        let of_peers = [(0, SECOND), (0, SECOND), (0, SECOND), (1, SECOND / 4), (1, SECOND / 4)];
        let mut all: Vec<_> = of_peers.map(|(peer, work)| (test.add(peer, Long), work)).into();
        all.push((test.add(1, Long), SECOND / 4));
        all.push((test.add(2, Long), SECOND));
        // One of each, because nobody was given any, and then those of the peer with short ones.
        assert_eq!(test.order(all), [1, 4, 7, 5, 6, 2, 3]);
    }

    #[test]
    fn a_peer_that_comes_later_waits_for_nobody_who_was_given_more_and_has_saved_nothing_up() {
        let mut test = Test::new(0);
        let running = test.add(0, Long);
        assert_eq!(test.next(), Some((1, WorkPlaceKind::Any)));
        let mut all: Vec<_> = (0..8).map(|at| (test.add(at % 2, Long), SECOND)).collect();
        test.line.end(&running, WorkPlaceKind::Any, SECOND);
        assert_eq!(test.order(all.drain(..4).collect()), [3, 2, 5, 4]);
        // The time of the line is two seconds: there a new peer starts.
        all.extend((0..3).map(|_| (test.add(2, Long), SECOND)));
        assert_eq!(test.order(all), [7, 10, 6, 9, 11, 8, 12]);
    }

    #[test]
    fn a_peer_with_many_pieces_delays_another_by_one() {
        let mut test = Test::new(0);
        let many: Vec<_> = (0..1_000).map(|_| test.add(0, Long)).collect();
        assert_eq!(test.next(), Some((1, WorkPlaceKind::Any)));
        test.add(1, Long);
        assert_eq!(test.next(), None);
        test.line.end(&many[0], WorkPlaceKind::Any, SECOND);
        assert_eq!(test.next(), Some((1_001, WorkPlaceKind::Any)));
    }

    #[test]
    fn short_pieces_have_a_place_of_their_own() {
        let mut test = Test::new(1);
        let long = [0, 1].map(|peer| test.add(peer, Long));
        assert_eq!(test.next(), Some((1, WorkPlaceKind::Any)));
        assert_eq!(test.next(), None);
        let short = [2, 3].map(|peer| test.add(peer, Short));
        assert_eq!(test.next(), Some((3, WorkPlaceKind::Short)));
        assert_eq!(test.next(), None, "both places are taken");
        test.line.end(&long[0], WorkPlaceKind::Any, SECOND);
        assert_eq!(test.next(), Some((2, WorkPlaceKind::Any)), "the long one was first");
        assert_eq!(test.next(), None);
        test.line.end(&short[0], WorkPlaceKind::Short, LEAST);
        assert_eq!(test.next(), Some((4, WorkPlaceKind::Short)));
    }

    #[test]
    fn of_one_peer_what_ends_something_comes_first_and_what_was_removed_does_not_come() {
        let mut test = Test::new(0);
        let all: Vec<_> = (0..3).map(|_| test.add(0, Long)).collect();
        let front = test.line.add(&test.peers[0], (Line::Front, Long), ());
        assert_eq!([&all[0], &all[0]].map(|it| test.line.remove(it)), [Some(()), None]);
        let left = [front, all[2].clone(), all[1].clone()].map(|ticket| (ticket, SECOND));
        assert_eq!(test.order(left.into()), [4, 2, 3]);
        assert_eq!(test.line.remove(&all[1]), None);
        assert!(test.line.is_forgotten());
    }

    #[test]
    fn peers_without_work_are_forgotten() {
        let mut test = Test::new(1);
        let running = test.add(0, Long);
        assert_eq!(test.next(), Some((1, WorkPlaceKind::Any)));
        for one in 0..2 * MOST_REMEMBERED as u64 {
            let peer = PeerKey::Certificate(one.to_le_bytes().as_slice().into());
            test.line.add(&peer, (Line::End, Short), ());
            let (ticket, place, ()) = test.line.next().unwrap();
            test.line.end(&ticket, place, SECOND);
            assert!(test.line.idle <= MOST_REMEMBERED);
            assert!(test.line.peers.len() <= test.line.idle + 1);
        }
        test.line.end(&running, WorkPlaceKind::Any, SECOND);
        assert!(test.line.is_forgotten());
    }
}
