//! A filter of names in 64 bits, which says of most pairs of small sets that they have no name in
//! common.

use xxhash_rust::xxh3::xxh3_64;

use crate::ResourceName;

/// One bit for each name of a set, at a place that depends on the name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NameBits(u64);

impl NameBits {
    /// The filter of all names.
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// Returns true if the sets have no name in common; false says nothing.
    pub(crate) fn are_apart_from(self, other: Self) -> bool {
        self.0 & other.0 == 0
    }
}

impl<'a> FromIterator<&'a ResourceName> for NameBits {
    fn from_iter<I: IntoIterator<Item = &'a ResourceName>>(names: I) -> Self {
        let bit = |name: &ResourceName| 1_u64 << (xxh3_64(name.as_str().as_bytes()) % 64);
        Self(names.into_iter().fold(0, |bits, name| bits | bit(name)))
    }
}
