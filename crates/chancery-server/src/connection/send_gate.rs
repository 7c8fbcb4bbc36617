//! The bytes that the streams of one connection have handed to HTTP/2, and that h2 still has.
//!
//! h2 keeps what it is handed until the socket takes it, so a client with large windows and a socket
//! that takes nothing could have the server keep a part of each of a thousand responses. Streams hand
//! over a bounded number of bytes together, and wait in line for more. What h2 drops is counted as
//! what it writes, because each piece counts as long as it lives.
//!
//! Not here: the room that the client gives for each stream (`stream`), and who is charged
//! (`unread`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;

/// The number of bytes that h2 may have of all streams. The last piece may be above it.
const AT_ONCE: usize = 256 * 1024;
/// The size of a piece that passes uncounted: most responses are small.
const SMALL: usize = 4 * 1024;
/// The number of streams that are woken at once.
const WOKEN: usize = 4;

/// Lets the streams of one connection hand bytes over.
#[derive(Clone, Default)]
pub(crate) struct SendGate(Arc<GateState>);

#[derive(Default)]
struct GateState {
    handed: AtomicUsize,
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
        if bytes <= SMALL {
            return true;
        }
        let mut queue = self.queue();
        let is_called = wait.0.as_ref().is_some_and(|(_, ticket)| queue.find(*ticket).is_none());
        let goes_first = is_called || (wait.0.is_none() && queue.waiting.is_empty());
        if goes_first && self.has_room() {
            wait.0 = None;
            return true;
        }
        if wait.0.is_none() || is_called {
            queue.last += 1;
            let ticket = queue.last;
            queue.waiting.push_back((ticket, waker.clone()));
            // The old ticket is out of the line, so nothing is given up by forgetting it.
            wait.0 = Some((self.clone(), ticket));
        }
        false
    }

    /// The piece as h2 gets it.
    pub(super) fn counted(&self, bytes: Bytes) -> Bytes {
        if bytes.len() <= SMALL {
            return bytes;
        }
        self.0.handed.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Piece { bytes, gate: self.clone() })
    }

    /// Wakes the streams whose turn it is, if there is room.
    pub(super) fn wake(&self) {
        if !self.has_room() {
            return;
        }
        let mut queue = self.queue();
        let called = queue.waiting.len().min(WOKEN);
        for (_, waker) in queue.waiting.drain(..called) {
            waker.wake();
        }
    }

    /// The number of bytes that h2 has.
    pub(super) fn handed(&self) -> usize {
        self.0.handed.load(Ordering::Relaxed)
    }

    fn has_room(&self) -> bool {
        self.handed() < AT_ONCE
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
        match queue.find(ticket) {
            Some(at) => drop(queue.waiting.remove(at)),
            None => {
                drop(queue);
                gate.wake();
            }
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

    const LARGE: usize = 16 * 1024;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As many pieces as fill the gate.
    fn full(gate: &SendGate) -> Vec<Bytes> {
        (0..AT_ONCE / LARGE).map(|_| gate.counted(vec![0; LARGE].into())).collect()
    }

    #[test]
    fn streams_pass_in_the_order_in_which_they_came() {
        let (gate, wakes) = (SendGate::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let pieces = full(&gate);
        let mut waits: Vec<_> = (0..2 * WOKEN).map(|_| GateWait::default()).collect();
        for wait in &mut waits {
            assert!(!gate.admits(LARGE, wait, &waker) && !gate.admits(LARGE, wait, &waker));
        }
        assert!(gate.admits(SMALL, &mut GateWait::default(), &waker));
        gate.wake();
        assert_eq!((wakes.0.load(Ordering::Relaxed), gate.handed()), (0, AT_ONCE));
        drop(pieces);
        gate.wake();
        assert_eq!((wakes.0.load(Ordering::Relaxed), gate.handed()), (WOKEN, 0));
        let admitted: Vec<_> =
            waits.iter_mut().map(|wait| gate.admits(LARGE, wait, &waker)).collect();
        assert_eq!(admitted, [[true; WOKEN], [false; WOKEN]].concat());
        assert!(!gate.admits(LARGE, &mut GateWait::default(), &waker), "others came before");
    }

    #[test]
    fn a_stream_that_goes_away_leaves_the_line_and_gives_its_turn_to_another() {
        let (gate, wakes) = (SendGate::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let pieces = full(&gate);
        let mut waits: Vec<_> = (0..=WOKEN).map(|_| GateWait::default()).collect();
        for wait in &mut waits {
            assert!(!gate.admits(LARGE, wait, &waker));
        }
        drop(pieces);
        gate.wake();
        waits.remove(0);
        assert_eq!(wakes.0.load(Ordering::Relaxed), WOKEN + 1);
        drop(waits);
        assert!(gate.queue().waiting.is_empty());
    }
}
