//! The memory that one owner holds for its peer: a stream, a connection, or a request that arrives.
//!
//! The owner says how much it holds whenever that changes. It is counted in whole steps, so that a
//! small change costs no atomic operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use atomic_waker::AtomicWaker;

use super::{MemoryShortage, PeerShare};

/// The number of bytes in which memory is counted.
const STEP: usize = 4 * 1024;

/// The memory that one owner holds. It is given back when it is dropped.
pub(crate) struct MemoryCharge {
    share: Arc<PeerShare>,
    state: Arc<ChargeState>,
}

/// A charge as its peer knows it.
pub(super) struct ChargeState {
    bytes: AtomicUsize,
    /// The number of bytes that it had when its owner was told to end; 0 if it was not told.
    asked_back: AtomicUsize,
    /// True if the owner ends when it is told to: then the peer knows the charge.
    ends: AtomicBool,
    waker: AtomicWaker,
}

impl MemoryCharge {
    /// A charge of `bytes`.
    ///
    /// # Errors
    /// When the peer cannot have them.
    pub(crate) fn new(share: &Arc<PeerShare>, bytes: usize) -> Result<Self, MemoryShortage> {
        let bytes = in_steps(bytes);
        share.take_memory(bytes)?;
        let state = Arc::new(ChargeState {
            bytes: AtomicUsize::new(bytes),
            asked_back: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        Ok(Self { share: Arc::clone(share), state })
    }

    /// Notes how much the owner holds.
    ///
    /// # Errors
    /// When the peer cannot have so much. The charge is as it was then, and its owner should end.
    pub(crate) fn set(&self, bytes: usize) -> Result<(), MemoryShortage> {
        let (bytes, before) = (in_steps(bytes), self.state.bytes());
        if bytes > before {
            self.share.take_memory(bytes - before)?;
        } else if bytes < before {
            self.share.give_memory_back(before - bytes);
        }
        if bytes != before {
            self.state.bytes.store(bytes, Ordering::Release);
        }
        Ok(())
    }

    /// Notes that the owner holds as much more.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub(crate) fn add(&self, more: usize) -> Result<(), MemoryShortage> {
        self.set(self.state.bytes().saturating_add(more))
    }

    /// Notes that the owner does not look any more whether it has to end.
    pub(crate) fn looks_no_more(&self) {
        if self.state.ends.swap(false, Ordering::AcqRel) {
            self.share.remove_charge(&self.state);
        }
    }

    /// The number of bytes that are charged.
    pub(crate) fn bytes(&self) -> usize {
        self.state.bytes()
    }

    /// The share of the peer.
    pub(crate) fn share(&self) -> &Arc<PeerShare> {
        &self.share
    }

    /// Returns true if the owner has to end, because others need the memory. If not, `waker` is woken
    /// when that changes.
    pub(crate) fn is_asked_back(&self, waker: &Waker) -> bool {
        if !self.state.ends.load(Ordering::Relaxed) {
            self.state.ends.store(true, Ordering::Release);
            self.state.waker.register(waker);
            self.share.add_charge(&self.state);
        }
        self.was_asked_back()
    }

    /// Returns true if the owner was told to end.
    pub(crate) fn was_asked_back(&self) -> bool {
        self.state.asked_back.load(Ordering::Acquire) > 0
    }
}

impl ChargeState {
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Tells the owner to end. Returns the number of bytes that come back, which are added to
    /// `on_its_way`; 0 if the owner was told before.
    pub(super) fn ask_back(&self, on_its_way: &AtomicUsize) -> usize {
        let bytes = self.bytes();
        if bytes == 0 {
            return 0;
        }
        // They are added first, because the owner may end before the next line.
        on_its_way.fetch_add(bytes, Ordering::AcqRel);
        let asked = self.asked_back.compare_exchange(0, bytes, Ordering::AcqRel, Ordering::Acquire);
        if asked.is_err() {
            on_its_way.fetch_sub(bytes, Ordering::AcqRel);
            return 0;
        }
        self.waker.wake();
        bytes
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        if self.state.ends.load(Ordering::Acquire) {
            self.share.remove_charge(&self.state);
        }
        self.share.give_memory_back(self.state.bytes());
        // The mark that is not zero keeps others from asking it back from now on.
        let asked = self.state.asked_back.swap(usize::MAX, Ordering::AcqRel);
        if asked > 0 {
            self.share.came_back(asked);
        }
    }
}

fn in_steps(bytes: usize) -> usize {
    bytes.div_ceil(STEP).saturating_mul(STEP)
}
