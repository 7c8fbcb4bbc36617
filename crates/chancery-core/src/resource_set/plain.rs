//! The resources of a set that is not written over another.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::keys::{Keys, keys_of};
use crate::{Resource, ResourceName};

/// The resources of a set that is not written over another. The maps are persistent: a clone is
/// cheap, an edit of the clone leaves the original as it was, and finding the difference of two
/// costs O(changed).
#[derive(Clone, Default)]
pub(super) struct PlainContent {
    pub(super) resources: OrdMap<ResourceName, Arc<Resource>>,
    /// The further keys of resources.
    pub(super) keys: Keys,
    /// The names of resources with a TTL, which have to be refreshed.
    pub(super) timed: OrdSet<ResourceName>,
    /// The number of resources that strangers are not sent.
    pub(super) sensitive: usize,
}

impl PlainContent {
    /// The resources with a TTL.
    pub(super) fn timed(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.timed.iter().filter_map(|name| self.resources.get(name))
    }

    /// Adds a resource, and returns the one of that name whose place it took.
    pub(super) fn insert(&mut self, resource: Arc<Resource>) -> Option<Arc<Resource>> {
        let name = resource.name();
        let old = self.resources.insert(name.clone(), Arc::clone(&resource));
        old.iter().for_each(|old| self.forget(old));
        for key in keys_of(&resource) {
            self.keys.add(key, name);
        }
        if resource.ttl().is_some() {
            self.timed.insert(name.clone());
        }
        self.sensitive += usize::from(resource.facts().sensitive);
        old
    }

    /// Removes the resource of that name, and returns it.
    pub(super) fn remove(&mut self, name: &ResourceName) -> Option<Arc<Resource>> {
        let old = self.resources.remove(name)?;
        self.forget(&old);
        Some(old)
    }

    /// Drops what there is of a resource beside the resource itself.
    fn forget(&mut self, old: &Resource) {
        for key in keys_of(old) {
            self.keys.remove(&key, old.name());
        }
        if old.ttl().is_some() {
            self.timed.remove(old.name());
        }
        self.sensitive -= usize::from(old.facts().sensitive);
    }
}
