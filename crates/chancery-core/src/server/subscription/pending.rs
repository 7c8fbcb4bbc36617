//! The wait for a source that does not know yet whether a resource exists.
//!
//! A name that is pending stays owed until the source knows, or until the client has waited for
//! [`source_wait`](crate::server::Settings). Then it is answered as absent. A client with a wildcard
//! or glob, and one that is sent the whole state, waits as a whole: it would delete what a response
//! leaves out.

use std::collections::BTreeMap;

use super::Subscription;
use super::interest::Spelling;
use crate::server::{Settings, held_bytes};
use crate::{Pending, Time};

/// The waits of one subscription.
#[derive(Debug, Default)]
pub(super) struct SourceWaits {
    /// The names that wait, and since when; `None` if the client has waited long enough.
    names: BTreeMap<Spelling, Option<Time>>,
    members: MembersWait,
}

/// The wait of a wildcard or glob for its members.
#[derive(Debug, Default)]
enum MembersWait {
    /// Nothing is pending.
    #[default]
    Known,
    /// Something has been pending since then.
    Since(Time),
    /// Something is pending, and the client has waited long enough.
    GivenUp,
}

impl SourceWaits {
    /// Returns true if the client still waits for a pending name.
    pub(super) fn waits_for(&mut self, now: Time, key: &Spelling, settings: &Settings) -> bool {
        let since = *self.names.entry(key.clone()).or_insert(Some(now));
        since.is_some_and(|since| now < since + settings.source_wait)
    }

    /// Drops the names that are not owed any more, and gives up those that were waited for long
    /// enough. They may have to wait for others, and have no deadline then.
    fn refresh(&mut self, now: Time, settings: &Settings, owes: impl Fn(&str) -> bool) {
        self.names.retain(|name, since| {
            *since = since.filter(|since| now < *since + settings.source_wait);
            owes(name)
        });
    }

    /// Drops the names that are not waited for any more.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.names.retain(|name, _| keep(name));
    }

    /// The time at which the next wait ends.
    pub(super) fn deadline(&self, settings: &Settings) -> Option<Time> {
        let members = match self.members {
            MembersWait::Since(since) => Some(since),
            MembersWait::Known | MembersWait::GivenUp => None,
        };
        let waiting = self.names.values().copied().flatten().chain(members);
        waiting.min().map(|since| since + settings.source_wait)
    }

    /// Returns true if the client waits for nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.names.is_empty() && matches!(self.members, MembersWait::Known)
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        held_bytes::tree(self.names.len(), size_of::<Spelling>() + size_of::<Option<Time>>())
    }

    /// The number of names that wait.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns true if the client still waits for members of its wildcard or globs.
    fn waits_for_members(&mut self, now: Time, pending: &Pending, settings: &Settings) -> bool {
        self.members = match (pending, &self.members) {
            (Pending::Nothing, _) => MembersWait::Known,
            (_, MembersWait::Known) => MembersWait::Since(now),
            (_, MembersWait::Since(since)) if now >= *since + settings.source_wait => {
                MembersWait::GivenUp
            }
            (_, MembersWait::Since(since)) => MembersWait::Since(*since),
            (_, MembersWait::GivenUp) => MembersWait::GivenUp,
        };
        matches!(self.members, MembersWait::Since(_))
    }
}

impl Subscription {
    /// Returns true if the next response has to wait for the source.
    pub(super) fn awaits_source(&mut self, now: Time, settings: &Settings) -> bool {
        let pending = self.ledger.target().pending();
        if *pending == Pending::Nothing && self.source_waits.is_idle() {
            return false;
        }
        // A name may have been unsubscribed since the last poll.
        self.source_waits.refresh(now, settings, |name| self.ledger.owes(name));
        if self.interest.has_members()
            && self.source_waits.waits_for_members(now, pending, settings)
        {
            return true;
        }
        if *pending == Pending::Nothing || !self.is_full_state() {
            return false;
        }
        let keys = self.ledger.owed_keys();
        let pending = keys.filter(|key| self.interest.is_pending(self.ledger.target(), key));
        // Each name is looked at, because its wait begins now.
        let waits = pending.filter(|key| self.source_waits.waits_for(now, key, settings));
        waits.count() > 0
    }
}
