//! The further keys of the resources of a plain set, the names that state them, and the lengths of the
//! patterns among them.
//!
//! Several resources may state one alias or host. All are kept, and the least name has it, so that
//! equal sets give the same answer whatever their history. Not here: what a key means in a set that is
//! written over another (`overlay`).

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::hosts::Pattern;
use crate::{Resource, ResourceName};

/// The further keys of resources, and the names that state them.
#[derive(Clone, Default)]
pub(super) struct Keys {
    names: OrdMap<Arc<str>, KeyNames>,
    /// The patterns of hosts among the keys, as far as they differ in their lengths, and how often each
    /// is stated.
    patterns: OrdMap<Pattern, usize>,
}

/// The names that state one key.
#[derive(Clone)]
enum KeyNames {
    One(ResourceName),
    Several(OrdSet<ResourceName>),
}

impl Keys {
    /// Returns true if there are no keys.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names that state a key, in order.
    pub(super) fn names(&self, key: &str) -> impl Iterator<Item = &ResourceName> {
        let (one, several) = match self.names.get(key) {
            Some(KeyNames::One(name)) => (Some(name), None),
            Some(KeyNames::Several(names)) => (None, Some(names)),
            None => (None, None),
        };
        one.into_iter().chain(several.into_iter().flat_map(OrdSet::iter))
    }

    /// The patterns of hosts.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.patterns.keys()
    }

    /// Adds a key that a resource of this name states.
    pub(super) fn add(&mut self, key: Arc<str>, name: &ResourceName) {
        if let Some(pattern) = Pattern::of(&key) {
            *self.patterns.entry(pattern).or_insert(0) += 1;
        }
        match self.names.get_mut(&*key) {
            Some(names) => names.add(name),
            None => drop(self.names.insert(key, KeyNames::One(name.clone()))),
        }
    }

    /// Removes a key that no resource of this name states any more.
    pub(super) fn remove(&mut self, key: &str, name: &ResourceName) {
        if let Some(pattern) = Pattern::of(key)
            && let Some(count) = self.patterns.get_mut(&pattern)
        {
            *count -= 1;
            if *count == 0 {
                self.patterns.remove(&pattern);
            }
        }
        let is_last = match self.names.get_mut(key) {
            Some(KeyNames::One(known)) => known == name,
            Some(KeyNames::Several(names)) => {
                names.remove(name);
                names.is_empty()
            }
            None => false,
        };
        if is_last {
            self.names.remove(key);
        }
    }
}

impl KeyNames {
    fn add(&mut self, name: &ResourceName) {
        match self {
            Self::Several(names) => drop(names.insert(name.clone())),
            Self::One(known) if known == name => {}
            Self::One(known) => {
                let both = [known.clone(), name.clone()];
                *self = Self::Several(both.into_iter().collect());
            }
        }
    }
}

/// The further keys a resource is found under: its aliases, and for a virtual host
/// `<route configuration>/<domain>` for each of its domains.
pub(super) fn keys_of(resource: &Resource) -> impl Iterator<Item = Arc<str>> {
    let aliases = resource.aliases().iter().map(ResourceName::shared);
    let route = || resource.name().as_str().rsplit_once('/').map_or("", |(route, _)| route);
    let hosts = resource.facts().hosts.iter();
    let key = move |host: &str| format!("{}/{}", route(), host.to_ascii_lowercase()).into();
    aliases.chain(hosts.map(move |host| key(host)))
}
