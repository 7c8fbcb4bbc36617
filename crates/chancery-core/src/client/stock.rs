//! What is left of an earlier run, until somebody watches it or its server says something newer.

use std::collections::BTreeMap;

use super::Held;
use crate::{ResourceName, TypeUrl};

/// Resources by type and name.
#[derive(Debug, Default)]
pub(super) struct Stock(BTreeMap<TypeUrl, BTreeMap<ResourceName, Held>>);

impl Stock {
    pub(super) fn put(&mut self, type_url: TypeUrl, held: Held) {
        let name = held.resource.name().clone();
        self.0.entry(type_url).or_default().insert(name, held);
    }

    pub(super) fn take(&mut self, type_url: &TypeUrl, name: &ResourceName) -> Option<Held> {
        self.0.get_mut(type_url)?.remove(name)
    }
}
