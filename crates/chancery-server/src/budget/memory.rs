//! The memory that is held for clients, and the way to get some of it back.
//!
//! A peer that asks for memory and would hold less than half of what another one holds is given it
//! from a reserve, and the largest holder has to make room: its largest streams are told to end, and
//! its connections without a request. They end when they are polled, so the memory comes back a moment later; what is on its way is counted,
//! and nobody is told twice. A peer that holds very little is given it from the reserve in any case.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::pool::{Pool, Shortage};
use super::{Budget, PeerShare};

/// The number of bytes that a peer may hold as long as there are any.
const ALWAYS: usize = 1 << 20;

/// The number of peers for each of which one refusal is not looked into after nobody was found who
/// could make room: to look costs a step for each peer.
const PEERS_LOOKED_AT: usize = 64;

/// The memory that is held for clients.
pub(super) struct Memory {
    pool: Pool,
    /// The number of bytes of streams that were told to end and did not yet.
    asked_back: AtomicUsize,
    /// The number of refusals that are not looked into.
    passed_over: AtomicUsize,
}

/// A peer cannot be given the memory that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MemoryShortage {
    /// The peer holds too much.
    #[error(
        "this client has {held} bytes of memory of the server, which is more than is left for \
         others; `limits.memory` is the sum for all clients"
    )]
    Share {
        /// The number of bytes that the peer would hold.
        held: usize,
    },
    /// There is none.
    #[error(
        "the server has no memory left for clients; `limits.memory` is the sum for all of them"
    )]
    Whole,
}

impl Memory {
    /// The limit of the pool leaves room for the reserve.
    pub(super) fn new(limit: usize) -> Self {
        let pool = Pool::new(limit / 9 * 8, ALWAYS);
        Self { pool, asked_back: AtomicUsize::new(0), passed_over: AtomicUsize::new(0) }
    }

    pub(super) fn most_of_one(&self) -> usize {
        self.pool.most_of_one()
    }

    pub(super) fn held(&self) -> usize {
        self.pool.taken()
    }

    pub(super) fn limit(&self) -> usize {
        self.pool.limit() / 8 * 9
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.pool.give_back(bytes);
    }

    /// Returns true if this refusal is one of those that are not looked into.
    fn is_passed_over(&self) -> bool {
        let one_less = |it: usize| it.checked_sub(1);
        self.passed_over.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok()
    }

    /// Notes that a stream that was told to end has ended.
    pub(super) fn came_back(&self, bytes: usize) {
        self.asked_back.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl Budget {
    /// Takes `more` bytes for a peer that holds `held` bytes then.
    pub(super) fn take_memory(
        &self,
        peer: &PeerShare,
        more: usize,
        held: usize,
    ) -> Result<(), MemoryShortage> {
        let own = peer.is_bounded().then_some(held);
        let Err(shortage) = self.memory.pool.take(more, own) else { return Ok(()) };
        let has_reserve = self.make_room(peer, held) || self.memory.pool.is_little(held);
        if has_reserve && self.memory.pool.take_from_reserve(more, held).is_ok() {
            return Ok(());
        }
        Err(match shortage {
            Shortage::Share => MemoryShortage::Share { held },
            Shortage::Whole => MemoryShortage::Whole,
        })
    }

    /// Tells the largest holder that can end something to make room for a peer that holds `held`
    /// bytes. Returns false if nobody who holds twice as much can.
    fn make_room(&self, peer: &PeerShare, held: usize) -> bool {
        if self.memory.asked_back.load(Ordering::Acquire) >= held.max(1) {
            return true;
        }
        if self.memory.is_passed_over() {
            return false;
        }
        let wanted = held.max(self.memory.pool.limit() / 16);
        let holders = self.holders_of(held.saturating_mul(2).max(1));
        let others = holders.iter().filter(|it| !std::ptr::eq(&raw const ***it, peer));
        let makes_room =
            others.map(|it| it.ask_back(wanted, &self.memory.asked_back)).any(|it| it > 0);
        if !makes_room {
            self.memory.passed_over.store(self.peers() / PEERS_LOOKED_AT, Ordering::Release);
        }
        makes_room
    }
}
