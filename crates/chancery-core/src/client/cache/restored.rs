//! What is left of an earlier run, until somebody watches it or its server says something newer.

use std::collections::BTreeMap;

use crate::client::cache::authority::Collection;
use crate::client::{AuthorityKey, CachedResource};
use crate::{ResourceName, TypeUrl};

/// Resources by type and name.
#[derive(Debug, Default)]
pub(in crate::client) struct RestoredResources(
    BTreeMap<TypeUrl, BTreeMap<ResourceName, CachedResource>>,
);

impl RestoredResources {
    pub(in crate::client) fn put(&mut self, type_url: TypeUrl, held: CachedResource) {
        let name = held.resource.name().clone();
        self.0.entry(type_url).or_default().insert(name, held);
    }

    /// All that are in a group.
    pub(in crate::client) fn take_in(
        &mut self,
        type_url: &TypeUrl,
        group: &ResourceName,
    ) -> Vec<CachedResource> {
        let Some(all) = self.0.get_mut(type_url) else { return Vec::new() };
        let of_realm = |name: &ResourceName| AuthorityKey::of(name) == AuthorityKey::of(group);
        let named: Vec<_> = all.keys().filter(|name| of_realm(name)).cloned().collect();
        let within = named.into_iter().filter(|name| Collection::covers(group, name));
        within.filter_map(|name| all.remove(&name)).collect()
    }

    pub(in crate::client) fn take(
        &mut self,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Option<CachedResource> {
        self.0.get_mut(type_url)?.remove(name)
    }
}
