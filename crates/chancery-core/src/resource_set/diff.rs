//! The difference of two sets.
//!
//! Two plain sets share the maps that did not change, so their difference costs what differs. The
//! difference of sets that are written over others is that of the sets at the bottom, as far as no
//! overlay hides it, and of the names that their overlays change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::vec;

use imbl::ordmap::{DiffItem, DiffIter};
use imbl::shared_ptr::DefaultSharedPtr;

use super::overlay::Overlay;
use super::plain::PlainContent;
use super::{Content, ResourceSet};
use crate::{Resource, ResourceName};

/// One name whose resource differs between two sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The name that changed.
    pub name: ResourceName,
    /// The resource before.
    pub old: Option<Arc<Resource>>,
    /// The resource now.
    pub new: Option<Arc<Resource>>,
}

/// The changes from one set to another, by name.
pub(super) enum Changes<'a> {
    Plain(DiffIter<'a, 'a, ResourceName, Arc<Resource>, DefaultSharedPtr>),
    Listed(vec::IntoIter<Change>),
}

impl<'a> Changes<'a> {
    pub(super) fn between(before: &'a ResourceSet, after: &'a ResourceSet) -> Self {
        match (&before.content, &after.content) {
            (Content::Plain(before), Content::Plain(after)) => {
                Self::Plain(before.resources.diff(&after.resources))
            }
            _ => Self::Listed(listed(before, after).into_iter()),
        }
    }
}

impl Iterator for Changes<'_> {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        match self {
            Self::Plain(changes) => changes.next().map(change),
            Self::Listed(changes) => changes.next(),
        }
    }
}

/// The changes between sets of which at least one is written over another.
fn listed(before: &ResourceSet, after: &ResourceSet) -> Vec<Change> {
    let (bottom_before, overlays_before) = parts(before);
    let (bottom_after, overlays_after) = parts(after);
    let mut names = BTreeSet::new();
    names.extend(bottom_before.resources.diff(&bottom_after.resources).map(name));
    // An overlay that both have in the same place hides the same in both.
    let is_same_height = overlays_before.len() == overlays_after.len();
    for (at, overlay) in overlays_before.iter().enumerate() {
        let other = overlays_after.get(at).filter(|_| is_same_height);
        if other.is_none_or(|other| !Arc::ptr_eq(overlay, other)) {
            let changes = overlay.changes().iter().chain(other.iter().flat_map(|it| it.changes()));
            names.extend(changes.map(|change| &change.name));
        }
    }
    if !is_same_height {
        let changes = overlays_after.iter().flat_map(|overlay| overlay.changes());
        names.extend(changes.map(|change| &change.name));
    }
    let changes = names.into_iter().filter_map(|name| {
        let (old, new) = (before.get(name.as_str()), after.get(name.as_str()));
        (old != new).then(|| Change { name: name.clone(), old: old.cloned(), new: new.cloned() })
    });
    changes.collect()
}

/// The plain content at the bottom of a set, and the overlays written over it, the strongest first.
fn parts(set: &ResourceSet) -> (&PlainContent, Vec<&Arc<Overlay>>) {
    let (mut set, mut overlays) = (set, Vec::new());
    loop {
        match &set.content {
            Content::Plain(plain) => return (plain, overlays),
            Content::Overlaid(over) => {
                overlays.push(&over.overlay);
                set = &over.below;
            }
        }
    }
}

fn name<'a>(item: DiffItem<'a, 'a, ResourceName, Arc<Resource>>) -> &'a ResourceName {
    match item {
        DiffItem::Add(name, _) | DiffItem::Remove(name, _) => name,
        DiffItem::Update { new: (name, _), .. } => name,
    }
}

fn change(item: DiffItem<'_, '_, ResourceName, Arc<Resource>>) -> Change {
    match item {
        DiffItem::Add(name, new) => {
            Change { name: name.clone(), old: None, new: Some(Arc::clone(new)) }
        }
        DiffItem::Update { old: (name, old), new: (_, new) } => {
            Change { name: name.clone(), old: Some(Arc::clone(old)), new: Some(Arc::clone(new)) }
        }
        DiffItem::Remove(name, old) => {
            Change { name: name.clone(), old: Some(Arc::clone(old)), new: None }
        }
    }
}
