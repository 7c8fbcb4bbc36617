//! A ring: hashes in order, each with the endpoint that it belongs to. The layout is that of grpc-go, so
//! that the same call goes to the same endpoint from both. Only the weights differ while an endpoint of one of
//! several localities is not healthy: it counts there, and not here.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh64::xxh64;

use super::config::RingSizes;
use crate::balancing::Endpoint;

/// Hashes with the places of endpoints. They are apart, because a search looks at hashes alone.
#[derive(Debug, Default)]
pub(super) struct Ring {
    hashes: Box<[u64]>,
    places: Box<[u32]>,
}

/// A ring that is made when somebody needs it.
#[derive(Debug, Default)]
pub(super) struct LazyRing {
    sizes: RingSizes,
    spots: Vec<Spot>,
    ring: OnceLock<Ring>,
}

/// All of an endpoint that its entries on a ring depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    key: Key,
    weight: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Text(Arc<str>),
    Address(SocketAddr),
    None,
}

impl Spot {
    pub(super) fn new(endpoint: &Endpoint, weight: u32) -> Self {
        let key = match (&endpoint.hash_key, endpoint.addresses.first()) {
            (Some(text), _) if !text.is_empty() => Key::Text(Arc::clone(text)),
            (_, Some(address)) => Key::Address(*address),
            (_, None) => Key::None,
        };
        Self { key, weight }
    }

    fn text(&self) -> Cow<'_, str> {
        match &self.key {
            Key::Text(text) => Cow::Borrowed(text),
            Key::Address(address) => Cow::Owned(address.to_string()),
            Key::None => Cow::Borrowed(""),
        }
    }
}

impl LazyRing {
    pub(super) fn new(sizes: RingSizes, spots: Vec<Spot>) -> Self {
        Self { sizes, spots, ring: OnceLock::new() }
    }

    /// Returns true if the other one is the same ring.
    pub(super) fn is_of_same(&self, other: &Self) -> bool {
        (self.sizes, &self.spots) == (other.sizes, &other.spots)
    }

    #[cfg(test)]
    pub(super) fn is_made(&self) -> bool {
        self.ring.get().is_some()
    }

    /// Returns the ring. Only the first time it has to be made.
    pub(super) fn get(&self) -> &Ring {
        self.ring.get_or_init(|| Ring::new(self.sizes, &self.spots))
    }
}

impl Ring {
    /// Returns a ring on which each endpoint has a number of entries by its weight. The one with the
    /// least weight has a whole number of them, as far as sizes allow that.
    fn new(sizes: RingSizes, spots: &[Spot]) -> Self {
        let (min, max) = sizes.capped();
        let total: f64 = spots.iter().map(|spot| f64::from(spot.weight)).sum();
        let least = spots.iter().map(|spot| spot.weight).min().map_or(1.0, f64::from) / total;
        let scale = ((least * f64::from(min)).ceil() / least).min(f64::from(max));
        let mut keyed: Vec<_> =
            (0_u32..).zip(spots).map(|(place, spot)| (spot.text(), place, spot.weight)).collect();
        keyed.sort();
        let mut entries = Vec::new();
        let (mut count, mut target) = (0.0, 0.0);
        for (key, place, weight) in keyed {
            target += scale * (f64::from(weight) / total);
            let mut hashes = hashes(&key);
            while count < target {
                entries.extend(hashes.next().map(|hash| (hash, place)));
                count += 1.0;
            }
        }
        entries.sort_unstable();
        let (hashes, places): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        Self { hashes: hashes.into(), places: places.into() }
    }

    /// Returns the places of endpoints from a hash on, once around. An endpoint comes as often as it
    /// has entries.
    pub(super) fn from(&self, hash: u64) -> impl Iterator<Item = usize> {
        let at = self.hashes.partition_point(|entry| *entry < hash);
        let (before, after) = self.places.split_at(at);
        after.iter().chain(before).map(|place| usize::try_from(*place).unwrap_or(usize::MAX))
    }
}

/// Returns the hashes of the entries of one endpoint: those of `KEY_0`, `KEY_1` and so on.
fn hashes(key: &str) -> impl Iterator<Item = u64> {
    let mut text = format!("{key}_");
    let length = text.len();
    (0_u32..).map(move |index| {
        text.truncate(length);
        // Writing into a string cannot fail.
        let _ = write!(text, "{index}");
        xxh64(text.as_bytes(), 0)
    })
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh64::Xxh64;

    use super::*;
    use crate::balancing::ring_hash::RingHashConfig;

    fn ring(min: u64, max: u64, weights: impl IntoIterator<Item = (&'static str, u32)>) -> Ring {
        let config = RingHashConfig::new(Some(min), Some(max)).expect("sizes");
        let spots =
            weights.into_iter().map(|(key, weight)| Spot { key: Key::Text(key.into()), weight });
        Ring::new(config.sizes, &spots.collect::<Vec<_>>())
    }

    fn entries(ring: &Ring) -> Vec<usize> {
        let mut counts = vec![0; 8];
        ring.places.iter().for_each(|place| counts[*place as usize] += 1);
        counts.into_iter().filter(|count| *count > 0).collect()
    }

    /// C-114: the size is the smallest above the minimum at which the least weight has whole entries.
    #[test]
    fn a_ring_has_entries_by_weight() {
        assert_eq!(entries(&ring(7, 4096, [("a", 3), ("b", 3), ("c", 4)])), [3, 3, 4]);
        assert_eq!(entries(&ring(1024, 4096, [("a", 1), ("b", 1), ("c", 1)])), [342, 342, 342]);
        assert_eq!(entries(&ring(1024, 4096, [("a", 1), ("b", 5000)])), [1, 4095], "the maximum");
        assert_eq!(entries(&ring(10, 1 << 23, [("a", 1), ("b", 9999)])), [1, 4095], "the cap");
        assert!(ring(1024, 4096, []).from(7).next().is_none());
    }

    /// C-114: the hashes with their endpoints, as one number, are those that the algorithm of grpc-go
    /// makes of the same weights.
    #[test]
    fn a_ring_is_that_of_grpc_go() {
        let even = [("10.0.0.1:80", 1), ("10.0.0.2:80", 1), ("10.0.0.3:80", 1)];
        // Three tenths and four, of 2^31.
        let (three, four) = (644_245_094, 858_993_459);
        let weighted = [("10.0.0.1:80", three), ("10.0.0.2:80", three), ("zebra", four)];
        for (spots, min, size, expected) in [
            (even, 1024, 1026, 4_130_455_941_563_865_897),
            (weighted, 7, 11, 4_820_799_253_329_526_746),
        ] {
            let ring = ring(min, 4096, spots);
            let mut all = Xxh64::new(0);
            for (hash, place) in ring.hashes.iter().zip(&ring.places) {
                all.update(format!("{hash} {}\n", spots[*place as usize].0).as_bytes());
            }
            assert_eq!((ring.hashes.len(), all.digest()), (size, expected));
        }
    }

    /// C-114: the walk begins at the first entry that is not before the hash, and goes once around.
    #[test]
    fn a_walk_goes_once_around() {
        let ring = ring(8, 8, [("a", 1), ("b", 1)]);
        assert_eq!(ring.hashes.len(), 8);
        for (at, hash) in ring.hashes.iter().enumerate() {
            let walk: Vec<_> = ring.from(*hash).collect();
            let places: Vec<_> = ring.places.iter().map(|place| *place as usize).collect();
            assert_eq!(walk, [&places[at..], &places[..at]].concat());
        }
        let last = ring.hashes[7];
        assert!(ring.from(last + 1).eq(ring.from(0)), "after the last comes the first");
    }
}
