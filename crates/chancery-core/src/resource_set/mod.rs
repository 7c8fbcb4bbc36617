//! The resources of one type in one snapshot.
//!
//! A [`ResourceSet`] has one of two forms, which hold the same and differ in what they cost:
//!
//! ```text
//!   plain:      persistent maps, which share what did not change when a clone is edited
//!   overlaid:   a set below, which many share, and the changes that are written over it
//! ```
//!
//! A node that has a few resources of its own over those of all nodes costs its changes in the
//! overlaid form. An edit makes a plain set of it.

mod diff;
mod hosts;
mod iter;
mod keys;
mod members;
mod overlay;
mod pending;
mod plain;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

pub use self::diff::Change;
use self::diff::Changes;
use self::iter::Resources;
use self::overlay::{OverlaidContent, Overlay};
pub use self::pending::Pending;
use self::plain::PlainContent;
use crate::step::{Memo, Step};
use crate::{Resource, ResourceName, Version};

/// The resources of one type in one snapshot.
#[derive(Clone, Default)]
pub struct ResourceSet {
    content: Content,
    /// The sum of what each resource adds to the version of the type.
    digest: u128,
    /// The sum of the parts of all resources.
    parts: u64,
    /// The version that a library user stated.
    explicit: Option<Arc<str>>,
    pending: Pending,
    pub(crate) memo: Memo,
}

#[derive(Clone)]
enum Content {
    Plain(PlainContent),
    Overlaid(OverlaidContent),
}

impl ResourceSet {
    /// The empty set. There is one for all, so that all streams that start with it are in the same
    /// state.
    pub(crate) fn empty() -> &'static Arc<Self> {
        static EMPTY: LazyLock<Arc<ResourceSet>> = LazyLock::new(Arc::default);
        &EMPTY
    }

    /// The names that are pending.
    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Returns true if there is no resource of that name or alias, and the source does not know yet
    /// whether there is one.
    pub fn is_pending(&self, name: &str) -> bool {
        let named = match &self.pending {
            Pending::Nothing => false,
            Pending::Names(names) => names.contains(name),
            Pending::Everything => true,
        };
        named && self.get_aliased(name).is_none()
    }

    /// Returns true if another set holds the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest && self == other
    }

    /// Returns true if the set has no resources, no stated version and no pending names.
    pub(crate) fn is_void(&self) -> bool {
        self.is_empty() && self.explicit.is_none() && self.pending == Pending::Nothing
    }

    /// The resource of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        match &self.content {
            Content::Plain(plain) => plain.resources.get(name),
            Content::Overlaid(over) => over.get(name),
        }
    }

    /// The resource of that name or alias.
    pub fn get_aliased(&self, name: &str) -> Option<&Arc<Resource>> {
        self.get(name).or_else(|| self.get_by_key(name))
    }

    /// The resource that a further key leads to.
    fn get_by_key(&self, key: &str) -> Option<&Arc<Resource>> {
        self.least_by_key(key, &|_| false).and_then(|name| self.get(name.as_str()))
    }

    /// The least of the names that state a further key, but for those that are hidden. So the name does
    /// not depend on the order in which resources came.
    fn least_by_key(
        &self,
        key: &str,
        is_hidden: &dyn Fn(&ResourceName) -> bool,
    ) -> Option<&ResourceName> {
        match &self.content {
            Content::Plain(plain) => plain.keys.names(key).find(|name| !is_hidden(name)),
            Content::Overlaid(over) => over.least_by_key(key, is_hidden),
        }
    }

    /// The resources whose names start with `prefix`.
    pub fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        Resources::from(self, prefix).take_while(move |it| it.name().as_str().starts_with(prefix))
    }

    /// The resources whose names do not sort before `start`, by name.
    pub(crate) fn iter_from<'a>(
        &'a self,
        start: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        Resources::from(self, start)
    }

    /// All resources, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        Resources::all(self)
    }

    /// The number of resources.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Plain(plain) => plain.resources.len(),
            Content::Overlaid(over) => over.len,
        }
    }

    /// Returns true if there are no resources.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of endpoints or routes in all resources ([`Facts::parts`](crate::Facts::parts)).
    pub fn parts(&self) -> u64 {
        self.parts
    }

    /// The version of the type: a commutative combination of the names and versions of its
    /// resources (S-031), or the text that a library user stated.
    pub fn version(&self) -> Version {
        match &self.explicit {
            Some(text) => Version::Explicit(Arc::clone(text)),
            None => Version::Content(self.digest),
        }
    }

    /// The changes from `self` to `newer`, by name, in O(changed) for sets that share structure.
    pub fn diff<'a>(&'a self, newer: &'a Self) -> impl Iterator<Item = Change> + 'a {
        Changes::between(self, newer)
    }

    /// Returns true if every resource is found under its own name only.
    pub fn is_plain(&self) -> bool {
        match &self.content {
            Content::Plain(plain) => plain.keys.is_empty(),
            Content::Overlaid(over) => over.is_by_name_only(),
        }
    }

    /// The resources with a TTL.
    pub(crate) fn timed(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let (plain, overlaid) = match &self.content {
            Content::Plain(plain) => (Some(plain.timed()), None),
            Content::Overlaid(over) => (None, Some(over.timed())),
        };
        plain.into_iter().flatten().chain(overlaid.into_iter().flatten())
    }

    /// Returns false if no resource is one that strangers are not sent (S-137).
    pub(crate) fn may_be_sensitive(&self) -> bool {
        match &self.content {
            Content::Plain(plain) => plain.sensitive > 0,
            Content::Overlaid(over) => over.may_be_sensitive(),
        }
    }

    /// The set that this one is written over.
    pub(crate) fn below(&self) -> Option<&Arc<Self>> {
        match &self.content {
            Content::Plain(_) => None,
            Content::Overlaid(over) => Some(&over.below),
        }
    }

    /// The changes that are written over the set below, if there is one.
    pub(crate) fn changes_over_below(&self) -> impl Iterator<Item = Change> {
        let over = match &self.content {
            Content::Plain(_) => None,
            Content::Overlaid(over) => Some(over),
        };
        over.into_iter().flat_map(OverlaidContent::changes)
    }

    /// Returns true if both are written over other sets, with the same changes, and none of these
    /// is of a name in the step from the other's set below to this one's.
    pub(crate) fn is_changed_like(&self, other: &Self, step: &Step) -> bool {
        match (&self.content, &other.content) {
            (Content::Overlaid(one), Content::Overlaid(other)) => one.is_changed_like(other, step),
            _ => false,
        }
    }

    /// The same set in the overlaid form, if few resources differ from those of the set below.
    pub(crate) fn over(&self, below: &Arc<Self>) -> Option<Self> {
        let most = below.len() / WORTH_SHARING;
        let changes: Vec<Change> = below.diff(self).take(most + 1).collect();
        if changes.len() > most || below.depth() == MAX_DEPTH {
            return None;
        }
        let over = OverlaidContent::new(below, Arc::new(Overlay::of(changes)));
        Some(Self { content: Content::Overlaid(over), memo: Memo::default(), ..self.clone() })
    }

    /// The set with the same changes as this one, over `to` in place of `from`; `None` if it has
    /// another form, or has to be made anew for another reason.
    pub(crate) fn rebased(self: &Arc<Self>, from: &Arc<Self>, to: &Arc<Self>) -> Option<Arc<Self>> {
        if Arc::ptr_eq(from, to) {
            return Some(Arc::clone(self));
        }
        if Arc::ptr_eq(self, from) {
            return Some(Arc::clone(to));
        }
        let Content::Overlaid(over) = &self.content else { return None };
        let fits = Arc::ptr_eq(&over.below, from)
            && over.overlay.changes().len() <= to.len() / WORTH_SHARING
            && [self, from, to].iter().all(|set| set.has_resources_only());
        let over = fits.then(|| over.moved(to)).flatten()?;
        let (digest, parts) = (over.digest(), over.parts());
        let content = Content::Overlaid(over);
        Some(Arc::new(Self { content, digest, parts, ..Self::default() }))
    }

    /// Returns true if there is neither a stated version nor a pending name.
    fn has_resources_only(&self) -> bool {
        self.explicit.is_none() && self.pending == Pending::Nothing
    }

    /// The number of sets that this one stands on.
    fn depth(&self) -> usize {
        match &self.content {
            Content::Plain(_) => 0,
            Content::Overlaid(over) => over.depth,
        }
    }

    /// The resources in the plain form.
    fn to_plain(&self) -> PlainContent {
        match &self.content {
            Content::Plain(plain) => plain.clone(),
            Content::Overlaid(over) => over.to_plain(),
        }
    }

    /// States the version of the type, or which names are pending.
    pub(crate) fn set_version(&mut self, version: &str) {
        self.explicit = Some(version.into());
    }

    pub(crate) fn set_pending(&mut self, pending: Pending) {
        self.pending = pending;
    }

    /// Returns true if the set has this resource.
    pub(crate) fn holds(&self, resource: &Arc<Resource>) -> bool {
        self.get(resource.name().as_str()) == Some(resource)
    }

    /// Adds a resource, or replaces the one of that name. An edit forgets the version that was stated,
    /// so the caller looks first whether the set [`holds`](Self::holds) the resource.
    pub(crate) fn insert(&mut self, resource: Arc<Resource>) {
        self.edit(|plain, sums| {
            sums.add(&resource);
            if let Some(old) = plain.insert(resource) {
                sums.take_out(&old);
            }
        });
    }

    /// Removes the resource of that name, if there is one.
    pub(crate) fn remove(&mut self, name: &ResourceName) {
        self.edit(|plain, sums| {
            if let Some(old) = plain.remove(name) {
                sums.take_out(&old);
            }
        });
    }

    /// Edits the resources and the sums over them.
    fn edit(&mut self, edit: impl FnOnce(&mut PlainContent, &mut Sums)) {
        self.explicit = None;
        // A set that nobody shares is edited where it is, and may have been shared before.
        self.memo = Memo::default();
        let mut plain = match std::mem::take(&mut self.content) {
            Content::Plain(plain) => plain,
            Content::Overlaid(over) => over.to_plain(),
        };
        let mut sums = Sums { digest: self.digest, parts: self.parts };
        edit(&mut plain, &mut sums);
        Sums { digest: self.digest, parts: self.parts } = sums;
        self.content = Content::Plain(plain);
    }

    /// The set with these resources and no others.
    pub(crate) fn replaced(&self, wanted: Vec<Arc<Resource>>) -> Self {
        let mut after = self.clone();
        let names: BTreeSet<_> = wanted.iter().map(|resource| resource.name().clone()).collect();
        for gone in self.iter().map(|it| it.name()).filter(|name| !names.contains(*name)) {
            after.remove(gone);
        }
        for resource in wanted {
            if !self.holds(&resource) {
                after.insert(resource);
            }
        }
        after
    }

    /// Returns true if another set has the same resources.
    pub(crate) fn has_same_resources(&self, other: &Self) -> bool {
        self.len() == other.len() && self.diff(other).next().is_none()
    }
}

/// The sums over the resources of a set.
#[derive(Clone, Copy, Default)]
struct Sums {
    digest: u128,
    parts: u64,
}

impl Sums {
    fn add(&mut self, resource: &Resource) {
        self.digest = self.digest.wrapping_add(resource.share_of_type_version());
        self.parts = self.parts.wrapping_add(u64::from(resource.facts().parts));
    }

    fn take_out(&mut self, resource: &Resource) {
        self.digest = self.digest.wrapping_sub(resource.share_of_type_version());
        self.parts = self.parts.wrapping_sub(u64::from(resource.facts().parts));
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Plain(PlainContent::default())
    }
}

impl PartialEq for ResourceSet {
    fn eq(&self, other: &Self) -> bool {
        self.explicit == other.explicit
            && self.pending == other.pending
            && self.has_same_resources(other)
    }
}

impl fmt::Debug for ResourceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A set is written over another if at most one resource in so many differs.
const WORTH_SHARING: usize = 8;
/// The number of sets that one set stands on at most. A look-up goes through all of them.
const MAX_DEPTH: usize = 4;

#[cfg(test)]
mod tests;
