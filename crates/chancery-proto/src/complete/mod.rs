//! Snapshots in which clients find everything that they wait for, and a list of their dangling
//! references.
//!
//! A client waits for the load assignment of a cluster before it uses the cluster, and at its start
//! before it uses anything ([Resource
//! warming](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-warming)).
//! So a cluster without endpoints gets an empty `ClusterLoadAssignment` (S-101).
//!
//! ```text
//!   insert, remove --> references of the resource --> each target: published, generated or missing
//!                  \-> its own name and aliases ---/
//! ```
//!
//! After every edit the result is the same as for these resources in any other order. An edit costs
//! as much as it touches, and not as much as the snapshot holds.
//!
//! # Where S-101 is decided
//!
//! This module is the only place that generates empty load assignments. The protocol core does not:
//! to it a load assignment is a body that it cannot read, and it serves the snapshot that it is
//! given. `chancery-catalog` completes every snapshot that it makes. A program that builds a
//! [`Snapshot`] itself has to do the same: insert its resources into a [`Complete`] and publish
//! [`Complete::snapshot`]. Without that, a cluster of type EDS whose load assignment nobody
//! published holds up its clients.

use std::sync::Arc;

use chancery_core::{Api, Resource, ResourceName, Snapshot, TypeUrl};
use imbl::{OrdMap, OrdSet};

use crate::facts::type_of;

mod clashes;
mod cycles;
mod references;

use clashes::Claims;
pub use clashes::Clash;
use cycles::Cycles;
pub use cycles::{Cycle, CycleShape};
pub use references::Dangling;
use references::{Reference, ResourceKey};

/// A snapshot in which every cluster has a load assignment. Clones share what they have in common.
#[derive(Clone, Default)]
pub struct Complete {
    snapshot: Snapshot,
    references: OrdSet<Reference>,
    /// The aliases of all resources, each with the name of its resource.
    aliases: OrdSet<Alias>,
    /// The load assignments that were generated here, because nobody published them.
    generated: OrdSet<ResourceKey>,
    /// The other targets of references that do not exist.
    missing: OrdSet<ResourceKey>,
    /// The authorities of the resources that were published, each with the number of them.
    authorities: OrdMap<Box<str>, usize>,
    /// The number of edits that may have changed the dangling references.
    revision: u64,
    /// The addresses of listeners.
    claims: Claims,
    /// The number of edits that may have changed the clashes.
    clash_revision: u64,
    /// The clusters that aggregate others.
    cycles: Cycles,
    /// The number of edits that may have changed the circles of them.
    cycle_revision: u64,
}

impl Complete {
    /// Creates an empty snapshot, which is complete.
    pub fn new() -> Self {
        Self::default()
    }

    /// The snapshot: the published resources and the generated load assignments.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Adds a resource, or replaces the one of that name. Returns false if it was there already and
    /// equal.
    pub fn insert(&mut self, type_url: &TypeUrl, resource: Arc<Resource>) -> bool {
        let key = (type_url.clone(), resource.name().clone());
        let old = self.explicit(&key).cloned();
        if old.as_ref() == Some(&resource) {
            return false;
        }
        let was_generated = self.generated.remove(&key).is_some();
        self.revision += u64::from(was_generated);
        self.snapshot.insert(type_url, Arc::clone(&resource));
        // Most edits change neither aliases nor references, so no target has to be looked up.
        if !old.as_deref().is_some_and(|old| has_same_links(old, &resource)) {
            self.replace_links(key, old.as_deref(), Some(&resource));
        }
        true
    }

    /// Removes a published resource. Returns false if there was none.
    pub fn remove(&mut self, type_url: &TypeUrl, name: &ResourceName) -> bool {
        let key = (type_url.clone(), name.clone());
        let Some(old) = self.explicit(&key).cloned() else { return false };
        self.snapshot.remove(type_url, name);
        self.replace_links(key, Some(&old), None);
        true
    }

    /// The references whose targets nobody published, in the order of the targets, the load
    /// assignments last: in their place clients get empty ones.
    ///
    /// References to what may well exist elsewhere are left out: a target that comes from another
    /// source than this server (`api_config_source`), one of an authority of which nothing was
    /// published, and a glob collection, which may be empty.
    pub fn dangling(&self) -> impl Iterator<Item = Dangling> + '_ {
        let targets = self.missing.iter().chain(&self.generated);
        let own = targets.filter(|(_, name)| !self.is_foreign(name));
        own.flat_map(|target| self.references_to(target)).filter_map(Reference::dangling)
    }

    /// A number that changes with every edit that may have changed [`dangling`](Self::dangling).
    pub fn dangling_revision(&self) -> u64 {
        self.revision
    }

    /// The resources that a client does not take beside another one of the snapshot.
    pub fn clashes(&self) -> impl Iterator<Item = Clash> + '_ {
        self.claims.clashes()
    }

    /// A number that changes with every edit that may have changed [`clashes`](Self::clashes).
    pub fn clash_revision(&self) -> u64 {
        self.clash_revision
    }

    /// The circles of clusters that aggregate each other, and clusters that aggregate nothing but such ones. It looks along the clusters that changed since the last
    /// call, and what these lead to.
    pub fn cycles(&mut self) -> impl Iterator<Item = &Cycle> + '_ {
        if let Some(cds) = type_of(Api::Cds, false) {
            self.cycles.look(&cds);
        }
        self.cycles.all()
    }

    /// A number that changes with every edit that may have changed [`cycles`](Self::cycles).
    pub fn cycle_revision(&self) -> u64 {
        self.cycle_revision
    }

    /// Returns true if a name is of an authority of which nothing was published.
    fn is_foreign(&self, name: &ResourceName) -> bool {
        authority(name).is_some_and(|authority| !self.authorities.contains_key(authority))
    }

    /// Counts a published resource that came or went.
    fn count_authority(&mut self, name: &ResourceName, is_there: bool) {
        let Some(authority) = authority(name) else { return };
        let before = self.authorities.get(authority).copied().unwrap_or_default();
        let now = if is_there { before + 1 } else { before.saturating_sub(1) };
        match now {
            0 => drop(self.authorities.remove(authority)),
            now => drop(self.authorities.insert(authority.into(), now)),
        }
        self.revision += u64::from(before == 0 || now == 0);
    }

    /// The published resource of that name; a generated one is none.
    pub fn published(&self, type_url: &TypeUrl, name: &ResourceName) -> Option<&Arc<Resource>> {
        self.explicit(&(type_url.clone(), name.clone()))
    }

    /// The published resource of that name; a generated one is not returned.
    fn explicit(&self, key: &ResourceKey) -> Option<&Arc<Resource>> {
        let found = self.snapshot.set(&key.0).get(key.1.as_str());
        found.filter(|_| !self.generated.contains(key))
    }

    /// Takes over the references and aliases of a resource that was added, replaced or removed, and
    /// updates every target they touch.
    fn replace_links(&mut self, key: ResourceKey, old: Option<&Resource>, new: Option<&Resource>) {
        if old.is_some() != new.is_some() {
            self.count_authority(&key.1, new.is_some());
        }
        let clash = self.claims.replace((&key.0, &key.1), old, new);
        self.clash_revision += u64::from(clash);
        let aggregates = self.cycles.replace((&key.0, &key.1), old, new);
        self.cycle_revision += u64::from(aggregates);
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

    /// Generates a load assignment that is referred to and missing, or removes one that is no
    /// longer needed. A target of another type is recorded as missing or not.
    fn update_target(&mut self, target: &ResourceKey) {
        let lacks = !target.1.is_glob() && self.is_referred_to(target) && !self.exists(target);
        let (type_url, name) = target;
        let is_generated = type_url.api() == Api::Eds;
        let noted = if is_generated { &mut self.generated } else { &mut self.missing };
        let was_lacking = noted.contains(target);
        match (lacks, was_lacking) {
            (true, false) => drop(noted.insert(target.clone())),
            (false, true) => drop(noted.remove(target)),
            _ => {}
        }
        if is_generated && lacks && !was_lacking {
            self.snapshot.insert(type_url, empty_assignment(name));
        } else if is_generated && !lacks && was_lacking {
            self.snapshot.remove(type_url, name);
        }
        // A target that stays missing counts too: another resource may refer to it now.
        self.revision += u64::from(lacks || was_lacking);
    }

    fn is_referred_to(&self, target: &ResourceKey) -> bool {
        self.references_to(target).next().is_some()
    }

    /// Returns true if the target was published, under this name or with it as an alias.
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

/// The authority of a federated name, if it names one.
fn authority(name: &ResourceName) -> Option<&str> {
    name.xdstp().map(|parts| parts.authority).filter(|authority| !authority.is_empty())
}

/// Returns true if two resources of one name have the same aliases and references.
fn has_same_links(one: &Resource, other: &Resource) -> bool {
    let (one_facts, other_facts) = (one.facts(), other.facts());
    one.aliases() == other.aliases()
        && one_facts.links == other_facts.links
        && one_facts.addresses == other_facts.addresses
        && one_facts.is_aggregate == other_facts.is_aggregate
}

/// A name that references can use, and the name of its resource. `None` sorts before every name.
type Alias = (ResourceKey, Option<ResourceName>);

/// The aliases of a resource.
fn aliases<'a>(
    (type_url, name): &'a ResourceKey,
    resource: &'a Resource,
) -> impl Iterator<Item = Alias> + 'a {
    let aliases = resource.aliases().iter();
    aliases.map(move |alias| ((type_url.clone(), alias.clone()), Some(name.clone())))
}

/// A `ClusterLoadAssignment` with a name and no endpoints. Its encoding is the same in v3 and v2.
fn empty_assignment(cluster: &ResourceName) -> Resource {
    const CLUSTER_NAME: u32 = 1;
    let mut body = Vec::new();
    prost::encoding::string::encode(CLUSTER_NAME, &cluster.to_string(), &mut body);
    Resource::new(cluster.clone(), body.into())
}

#[cfg(test)]
mod tests;
