//! The resources of a set, in the order of their names.

use std::iter::Peekable;
use std::ops::Bound;
use std::slice;
use std::sync::Arc;

use imbl::ordmap::{RangedIter, Values};
use imbl::shared_ptr::DefaultSharedPtr;

use super::overlay::{OverlaidContent, OverlayChange};
use super::{Content, ResourceSet};
use crate::{Resource, ResourceName};

/// The resources of a set, in the order of their names.
pub(super) enum Resources<'a> {
    All(Values<'a, ResourceName, Arc<Resource>, DefaultSharedPtr>),
    From(RangedIter<'a, ResourceName, Arc<Resource>, DefaultSharedPtr>),
    Overlaid(Box<Overlaid<'a>>),
}

/// The resources of a set that is written over another.
pub(super) struct Overlaid<'a> {
    below: Peekable<Resources<'a>>,
    changes: Peekable<slice::Iter<'a, OverlayChange>>,
}

impl<'a> Resources<'a> {
    /// All resources of a set.
    pub(super) fn all(set: &'a ResourceSet) -> Self {
        match &set.content {
            Content::Plain(plain) => Self::All(plain.resources.values()),
            Content::Overlaid(over) => Self::Overlaid(Overlaid::new(over, Self::all, "")),
        }
    }

    /// The resources whose names do not sort before `start`.
    pub(super) fn from(set: &'a ResourceSet, start: &str) -> Self {
        match &set.content {
            Content::Plain(plain) => {
                let range = (Bound::Included(start), Bound::Unbounded);
                Self::From(plain.resources.range::<_, str>(range))
            }
            Content::Overlaid(over) => {
                let below = |set| Self::from(set, start);
                Self::Overlaid(Overlaid::new(over, below, start))
            }
        }
    }
}

impl<'a> Overlaid<'a> {
    fn new(
        over: &'a OverlaidContent,
        below: impl FnOnce(&'a ResourceSet) -> Resources<'a>,
        start: &str,
    ) -> Box<Self> {
        let changes = over.overlay.changes_from(start).iter().peekable();
        Box::new(Self { below: below(&over.below).peekable(), changes })
    }
}

impl<'a> Iterator for Resources<'a> {
    type Item = &'a Arc<Resource>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::All(resources) => resources.next(),
            Self::From(resources) => resources.next().map(|(_, resource)| resource),
            Self::Overlaid(resources) => resources.next(),
        }
    }

    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut call: F) -> B {
        match self {
            Self::All(resources) => resources.fold(init, call),
            Self::From(resources) => resources.fold(init, |so_far, (_, it)| call(so_far, it)),
            Self::Overlaid(resources) => resources.fold(init, call),
        }
    }
}

impl<'a> Iterator for Overlaid<'a> {
    type Item = &'a Arc<Resource>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(change) = self.changes.peek() {
            if let Some(unchanged) = self.below.next_if(|it| *it.name() < change.name) {
                return Some(unchanged);
            }
            let change = self.changes.next()?;
            self.below.next_if(|it| *it.name() == change.name);
            if let Some(resource) = &change.resource {
                return Some(resource);
            }
        }
        self.below.next()
    }
}
