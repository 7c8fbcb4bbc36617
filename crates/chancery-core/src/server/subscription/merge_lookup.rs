//! The lookup of many names at once, in their order.
//!
//! A single lookup compares a name with a dozen others. Names that come in order are found by
//! walking along the sorted set beside them, as in a merge join, which is faster unless the names
//! are few.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::sync::Arc;

use super::interest::{Interest, Spelling};
use crate::server::held_bytes;
use crate::{Resource, ResourceSet};

/// A lookup of the keys of a subscription in a set. The keys have to come in order.
pub(super) struct MergeLookup<'a> {
    interest: &'a Interest,
    set: &'a ResourceSet,
    /// The members of the set that are still ahead; `None` if each key is looked up by itself.
    sorted_members: Option<Peekable<SortedMembers<'a>>>,
}

type SortedMembers<'a> = Box<dyn Iterator<Item = (&'a str, &'a Arc<Resource>)> + 'a>;

impl<'a> MergeLookup<'a> {
    /// A lookup of about `keys` keys.
    pub(super) fn new(interest: &'a Interest, set: &'a ResourceSet, keys: usize) -> Self {
        let dense = keys.saturating_mul(WORTH_WALKING) >= set.len();
        let sorted_members = (dense && interest.is_plain() && set.is_plain()).then(|| {
            let members = set.iter().map(|member| (member.name().as_str(), member));
            (Box::new(members) as SortedMembers<'a>).peekable()
        });
        Self { interest, set, sorted_members }
    }

    /// The names of the interest as texts that the set keeps anyway, where it has them; and the
    /// bytes of these.
    pub(super) fn shared_spellings(mut self) -> (BTreeSet<Spelling>, usize) {
        let mut shared = 0;
        let names = self.interest.names().iter().map(|name| match self.find(name) {
            Some(found) if *found.name().as_str() == **name => {
                shared += held_bytes::text(name.len());
                found.name().shared()
            }
            _ => Arc::clone(name),
        });
        (names.collect(), shared)
    }

    /// Returns the resource that a key means.
    #[inline]
    pub(super) fn find(&mut self, key: &str) -> Option<&'a Arc<Resource>> {
        match &mut self.sorted_members {
            Some(sorted_members) => seek(sorted_members, key),
            None => self.interest.resolve(self.set, key),
        }
    }
}

/// Returns the value of a name in a list that is sorted by names. The names have to come in order.
#[inline]
pub(super) fn seek<'a, V>(
    sorted: &mut Peekable<impl Iterator<Item = (&'a str, V)>>,
    name: &str,
) -> Option<V> {
    while sorted.next_if(|(one, _)| *one < name).is_some() {}
    sorted.next_if(|(one, _)| *one == name).map(|(_, found)| found)
}

/// The number of members that can be walked past in the time of one lookup.
const WORTH_WALKING: usize = 16;
