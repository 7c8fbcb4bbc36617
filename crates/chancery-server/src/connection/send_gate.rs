//! The bytes that the streams of one connection have handed to HTTP/2, and that are not written yet.
//!
//! h2 keeps what it is handed until the socket takes it, so a client with large windows and a socket
//! that takes nothing could have the server keep a part of each of a thousand responses. Streams hand
//! over a bounded number of bytes together, and wait for the next time that all of them are written.
//!
//! Not here: the room that the client gives for each stream (`stream`), and who is charged
//! (`unread`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// The number of bytes that streams hand over before all of them are written. The last piece may be
/// above it.
const AT_ONCE: usize = 256 * 1024;

/// Lets the streams of one connection hand bytes over.
#[derive(Default)]
pub(crate) struct SendGate {
    handed: AtomicUsize,
    /// The number of times that everything was written.
    round: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

/// The round in which a stream began to wait.
#[derive(Debug, Default)]
pub(super) struct GateWait(Option<usize>);

impl SendGate {
    /// Returns true if a stream may hand more over.
    pub(super) fn is_open(&self) -> bool {
        self.handed.load(Ordering::Relaxed) < AT_ONCE
    }

    /// Notes bytes that were handed over.
    pub(super) fn pass(&self, bytes: usize) {
        self.handed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Has `waker` woken when the gate opens, once for each time that it is closed.
    pub(super) fn wait(&self, waker: &Waker, wait: &mut GateWait) {
        let round = Some(self.round.load(Ordering::Relaxed));
        if wait.0 != round {
            wait.0 = round;
            self.waiting().push(waker.clone());
        }
    }

    /// Notes that everything was written.
    pub(super) fn open(&self) {
        if self.handed.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        self.round.fetch_add(1, Ordering::Relaxed);
        for waker in std::mem::take(&mut *self.waiting()) {
            waker.wake();
        }
    }

    /// The number of bytes that may not be written yet.
    pub(super) fn handed(&self) -> usize {
        self.handed.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_closed_gate_opens_when_everything_is_written_and_wakes_each_stream_once() {
        let (gate, wakes) = (SendGate::default(), Arc::new(Wakes::default()));
        let (waker, mut wait) = (Waker::from(Arc::clone(&wakes)), GateWait::default());
        for round in 1..=2 {
            assert!(gate.is_open());
            gate.pass(AT_ONCE);
            assert!(!gate.is_open());
            gate.wait(&waker, &mut wait);
            gate.wait(&waker, &mut wait);
            gate.open();
            assert_eq!(wakes.0.load(Ordering::Relaxed), round);
        }
        assert_eq!(gate.handed(), 0);
    }
}
