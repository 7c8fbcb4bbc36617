//! A change of a resource: its meaning for collections, and the state that it leads to.

use std::sync::Arc;

use super::slots::CacheSlot;
use crate::Time;
use crate::client::resource::ResourceState;
use crate::client::watching::ChangeKind;

/// The meaning of a statement for the collections that a resource may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// It comes to be a member.
    Joins,
    /// Only what is watched by name, or is a member already, is concerned.
    Stays,
    /// It is no member any more.
    Leaves,
}

/// The state of a resource after a change.
#[derive(Clone, Debug)]
pub(super) struct AppliedChange {
    /// The time from which on it must not be used any more.
    pub(super) expires: Option<Time>,
    /// The new state, if there was a change.
    pub(super) state: Option<StateChange>,
}

/// A state that is new, and the version that is held, if one is.
#[derive(Clone, Debug)]
pub(crate) struct StateChange {
    pub(crate) state: ResourceState,
    pub(crate) version: Option<Arc<str>>,
}

impl AppliedChange {
    pub(super) fn of(slot: &CacheSlot, change: Option<ChangeKind>) -> Self {
        let cached = slot.entry.cached();
        let version = || cached.map(|cached| Arc::clone(&cached.version));
        let state = change.map(|_| StateChange { state: slot.entry.state(), version: version() });
        Self { expires: cached.and_then(|cached| cached.expires), state }
    }
}
