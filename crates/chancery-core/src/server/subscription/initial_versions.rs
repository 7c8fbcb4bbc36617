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
        Self { versions, order, discarded: BTreeSet::new() }
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        self.versions.held_bytes()
            + size_of_val(&*self.order)
            + held_bytes::tree(self.discarded.len(), size_of::<Spelling>())
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
        let versions = self.order.iter().map(|at| self.versions.at(*at as usize));
        versions.filter(|(name, _)| !self.discarded.contains(*name))
    }

    /// Discards the version of a name; of a glob, the versions of its members.
    pub(super) fn discard(&mut self, name: &Spelling) {
        self.discarded.insert(name.clone());
        let Some(glob) = ResourceName::parse(name).ok().filter(ResourceName::is_glob) else {
            return;
        };
        self.discard_where(|name| {
            let name = ResourceName::parse(name);
            name.is_ok_and(|name| name.collection().as_ref() == Some(&glob))
        });
    }

    /// Discards all versions.
    pub(super) fn discard_all(&mut self) {
        self.discard_where(|_| true);
    }

    fn discard_where(&mut self, which: impl Fn(&str) -> bool) {
        let names = self.iter().map(|(name, _)| name).filter(|name| which(name));
        let names: Vec<Spelling> = names.map(Spelling::from).collect();
        self.discarded.extend(names);
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
