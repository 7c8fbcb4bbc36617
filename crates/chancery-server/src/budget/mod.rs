//! The budget: what the clients of a server may hold of it together, and each peer of that.
//!
//! A limit of each thing alone bounds no sum, so everything that is held for a peer has an owner
//! that is charged for it: a connection, a stream, a request that arrives. One rule divides a pool
//! among peers: **no peer holds more than is left for the others**. A peer alone may hold half of the
//! pool, which a fleet behind one address needs when it comes back; a second one may hold a quarter,
//! and so on, so that something is always left for the next peer. This is the dynamic threshold of
//! shared buffers in switches (Choudhury and Hahne, 1998).
//!
//! A peer that is refused although others hold twice as much is not the cause: then streams of the
//! largest holder end ([`memory`]).
//!
//! Not here: the owners themselves (`acceptor`, `connection`, `grpc`, `rest`), and the resources,
//! which the operator's files make and no peer.

mod available;
mod charge;
mod memory;
mod network;
mod peer;
mod pool;
mod recent_work;
mod values;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub use available::{AvailableMemory, MemoryBound};
pub use network::{InvalidNetwork, Network};
pub use peer::shared_address;

pub(crate) use charge::MemoryCharge;
pub(crate) use memory::MemoryShortage;
pub(crate) use peer::{PeerKey, PeerShare, Permit};
pub(crate) use values::ValuesPermit;

use memory::Memory;
use pool::Pool;
use tokio::time::Instant;
use values::Values;

use crate::config::Limits;
use crate::policy::Peer;

/// The number of connections, of streams, and of sets of values, that a peer may have as long as there are any: small
/// limits are for few clients, which may all be at one address.
const ALWAYS: usize = 32;

/// The numbers and the memory that one peer may have where there are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerLimits {
    /// The bytes of memory.
    pub memory: usize,
    /// The number of streams and polls.
    pub streams: usize,
    /// The number of connections.
    pub connections: usize,
}

/// The numbers and the memory that the clients of a server share.
pub(crate) struct Budget {
    connections: Pool,
    streams: Pool,
    memory: Memory,
    values: Values,
    /// The peers whose shares are not bounded.
    balancers: Vec<Network>,
    made: Instant,
    /// The peers that hold something.
    peers: Mutex<HashMap<PeerKey, Weak<PeerShare>>>,
    /// The number of these, for who looks at it often.
    peer_count: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            connections: Pool::new(limits.max_connections, ALWAYS),
            streams: Pool::new(limits.max_streams, ALWAYS),
            memory: Memory::new(limits.memory),
            values: Values::new(limits.max_node_values, ALWAYS),
            balancers: limits.balancers.clone(),
            made: Instant::now(),
            peers: Mutex::default(),
            peer_count: AtomicUsize::new(0),
        })
    }

    /// The limits of one peer beside no others.
    pub(crate) fn of_one_peer(&self) -> PeerLimits {
        PeerLimits {
            memory: self.memory.most_of_one(),
            streams: self.streams.most_of_one(),
            connections: self.connections.most_of_one(),
        }
    }

    /// The microseconds since the budget was made.
    fn micros(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.made).as_micros();
        u64::try_from(passed).unwrap_or(u64::MAX)
    }

    /// The share of a peer.
    pub(crate) fn share_of(self: &Arc<Self>, peer: &Peer) -> Arc<PeerShare> {
        let key = PeerKey::of(peer);
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = peers.get(&key).and_then(Weak::upgrade) {
            return share;
        }
        let bounded = !self.balancers.iter().any(|network| peer.is_in(network));
        let share = Arc::new(PeerShare::new(self, key.clone(), bounded));
        peers.insert(key, Arc::downgrade(&share));
        self.peer_count.store(peers.len(), Ordering::Relaxed);
        share
    }

    /// The number of bytes that are held for clients.
    pub(crate) fn memory_held(&self) -> usize {
        self.memory.held()
    }

    /// The number of bytes that may be held for clients.
    pub(crate) fn memory_limit(&self) -> usize {
        self.memory.limit()
    }

    /// The number of peers that hold something.
    pub(crate) fn peers(&self) -> usize {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Forgets a peer that holds nothing any more.
    fn forget(&self, key: &PeerKey) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        // The peer may have come back, with a share of its own.
        if peers.get(key).is_some_and(|share| share.strong_count() == 0) {
            peers.remove(key);
            self.peer_count.store(peers.len(), Ordering::Relaxed);
        }
    }

    /// The peers that hold at least so many bytes, in the order in which they have to give some back:
    /// those whose shares are bounded first, and of them those that hold most.
    fn holders_of(&self, least: usize) -> Vec<Arc<PeerShare>> {
        // No share is dropped with the lock held, because the last reference forgets the peer.
        let mut holders: Vec<_> = {
            let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
            peers.values().filter_map(Weak::upgrade).collect()
        };
        holders.retain(|share| share.memory() >= least);
        holders.sort_by_cached_key(|share| std::cmp::Reverse((share.is_bounded(), share.memory())));
        holders
    }
}

#[cfg(test)]
mod tests;
