//! Delta requests, each of which states names to add and names to remove (S-074 to S-077,
//! [incremental xDS]).
//!
//! The names count whatever the nonce is, because a client sends each name once. Not here: the ACK
//! or NACK in a request (`receive`), the versions of a first request (`initial_versions`), and
//! responses (`respond`).
//!
//! [incremental xDS]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds

use std::sync::Arc;

use super::initial_versions::InitialVersions;
use super::interest::{Spelling, spellings};
use super::merge_lookup::{MergeLookup, seek};
use super::sotw::WildcardEdit;
use super::{ClientCopy, FirstRequest, Subscription};
use crate::server::{Event, Settings};
use crate::{DeltaRequest, Features, Names, Resource, ResourceName, ResourceSet, Time};

impl Subscription {
    /// Takes the names of a request, whatever its nonce is: a client sends each name once, so a
    /// name that is dropped here is lost for good (S-074). Returns the event of a changed
    /// subscription.
    pub(crate) fn request_delta(
        &mut self,
        now: Time,
        request: &DeltaRequest,
        is_first: bool,
        settings: &Settings,
    ) -> Option<Event> {
        if is_first {
            // Later messages may have a map of versions too; it means nothing (S-077).
            self.first_request = Some(Box::new(FirstRequest::Delta(InitialVersions::new(
                &request.initial_versions,
            ))));
        }
        if request.subscribe.is_empty() && request.unsubscribe.is_empty() {
            // This is a wildcard even if the request has versions: Envoy reconnects like this
            // (S-052).
            return is_first.then(|| self.start_without_names(settings));
        }
        self.settle_names_before_wildcard(now, &request.subscribe);
        // Names are subscribed before others are unsubscribed: `*` in both lists of a first message
        // means that the stream starts without a wildcard (S-082).
        let cancelled = request.unsubscribe.contains("*");
        let added = self.subscribe(&request.subscribe, is_first, cancelled);
        let mut removed = Vec::new();
        let mut asks = !request.subscribe.is_empty();
        let mut ended = Vec::new();
        for name in request.unsubscribe.iter() {
            asks |= self.unsubscribe(name, &mut removed, &mut ended);
        }
        self.drop_members(&ended);
        if asks {
            self.flight.release(); // A request for more lets the next response go (S-042).
        }
        Some(self.subscribed(added, removed))
    }

    /// Starts a subscription with the versions of an earlier stream. A resource that the client
    /// holds in its current version is not sent again (S-076,
    /// [`initial_resource_versions`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/discovery/v3/discovery.proto#envoy-v3-api-field-service-discovery-v3-deltadiscoveryrequest-initial-resource-versions)).
    /// One that the client holds and should not hold is removed.
    pub(super) fn begin_delta(&mut self, held: &InitialVersions) {
        let target = Arc::clone(self.ledger.target());
        if held.is_empty() {
            if !self.interest.has_members() {
                // All names are owed already.
                self.ledger.move_to_target();
            }
            return self.begin_removals(held, &target);
        }
        self.begin_names(held, &target);
        if self.interest.has_members() {
            self.begin_members(held, &target);
        }
        if self.ledger.owes_nothing() {
            self.must_respond = false;
            self.has_unanswered_request = false;
        }
        self.ledger.move_to_target();
    }

    /// Takes the names that the client holds in their current version out of what is owed, where
    /// all names are so far.
    fn begin_names(&mut self, held: &InitialVersions, target: &ResourceSet) {
        let owed = self.ledger.take_owed();
        let mut walk = MergeLookup::new(&self.interest, target, owed.len());
        let mut held = held.iter().peekable();
        let mut names = self.interest.names().iter().map(|name| (&**name, ())).peekable();
        let left = owed.into_iter().filter_map(|(name, copy)| {
            if seek(&mut names, &name).is_none() {
                return Some((name, copy));
            }
            let held = seek(&mut held, &name);
            let current = walk.find(&name);
            match held {
                Some(_) if current.is_some_and(|now| is_current(self.features, held, now)) => None,
                Some(_) => Some((name, ClientCopy::Doubtful)),
                None => Some((name, copy)),
            }
        });
        self.ledger.put_back_owed(left);
    }

    /// Owes the client the members of its wildcard and globs that it does not hold in their current
    /// version.
    fn begin_members(&mut self, held: &InitialVersions, target: &ResourceSet) {
        let mut said = held.iter().peekable();
        let interest = &self.interest;
        for member in target.iter().filter(|member| interest.includes_member(member.name())) {
            let held = seek(&mut said, member.name().as_str());
            if !is_current(self.features, held, member) {
                let copy = if held.is_some() { ClientCopy::Doubtful } else { ClientCopy::Nothing };
                self.ledger.owe_copy(member.name().shared(), copy);
            }
        }
        self.begin_removals(held, target);
    }

    /// Owes the client the removal of members that it holds and that are gone.
    fn begin_removals(&mut self, held: &InitialVersions, target: &ResourceSet) {
        if !self.interest.has_members() {
            return;
        }
        let mut there = target.iter().map(|member| (member.name().as_str(), ())).peekable();
        for name in held.names() {
            if seek(&mut there, name).is_none() && self.interest.covers(name) {
                self.ledger.owe_own(name.into());
            }
        }
    }

    /// Adds names, and returns those that are new.
    fn subscribe(&mut self, names: &Names, is_first: bool, cancelled: bool) -> Vec<Spelling> {
        if names.contains("*") {
            self.interest.set_ever_named();
            if !cancelled {
                if !is_first
                    && let Some(FirstRequest::Delta(held)) = self.first_request.as_deref_mut()
                {
                    held.discard_all();
                }
                self.subscribe_to_all();
            }
        }
        let names = spellings(names);
        if names.is_empty() {
            return names;
        }
        self.has_unanswered_request = true;
        if !is_first && let Some(FirstRequest::Delta(held)) = self.first_request.as_deref_mut() {
            // The client asked again before the first response, so the name is sent whatever
            // version the client stated.
            names.iter().for_each(|name| held.discard(name));
        }
        let known = |name| self.ledger.resubscribe(self.interest.known(name));
        let names: Vec<_> = names.into_iter().map(known).collect();
        let new = self.interest.extend(names.clone(), &self.type_url);
        let globs = names.iter().filter_map(|name| self.interest.globs().get(name));
        let members = self.ledger.sent().members_of_any(globs).into_iter();
        let members: Vec<_> = members.map(|member| member.name().shared()).collect();
        // A subscription is always answered: the client may have dropped the resource and asked for
        // it again (S-075).
        self.ledger.owe_all(names);
        self.ledger.owe_all(members);
        new
    }

    /// Starts the wildcard. A client that has the wildcard already and asks for it again is sent
    /// everything again.
    fn subscribe_to_all(&mut self) {
        self.has_unanswered_request = true;
        if self.set_wildcard(true) == WildcardEdit::Started {
            return;
        }
        self.must_respond = true;
        self.ledger.owe_all_sent();
    }

    /// Removes a name, and adds to `ended` the wildcard or glob whose members go with it. Returns
    /// true if the request has to be answered because of it.
    fn unsubscribe(
        &mut self,
        name: &str,
        removed: &mut Vec<Spelling>,
        ended: &mut Vec<Ended>,
    ) -> bool {
        if name == "*" {
            let edit = self.set_wildcard(false);
            ended.extend((edit == WildcardEdit::Ended).then_some(Ended::Wildcard));
            return false;
        }
        let Some(name) = &self.interest.spelling_of(name) else { return false };
        removed.push(Arc::clone(name));
        self.missing_names.remove(name);
        let glob = self.interest.globs().get(name).cloned();
        self.interest.remove(name);
        if let Some(glob) = glob {
            // Its members are owed under their own names, and nothing is told about the glob itself.
            self.ledger.unsubscribe(name);
            ended.push(Ended::Glob(glob));
        } else if self.interest.wildcard() {
            // Beside a wildcard the client cannot know whether the resource stays, so it is told
            // (S-081).
            self.ledger.owe_unsubscribed(name);
            return true;
        } else if self.interest.covers(name) {
            self.ledger.keep_unsubscribed(name);
        } else {
            self.ledger.unsubscribe(name);
        }
        false
    }

    /// Drops the members of globs and of a wildcard that the client is not subscribed to any more.
    /// Those of a few globs are looked for below their paths; otherwise all keys are looked at once,
    /// and not once for each glob.
    fn drop_members(&mut self, ended: &[Ended]) {
        let globs = ended.iter().map(|ended| match ended {
            Ended::Wildcard => None,
            Ended::Glob(glob) => glob.glob_prefix(),
        });
        match globs.collect::<Option<Vec<_>>>() {
            Some(paths) if paths.len() <= FEW_GLOBS => {
                for path in paths {
                    self.ledger.retain_covered_below(path, &self.interest);
                }
            }
            _ => self.ledger.retain_covered(&self.interest),
        }
    }
}

/// A wildcard or glob that the client has unsubscribed.
enum Ended {
    Wildcard,
    Glob(ResourceName),
}

/// The number of globs whose members are looked for one glob after the other.
const FEW_GLOBS: usize = 4;

/// Returns true if the client holds a resource in its current version. A resource with a TTL is
/// always sent: it may have expired since the client wrote its versions, and a heartbeat cannot
/// bring it back (S-088, T-33).
fn is_current(features: Features, held: Option<&str>, current: &Resource) -> bool {
    let expires = features.ttl && current.ttl().is_some();
    !expires && held.is_some_and(|version| current.version().matches(version))
}
