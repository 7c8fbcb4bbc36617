//! Snapshots: immutable sets of resources, one for each audience, that share what did not change.
//!
//! A [`Snapshot`] has the resources that one audience should see. Cloning it is cheap, and editing
//! the clone leaves the original as it was.

use std::fmt;
use std::sync::Arc;

use crate::type_map::TypeMap;
use crate::{Pending, Resource, ResourceName, ResourceSet, TypeUrl};

/// The resources that one audience should see, by type.
#[derive(Clone, Default, PartialEq)]
pub struct Snapshot {
    sets: TypeMap<Arc<ResourceSet>>,
}

impl Snapshot {
    /// An empty snapshot.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a resource, or replaces the one of that name. If it is the same, nothing changes.
    pub fn insert(&mut self, type_url: &TypeUrl, resource: impl Into<Arc<Resource>>) {
        let resource = resource.into();
        match self.sets.get_mut(type_url) {
            Some(set) if set.holds(&resource) => {}
            // A set that nobody shares is edited where it is.
            Some(set) => Arc::make_mut(set).insert(resource),
            None => {
                let mut set = ResourceSet::default();
                set.insert(resource);
                self.sets.insert(type_url, Arc::new(set));
            }
        }
    }

    /// Removes a resource. The type goes with its last resource.
    pub fn remove(&mut self, type_url: &TypeUrl, name: &ResourceName) {
        let Some(set) = self.sets.get_mut(type_url).filter(|set| set.get(name.as_str()).is_some())
        else {
            return;
        };
        let set = Arc::make_mut(set);
        set.remove(name);
        if set.is_void() {
            self.sets.remove(type_url);
        }
    }

    /// Replaces all resources by these. Sets and resources that did not change stay shared.
    pub fn replace(&mut self, wanted: impl IntoIterator<Item = (TypeUrl, Arc<Resource>)>) {
        let mut sets: std::collections::BTreeMap<TypeUrl, Vec<Arc<Resource>>> =
            self.types().map(|type_url| (type_url.clone(), Vec::new())).collect();
        for (type_url, resource) in wanted {
            sets.entry(type_url).or_default().push(resource);
        }
        for (type_url, wanted) in sets {
            let before = Arc::clone(self.set(&type_url));
            let after = before.replaced(wanted);
            if after.is_void() {
                self.sets.remove(&type_url);
            } else if !after.has_same_resources(&before) {
                self.sets.insert(&type_url, Arc::new(after));
            }
        }
    }

    /// States the version of a type instead of deriving it. The caller promises that it changes
    /// exactly when the type's content does; the next edit of the type forgets it.
    pub fn set_version(&mut self, type_url: &TypeUrl, version: &str) {
        let mut set = (**self.set(type_url)).clone();
        set.set_version(version);
        self.sets.insert(type_url, Arc::new(set));
    }

    /// States which names of a type are pending; edits of the type leave that as it is.
    pub fn set_pending(&mut self, type_url: &TypeUrl, pending: Pending) {
        let mut set = (**self.set(type_url)).clone();
        set.set_pending(pending);
        if set.is_void() {
            self.sets.remove(type_url);
        } else {
            self.sets.insert(type_url, Arc::new(set));
        }
    }

    /// States that this was made by writing a few resources over another snapshot. Nothing in it
    /// changes; responses share the memory, and the work, of what both have in common.
    pub fn written_over(&mut self, below: &Self) {
        for (type_url, set) in self.sets.iter_mut() {
            let under = below.set(type_url);
            if Arc::ptr_eq(set, under) {
                continue;
            }
            if set.is_same(under) {
                *set = Arc::clone(under);
            } else if let Some(over) = set.over(under) {
                *set = Arc::new(over);
            }
        }
    }

    /// The snapshot with the same changes as this one, written over `to` in place of `from`; `None`
    /// if that is not known to be right without making it anew.
    pub fn rebased(&self, from: &Self, to: &Self) -> Option<Self> {
        let mut rebased = to.clone();
        for (type_url, set) in rebased.sets.iter_mut() {
            let after = self.set(type_url).rebased(from.set(type_url), set)?;
            *set = after;
        }
        for (type_url, set) in self.sets.iter().filter(|(it, _)| to.sets.get(it).is_none()) {
            let after = set.rebased(from.set(type_url), ResourceSet::empty())?;
            rebased.sets.insert(type_url, after);
        }
        rebased.sets.retain(|set| !set.is_void());
        Some(rebased)
    }

    /// Takes over the sets of an earlier snapshot that hold the same, so that streams see at once
    /// that nothing changed. Returns true if those are all.
    pub fn keep_same(&mut self, before: &Self) -> bool {
        let mut all = self.sets.len() == before.sets.len();
        for (type_url, set) in self.sets.iter_mut() {
            match before.sets.get(type_url).filter(|before| set.is_same(before)) {
                Some(before) => *set = Arc::clone(before),
                None => all = false,
            }
        }
        all
    }

    /// The resources of one type.
    pub fn set(&self, type_url: &TypeUrl) -> &Arc<ResourceSet> {
        self.sets.get(type_url).unwrap_or_else(|| ResourceSet::empty())
    }

    /// The types with resources or a stated version, in sending order.
    pub fn types(&self) -> impl Iterator<Item = &TypeUrl> {
        self.sets.types()
    }

    /// The number of resources of all types.
    pub fn len(&self) -> usize {
        self.sets.values().map(|set| set.len()).sum()
    }

    /// Returns true if there are no resources.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.sets.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn cds() -> TypeUrl {
        TypeUrl::new("envoy.config.cluster.v3.Cluster")
    }

    fn resource(name: &str, body: &str) -> Resource {
        Resource::new(name.parse().unwrap(), Bytes::copy_from_slice(body.as_bytes()))
    }

    fn snapshot(resources: &[(&str, &str)]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (name, body) in resources {
            snapshot.insert(&cds(), resource(name, body));
        }
        snapshot
    }

    #[test]
    fn the_version_of_a_type_depends_on_content_and_not_on_history() {
        // S-031, T-22, T-23: equal content, equal versions, on every replica and after every restart;
        // no counter can coincide
        let one = snapshot(&[("a", "1"), ("b", "1")]);
        let mut other = snapshot(&[("b", "2"), ("c", "1"), ("a", "1"), ("b", "1")]);
        assert_ne!(one.set(&cds()).version(), other.set(&cds()).version());
        other.remove(&cds(), &"c".parse().unwrap());
        assert_eq!(one.set(&cds()).version(), other.set(&cds()).version());
        assert_ne!(
            snapshot(&[("a", "1"), ("b", "2")]).set(&cds()).version(),
            snapshot(&[("a", "2"), ("b", "1")]).set(&cds()).version()
        );
    }

    #[test]
    fn a_type_goes_with_its_last_resource() {
        let mut snapshot = snapshot(&[("a", "1")]);
        snapshot.remove(&cds(), &"a".parse().unwrap());
        snapshot.remove(&cds(), &"a".parse().unwrap());
        assert_eq!(snapshot, Snapshot::new());
    }

    #[test]
    fn a_stated_version_lasts_until_the_next_edit() {
        let mut snapshot = snapshot(&[("a", "1")]);
        snapshot.set_version(&cds(), "v1");
        assert_eq!(snapshot.set(&cds()).version().to_string(), "v1");
        snapshot.insert(&cds(), resource("a", "2"));
        assert_ne!(snapshot.set(&cds()).version().to_string(), "v1");
    }

    #[test]
    fn an_edit_of_a_clone_leaves_the_original_alone() {
        let before = snapshot(&[("a", "1"), ("b", "1")]);
        let mut after = before.clone();
        after.insert(&cds(), resource("b", "2"));
        after.remove(&cds(), &"a".parse().unwrap());
        let changes: Vec<_> = before.set(&cds()).diff(after.set(&cds())).collect();
        let names: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(changes[0].new.is_none());
        assert_eq!(before.set(&cds()).len(), 2);
    }

    #[test]
    fn replacing_by_the_same_content_changes_nothing() {
        let before = snapshot(&[("a", "1"), ("b", "1")]);
        let mut after = before.clone();
        let again = ["b", "a"].map(|name| (cds(), Arc::new(resource(name, "1"))));
        after.replace(again);
        assert!(Arc::ptr_eq(before.set(&cds()), after.set(&cds())));
        after.replace([(cds(), Arc::new(resource("a", "1")))]);
        assert_eq!(after, snapshot(&[("a", "1")]));
        after.replace([]);
        assert!(after.is_empty());
        assert_eq!(after.types().count(), 0);
    }

    #[test]
    fn replacing_brings_what_is_new_and_what_is_other() {
        let mut snapshot = snapshot(&[("a", "1"), ("b", "1")]);
        let wanted = [("a", "2"), ("c", "1")].map(|(name, body)| (cds(), resource(name, body)));
        snapshot.replace(wanted.map(|(type_url, resource)| (type_url, Arc::new(resource))));
        assert_eq!(snapshot.len(), 2);
        assert!(!snapshot.is_empty());
        let body = |name| snapshot.set(&cds()).get(name).map(|found| found.body().clone());
        assert_eq!(body("a").unwrap(), "2");
        assert_eq!(body("b"), None);
        assert_eq!(body("c").unwrap(), "1");
    }

    #[test]
    fn sets_that_hold_the_same_are_kept() {
        let before = snapshot(&[("a", "1"), ("b", "1")]);
        let mut again = snapshot(&[("a", "1"), ("b", "1")]);
        again.written_over(&snapshot(&[("a", "1")]));
        assert!(again.keep_same(&before));
        assert!(Arc::ptr_eq(again.set(&cds()), before.set(&cds())));
        let mut other = snapshot(&[("a", "1"), ("b", "2")]);
        assert!(!other.keep_same(&before));
        assert!(!Snapshot::new().keep_same(&before));
    }
}
