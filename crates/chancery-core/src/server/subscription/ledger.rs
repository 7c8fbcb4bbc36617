//! The ledger of one subscription: the set that the client was brought to, and the keys that it is
//! owed, keeps for a while, or refused.
//!
//! Nothing is queued. There is one set that the client should see, the target, and one that it was
//! brought to, `sent`. [`Ledger::advance`] turns the difference of the two into keys that are owed.
//! It is called when a response may be sent, so that ten changes make one response. A key is a name
//! in the client's spelling; for members of a wildcard or glob it is the resource's own name.
//!
//! The fields are private to this file, which keeps these invariants:
//!
//! - A client that is told every owed key, and that drops what is kept, holds what `sent` says.
//! - A key is kept only if the target has no such resource and the client holds one.
//! - A key that was refused stays refused until the client accepts it, the subscription drops it, or
//!   a part of the refused response changes. Then it is owed again (S-033, [when to send an update]).
//!
//! [when to send an update]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#when-to-send-an-update

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::flight::{Contents, Flight, Mention};
use super::interest::{Interest, Spelling};
use super::key_map::KeyMap;
use super::owed::{ClientCopy, OwedKeys};
use crate::server::held_bytes;
use crate::step::{Step, StepChange};
use crate::{Resource, ResourceName, ResourceSet, Time};

/// The set that the client was brought to, and the keys that it is owed, keeps for a while, or
/// refused.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The set that the client should see.
    target: Arc<ResourceSet>,
    /// The set that the client has once it is told every owed key and drops what is kept.
    sent: Arc<ResourceSet>,
    /// The keys of which the client has to be told before it is where `sent` says.
    owed: OwedKeys,
    /// Resources that are gone from the target, and that the client keeps until nothing uses them
    /// (S-098).
    kept: KeyMap<Kept>,
    /// The keys of rejected responses. They are not sent again, and the client may hold the new
    /// resource or the old one (S-035, [gRFC
    /// A46](https://github.com/grpc/proposal/blob/master/A46-xds-nack-semantics-improvement.md)).
    /// The value is true if the client had nothing under the key before.
    refused: KeyMap<bool>,
    /// True if a part of a rejected response has been unsubscribed since. If that part was the one
    /// at fault, no change of the others will show it: so any change of the type lets the refused
    /// keys be tried again.
    fault_may_be_unsubscribed: bool,
    /// The keys of responses that the client read and never answered, so that its verdict is
    /// unknown (S-037, [resource
    /// updates](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-updates)), or to
    /// which no answer is expected any more, because there are too many. The value is the nonce of the last one.
    verdict_unknown: KeyMap<Arc<str>>,
    /// True if a resource with a secret may be gone from `sent`, the target and what is kept, and was
    /// in a response that the client has not answered.
    supersedes_secret: bool,
}

/// A resource that is gone from the target and not yet removed from the client.
#[derive(Debug)]
struct Kept {
    resource: Arc<Resource>,
    since: Time,
}

impl Kept {
    fn is_sensitive(&self) -> bool {
        self.resource.facts().sensitive
    }
}

/// One key under which the client should see another resource than before.
struct KeyChange {
    key: Spelling,
    old: Option<Arc<Resource>>,
    new: Option<Arc<Resource>>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            target: Arc::clone(ResourceSet::empty()),
            sent: Arc::clone(ResourceSet::empty()),
            owed: OwedKeys::default(),
            kept: KeyMap::default(),
            refused: KeyMap::default(),
            fault_may_be_unsubscribed: false,
            verdict_unknown: KeyMap::default(),
            supersedes_secret: false,
        }
    }
}

impl Ledger {
    /// The set that the client should see.
    pub(crate) fn target(&self) -> &Arc<ResourceSet> {
        &self.target
    }

    /// The set that the client was brought to, but for what it is owed and keeps for a while.
    pub(crate) fn sent(&self) -> &Arc<ResourceSet> {
        &self.sent
    }

    /// The resources that the client may have been sent. None of the others holds a secret, unless one
    /// was superseded ([`may_supersede_secret`](Self::may_supersede_secret)).
    pub(crate) fn may_have_sent(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let sets = [&self.sent, &self.target].into_iter().filter(|set| set.may_be_sensitive());
        sets.flat_map(|set| set.iter()).chain(self.kept().map(|(_, resource)| resource))
    }

    /// Returns true if a response that the client has not answered may have a secret that is not
    /// known here any more.
    pub(crate) fn may_supersede_secret(&self) -> bool {
        self.supersedes_secret
    }

    /// Takes in that the client has answered all responses.
    pub(crate) fn forget_superseded(&mut self) {
        self.supersedes_secret = false;
    }

    /// Changes what the client should see. Nothing is owed before the next
    /// [`advance`](Self::advance).
    pub(crate) fn set_target(&mut self, target: &Arc<ResourceSet>) {
        if !Arc::ptr_eq(&self.sent, &self.target) {
            self.supersedes_secret |= self.target.may_be_sensitive();
        }
        self.target = Arc::clone(target);
    }

    /// Brings the client to the target. The caller owes it every key that differs, or has put
    /// these keys into a response.
    pub(crate) fn move_to_target(&mut self) {
        self.sent = Arc::clone(&self.target);
    }

    /// Takes the client's word that it has the target already: nothing is owed.
    pub(crate) fn trust_client_at_target(&mut self) {
        self.move_to_target();
        self.put_back_owed(std::iter::empty());
    }

    /// Returns true if the client holds exactly what `sent` says: nothing is owed, kept or refused,
    /// and every verdict is known.
    pub(crate) fn is_at_sent(&self) -> bool {
        self.owed.is_empty() && self.kept.is_empty() && self.all_accepted()
    }

    /// Moves to the target, and owes the client the keys that differ.
    pub(crate) fn advance(&mut self, now: Time, interest: &Interest) {
        if Arc::ptr_eq(&self.sent, &self.target) {
            return;
        }
        if self.fault_may_be_unsubscribed && self.sent.version() != self.target.version() {
            let is_there = |key: &Spelling| self.view(key, interest).is_some();
            if self.refused.keys().any(is_there) {
                self.retry_refused();
            }
        }
        self.supersedes_secret |= self.sent.may_be_sensitive();
        for change in self.changes(interest) {
            self.apply_change(now, change);
        }
        self.move_to_target();
    }

    /// Returns true if something is owed, or the target was not moved to yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.owed.is_empty() || !Arc::ptr_eq(&self.sent, &self.target)
    }

    /// Returns true if the client was told all of the target, keeps nothing else, and accepted what
    /// it was told.
    pub(crate) fn is_at_target(&self) -> bool {
        !self.is_behind() && self.kept.is_empty() && self.all_accepted()
    }

    /// Returns true if no rejected key is waiting for a change.
    pub(crate) fn has_no_refused(&self) -> bool {
        self.refused.is_empty()
    }

    /// The bytes that are kept for the client, about. The texts of most keys are those of the interest,
    /// or of resources.
    pub(crate) fn held_bytes(&self) -> usize {
        self.owed.held_bytes()
            + self.kept.held_bytes()
            + self.refused.held_bytes()
            + self.verdict_unknown.held_bytes()
    }

    /// The number of owed keys that the client has unsubscribed, and the bytes of their texts.
    pub(crate) fn unsubscribed_sizes(&self) -> (usize, usize) {
        self.owed.unsubscribed_sizes()
    }

    fn all_accepted(&self) -> bool {
        self.refused.is_empty() && self.verdict_unknown.is_empty()
    }

    /// The resource that the client should see under a key: the one it keeps for a while, or that
    /// of the target.
    pub(crate) fn view(&self, key: &str, interest: &Interest) -> Option<&Arc<Resource>> {
        match self.kept.get(key) {
            Some(kept) => Some(&kept.resource),
            None => interest.resolve(&self.target, key),
        }
    }

    /// Owes the client a key that it asked for, whatever it holds.
    pub(crate) fn owe(&mut self, key: &Spelling) {
        self.owed.insert(Arc::clone(key), ClientCopy::Unknown);
    }

    /// Owes the client a key that it has unsubscribed: it may still hold what it was told.
    pub(crate) fn owe_unsubscribed(&mut self, key: &Spelling) {
        self.owe_again(Arc::clone(key));
        self.owed.keep_unsubscribed(key);
    }

    /// Takes in that the client has unsubscribed a key to which it is still subscribed as a member.
    pub(crate) fn keep_unsubscribed(&mut self, key: &Spelling) {
        self.owed.keep_unsubscribed(key);
    }

    /// Takes in that the client subscribes a name. Returns the text of it that is kept, if the client
    /// had unsubscribed it and is owed it still.
    pub(crate) fn resubscribe(&mut self, name: Spelling) -> Spelling {
        self.owed.resubscribe(name)
    }

    /// Takes in that the interest keeps other texts than the owed keys from now on, in place of texts
    /// of these bytes.
    pub(crate) fn set_respelled(&mut self, bytes: usize) {
        self.owed.add_texts(bytes);
    }

    /// Owes the client a key whose text nobody else keeps, whatever it holds.
    pub(crate) fn owe_own(&mut self, key: Spelling) {
        let text = held_bytes::text(key.len());
        self.owed.insert_own(key, ClientCopy::Unknown, text);
    }

    /// Owes the client a key of which it holds this, unless the key is owed already.
    pub(crate) fn owe_copy(&mut self, key: Spelling, copy: ClientCopy) {
        self.owed.insert_new(key, copy);
    }

    /// Owes the client all that it was brought to, whatever it holds.
    pub(crate) fn owe_all_sent(&mut self) {
        let keys = self.sent.iter().map(|member| (member.name().shared(), ClientCopy::Unknown));
        self.owed.insert_all(keys);
    }

    /// Owes the client the members of a wildcard that has just begun. `sent` does not tell what the
    /// client holds of names that it had not asked for: that is nothing, or what the responses
    /// under way give.
    pub(crate) fn owe_members(
        &mut self,
        interest: &Interest,
        given: impl Iterator<Item = Mention>,
    ) {
        let members = self.sent.iter().map(|member| member.name());
        for name in members.filter(|name| !interest.is_named(name.as_str())) {
            self.owed.insert_new(name.shared(), ClientCopy::Nothing);
        }
        for mention in given.filter(|mention| !interest.is_named(&mention.key)) {
            let text = mention.own_text_bytes();
            self.owed.insert_own(mention.key, ClientCopy::Doubtful, text);
        }
    }

    /// Takes out all that is owed, to be looked at key by key. The caller puts the keys back that
    /// are still owed afterwards, with [`put_back_owed`](Self::put_back_owed).
    pub(crate) fn take_owed(&mut self) -> BTreeMap<Spelling, ClientCopy> {
        self.owed.take()
    }

    /// Puts back the keys that are still owed.
    pub(crate) fn put_back_owed(&mut self, left: impl Iterator<Item = (Spelling, ClientCopy)>) {
        self.owed.put_back(left);
    }

    /// Returns true if nothing is owed.
    #[inline]
    pub(crate) fn owes_nothing(&self) -> bool {
        self.owed.is_empty()
    }

    /// The keys that are owed.
    pub(crate) fn owed_keys(&self) -> impl ExactSizeIterator<Item = &Spelling> {
        self.owed.keys()
    }

    /// The resources that the client keeps for a while, by key.
    pub(crate) fn kept(&self) -> impl ExactSizeIterator<Item = (&Spelling, &Arc<Resource>)> {
        self.kept.iter().map(|(key, kept)| (key, &kept.resource))
    }

    /// The resource that the client keeps for a while under a key.
    #[inline]
    pub(crate) fn kept_under(&self, key: &str) -> Option<&Arc<Resource>> {
        self.kept.get(key).map(|kept| &kept.resource)
    }

    /// Returns true if the client keeps resources for a while.
    #[inline]
    pub(crate) fn keeps_any(&self) -> bool {
        !self.kept.is_empty()
    }

    /// The time since when the resource is kept that is kept longest.
    pub(crate) fn kept_since(&self) -> Option<Time> {
        self.kept.iter().map(|(_, kept)| kept.since).min()
    }

    /// The resources with a TTL that the client holds under their own names: those it was brought
    /// to, and those of which the successor is owed.
    pub(crate) fn held_with_ttl(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let current = self.sent.timed().filter(|it| !self.owes(it.name().as_str()));
        let superseded = self.owed.copies().filter_map(|copy| match copy {
            ClientCopy::Has(resource) => Some(resource).filter(|it| it.ttl().is_some()),
            ClientCopy::Unknown | ClientCopy::Doubtful | ClientCopy::Nothing => None,
        });
        current.chain(superseded)
    }

    /// Returns true if the client must be told about a key.
    pub(crate) fn owes(&self, key: &str) -> bool {
        self.owed.contains(key)
    }

    /// Owes the client keys that it asked for, whatever it holds.
    pub(crate) fn owe_all(&mut self, keys: Vec<Spelling>) {
        self.owed.insert_all(keys.into_iter().map(|key| (key, ClientCopy::Unknown)));
    }

    /// Owes the client a key that it was told before.
    pub(crate) fn owe_again(&mut self, key: Spelling) {
        self.owed.insert_again(key, 0);
    }

    /// Drops a key that the client has unsubscribed.
    pub(crate) fn unsubscribe(&mut self, key: &str) {
        self.owed.remove(key);
        let kept = self.kept.remove(key);
        self.supersedes_secret |= kept.is_some_and(|(_, kept)| kept.is_sensitive());
        let refused = self.refused.remove(key).is_some();
        self.part_unsubscribed(refused);
        self.verdict_unknown.remove(key);
    }

    /// Drops all keys that the subscription no longer covers.
    pub(crate) fn retain_covered(&mut self, interest: &Interest) {
        self.owed.retain(|key| interest.covers(key));
        let gone = self.kept.take_if(|key, _| !interest.covers(key));
        self.supersedes_secret |= gone.iter().any(|(_, kept, _)| kept.is_sensitive());
        let refused = self.refused.len();
        self.refused.retain(|key| interest.covers(key));
        self.part_unsubscribed(self.refused.len() < refused);
        self.verdict_unknown.retain(|key| interest.covers(key));
    }

    /// Drops those keys with a prefix that the subscription no longer covers.
    pub(crate) fn retain_covered_below(&mut self, prefix: &str, interest: &Interest) {
        let is_gone = |key: &Spelling| key.starts_with(prefix) && !interest.covers(key);
        let mut gone = BTreeSet::new();
        let mut add = |keys: &mut dyn Iterator<Item = &Spelling>| {
            let keys = keys.take_while(|key| key.starts_with(prefix));
            gone.extend(keys.filter(|key| is_gone(key)).cloned());
        };
        add(&mut self.owed.keys_from(prefix));
        add(&mut self.kept.keys_from(prefix));
        add(&mut self.refused.keys_from(prefix));
        add(&mut self.verdict_unknown.keys_from(prefix));
        gone.iter().for_each(|key| self.unsubscribe(key));
    }

    /// Ends the wait of removals: the client is owed those that `is_over` is true for, given the
    /// time since when they wait.
    pub(crate) fn owe_removals(&mut self, is_over: impl Fn(Time) -> bool) {
        for (key, kept, text) in self.kept.take_if(|_, kept| is_over(kept.since)) {
            self.supersedes_secret |= kept.is_sensitive();
            self.retry_if_refused(&key);
            self.owed.insert_new_own(key, ClientCopy::Has(kept.resource), text);
        }
    }

    /// Takes in that the client rejected a response. If a part of the response has changed since,
    /// all of it is owed again at once; else it waits until a part changes (S-033). Keys that a
    /// newer response under way mentions are left to the answer to that one.
    pub(crate) fn refuse(&mut self, contents: &Contents, newer: &Flight, interest: &Interest) {
        let wanted = || contents.iter().filter(|mention| interest.covers(&mention.key));
        // Parts that were unsubscribed since count too: one of them may be at fault. A resource that was
        // not there is not at fault.
        let may_be_at_fault = |one: &Mention| one.resource.is_some() || interest.covers(&one.key);
        let is_outdated = |one: Mention| {
            may_be_at_fault(&one) && self.view(&one.key, interest) != one.resource.as_ref()
        };
        let outdated = contents.iter().any(is_outdated);
        let uncovered = contents.iter().any(|mention| !interest.covers(&mention.key));
        let newer = newer.mentioned();
        for mention in wanted().filter(|one| !newer.contains(&one.key)) {
            if outdated {
                let text = mention.own_text_bytes();
                self.owed.insert_again(mention.key, text);
            } else {
                let has_own_text = mention.has_own_text();
                self.refused.insert(mention.key, mention.is_new, has_own_text);
            }
        }
        self.part_unsubscribed(uncovered);
    }

    /// Takes in whether a part of a rejected response was unsubscribed.
    fn part_unsubscribed(&mut self, unsubscribed: bool) {
        self.fault_may_be_unsubscribed =
            (self.fault_may_be_unsubscribed || unsubscribed) && !self.refused.is_empty();
    }

    /// Returns true if the client rejected what it was told last under a key.
    pub(crate) fn is_refused(&self, key: &str) -> bool {
        self.refused.get(key).is_some()
    }

    /// The keys that were rejected and wait for a change, in order.
    pub(crate) fn refused_keys(&self) -> impl Iterator<Item = &Spelling> {
        self.refused.keys()
    }

    /// The number of keys that were rejected and wait for a change.
    pub(crate) fn refused_len(&self) -> usize {
        self.refused.len()
    }

    /// Returns true if the client read what it was told last under a key, and its verdict is unknown.
    pub(crate) fn is_verdict_unknown(&self, key: &str) -> bool {
        self.verdict_unknown.get(key).is_some()
    }

    /// The number of keys with an unknown verdict.
    pub(crate) fn verdict_unknown_len(&self) -> usize {
        self.verdict_unknown.len()
    }

    /// The resource that the client holds under a key that it is owed.
    pub(crate) fn owed_copy(&self, key: &str) -> Option<&ClientCopy> {
        self.owed.get(key)
    }

    /// Gives `take` each list of keys that are owed, kept, refused or of unknown verdict, in order and from
    /// a key on.
    pub(crate) fn keys_from<'a>(
        &'a self,
        start: &'a str,
        mut take: impl FnMut(&mut dyn Iterator<Item = &'a Spelling>),
    ) {
        take(&mut self.owed.keys_from(start));
        take(&mut self.kept.keys_from(start));
        take(&mut self.refused.keys_from(start));
        take(&mut self.verdict_unknown.keys_from(start));
    }

    /// The keys under which the target differs from what the client was brought to.
    pub(crate) fn keys_to_change(&self, interest: &Interest) -> Vec<Spelling> {
        self.changes(interest).into_iter().map(|change| change.key).collect()
    }

    /// Takes in that the verdict on the response of a nonce is not known, and may never be.
    pub(crate) fn set_verdict_unknown(
        &mut self,
        nonce: &Arc<str>,
        contents: &Contents,
        interest: &Interest,
    ) {
        for mention in contents.iter().filter(|mention| interest.covers(&mention.key)) {
            let has_own_text = mention.has_own_text();
            self.verdict_unknown.insert(mention.key, Arc::clone(nonce), has_own_text);
        }
    }

    /// Takes in that the client accepted a response of which the verdict was not known.
    pub(crate) fn accept_late(&mut self, nonce: &str) {
        self.verdict_unknown.take_if(|_, of| **of == *nonce);
    }

    /// Takes in that the client accepted a response: the keys it mentions are not refused any more.
    pub(crate) fn accept(&mut self, contents: &Contents) {
        if !self.all_accepted() {
            self.refused.retain(|key| !contents.mentions(key));
            self.verdict_unknown.retain(|key| !contents.mentions(key));
        }
    }

    /// Takes in that the client accepted a response with the whole state: nothing is refused any
    /// more.
    pub(crate) fn accept_all(&mut self) {
        self.refused = KeyMap::default();
        self.fault_may_be_unsubscribed = false;
        self.verdict_unknown = KeyMap::default();
    }

    /// Owes the client a key that changed; a resource that is gone is kept instead if other
    /// resources may still use it.
    fn apply_change(&mut self, now: Time, change: KeyChange) {
        let KeyChange { key, old, new } = change;
        let never_accepted = self.retry_if_refused(&key);
        let kept = self.kept.remove(&key).map(|(_, kept)| kept);
        self.supersedes_secret |= kept.as_ref().is_some_and(Kept::is_sensitive);
        let kept = kept.map(|kept| kept.resource);
        let Some(held) = kept.or(old) else {
            self.owed.insert_new(key, ClientCopy::Nothing);
            return;
        };
        // A resource that the client was not given yet, or has always refused, is used by nothing
        // on its side, so it need not be kept.
        let not_given = self.owed.get(&key).is_some_and(ClientCopy::is_new);
        if new.is_none() && !not_given && !never_accepted {
            let resource = self.held_before(&key).unwrap_or(held);
            self.keep(key, Kept { resource, since: now });
        } else {
            self.owed.insert_new(key, ClientCopy::Has(held));
        }
    }

    /// Keeps a resource for a while. A key that is the name of the resource shares the text of that
    /// name from then on.
    fn keep(&mut self, key: Spelling, kept: Kept) {
        let name = kept.resource.name();
        let has_own_text = *key != *name.as_str();
        let key = if has_own_text { key } else { name.shared() };
        self.kept.insert(key, kept, has_own_text);
    }

    /// Takes a key out of what is owed and returns the resource that the client holds under it, if
    /// the client was not told of a change yet. It need not be told of that change, because the
    /// resource is gone.
    fn held_before(&mut self, key: &str) -> Option<Arc<Resource>> {
        match self.owed.get(key) {
            Some(ClientCopy::Has(before)) => {
                let before = Arc::clone(before);
                self.owed.remove(key);
                Some(before)
            }
            _ => None,
        }
    }

    /// Owes all refused keys again if this key is one of them. Once a part of a refused response
    /// has changed, the rest is worth another try: nobody can tell which part was at fault (S-034),
    /// and the client may hold the old resources of the others. Returns true if the client never
    /// accepted anything under the key.
    fn retry_if_refused(&mut self, key: &str) -> bool {
        let Some(is_new) = self.refused.get(key).copied() else { return false };
        self.retry_refused();
        is_new
    }

    fn retry_refused(&mut self) {
        self.fault_may_be_unsubscribed = false;
        for (key, text) in std::mem::take(&mut self.refused).into_keys() {
            self.owed.insert_again(key, text);
        }
    }

    /// The keys in the interest under which `sent` and the target differ.
    fn changes(&self, interest: &Interest) -> Vec<KeyChange> {
        let mut found = Vec::new();
        let by_name = self.finds_names_by_difference(interest);
        if by_name || interest.has_members() {
            let step = Step::between(&self.sent, &self.target);
            let named = |name: &ResourceName| by_name && interest.is_named(name.as_str());
            let wanted = |change: &StepChange<'_>| {
                interest.includes_member(change.name) || named(change.name)
            };
            if interest.has_members() || step.len() < interest.len() {
                step.for_each_change(|change| {
                    if wanted(&change) {
                        found.push(KeyChange::of(change));
                    }
                });
            } else {
                let changes = interest.names().iter().filter_map(|key| step.change_of(key));
                found.extend(changes.map(KeyChange::of));
            }
        }
        if !by_name {
            found.extend(interest.names().iter().filter_map(|key| {
                let old = interest.resolve(&self.sent, key);
                let new = interest.resolve(&self.target, key);
                (old != new).then(|| KeyChange {
                    key: Arc::clone(key),
                    old: old.cloned(),
                    new: new.cloned(),
                })
            }));
        }
        found
    }

    /// Returns true if every name means only itself, so that the changed names are found in the
    /// difference of the sets. Otherwise each name is looked up in both.
    fn finds_names_by_difference(&self, interest: &Interest) -> bool {
        interest.is_plain() && self.sent.is_plain() && self.target.is_plain()
    }
}

impl KeyChange {
    fn of(change: StepChange<'_>) -> Self {
        let StepChange { name, old, new } = change;
        Self { key: name.shared(), old: old.cloned(), new: new.cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TypeUrl;
    use crate::server::subscription::interest::Lookup;

    #[test]
    fn the_text_of_a_key_that_is_kept_counts_if_it_is_not_the_name_of_the_resource() {
        let type_url = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
        let spelled = |query: &str| format!("xdstp://x/{}/a?{query}", type_url.message_name());
        let name = spelled("k=1&l=2").parse().unwrap();
        let mut set = ResourceSet::default();
        set.insert(Arc::new(Resource::new(name, bytes::Bytes::new())));
        let set = Arc::new(set);
        let held = |query: &str| {
            let mut interest = Interest::new(Lookup::ByName);
            interest.extend(vec![spelled(query).into()], &type_url);
            let mut ledger = Ledger::default();
            ledger.set_target(&set);
            ledger.trust_client_at_target();
            ledger.set_target(ResourceSet::empty());
            ledger.advance(Time::default(), &interest);
            let kept = ledger.held_bytes();
            ledger.owe_removals(|_| true);
            (kept, ledger.held_bytes())
        };
        let (text, same, other) = (spelled("k=1&l=2").len(), held("k=1&l=2"), held("l=2&k=1"));
        assert_eq!(other.0, same.0 + held_bytes::text(text), "as long as it is kept");
        assert_eq!(other.1, same.1 + held_bytes::text(text), "and while it is owed");
    }
}
