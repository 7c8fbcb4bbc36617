//! The state of each resource of a subscription, read from its interest, ledger and flight when somebody
//! asks.
//!
//! The keys of an answer come in order from several sorted lists, and of each no more are looked at than
//! the answer has room for; only a glob is compared with the members of the set one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use super::flight::Mention;
use super::interest::Spelling;
use super::owed::ClientCopy;
use super::{FirstRequest, Subscription};
use crate::server::{
    ResourcePage, ResourceQuery, ResourceSelection, ResourceState, ResourceStatus, UnsettledCounts,
};
use crate::{Resource, ResourceName};

impl Subscription {
    /// The answer to a question about its resources.
    pub(crate) fn resources(&self, query: &ResourceQuery) -> ResourcePage {
        let start = query.after.as_deref().unwrap_or_default();
        let mut keys = KeysAfter { start, limit: query.limit, keys: BTreeSet::new() };
        match &query.selection {
            ResourceSelection::Named(name) => keys.add_all(self.key_of(name).iter()),
            ResourceSelection::All => self.add_all_keys(&mut keys),
            ResourceSelection::Unsettled => self.add_unsettled_keys(&mut keys),
        }
        let is_cut = keys.keys.len() > query.limit;
        let under_way = self.under_way(&keys.keys);
        let keys = keys.keys.into_iter().take(query.limit);
        let resources = keys.map(|key| self.resource(key, &under_way)).collect();
        ResourcePage { resources, is_cut }
    }

    /// The keys of the rejected responses that wait for a change: what changed in them since the client
    /// accepted it last.
    pub(crate) fn refused_keys(&self) -> impl Iterator<Item = &Spelling> {
        self.ledger.refused_keys()
    }

    /// The numbers of the resources that are not settled.
    pub(crate) fn unsettled_counts(&self) -> UnsettledCounts {
        UnsettledCounts {
            not_sent: self.ledger.owed_keys().len(),
            rejected: self.ledger.refused_len(),
            passed_over: self.ledger.verdict_unknown_len(),
            removals: self.ledger.kept().len(),
        }
    }

    /// The key of a resource on this stream, if the client wants or keeps it.
    fn key_of(&self, name: &str) -> Option<Spelling> {
        if let Some(spelling) = self.interest.spelling_of(name) {
            return Some(spelling);
        }
        let parsed = ResourceName::parse(name).ok()?;
        let is_known = self.interest.includes_member(&parsed)
            || self.ledger.kept_under(parsed.as_str()).is_some()
            || self.ledger.owes(parsed.as_str());
        is_known.then(|| parsed.shared())
    }

    fn add_all_keys(&self, keys: &mut KeysAfter<'_>) {
        keys.add_all(self.interest.names().range::<str, _>((Included(keys.start), Unbounded)));
        if self.interest.has_members() {
            let named = |name: &ResourceName| self.interest.spelling_of(name.as_str()).is_some();
            let (sent, target) = (self.ledger.sent(), self.ledger.target());
            // The client may still have members that the target lacks.
            let before = (!Arc::ptr_eq(sent, target)).then_some(sent);
            for set in before.into_iter().chain([target]) {
                let members = set.iter_from(keys.start).map(|one| one.name());
                let members = members.filter(|it| self.interest.includes_member(it) && !named(it));
                keys.add_all(members.map(ResourceName::shared));
            }
        }
        if let Some(FirstRequest::Delta(held)) = self.first_request.as_deref() {
            let held = held.names_from(keys.start).filter(|name| self.interest.covers(name));
            keys.add_all(held.map(Spelling::from));
        }
        self.add_ledger_keys(keys);
        self.add_keys_under_way(keys);
    }

    /// Adds the keys of responses that are not answered. One may tell of a removal.
    fn add_keys_under_way(&self, keys: &mut KeysAfter<'_>) {
        let under_way = self.flight.contents().flat_map(|contents| contents.iter());
        let is_single =
            |key: &Spelling| self.interest.covers(key) && !self.interest.globs().contains_key(key);
        under_way.filter(|one| is_single(&one.key)).for_each(|one| keys.add(one.key));
    }

    /// Adds the keys that the ledger remembers although they may be of no resource any more. A glob that is
    /// owed is none.
    fn add_ledger_keys(&self, keys: &mut KeysAfter<'_>) {
        let is_single = |key: &&Spelling| !self.interest.globs().contains_key(*key);
        self.ledger.keys_from(keys.start, |list| keys.add_all(list.filter(is_single)));
    }

    fn add_unsettled_keys(&self, keys: &mut KeysAfter<'_>) {
        self.add_ledger_keys(keys);
        self.add_keys_under_way(keys);
        if !Arc::ptr_eq(self.ledger.sent(), self.ledger.target()) {
            self.ledger.keys_to_change(&self.interest).into_iter().for_each(|key| keys.add(key));
        }
        if !self.has_snapshot || self.first_request.is_some() {
            self.add_all_keys(keys);
        }
    }

    /// The last word of the responses under way about each of these keys.
    fn under_way(&self, keys: &BTreeSet<Spelling>) -> BTreeMap<Spelling, Mention> {
        let mut found = BTreeMap::new();
        for contents in self.flight.contents() {
            if contents.len() <= keys.len() {
                let all = contents.iter().filter(|mention| keys.contains(&mention.key));
                found.extend(all.map(|mention| (Arc::clone(&mention.key), mention)));
            } else {
                let some = keys.iter().filter_map(|key| contents.find(key));
                found.extend(some.map(|mention| (Arc::clone(&mention.key), mention)));
            }
        }
        found
    }

    fn resource(&self, key: Spelling, under_way: &BTreeMap<Spelling, Mention>) -> ResourceStatus {
        let wanted = self.view(&key).cloned();
        let mention = under_way.get(&key);
        let state = self.resource_state(&key, wanted.as_ref(), mention.is_some());
        let given = self.given(&key, mention);
        ResourceStatus { name: key, state, wanted, given }
    }

    fn resource_state(
        &self,
        key: &str,
        wanted: Option<&Arc<Resource>>,
        is_under_way: bool,
    ) -> ResourceState {
        let is_pending = || self.interest.is_pending(self.ledger.target(), key);
        let is_sent = || self.interest.resolve(self.ledger.sent(), key) == wanted;
        if !self.has_snapshot || (wanted.is_none() && is_pending()) {
            ResourceState::Undecided
        } else if self.ledger.owes(key) || self.first_request.is_some() {
            ResourceState::NotSent
        } else if self.ledger.kept_under(key).is_some() {
            ResourceState::RemovalWaits
        } else if !is_sent() {
            ResourceState::NotSent
        } else if self.ledger.is_refused(key) {
            ResourceState::Rejected
        } else if is_under_way {
            ResourceState::Unanswered
        } else if self.ledger.is_verdict_unknown(key) {
            ResourceState::PassedOver
        } else if wanted.is_some() {
            ResourceState::Acknowledged
        } else {
            ResourceState::Missing
        }
    }

    /// The resource that the client was given last under a key, as far as it is known.
    fn given(&self, key: &str, under_way: Option<&Mention>) -> Option<Arc<Resource>> {
        if let Some(mention) = under_way {
            return mention.resource.clone();
        }
        match self.ledger.owed_copy(key) {
            Some(ClientCopy::Has(resource)) => Some(Arc::clone(resource)),
            Some(ClientCopy::Nothing | ClientCopy::Unknown | ClientCopy::Doubtful) => None,
            None if self.first_request.is_some() => None,
            None => {
                let kept = self.ledger.kept_under(key);
                kept.or_else(|| self.interest.resolve(self.ledger.sent(), key)).cloned()
            }
        }
    }
}

/// The first keys after a start, one more than the limit.
struct KeysAfter<'a> {
    start: &'a str,
    limit: usize,
    keys: BTreeSet<Spelling>,
}

impl KeysAfter<'_> {
    fn add(&mut self, key: Spelling) {
        if *key <= *self.start && !self.start.is_empty() {
            return;
        }
        if self.keys.len() <= self.limit || self.keys.last().is_some_and(|last| key < *last) {
            self.keys.insert(key);
        }
        while self.keys.len() > self.limit.saturating_add(1) {
            self.keys.pop_last();
        }
    }

    /// Adds keys that come in order.
    fn add_all<K: Into<OwnKey>>(&mut self, keys: impl IntoIterator<Item = K>) {
        // One of them may be the start itself.
        for key in keys.into_iter().take(self.limit.saturating_add(2)) {
            self.add(key.into().0);
        }
    }
}

/// A key from a list, or one that was made for the answer.
struct OwnKey(Spelling);

impl From<&Spelling> for OwnKey {
    fn from(key: &Spelling) -> Self {
        Self(Arc::clone(key))
    }
}

impl From<Spelling> for OwnKey {
    fn from(key: Spelling) -> Self {
        Self(key)
    }
}
