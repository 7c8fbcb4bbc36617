//! The changes of the resources of one type under one authority.
//!
//! A change that watchers have to hear of is told to those of the resource and to those of the
//! collections that it is in. Not here: the authorities that a server's statement concerns
//! (`statements`), the state of one resource (`entry`), and watchers that come and go
//! (`type_watches`).

use std::sync::Arc;

use super::collection::WatchedCollection;
use super::entry::OnError;
use super::membership::{AppliedChange, Membership};
use super::slots::CacheSlot;
use super::type_cache::TypeCache;
use crate::ResourceName;
use crate::client::error::WatchError;
use crate::client::ids::ServerId;
use crate::client::watching::{ChangeKind, Notifier};

impl TypeCache {
    /// Changes a resource, if it is concerned, and tells its watchers.
    pub(super) fn apply(
        &mut self,
        name: &ResourceName,
        membership: Membership,
        notifier: &mut Notifier<'_>,
        mut act: impl FnMut(&mut CacheSlot) -> Option<ChangeKind>,
    ) -> Option<AppliedChange> {
        let collections = self.collections_of(name);
        let has_aliases = &mut self.has_aliases;
        let mut apply = |slot: &mut CacheSlot| {
            let change = act(slot);
            notifier.notify(&slot.watchers, name, change);
            *has_aliases |= slot.entry.cached().is_some_and(|it| it.resource.name() != name);
            (change, AppliedChange::of(slot, change))
        };
        let (change, applied) = if membership == Membership::Joins && !collections.is_empty() {
            self.slots.change_or_insert(name, &mut apply)
        } else {
            self.slots.change(name, &mut apply)?
        };
        self.change_membership(name, &collections, membership, change, notifier);
        self.remove_unwatched(name);
        Some(applied)
    }

    /// A resource that a server was asked for did not come in time. Returns false if it is there.
    pub(super) fn time_out(
        &mut self,
        name: &ResourceName,
        error: WatchError,
        server: ServerId,
        on_error: OnError,
        notifier: &mut Notifier<'_>,
    ) -> bool {
        let change = self.slots.change(name, |slot| {
            let is_late = !slot.entry.is_from(server) || !slot.entry.is_confirmed();
            is_late.then(|| slot.entry.set_error(error, on_error))
        });
        let change = change.flatten();
        notifier.notify(&self.listeners(name), name, change.flatten());
        change.is_some()
    }

    fn change_membership(
        &mut self,
        name: &ResourceName,
        collections: &[ResourceName],
        membership: Membership,
        change: Option<ChangeKind>,
        notifier: &mut Notifier<'_>,
    ) {
        let mut is_other = false;
        let mut listeners = Vec::new();
        for collection in collections {
            if let Some(collection) = self.collections.get_mut(collection) {
                is_other |= match membership {
                    Membership::Joins => {
                        collection.clear_error(notifier);
                        collection.members.insert(name.clone())
                    }
                    Membership::Leaves => collection.members.remove(name),
                    Membership::Stays => false,
                };
                listeners.extend(&collection.watchers);
            }
        }
        let change = if is_other { Some(ChangeKind::Value) } else { change };
        notifier.notify(&listeners, name, change);
    }

    /// Returns a collection that is watched.
    pub(super) fn collection_mut(&mut self, name: &ResourceName) -> Option<&mut WatchedCollection> {
        self.collections.get_mut(name)
    }

    /// The server that gave what is held is given up.
    pub(super) fn mark_unconfirmed(&mut self, server: ServerId) {
        self.slots.change_all(|_, slot| slot.entry.mark_unconfirmed(server));
    }

    /// Everything in the newest response had a name.
    pub(crate) fn clear_rejected(&mut self, notifier: &mut Notifier<'_>) {
        self.collections.values_mut().for_each(|it| it.clear_rejected(notifier));
    }

    /// Nothing of the source can be used, which goes with all that is held (C-043).
    pub(crate) fn set_unusable(&mut self, error: &WatchError, notifier: &mut Notifier<'_>) {
        self.unusable = Some(Arc::new(error.clone()));
        self.slots.change_all(|name, slot| {
            let change = slot.entry.set_error(error.clone(), OnError::Keep);
            notifier.notify(&slot.watchers, name, change);
        });
        self.notify_collections(notifier);
    }

    /// The source can be used again. `missing` is the error of a resource that it did not have.
    pub(crate) fn clear_unusable(
        &mut self,
        missing: impl Fn(&ResourceName) -> WatchError,
        notifier: &mut Notifier<'_>,
    ) {
        if let Some(error) = self.unusable.take() {
            self.slots.change_all(|name, slot| {
                let change = slot.entry.clear_error(&error, || missing(name));
                notifier.notify(&slot.watchers, name, change);
            });
            self.notify_collections(notifier);
        }
    }

    /// The servers cannot be reached for this reason, or can be again. While there is another
    /// server, a resource that is known not to exist is no reason to ask it, and its watchers hear
    /// nothing (C-090).
    pub(super) fn set_outage(
        &mut self,
        outage: Option<&Arc<WatchError>>,
        is_last_server: bool,
        notifier: &mut Notifier<'_>,
    ) {
        if self.outage.as_ref() == outage {
            return;
        }
        self.outage = outage.cloned();
        self.slots.change_all(|name, slot| {
            let change = match outage {
                Some(_) if !is_last_server && slot.entry.is_without_value() => return,
                Some(_) => slot.entry.begin_outage(),
                None => slot.entry.end_outage(),
            };
            notifier.notify(&slot.watchers, name, change);
        });
        self.notify_collections(notifier);
    }

    /// The servers can still not be reached: watchers that heard something else meanwhile, as that
    /// a resource did not come in time, hear that again.
    pub(super) fn repeat_outage(&mut self, is_last_server: bool, notifier: &mut Notifier<'_>) {
        self.slots.change_all(|name, slot| {
            if is_last_server || !slot.entry.is_without_value() {
                let change = slot.entry.repeat_outage();
                notifier.notify(&slot.watchers, name, change);
            }
        });
    }

    fn notify_collections(&self, notifier: &mut Notifier<'_>) {
        self.collections.values().for_each(|collection| collection.notify(notifier));
    }
}
