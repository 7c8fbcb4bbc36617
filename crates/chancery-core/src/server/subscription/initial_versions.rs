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
    /// True, at a place of `order`, if the client asked for the name again since: its version does not
    /// count. Empty if there is none.
    discarded: Vec<bool>,
    /// The globs that the client asked for again since: the versions of their members do not count.
    discarded_globs: BTreeSet<ResourceName>,
    /// The bytes of the texts of these globs.
    glob_texts: usize,
    /// True if the client asked for everything again since, or for so many globs that no version
    /// counts: a client may be sent what it has.
    discarded_all: bool,
}

/// The most globs that are told apart.
const MOST_GLOBS: usize = 1024;

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
            discarded: Vec::new(),
            discarded_globs: BTreeSet::new(),
            glob_texts: 0,
            discarded_all: false,
        }
    }

    /// The names that do not sort before `start`, in order.
    pub(super) fn names_from(&self, start: &str) -> impl Iterator<Item = &str> {
        let name = |at: &u32| self.versions.at(*at as usize).0;
        let first = self.order.partition_point(|at| name(at) < start);
        self.order.iter().skip(first).map(name)
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        self.versions.held_bytes()
            + size_of_val(&*self.order)
            + self.discarded.capacity()
            + held_bytes::tree(self.discarded_globs.len(), size_of::<ResourceName>())
            + self.glob_texts
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
        let is_discarded = |place: usize| self.discarded.get(place).is_some_and(|it| *it);
        let left = order.iter().enumerate().filter(move |(place, _)| !is_discarded(*place));
        let versions = left.map(|(_, at)| self.versions.at(*at as usize));
        versions.filter(|(name, _)| !self.is_in_discarded_glob(name))
    }

    /// Discards the version of a name; of a glob, the versions of its members. They are told apart
    /// when the versions are read, because a client can discard many things before.
    pub(super) fn discard(&mut self, name: &Spelling) {
        if self.discarded_all {
            return;
        }
        let name_at = |at: &u32| self.versions.at(*at as usize).0;
        if let Ok(place) = self.order.binary_search_by(|at| name_at(at).cmp(&**name)) {
            self.discarded.resize(self.order.len(), false);
            self.discarded[place] = true;
        }
        let glob = (!ResourceName::is_opaque(name)).then(|| ResourceName::parse(name).ok());
        if let Some(glob) = glob.flatten().filter(ResourceName::is_glob) {
            self.discard_glob(glob);
        }
    }

    /// Discards all versions.
    pub(super) fn discard_all(&mut self) {
        self.discarded_all = true;
        self.discarded = Vec::new();
        self.discarded_globs = BTreeSet::new();
        self.glob_texts = 0;
    }

    fn discard_glob(&mut self, glob: ResourceName) {
        if self.order.is_empty() {
            return;
        }
        let text = held_bytes::text(glob.as_str().len());
        if self.discarded_globs.insert(glob) {
            self.glob_texts += text;
        }
        if self.discarded_globs.len() > MOST_GLOBS {
            self.discard_all();
        }
    }

    fn is_in_discarded_glob(&self, name: &str) -> bool {
        let of = || ResourceName::parse(name).ok().and_then(|name| name.collection());
        !self.discarded_globs.is_empty()
            && of().is_some_and(|glob| self.discarded_globs.contains(&glob))
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
    fn names_without_a_version_leave_nothing_behind() {
        let mut said = earlier(&[("a", "1"), ("b", "1")]);
        said.discard(&"a".into());
        let held = said.held_bytes();
        (0..1000).for_each(|at| said.discard(&format!("other-{at}").into()));
        assert_eq!(said.held_bytes(), held);
        assert_eq!(said.iter().collect::<Vec<_>>(), [("b", "1")]);
    }

    #[test]
    fn the_members_of_a_glob_that_is_discarded_do_not_count() {
        // S-117
        let [one, other] = ["xdstp://x/T/a/b", "xdstp://x/T/c/d"];
        let mut said = earlier(&[(one, "1"), (other, "1"), ("a", "1")]);
        said.discard(&"xdstp://x/T/a/*".into());
        assert_eq!(said.iter().collect::<Vec<_>>(), [("a", "1"), (other, "1")]);
    }

    #[test]
    fn so_many_globs_are_told_apart_and_more_discard_everything() {
        let mut said = earlier(&[("a", "1"), ("b", "1")]);
        let held = said.held_bytes();
        let glob = |at: usize| Spelling::from(format!("xdstp://x/T/{at:04000}/*"));
        (0..MOST_GLOBS).for_each(|at| said.discard(&glob(at)));
        assert_eq!(said.iter().count(), 2, "at the limit");
        assert!(said.held_bytes() > held + MOST_GLOBS * 4000, "texts count");
        (MOST_GLOBS..2 * MOST_GLOBS).for_each(|at| said.discard(&glob(at)));
        assert!(said.is_empty(), "past it");
        assert_eq!(said.names().count(), 2);
        assert_eq!(said.held_bytes(), held);
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
