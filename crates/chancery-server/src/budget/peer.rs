//! A peer, as the budget knows it: everything that holds something for the same client.
//!
//! A peer is the certificate that it proved to own, or else its address. Of an IPv6 address the first
//! 64 bits count, because the rest is the client's to choose. All clients on one Unix socket are one
//! peer without a bound: who may open its file is trusted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::charge::ChargeState;
use super::network::Network;
use super::pool::{Pool, Shortage};
use super::recent_work::RecentWork;
use super::values::{OwnValues, Values};
use super::{Budget, MemoryShortage};
use crate::policy::Peer;

/// The name of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PeerKey {
    /// The certificate, as DER.
    Certificate(Arc<[u8]>),
    /// The address, or the first 64 bits of one of IPv6.
    Address(IpAddr),
    /// A Unix socket.
    Local,
}

/// The share of one peer of the budget.
pub(crate) struct PeerShare {
    budget: Arc<Budget>,
    key: PeerKey,
    bounded: bool,
    connections: AtomicUsize,
    streams: AtomicUsize,
    memory: AtomicUsize,
    work: RecentWork,
    values: OwnValues,
    /// The charges that can be asked back, by their addresses, which no others have meanwhile.
    charges: Mutex<HashMap<usize, Weak<ChargeState>>>,
}

/// One thing that a peer took of a pool. It is given back when it is dropped.
pub(crate) struct Permit {
    share: Arc<PeerShare>,
    kind: PermitKind,
}

#[derive(Clone, Copy)]
enum PermitKind {
    Connection,
    Stream,
}

impl PeerKey {
    pub(super) fn of(peer: &Peer) -> Self {
        match (peer.certificates.first(), peer.address) {
            (Some(own), _) => Self::Certificate(own.as_slice().into()),
            (None, Some(address)) => Self::Address(shared_address(address.ip())),
            (None, None) => Self::Local,
        }
    }
}

/// The address by which a peer counts: of an IPv6 address only the first 64 bits, because the rest is
/// the client's to choose.
pub fn shared_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

impl Peer {
    /// Returns true if the peer has an address in this network.
    pub(super) fn is_in(&self, network: &Network) -> bool {
        self.address.is_some_and(|address| network.contains(address.ip()))
    }
}

impl PeerShare {
    pub(super) fn new(budget: &Arc<Budget>, key: PeerKey, bounded: bool) -> Self {
        Self {
            budget: Arc::clone(budget),
            bounded: bounded && key != PeerKey::Local,
            key,
            connections: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            memory: AtomicUsize::new(0),
            work: RecentWork::default(),
            values: OwnValues::default(),
            charges: Mutex::default(),
        }
    }

    /// The name of the peer.
    pub(crate) fn key(&self) -> &PeerKey {
        &self.key
    }

    /// Takes one connection.
    pub(crate) fn connection(self: &Arc<Self>) -> Result<Permit, Shortage> {
        self.permit(PermitKind::Connection)
    }

    /// Takes one stream, poll or call.
    pub(crate) fn stream(self: &Arc<Self>) -> Result<Permit, Shortage> {
        self.permit(PermitKind::Stream)
    }

    fn permit(self: &Arc<Self>, kind: PermitKind) -> Result<Permit, Shortage> {
        let (pool, own) = self.of_kind(kind);
        let count = own.fetch_add(1, Ordering::AcqRel) + 1;
        match pool.take(1, self.bounded.then_some(count)) {
            Ok(()) => Ok(Permit { share: Arc::clone(self), kind }),
            Err(shortage) => {
                own.fetch_sub(1, Ordering::AcqRel);
                Err(shortage)
            }
        }
    }

    fn of_kind(&self, kind: PermitKind) -> (&Pool, &AtomicUsize) {
        match kind {
            PermitKind::Connection => (&self.budget.connections, &self.connections),
            PermitKind::Stream => (&self.budget.streams, &self.streams),
        }
    }

    /// Returns true if connections of the peer kept the workers busy a moment ago.
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        self.work.is_busy(self.budget.micros(now))
    }

    /// Returns true if no other peer holds anything.
    pub(crate) fn is_alone(&self) -> bool {
        self.budget.peer_count.load(Ordering::Relaxed) <= 1
    }

    /// Notes that a connection of the peer was polled for that long.
    pub(crate) fn worked(&self, now: Instant, took: Duration) {
        self.work.add(self.budget.micros(now), took);
    }

    /// The number of bytes that are held for the peer.
    pub(super) fn memory(&self) -> usize {
        self.memory.load(Ordering::Acquire)
    }

    /// The sets of values that all peers hold, and those of this one.
    pub(super) fn values(&self) -> (&Values, &OwnValues) {
        (&self.budget.values, &self.values)
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.bounded
    }

    pub(super) fn take_memory(&self, more: usize) -> Result<(), MemoryShortage> {
        let held = self.memory.fetch_add(more, Ordering::AcqRel).saturating_add(more);
        self.budget.take_memory(self, more, held).inspect_err(|_| {
            self.memory.fetch_sub(more, Ordering::AcqRel);
        })
    }

    pub(super) fn give_memory_back(&self, less: usize) {
        self.memory.fetch_sub(less, Ordering::AcqRel);
        self.budget.memory.give_back(less);
    }

    /// Notes that a charge that was asked back is gone.
    pub(super) fn came_back(&self, bytes: usize) {
        self.budget.memory.came_back(bytes);
    }

    /// Adds a charge whose owner ends when it is told to.
    pub(super) fn add_charge(&self, charge: &Arc<ChargeState>) {
        let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.insert(Arc::as_ptr(charge).addr(), Arc::downgrade(charge));
    }

    pub(super) fn remove_charge(&self, charge: &Arc<ChargeState>) {
        let mut charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.remove(&Arc::as_ptr(charge).addr());
    }

    /// Tells the owners of the largest charges of this peer to end, until they have `wanted` bytes together. Returns
    /// the number of bytes, which are added to `on_its_way`.
    pub(super) fn ask_back(&self, wanted: usize, on_its_way: &AtomicUsize) -> usize {
        let mut all: Vec<_> = {
            let charges = self.charges.lock().unwrap_or_else(PoisonError::into_inner);
            charges.values().filter_map(Weak::upgrade).collect()
        };
        all.sort_unstable_by_key(|charge| std::cmp::Reverse(charge.bytes()));
        let mut asked = 0;
        for charge in all {
            if asked >= wanted {
                break;
            }
            asked += charge.ask_back(on_its_way);
        }
        asked
    }
}

impl Permit {
    /// The share of the peer that has it.
    pub(crate) fn share(&self) -> &Arc<PeerShare> {
        &self.share
    }
}

impl Drop for PeerShare {
    fn drop(&mut self) {
        self.budget.forget(&self.key);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (pool, own) = self.share.of_kind(self.kind);
        own.fetch_sub(1, Ordering::AcqRel);
        pool.give_back(1);
    }
}
