//! The lines that peers may write: each connection, each address and all together have a bucket.
//!
//! A connection fills a part of what its address may write, so that one noisy client behind a
//! balancer leaves room for the others there. An address has one bucket for the first lines of its
//! connections and one for all others: however noisy some connections are, a client that has said
//! nothing yet is heard. A client that has acknowledged something may use all
//! of a bucket, and any other the first half: connections that come and go never use up what is
//! left for clients that stay.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use chancery_core::Time;
use chancery_core::client::{RateLimit, TokenBucket};

use super::recent::Recent;
use crate::budget::shared_address;

/// The lines of one connection: the half of it is as many as it can have streams by default.
const CONNECTION: RateLimit = RateLimit { burst: 2000, interval: Duration::from_secs(1) };

/// The lines of one address, those that are the first of their connection and those that are not; of
/// IPv6, the lines of one network of 64 bits.
const ADDRESS: RateLimit = RateLimit { burst: 16_000, interval: Duration::from_millis(100) };

/// The lines of all peers.
const TOTAL: RateLimit = RateLimit { burst: 64_000, interval: Duration::from_millis(25) };

/// The number of connections and of addresses that are remembered, twice as many at most. One that
/// is forgotten has its burst again, within that of all.
const REMEMBERED: usize = 4096;

/// The address of peers that share a budget; `None` for those of Unix sockets.
pub(super) type PeerAddress = Option<IpAddr>;

/// The budgets of one kind of lines.
#[derive(Debug)]
pub(super) struct Budgets {
    connections: Recent<Option<SocketAddr>, TokenBucket>,
    addresses: Recent<PeerAddress, [TokenBucket; 2]>,
    total: TokenBucket,
}

impl Budgets {
    pub(super) fn new() -> Self {
        let (connections, addresses) = (Recent::new(REMEMBERED), Recent::new(REMEMBERED));
        Self { connections, addresses, total: TokenBucket::default() }
    }

    /// Takes a line out of the budgets of a peer. Returns false if one of them has none left.
    pub(super) fn take(&mut self, peer: Option<SocketAddr>, proven: bool, now: Time) -> bool {
        let (connection, is_first) = self.connections.entry(&peer, drop);
        let (addresses, _) = self.addresses.entry(&address_of(peer), drop);
        let address = &mut addresses[usize::from(is_first)];
        let mut buckets = [(connection, CONNECTION), (address, ADDRESS), (&mut self.total, TOTAL)];
        // A bucket that is used to a half for some is as one of half the size.
        let share = |limit: RateLimit| match proven {
            true => limit,
            false => RateLimit { burst: limit.burst / 2, ..limit },
        };
        let free = |(bucket, limit): &(&mut TokenBucket, RateLimit)| {
            bucket.next_token(share(*limit)) <= now
        };
        if !buckets.iter().all(free) {
            return false;
        }
        buckets.iter_mut().for_each(|(bucket, limit)| bucket.take(now, *limit));
        true
    }
}

/// The address that a peer shares with others that are likely to be the same.
pub(super) fn address_of(peer: Option<SocketAddr>) -> PeerAddress {
    peer.map(|peer| shared_address(peer.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(Duration::ZERO);

    fn peer(address: &str, port: u16) -> Option<SocketAddr> {
        Some(SocketAddr::new(address.parse().unwrap(), port))
    }

    fn taken(budgets: &mut Budgets, peer: Option<SocketAddr>, proven: bool) -> usize {
        (0..100_000).take_while(|_| budgets.take(peer, proven, START)).count()
    }

    #[test]
    fn a_connection_has_a_part_of_its_address_and_an_address_of_the_total() {
        let mut budgets = Budgets::new();
        let one: usize =
            (0..50).map(|port| taken(&mut budgets, peer("192.0.2.1", port), true)).sum();
        assert_eq!(one, 16_000 + 50, "the first line of each connection, and others");
        assert_eq!(taken(&mut budgets, peer("192.0.2.2", 1), true), 2000);
        let all: usize = (0..250)
            .map(|host| taken(&mut budgets, peer(&format!("192.0.3.{host}"), 1), true))
            .sum();
        assert_eq!(one + 2000 + all, 64_000);
    }

    #[test]
    fn a_client_that_has_said_nothing_yet_is_heard() {
        let mut budgets = Budgets::new();
        for port in 0..100 {
            taken(&mut budgets, peer("192.0.2.1", port), true);
        }
        assert!(!budgets.take(peer("192.0.2.1", 1), true, START));
        assert!(budgets.take(peer("192.0.2.1", 101), false, START));
    }

    #[test]
    fn who_comes_and_goes_leaves_room_for_who_stays() {
        let mut budgets = Budgets::new();
        for port in 0..60_000 {
            budgets.take(peer("192.0.2.1", port), false, START);
        }
        assert!(!budgets.take(peer("192.0.2.1", 60_001), false, START));
        assert_eq!(taken(&mut budgets, peer("192.0.2.1", 60_002), true), 2000, "all it may");
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let of = |text: &str| address_of(peer(text, 1));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
