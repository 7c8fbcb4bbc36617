//! The changes that are written over a set, for one that keeps nothing else of its own.
//!
//! ```text
//!   below:    a  b  c  d  e  f      base's set, which a thousand nodes share
//!   overlay:        C     -         the changes of one node: another `c`, no `e`
//!   the set:  a  b  C  d     f
//! ```
//!
//! Reads look into the overlay first and then into the set below. Not here: sets that have all they
//! hold (`plain`), and the difference of any two sets (`diff`).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::hosts::Pattern;
use super::keys::keys_of;
use super::plain::PlainContent;
use crate::name_bits::NameBits;
use crate::step::Step;
use crate::{Change, Resource, ResourceName, ResourceSet};

/// The content of a set that is written over another.
#[derive(Clone)]
pub(super) struct OverlaidContent {
    pub(super) below: Arc<ResourceSet>,
    pub(super) overlay: Arc<Overlay>,
    /// The number of resources.
    pub(super) len: usize,
    /// The number of sets that this one stands on.
    pub(super) depth: usize,
    /// The filter of the names that the overlay changes. It is kept here, because what it tells would
    /// otherwise be looked up in other places of the memory for each of a thousand nodes.
    pub(super) names: NameBits,
}

/// The changes that are written over a set. They fit every set in which the changed names have the
/// same resources.
pub(super) struct Overlay {
    /// The names that differ, in order, with the resources they have now.
    changes: Box<[OverlayChange]>,
    /// The further keys of the resources, each with a name that states it, in order.
    keys: Box<[(Arc<str>, ResourceName)]>,
    /// The patterns of hosts among the keys.
    patterns: Box<[Pattern]>,
    /// The digest of the changes, to be added to that of the set below.
    digest: u128,
    /// The parts of the changed resources without those that they replace, to be added likewise.
    parts: u64,
    /// The number of resources that are added and not replaced.
    added: usize,
    /// The number of resources that are removed.
    removed: usize,
    /// True if a resource has a value that strangers are not sent.
    sensitive: bool,
}

/// One name that an overlay changes. The resource is `None` if the overlay removes it.
#[derive(PartialEq)]
pub(super) struct OverlayChange {
    pub(super) name: ResourceName,
    pub(super) resource: Option<Arc<Resource>>,
}

impl OverlaidContent {
    /// An overlay over a set.
    pub(super) fn new(below: &Arc<ResourceSet>, overlay: Arc<Overlay>) -> Self {
        Self {
            below: Arc::clone(below),
            len: (below.len() + overlay.added).saturating_sub(overlay.removed),
            depth: below.depth() + 1,
            names: overlay.names(),
            overlay,
        }
    }

    /// The same overlay over a later set; `None` if it changes a name that differs there.
    pub(super) fn moved(&self, to: &Arc<ResourceSet>) -> Option<Self> {
        self.is_apart_from(&Step::between(&self.below, to)).then(|| Self {
            below: Arc::clone(to),
            overlay: Arc::clone(&self.overlay),
            len: (self.len + to.len()).saturating_sub(self.below.len()),
            depth: self.depth,
            names: self.names,
        })
    }

    /// Returns true if both have the same changes over the sets below, and the step from the
    /// other's set below to this one's has none of the names.
    pub(super) fn is_changed_like(&self, other: &Self, step: &Step) -> bool {
        let is_same =
            Arc::ptr_eq(&self.overlay, &other.overlay) || self.overlay.is_same(&other.overlay);
        is_same && self.is_apart_from(step)
    }

    /// Returns true if no name is both in the overlay and in the step.
    fn is_apart_from(&self, step: &Step) -> bool {
        self.names.are_apart_from(step.names())
            || self.overlay.changes.iter().all(|it| step.change_of(it.name.as_str()).is_none())
    }

    /// The digest of all resources.
    pub(super) fn digest(&self) -> u128 {
        self.below.digest.wrapping_add(self.overlay.digest)
    }

    /// The parts of all resources.
    pub(super) fn parts(&self) -> u64 {
        self.below.parts.wrapping_add(self.overlay.parts)
    }

    /// The resource of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        match self.overlay.change_of(name) {
            Some(change) => change.resource.as_ref(),
            None => self.below.get(name),
        }
    }

    /// The least of the names that state a further key, but for those that are hidden. The overlay hides
    /// those of the set below that it changes.
    pub(super) fn least_by_key(
        &self,
        key: &str,
        is_hidden: &dyn Fn(&ResourceName) -> bool,
    ) -> Option<&ResourceName> {
        let own = self.overlay.names_by_key(key).find(|name| !is_hidden(name));
        let is_changed = |name: &ResourceName| self.overlay.change_of(name.as_str()).is_some();
        let below = self.below.least_by_key(key, &|name| is_changed(name) || is_hidden(name));
        own.into_iter().chain(below).min()
    }

    /// The patterns of hosts that the overlay has.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.overlay.patterns.iter()
    }

    /// Returns true if every resource is found under its own name only.
    pub(super) fn is_by_name_only(&self) -> bool {
        self.overlay.keys.is_empty() && self.below.is_plain()
    }

    /// The resources with a TTL. A set can be written over one that is written over another, so the
    /// iterator is in a box.
    pub(super) fn timed(&self) -> Box<dyn Iterator<Item = &Arc<Resource>> + '_> {
        let below = self.below.timed();
        let below = below.filter(|it| self.overlay.change_of(it.name().as_str()).is_none());
        let own = self.overlay.changes.iter().filter_map(|change| change.resource.as_ref());
        Box::new(below.chain(own.filter(|resource| resource.ttl().is_some())))
    }

    /// Returns true if a resource may be one that strangers are not sent. The overlay may have
    /// replaced the one that is.
    pub(super) fn may_be_sensitive(&self) -> bool {
        self.overlay.sensitive || self.below.may_be_sensitive()
    }

    /// The changes from the set below to this one.
    pub(super) fn changes(&self) -> impl Iterator<Item = Change> {
        self.overlay.changes.iter().map(|change| Change {
            name: change.name.clone(),
            old: self.below.get(change.name.as_str()).cloned(),
            new: change.resource.clone(),
        })
    }

    /// The same resources, written over nothing.
    pub(super) fn to_plain(&self) -> PlainContent {
        let mut plain = self.below.to_plain();
        for change in &self.overlay.changes {
            match &change.resource {
                Some(resource) => plain.insert(Arc::clone(resource)),
                None => plain.remove(&change.name),
            };
        }
        plain
    }
}

impl Overlay {
    /// The overlay that makes these changes, which come in the order of their names.
    pub(super) fn of(changes: Vec<Change>) -> Self {
        let share = |resource: &Option<Arc<Resource>>| {
            resource.as_ref().map_or(0, |it| it.share_of_type_version())
        };
        let digest = changes.iter().fold(0_u128, |sum, change| {
            sum.wrapping_add(share(&change.new)).wrapping_sub(share(&change.old))
        });
        let parts =
            |resource: &Option<Arc<Resource>>| resource.as_ref().map_or(0, |it| it.facts().parts);
        let parts = changes.iter().fold(0_u64, |sum, change| {
            let (new, old) = (parts(&change.new), parts(&change.old));
            sum.wrapping_add(u64::from(new)).wrapping_sub(u64::from(old))
        });
        let added = changes.iter().filter(|it| it.old.is_none() && it.new.is_some()).count();
        let removed = changes.iter().filter(|it| it.old.is_some() && it.new.is_none()).count();
        let resources = changes.iter().filter_map(|change| change.new.as_ref());
        let sensitive = resources.clone().any(|it| it.facts().sensitive);
        let keys = resources.flat_map(|it| keys_of(it).map(|key| (key, it.name().clone())));
        let mut keys: Vec<_> = keys.collect();
        keys.sort_unstable();
        let patterns: BTreeSet<_> = keys.iter().filter_map(|(key, _)| Pattern::of(key)).collect();
        let (keys, patterns) = (keys.into(), patterns.into_iter().collect());
        let changes = changes.into_iter();
        let changes = changes.map(|it| OverlayChange { name: it.name, resource: it.new }).collect();
        Self { changes, keys, patterns, digest, parts, added, removed, sensitive }
    }

    /// The names that differ, in order.
    pub(super) fn changes(&self) -> &[OverlayChange] {
        &self.changes
    }

    /// The names that state a further key, in order.
    fn names_by_key(&self, key: &str) -> impl Iterator<Item = &ResourceName> {
        let from = self.keys.partition_point(|(one, _)| **one < *key);
        let from = self.keys.get(from..).unwrap_or_default();
        from.iter().take_while(move |(one, _)| **one == *key).map(|(_, name)| name)
    }

    /// The change of that name.
    pub(super) fn change_of(&self, name: &str) -> Option<&OverlayChange> {
        let at = self.changes.binary_search_by(|change| change.name.as_str().cmp(name)).ok()?;
        self.changes.get(at)
    }

    /// Returns true if another overlay makes the same changes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest && self.changes == other.changes
    }

    /// The filter of the names.
    pub(super) fn names(&self) -> NameBits {
        self.changes.iter().map(|change| &change.name).collect()
    }

    /// The changes of names that do not sort before `start`.
    pub(super) fn changes_from(&self, start: &str) -> &[OverlayChange] {
        let at = self.changes.partition_point(|change| change.name.as_str() < start);
        self.changes.get(at..).unwrap_or_default()
    }
}
