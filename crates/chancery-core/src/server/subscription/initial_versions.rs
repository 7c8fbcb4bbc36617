//! The resources that a delta client holds from an earlier stream, found by name (S-076,
//! [`initial_resource_versions`]).
//!
//! [`initial_resource_versions`]: https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/discovery/v3/discovery.proto#envoy-v3-api-field-service-discovery-v3-deltadiscoveryrequest-initial-resource-versions

use std::collections::BTreeSet;

use super::interest::Spelling;
use crate::server::held_bytes;
use crate::{ResourceName, Versions};

/// The names and versions of an earlier stream.
#[derive(Debug)]
pub(super) struct InitialVersions {
    versions: Versions,
    /// The place of each name in `versions`, in order of the names.
    order: Box<[u32]>,
    /// The names that the client asked for again since: their versions do not count.
    discarded: BTreeSet<Spelling>,
    /// The globs that the client asked for again since: the versions of their members do not count.
    discarded_globs: BTreeSet<ResourceName>,
    /// True if the client asked for everything again since.
    discarded_all: bool,
}

impl InitialVersions {
    pub(super) fn new(versions: &Versions) -> Self {
        let versions = versions.clone();
        let name = |at: &u32| versions.at(*at as usize).0;
        let mut order: Vec<u32> = (0u32..).take(versions.len()).collect();
        // The sort is stable and the list reversed, so that the last of equal names counts.
        if !order.is_sorted_by(|one, next| name(one) < name(next)) {
            order.reverse();
            order.sort_by(|one, other| name(one).cmp(name(other)));
            order.dedup_by(|one, other| name(one) == name(other));
        }
        let order = order.into();
        Self {
            versions,
            order,
            discarded: BTreeSet::new(),
            discarded_globs: BTreeSet::new(),
            discarded_all: false,
        }
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        self.versions.held_bytes()
            + size_of_val(&*self.order)
            + held_bytes::tree(self.discarded.len(), size_of::<Spelling>())
            + held_bytes::tree(self.discarded_globs.len(), size_of::<Spelling>())
    }

    /// Returns true if there are no versions that count.
    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All names, in order. The client may hold a resource that it asked for again, and has to be
    /// told if it is gone.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|at| self.versions.at(*at as usize).0)
    }

    /// The names and versions that count, in order of the names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let order = if self.discarded_all { &[] } else { &*self.order };
        let versions = order.iter().map(|at| self.versions.at(*at as usize));
        versions.filter(|(name, _)| !self.is_discarded(name))
    }

    /// Discards the version of a name; of a glob, the versions of its members. They are told apart
    /// when the versions are read, because a client can discard many things before.
    pub(super) fn discard(&mut self, name: &Spelling) {
        self.discarded.insert(name.clone());
        let glob = (!ResourceName::is_opaque(name)).then(|| ResourceName::parse(name).ok());
        self.discarded_globs.extend(glob.flatten().filter(ResourceName::is_glob));
    }

    /// Discards all versions.
    pub(super) fn discard_all(&mut self) {
        self.discarded_all = true;
    }

    fn is_discarded(&self, name: &str) -> bool {
        let of = || ResourceName::parse(name).ok().and_then(|name| name.collection());
        self.discarded.contains(name)
            || (!self.discarded_globs.is_empty()
                && of().is_some_and(|glob| self.discarded_globs.contains(&glob)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn earlier(said: &[(&str, &str)]) -> InitialVersions {
        InitialVersions::new(&said.iter().copied().collect())
    }

    #[test]
    fn the_last_version_of_a_name_counts() {
        let said = earlier(&[("b", "1"), ("a", "1"), ("b", "2"), ("c", "1"), ("b", "3")]);
        assert_eq!(said.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3"), ("c", "1")]);
    }

    #[test]
    fn a_version_that_is_discarded_does_not_count() {
        let mut said = earlier(&[("a", "1"), ("b", "1")]);
        said.discard(&"a".into());
        assert_eq!(said.iter().collect::<Vec<_>>(), [("b", "1")]);
        said.discard(&"b".into());
        assert!(said.is_empty());
    }
}
