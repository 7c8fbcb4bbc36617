//! The resources of an earlier run, until somebody watches them or their server says something
//! newer.

use std::collections::BTreeMap;

use super::collection::is_member;
use crate::client::authority_key::AuthorityKey;
use crate::client::resource::CachedResource;
use crate::{ResourceName, TypeUrl};

/// Resources by type and name.
#[derive(Debug, Default)]
pub(super) struct RestoredResources(BTreeMap<TypeUrl, BTreeMap<ResourceName, CachedResource>>);

impl RestoredResources {
    pub(super) fn insert(&mut self, type_url: TypeUrl, cached: CachedResource) {
        let name = cached.resource.name().clone();
        self.0.entry(type_url).or_default().insert(name, cached);
    }

    /// Takes out the members of a collection.
    pub(super) fn take_members(
        &mut self,
        type_url: &TypeUrl,
        collection: &ResourceName,
    ) -> Vec<CachedResource> {
        let Some(all) = self.0.get_mut(type_url) else { return Vec::new() };
        let authority = AuthorityKey::of(collection);
        let is_taken = |name: &ResourceName, _: &mut CachedResource| {
            AuthorityKey::of(name) == authority && is_member(collection, name)
        };
        all.extract_if(.., is_taken).map(|(_, cached)| cached).collect()
    }

    /// Takes out one.
    pub(super) fn take(
        &mut self,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Option<CachedResource> {
        self.0.get_mut(type_url)?.remove(name)
    }
}
