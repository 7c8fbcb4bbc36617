//! The keys that decide what an overlay changes in the view under it, and the keys that a step from
//! one view to the next may have touched.
//!
//! A resource touches its own key, those of its aliases, and those it refers to: a load assignment
//! is generated for a cluster, and a reference leads nowhere, because of what is under these keys
//! and nothing else; of a federated name the authority counts too, and of a listener its addresses. Clusters that
//! are made of others have one key together. So where the reach of a small overlay and a step of the view under it have no
//! key in common, the overlay changes the same as before.
//!
//! Keys are compared by their hashes. If two keys have the same hash, a view is made anew in vain.

use std::sync::Arc;

use chancery_core::{Resource, ResourceName, Snapshot, TypeUrl};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::entry::{Entry, Key};

/// A set of keys, as their hashes. Clones share the list.
#[derive(Clone, Default)]
pub(crate) struct KeySet {
    /// The hashes, sorted.
    hashes: Arc<[u64]>,
    /// One bit for each hash: most sets that have none in common differ in this already.
    bits: u64,
}

impl KeySet {
    /// The reach of an overlay that makes one snapshot of another: the keys that decide what the
    /// overlay changes. Returns `None` if they are too many to be worth it.
    pub(crate) fn reach<'a>(
        overlay: impl Iterator<Item = (&'a Key, &'a Entry)>,
        [below, now]: [&Snapshot; 2],
    ) -> Option<Self> {
        let mut keys = Vec::new();
        for (key, entry) in overlay {
            // A patch has no references of its own, and the resource that it makes has.
            let own = entry.resource().or_else(|| resource(now, key));
            add(&mut keys, key, [own, resource(below, key)])?;
        }
        Some(Self::of(keys))
    }

    /// These keys, and those that a change of one layer touches, which makes one snapshot of
    /// another. Returns `None` if they are too many to be worth it.
    pub(crate) fn with_touched<'a>(
        &self,
        differing: impl Iterator<Item = &'a Key>,
        before: &Snapshot,
        now: &Snapshot,
    ) -> Option<Self> {
        let mut keys = self.hashes.to_vec();
        for key in differing {
            add(&mut keys, key, [resource(before, key), resource(now, key)])?;
        }
        Some(Self::of(keys))
    }

    /// Returns true if no key is in both.
    pub(crate) fn is_apart_from(&self, other: &Self) -> bool {
        if self.bits & other.bits == 0 {
            return true;
        }
        let (few, many) = match self.hashes.len() < other.hashes.len() {
            true => (&self.hashes, &other.hashes),
            false => (&other.hashes, &self.hashes),
        };
        !few.iter().any(|key| many.binary_search(key).is_ok())
    }

    fn of(mut keys: Vec<u64>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        let bits = keys.iter().fold(0, |bits, key| bits | 1 << (key % 64));
        Self { hashes: keys.into(), bits }
    }
}

/// Adds a key, and those that the resources under it touch. Returns `None` if there is no room.
fn add(keys: &mut Vec<u64>, key: &Key, resources: [Option<&Arc<Resource>>; 2]) -> Option<()> {
    for resource in resources.into_iter().flatten() {
        keys.extend(resource.aliases().iter().map(|alias| hash(&key.type_url, alias)));
        let addresses = resource.facts().addresses.iter();
        keys.extend(addresses.map(|address| xxh3_64_with_seed(address.as_bytes(), ADDRESS)));
        keys.extend(resource.facts().is_aggregate.then_some(AGGREGATES));
        let links = resource.facts().links.iter();
        keys.extend(links.map(|link| hash(&link.type_url, &link.name)));
    }
    keys.push(hash(&key.type_url, &key.name));
    let links = resources.into_iter().flatten().flat_map(|resource| &resource.facts().links);
    let names = links.map(|link| &link.name).chain([&key.name]);
    keys.extend(names.filter_map(authority));
    (keys.len() <= MOST_KEYS).then_some(())
}

/// The hash of a key.
pub(crate) fn hash(type_url: &TypeUrl, name: &ResourceName) -> u64 {
    let seed = xxh3_64_with_seed(type_url.as_str().as_bytes(), 0);
    xxh3_64_with_seed(name.as_str().as_bytes(), seed)
}

/// The hash of the authority of a federated name: a reference may lead nowhere because something of its
/// authority is published.
fn authority(name: &ResourceName) -> Option<u64> {
    let authority = name.xdstp()?.authority;
    Some(xxh3_64_with_seed(authority.as_bytes(), AUTHORITY))
}

fn resource<'a>(snapshot: &'a Snapshot, key: &Key) -> Option<&'a Arc<Resource>> {
    snapshot.set(&key.type_url).get(key.name.as_str())
}

/// The number of keys beyond which a view is made anew.
const MOST_KEYS: usize = 1024;

/// Tells the hashes of authorities from those of keys.
const AUTHORITY: u64 = 1;

/// The key that all clusters touch that are made of others: a circle of them leads through any number of them.
const AGGREGATES: u64 = 3;

/// Tells the hashes of addresses from those of keys.
const ADDRESS: u64 = 2;
