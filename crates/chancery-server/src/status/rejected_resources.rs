//! The number of different resources that clients reject now, by type, for metrics.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::card::RejectionNote;

/// Counts resources by the label of their type, of which it keeps a hash of the name.
#[derive(Default)]
pub(crate) struct RejectedResources {
    seen: HashSet<(&'static str, u64)>,
    keys: RandomState,
}

impl RejectedResources {
    /// Takes in a rejection of a type with this label: the resources that its reason names, or else all that may
    /// be meant.
    pub(crate) fn see(&mut self, label: &'static str, rejection: &RejectionNote) {
        let RejectionNote { named, suspects, .. } = rejection;
        let names = if named.is_empty() { suspects } else { named };
        self.seen.extend(names.iter().map(|name| (label, self.keys.hash_one(name))));
    }

    /// The numbers of resources.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, i64> {
        let mut counts = BTreeMap::new();
        self.seen.iter().for_each(|(label, _)| *counts.entry(*label).or_default() += 1);
        counts
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::{ErrorDetail, TypeUrl};

    use super::*;

    fn rejection(named: &[&str], suspects: &[&str]) -> RejectionNote {
        let texts = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        let type_url = TypeUrl::new("type.googleapis.com/foo.Bar");
        let mut note = RejectionNote::new(&type_url, "1", &ErrorDetail::default(), 0);
        (note.named, note.suspects) = (texts(named), texts(suspects));
        note
    }

    #[test]
    fn a_resource_counts_once_however_many_reject_it() {
        let mut rejected = RejectedResources::default();
        rejected.see("cds", &rejection(&["a"], &["a", "b"]));
        rejected.see("cds", &rejection(&["a"], &["a"]));
        rejected.see("eds", &rejection(&[], &["a", "b"]));
        assert_eq!(rejected.counts(), [("cds", 1), ("eds", 2)].into());
    }
}
