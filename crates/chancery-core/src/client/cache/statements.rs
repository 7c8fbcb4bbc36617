//! The changes of what is held: by what a server says, and by what it does not say in time.
//!
//! A statement counts under every authority that believes its server. A resource that does not come
//! in time is missed under the authority of its name alone. Not here: the meaning of a response
//! (`machine::receive`), when the time is over (`machine::timeouts`), and the change of one
//! resource (`type_changes`, `entry`).

use std::collections::BTreeMap;

use super::authority::AuthorityCache;
use super::entry::OnError;
use super::expiries::Expiry;
use super::membership::{Membership, StateChange};
use super::resource_cache::ResourceCache;
use super::slots::CacheSlot;
use crate::client::authority_key::AuthorityKey;
use crate::client::error::WatchError;
use crate::client::ids::ServerId;
use crate::client::watching::{ChangeKind, Notifier, Watchers};
use crate::{ResourceName, Time, TypeUrl};

/// A resource that a server speaks of, or that it should speak of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement<'a> {
    pub(crate) server: ServerId,
    pub(crate) type_url: &'a TypeUrl,
    pub(crate) name: &'a ResourceName,
}

impl ResourceCache {
    /// Changes a resource under all authorities that believe the server that speaks of it, and
    /// tells its watchers. Returns the states that are new.
    pub(crate) fn apply(
        &mut self,
        statement: Statement<'_>,
        membership: Membership,
        notifier: &mut Notifier<'_>,
        mut act: impl FnMut(&mut CacheSlot) -> Option<ChangeKind>,
    ) -> Vec<StateChange> {
        let Statement { server, type_url, name } = statement;
        let mut changes = Vec::new();
        let mut expiring = Vec::new();
        for (key, authority) in &mut self.authorities {
            let believing = authority.believes(server).then_some(&mut authority.types);
            let cache = believing.and_then(|types| types.get_mut(type_url));
            let applied = cache.and_then(|it| it.apply(name, membership, notifier, &mut act));
            if let Some(applied) = applied {
                changes.extend(applied.state);
                expiring.extend(applied.expires.map(|at| Expiry {
                    at,
                    authority: key.clone(),
                    type_url: type_url.clone(),
                    name: name.clone(),
                }));
            }
        }
        for expiry in expiring {
            let authorities = &self.authorities;
            self.expiries.add(expiry, |expiry| expiring_server(authorities, expiry).is_some());
        }
        changes
    }

    /// A resource that a server was asked for did not come in time. Returns false if it is there.
    pub(crate) fn time_out(
        &mut self,
        statement: Statement<'_>,
        error: WatchError,
        on_error: OnError,
        watchers: &mut Watchers,
    ) -> bool {
        let Statement { server, type_url, name } = statement;
        let authority = self.authorities.get_mut(&AuthorityKey::of(name));
        let cache = authority.and_then(|authority| authority.types.get_mut(type_url));
        let notifier = &mut watchers.local_notifier();
        cache.is_some_and(|cache| cache.time_out(name, error, server, on_error, notifier))
    }

    /// The members of a collection that its server has not spoken of in time leave it. A server of
    /// delta need not speak of what it knows the client to have (C-040).
    pub(crate) fn time_out_members(
        &mut self,
        statement: Statement<'_>,
        was_announced: impl Fn(&ResourceName) -> bool,
        error: impl Fn(&ResourceName) -> WatchError,
        watchers: &mut Watchers,
    ) {
        let Statement { server, type_url, name: collection } = statement;
        let authority = self.authorities.get_mut(&AuthorityKey::of(collection));
        if let Some(cache) = authority.and_then(|authority| authority.types.get_mut(type_url)) {
            for name in cache.overdue_members(collection, server, was_announced) {
                let error = error(&name);
                cache.apply(&name, Membership::Leaves, &mut watchers.local_notifier(), |slot| {
                    slot.entry.set_error(error.clone(), OnError::Keep)
                });
            }
        }
    }

    /// Drops the resources whose time to live is over (C-045). `error` says what is wrong with one.
    pub(crate) fn expire(
        &mut self,
        now: Time,
        watchers: &mut Watchers,
        error: impl Fn(ServerId, &TypeUrl, &ResourceName) -> WatchError,
    ) {
        while let Some(expiry) = self.expiries.next_expired(now) {
            let server = expiring_server(&self.authorities, &expiry);
            let Expiry { authority, type_url, name, .. } = &expiry;
            let authority = self.authorities.get_mut(authority);
            let cache = authority.and_then(|it| it.types.get_mut(type_url));
            if let (Some(cache), Some(server)) = (cache, server) {
                let error = error(server, type_url, name);
                cache.apply(name, Membership::Leaves, &mut watchers.local_notifier(), |slot| {
                    slot.entry.expire(error.clone())
                });
            }
        }
    }
}

/// Returns the server that gave a resource, if the resource still expires at that time.
fn expiring_server(
    authorities: &BTreeMap<AuthorityKey, AuthorityCache>,
    expiry: &Expiry,
) -> Option<ServerId> {
    let cache = authorities.get(&expiry.authority)?.cache(&expiry.type_url)?;
    let cached = cache.entry(&expiry.name)?.cached()?;
    (cached.expires == Some(expiry.at)).then_some(cached.server)
}
