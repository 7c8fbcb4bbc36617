//! What a delta client says it holds from an earlier stream, found by name.

use std::collections::BTreeSet;

use super::interest::Spelling;
use crate::{ResourceName, Versions};

/// Names and versions of an earlier stream.
#[derive(Debug)]
pub(super) struct InitialVersions {
    versions: Versions,
    /// Where each name is in what was said, in order of the names.
    order: Box<[u32]>,
    /// Asked for again since: what was said of them does not count.
    discarded: BTreeSet<Spelling>,
}

impl InitialVersions {
    pub(super) fn new(said: &Versions) -> Self {
        let said = said.clone();
        let name = |at: &u32| said.at(*at as usize).0;
        let mut order: Vec<u32> = (0u32..).take(said.len()).collect();
        // Stable, and the last of equal names counts.
        if !order.is_sorted_by(|one, next| name(one) < name(next)) {
            order.reverse();
            order.sort_by(|one, other| name(one).cmp(name(other)));
            order.dedup_by(|one, other| name(one) == name(other));
        }
        let order = order.into();
        Self { versions: said, order, discarded: BTreeSet::new() }
    }

    /// Whether nothing was said that counts.
    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All names that were said, in order. Whoever asked again for one may have it all the same, and
    /// has to hear if it is gone.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|at| self.versions.at(*at as usize).0)
    }

    /// Names and versions, in order of the names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let said = self.order.iter().map(|at| self.versions.at(*at as usize));
        said.filter(|(name, _)| !self.discarded.contains(*name))
    }

    /// Forgets what was said of a name; of a glob, what was said of its members.
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

    /// Forgets all that was said.
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
    fn what_was_said_last_counts() {
        let said = earlier(&[("b", "1"), ("a", "1"), ("b", "2"), ("c", "1"), ("b", "3")]);
        assert_eq!(said.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3"), ("c", "1")]);
    }

    #[test]
    fn what_is_forgotten_was_not_said() {
        let mut said = earlier(&[("a", "1"), ("b", "1")]);
        said.discard(&"a".into());
        assert_eq!(said.iter().collect::<Vec<_>>(), [("b", "1")]);
        said.discard(&"b".into());
        assert!(said.is_empty());
    }
}
