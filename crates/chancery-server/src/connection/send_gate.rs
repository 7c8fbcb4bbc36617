//! The bytes that the streams of one connection have handed to HTTP/2, and that h2 still has.
//!
//! h2 keeps what it is handed until the socket takes it, so a client with large windows and a socket
//! that takes nothing could have the server keep a part of each of a thousand responses. Streams hand
//! over a bounded number of bytes together, and wait in line for more. What h2 drops is counted as
//! what it writes, because each piece counts as long as it lives. A small piece is not counted while
//! the socket takes bytes, because then it is written at once.
//!
//! Not here: the room that the client gives for each stream (`stream`), and who is charged
//! (`unread`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;

/// The number of bytes that h2 may have of all streams. The last piece may be above it.
const AT_ONCE: usize = 256 * 1024;
/// The size of a small piece: most responses are small. What the charge of a stream is for has room
/// for one, so those of the streams that are polled before the socket is known to be full are covered.
const SMALL: usize = 4 * 1024;
/// The most bytes of a piece: a frame of HTTP/2 has so many by default.
pub(super) const PIECE: usize = 64 * 1024;

/// Lets the streams of one connection hand bytes over.
#[derive(Clone, Default)]
pub(super) struct SendGate(Arc<GateState>);

#[derive(Default)]
struct GateState {
    handed: AtomicUsize,
    socket_is_full: AtomicBool,
    /// True if streams may be waiting, so that the queue is not looked at without need.
    has_waiting: AtomicBool,
    queue: Mutex<Queue>,
}

/// The streams that wait, by the numbers of their tickets.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Waker)>,
    last: u64,
}

/// The place of a stream in the queue. It is given up when this is dropped.
#[derive(Default)]
pub(super) struct GateWait(Option<(SendGate, u64)>);

/// A piece that h2 has.
struct Piece {
    bytes: Bytes,
    gate: SendGate,
}

impl SendGate {
    /// Returns true if a stream may hand this much over. If not, `waker` is woken when it is its turn.
    pub(super) fn admits(&self, bytes: usize, wait: &mut GateWait, waker: &Waker) -> bool {
        if self.is_uncounted(bytes) {
            wait.leave();
            return true;
        }
        let mut queue = self.queue();
        let place = match &wait.0 {
            Some((_, ticket)) => queue.find(*ticket),
            None => queue.waiting.is_empty().then_some(0),
        };
        if place.is_some_and(|place| place < self.passing()) {
            if let (Some(_), Some(place)) = (wait.0.take(), place) {
                queue.waiting.remove(place);
            }
            return true;
        }
        if wait.0.is_none() {
            queue.last += 1;
            let ticket = queue.last;
            queue.waiting.push_back((ticket, waker.clone()));
            self.0.has_waiting.store(true, Ordering::Relaxed);
            wait.0 = Some((self.clone(), ticket));
        }
        false
    }

    /// The piece as h2 gets it.
    pub(super) fn counted(&self, bytes: Bytes) -> Bytes {
        if self.is_uncounted(bytes.len()) {
            return bytes;
        }
        self.0.handed.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Piece { bytes, gate: self.clone() })
    }

    /// Wakes the streams whose turn it is, if there is room. They keep their places until they pass.
    pub(super) fn wake(&self) {
        let passing = self.passing();
        if passing == 0 || !self.0.has_waiting.load(Ordering::Relaxed) {
            return;
        }
        let queue = self.queue();
        self.0.has_waiting.store(!queue.waiting.is_empty(), Ordering::Relaxed);
        queue.waiting.iter().take(passing).for_each(|(_, waker)| waker.wake_by_ref());
    }

    /// Notes whether the socket takes no more for now.
    pub(super) fn set_socket_is_full(&self, is_full: bool) {
        self.0.socket_is_full.store(is_full, Ordering::Relaxed);
    }

    fn is_uncounted(&self, bytes: usize) -> bool {
        bytes <= SMALL && !self.0.socket_is_full.load(Ordering::Relaxed)
    }

    /// The number of bytes that h2 has.
    pub(super) fn handed(&self) -> usize {
        self.0.handed.load(Ordering::Relaxed)
    }

    /// The number of streams at the head of the line for which there is room. They may pass in any
    /// order, because the executor polls them in an order of its own.
    fn passing(&self) -> usize {
        AT_ONCE.saturating_sub(self.handed()).div_ceil(PIECE)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The place of a ticket; the tickets are in order.
    fn find(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |(waiting, _)| *waiting).ok()
    }
}

impl GateWait {
    /// Gives the place up. If it was this stream's turn, it is that of another one.
    pub(super) fn leave(&mut self) {
        let Some((gate, ticket)) = self.0.take() else { return };
        let mut queue = gate.queue();
        let Some(place) = queue.find(ticket) else { return };
        queue.waiting.remove(place);
        drop(queue);
        if place < gate.passing() {
            gate.wake();
        }
    }
}

impl Drop for GateWait {
    fn drop(&mut self) {
        self.leave();
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.gate.0.handed.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    /// The number of pieces for which there is room.
    const PIECES: usize = AT_ONCE / PIECE;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As many pieces as fill the gate.
    fn full(gate: &SendGate) -> Vec<Bytes> {
        (0..PIECES).map(|_| gate.counted(vec![0; PIECE].into())).collect()
    }

    #[test]
    fn streams_pass_in_the_order_in_which_they_came() {
        let (gate, wakes) = (SendGate::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let pieces = full(&gate);
        let mut waits: Vec<_> = (0..2 * PIECES).map(|_| GateWait::default()).collect();
        for wait in &mut waits {
            assert!(!gate.admits(PIECE, wait, &waker) && !gate.admits(PIECE, wait, &waker));
        }
        assert!(gate.admits(SMALL, &mut GateWait::default(), &waker));
        gate.wake();
        assert_eq!((wakes.0.load(Ordering::Relaxed), gate.handed()), (0, AT_ONCE));
        drop(pieces);
        gate.wake();
        assert_eq!((wakes.0.load(Ordering::Relaxed), gate.handed()), (PIECES, 0));
        assert!(!gate.admits(PIECE, &mut waits[PIECES], &waker), "it is not its turn");
        for wait in &mut waits {
            assert!(gate.admits(PIECE, wait, &waker));
        }
        assert!(gate.queue().waiting.is_empty());
    }

    #[test]
    fn a_stream_that_has_passed_waits_behind_those_who_have_not() {
        let (gate, waker) = (SendGate::default(), Waker::noop());
        let mut pieces = full(&gate);
        let mut waits: Vec<_> = (0..12).map(|_| GateWait::default()).collect();
        assert!(waits.iter_mut().all(|wait| !gate.admits(PIECE, wait, waker)));
        let mut passed = vec![0; waits.len()];
        // There is room for one piece at a time, and the streams are always polled in one order.
        for _ in 0..2 * waits.len() {
            pieces.pop();
            gate.wake();
            for (wait, passed) in waits.iter_mut().zip(&mut passed) {
                if gate.admits(PIECE, wait, waker) {
                    pieces.push(gate.counted(vec![0; PIECE].into()));
                    *passed += 1;
                }
            }
            assert_eq!(gate.handed(), AT_ONCE);
        }
        assert!(passed.iter().all(|times| *times == 2), "{passed:?}");
    }

    #[test]
    fn a_small_piece_counts_while_the_socket_is_full() {
        let (gate, waker) = (SendGate::default(), Waker::noop());
        gate.set_socket_is_full(true);
        let few = gate.counted(vec![0; SMALL].into());
        assert_eq!(gate.handed(), SMALL);
        let pieces = full(&gate);
        let mut wait = GateWait::default();
        assert!(!gate.admits(1, &mut wait, waker));
        gate.set_socket_is_full(false);
        assert!(gate.admits(1, &mut wait, waker));
        assert!(gate.queue().waiting.is_empty(), "it has no place in the line any more");
        drop((few, pieces));
        assert_eq!(gate.handed(), 0);
    }

    #[test]
    fn a_stream_that_goes_away_leaves_the_line_and_gives_its_turn_to_another() {
        let (gate, wakes) = (SendGate::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let pieces = full(&gate);
        let mut waits: Vec<_> = (0..=PIECES).map(|_| GateWait::default()).collect();
        for wait in &mut waits {
            assert!(!gate.admits(PIECE, wait, &waker));
        }
        drop(pieces);
        gate.wake();
        assert_eq!(wakes.0.load(Ordering::Relaxed), PIECES);
        waits.remove(0);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2 * PIECES);
        assert!(gate.admits(PIECE, &mut waits[PIECES - 1], &waker));
        drop(waits);
        assert!(gate.queue().waiting.is_empty());
    }
}
