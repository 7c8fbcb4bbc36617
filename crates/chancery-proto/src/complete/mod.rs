//! Snapshots that lack nothing a client would wait for, and know what in them leads nowhere.
//!
//! A client waits for the load assignment of a cluster before it uses the cluster, and at boot
//! before it uses anything. No endpoints is therefore said by an empty_assignment `ClusterLoadAssignment`,
//! never by silence (S-101).
//!
//! ```text
//!   insert, remove --> the resource's references --> what they lead to: there, generated, or missing
//!                  \-> its own name and aliases --/
//! ```
//!
//! Invariant: after every edit this is what the same resources give in any other order. An edit
//! costs what it touches, and not what is there besides.

use std::sync::Arc;

use chancery_core::{Api, Resource, ResourceName, Snapshot, TypeUrl};
use imbl::OrdSet;

mod references;

pub use references::Dangling;
use references::{Reference, ResourceKey};

/// A snapshot in which every cluster has a load assignment. Clones share what they have in common.
#[derive(Clone, Default)]
pub struct Complete {
    snapshot: Snapshot,
    references: OrdSet<Reference>,
    /// Other names, and whose they are.
    aliases: OrdSet<Alias>,
    /// The load assignments that nobody wrote.
    generated: OrdSet<ResourceKey>,
    /// What else is referred to and is not there.
    missing: OrdSet<ResourceKey>,
    /// How often something was done about that.
    revision: u64,
}

impl Complete {
    /// Nothing, which is complete.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is there, with what was generated.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Adds a resource, or replaces the one of that name; whether that changes anything.
    pub fn insert(&mut self, type_url: &TypeUrl, resource: Arc<Resource>) -> bool {
        let key = (type_url.clone(), resource.name().clone());
        let old = self.explicit(&key).cloned();
        if old.as_ref() == Some(&resource) {
            return false;
        }
        self.generated.remove(&key);
        self.snapshot.insert(type_url, Arc::clone(&resource));
        // Most changes leave the names and references alone, and then nothing follows from them.
        if !old.as_deref().is_some_and(|old| is_bound_alike(old, &resource)) {
            self.replace_links(key, old.as_deref(), Some(&resource));
        }
        true
    }

    /// Takes a resource out; whether there was one.
    pub fn remove(&mut self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        let key = (type_url.clone(), name.clone());
        let Some(old) = self.explicit(&key).cloned() else { return false };
        self.snapshot.remove(type_url, name);
        self.replace_links(key, Some(&old), None);
        true
    }

    /// The references that lead nowhere, by what they lead to. A glob collection may be empty_assignment and
    /// is never among them.
    pub fn dangling(&self) -> impl Iterator<Item = Dangling> + '_ {
        let references = self.missing.iter().flat_map(|target| self.references_to(target));
        references.filter_map(Reference::dangling)
    }

    /// A number that is another one after every edit that may have changed what leads nowhere.
    pub fn dangling_revision(&self) -> u64 {
        self.revision
    }

    /// The resource somebody wrote under that name.
    fn explicit(&self, key: &ResourceKey) -> Option<&Arc<Resource>> {
        let found = self.snapshot.set(&key.0).get(key.1.as_str());
        found.filter(|_| !self.generated.contains(key))
    }

    /// A resource became another: so did what it refers to, and what refers to it.
    fn replace_links(&mut self, key: ResourceKey, old: Option<&Resource>, new: Option<&Resource>) {
        let mut touched = Vec::new();
        if let Some(old) = old {
            for reference in Reference::all(&key, old) {
                self.references.remove(&reference);
                touched.push(reference.target);
            }
            for alias in aliases(&key, old) {
                self.aliases.remove(&alias);
                touched.push(alias.0);
            }
        }
        if let Some(new) = new {
            for reference in Reference::all(&key, new) {
                touched.push(reference.target.clone());
                self.references.insert(reference);
            }
            for alias in aliases(&key, new) {
                touched.push(alias.0.clone());
                self.aliases.insert(alias);
            }
        }
        touched.push(key);
        touched.iter().for_each(|target| self.update_target(target));
    }

    /// Sees to it that a target is there if it can be generated, and noted as missing if not.
    fn update_target(&mut self, target: &ResourceKey) {
        let lacks = !target.1.is_glob() && self.is_referred_to(target) && !self.exists(target);
        let (type_url, name) = target;
        if type_url.api() != Api::Eds {
            let noted = self.missing.contains(target);
            match (lacks, noted) {
                (true, false) => drop(self.missing.insert(target.clone())),
                (false, true) => drop(self.missing.remove(target)),
                _ => {}
            }
            // Who refers to it may be another, too.
            self.revision += u64::from(lacks || noted);
        } else if lacks && !self.generated.contains(target) {
            self.snapshot.insert(type_url, empty_assignment(name));
            self.generated.insert(target.clone());
        } else if !lacks && self.generated.remove(target).is_some() {
            self.snapshot.remove(type_url, name);
        }
    }

    fn is_referred_to(&self, target: &ResourceKey) -> bool {
        self.references_to(target).next().is_some()
    }

    /// Whether somebody wrote it, or something that goes by its name.
    fn exists(&self, target: &ResourceKey) -> bool {
        let named = |alias: &Alias| alias.0 == *target;
        self.explicit(target).is_some()
            || self.aliases.range((target.clone(), None)..).next().is_some_and(named)
    }

    fn references_to<'a>(&'a self, target: &'a ResourceKey) -> impl Iterator<Item = &'a Reference> {
        let from = self.references.range(Reference::before(target)..);
        from.take_while(move |reference| reference.target == *target)
    }
}

/// Returns true if two resources of one name have the same other names and refer to the same.
fn is_bound_alike(one: &Resource, other: &Resource) -> bool {
    one.aliases() == other.aliases() && one.facts().links == other.facts().links
}

/// A name somebody may refer to, and whose it is; `None` stands before everybody.
type Alias = (ResourceKey, Option<ResourceName>);

/// The other names of a resource.
fn aliases<'a>(
    (type_url, name): &'a ResourceKey,
    resource: &'a Resource,
) -> impl Iterator<Item = Alias> + 'a {
    let aliases = resource.aliases().iter();
    aliases.map(move |alias| ((type_url.clone(), alias.clone()), Some(name.clone())))
}

/// A `ClusterLoadAssignment` with a name and no endpoints; v3 and v2 agree on its encoding.
fn empty_assignment(cluster: &ResourceName) -> Resource {
    const CLUSTER_NAME: u32 = 1;
    let mut body = Vec::new();
    prost::encoding::string::encode(CLUSTER_NAME, &cluster.to_string(), &mut body);
    Resource::new(cluster.clone(), body.into())
}

#[cfg(test)]
mod tests;
