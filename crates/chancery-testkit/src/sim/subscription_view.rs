//! The knowledge that a server can have of one type of one stream, from the messages it received
//! and sent.
//!
//! It is worked out without the code of the server's machine, so that a fault in that code shows.
//! Not here: the rules that are checked by it (`referee`), and the client's own side (`client`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use chancery_core::server::Response;
use chancery_core::{DeltaRequest, Resource, ResourceSet, SotwRequest, Time, TypeUrl};

use crate::client::Interest;

/// The server's end of one type of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct SubscriptionView {
    /// The subscription; `None` before the first request.
    pub(super) interest: Option<Interest>,
    /// True if a request had names, `*` included.
    named: bool,
    /// The resources that the client holds once everything sent has arrived and was accepted, with
    /// their versions as text.
    pub(super) known: BTreeMap<Arc<str>, String>,
    /// The names that were sent on this stream, or that the client stated to hold, and that were not
    /// removed since.
    pub(super) given_names: BTreeSet<Arc<str>>,
    /// The resources that the client acknowledged.
    pub(super) accepted: BTreeMap<Arc<str>, Arc<Resource>>,
    /// The resources that the client rejected.
    pub(super) rejected: BTreeMap<Arc<str>, RejectedResource>,
    /// True if the client has unsubscribed from a rejected name: that may have been the bad one.
    lost_part: bool,
    /// True if a rejected name that the client unsubscribed from has changed since, or is gone: then
    /// the server may send the rest again.
    pub(super) retry: bool,
    /// The number of changes of the type so far.
    pub(super) changes: usize,
    /// Names that the server must send although the client may have them.
    pub(super) owed: BTreeSet<Arc<str>>,
    /// Names that the server may send again, because a wildcard now covers them as well.
    pub(super) may_repeat: BTreeSet<Arc<str>>,
    /// True if a response is due whatever is in it, such as the first one of a wildcard.
    pub(super) owes_response: bool,
    /// True if the newest response said that it is a part (S-110), so that the end of the whole is
    /// news.
    pub(super) told_part: bool,
    /// Responses without an answer.
    pub(super) unanswered: VecDeque<UnansweredResponse>,
    /// True if a request changed the names since the last response.
    pub(super) released: bool,
    /// Names of endpoints that the client waits for, because their cluster changed (S-099).
    pub(super) warming: BTreeSet<Arc<str>>,
    /// True if a response was sent on this stream.
    pub(super) answered: bool,
}

/// A resource, or a removal, that the client rejected.
#[derive(Clone, Debug)]
pub(super) struct RejectedResource {
    /// The version of the resource, or empty for a removal.
    version: String,
    /// The number of changes of the type when it was sent.
    changes: usize,
}

/// A response that was sent and not answered yet.
#[derive(Clone, Debug)]
pub(super) struct UnansweredResponse {
    pub(super) nonce: Arc<str>,
    pub(super) sent: Time,
    pub(super) entries: Vec<(Arc<str>, Arc<Resource>)>,
    pub(super) removed: Vec<Arc<str>>,
    changes: usize,
}

impl SubscriptionView {
    pub(super) fn covers(&self, name: &str) -> bool {
        self.interest.as_ref().is_some_and(|told| told.covers(name))
    }

    /// Returns true if an unanswered response has this name.
    pub(super) fn is_under_way(&self, name: &str) -> bool {
        self.unanswered.iter().any(|it| it.entries.iter().any(|(given, _)| **given == *name))
    }

    /// The resource that the client has under a name if it accepts all unanswered responses.
    pub(super) fn accepted_resource(&self, name: &str) -> Option<&Arc<Resource>> {
        let under_way = self.unanswered.iter().rev().flat_map(|it| &it.entries);
        let newest = under_way.filter(|(given, _)| **given == *name).map(|(_, it)| it).next();
        newest.or_else(|| self.accepted.get(name))
    }

    /// Returns true if the client has rejected this version of the name.
    pub(super) fn rejected(&self, name: &str, version: &str) -> bool {
        self.rejected.get(name).is_some_and(|rejected| rejected.version == version)
    }

    /// Returns true if the client has rejected this version of the name, and the type has not
    /// changed since it was sent. After a change the server may send everything again (S-033).
    pub(super) fn refuses(&self, name: &str, version: &str) -> bool {
        let rejected = self.rejected.get(name).filter(|rejected| rejected.version == version);
        rejected.is_some_and(|rejected| rejected.changes == self.changes)
    }

    /// Takes in that the set of the type changed.
    pub(super) fn set_changed(&mut self, set: &ResourceSet) {
        self.changes += 1;
        self.retry |= std::mem::take(&mut self.lost_part);
        // SotW cannot remove these from the client, so the server may send them when they return.
        let known = self.known.keys();
        let gone = known.filter(|name| set.get(name).is_none());
        self.may_repeat.extend(gone.cloned());
    }

    /// Takes in a SotW request.
    pub(super) fn sotw(&mut self, type_url: &TypeUrl, request: &SotwRequest, set: &ResourceSet) {
        self.take_answer(&request.nonce, request.error.is_some(), type_url.rules().full_state);
        let implied = request.names.is_empty() && !self.named && type_url.rules().legacy_wildcard;
        let star = request.names.contains("*");
        let names = request.names.iter().filter(|name| *name != "*").map(Arc::from).collect();
        self.named |= !request.names.is_empty();
        let interest = Interest { all: star || implied, names };
        let first = self.interest.is_none();
        if first
            && interest.names.is_empty()
            && interest.all
            && set.version().matches(&request.version)
        {
            // The client states the version of the set, and so holds all of it unless a TTL expired.
            if set.iter().all(|resource| resource.ttl().is_none()) {
                self.known =
                    set.iter().map(|it| (it.name().shared(), it.version().to_string())).collect();
                self.given_names = self.known.keys().cloned().collect();
                self.accepted = set.iter().map(|it| (it.name().shared(), Arc::clone(it))).collect();
            }
        }
        let before = self.interest.clone().unwrap_or_default();
        self.owed.extend(interest.names.difference(&before.names).cloned());
        self.changed(first, &before, interest, set);
    }

    /// Takes in a delta request.
    pub(super) fn delta(&mut self, type_url: &TypeUrl, request: &DeltaRequest, set: &ResourceSet) {
        self.take_answer(&request.nonce, request.error.is_some(), false);
        let first = self.interest.is_none();
        let before = self.interest.clone().unwrap_or_default();
        let mut interest = before.clone();
        let bare = request.subscribe.is_empty() && request.unsubscribe.is_empty();
        interest.all |= first && bare && type_url.rules().legacy_wildcard;
        for name in request.subscribe.iter() {
            if name == "*" {
                interest.all = true;
                continue;
            }
            interest.names.insert(name.into());
            self.owed.insert(name.into());
            self.known.remove(name);
        }
        for name in request.unsubscribe.iter() {
            if name == "*" {
                interest.all = false;
            } else if interest.names.remove(name) && interest.all {
                self.owed.insert(name.into());
            }
        }
        if first {
            self.resume(request, set);
        }
        self.changed(first, &before, interest, set);
        self.released |= !bare;
    }

    /// Takes in the initial versions: resources that the client holds need not be sent (S-076).
    fn resume(&mut self, request: &DeltaRequest, set: &ResourceSet) {
        for (name, version) in request.initial_versions.iter() {
            self.given_names.insert(name.into());
            let current = set.get(name);
            if current.is_some_and(|resource| resource.ttl().is_some()) {
                continue; // It may have expired since (S-088).
            }
            self.known.insert(name.into(), version.to_string());
            if let Some(current) = current.filter(|current| current.version().matches(version)) {
                self.owed.remove(name);
                self.accepted.insert(name.into(), Arc::clone(current));
            }
        }
    }

    /// Takes in a new subscription.
    fn changed(&mut self, first: bool, before: &Interest, interest: Interest, set: &ResourceSet) {
        self.owes_response |= first || (interest.all && !before.all);
        if interest.all && !before.all {
            self.may_repeat.extend(self.known.keys().cloned());
        }
        self.released |= interest != *before;
        self.known.retain(|name, _| interest.covers(name));
        self.given_names.retain(|name| interest.covers(name));
        self.accepted.retain(|name, _| interest.covers(name));
        for (name, rejected) in self.rejected.extract_if(.., |name, _| !interest.covers(name)) {
            let current = set.get(&name).map(|it| it.version().to_string());
            self.lost_part = true;
            self.retry |= current.unwrap_or_default() != rejected.version;
        }
        self.warming.retain(|name| interest.covers(name));
        self.owed.retain(|name| interest.covers(name) || before.names.contains(name));
        self.interest = Some(interest);
    }

    /// Takes in an ACK or NACK: the first request with the nonce of an unanswered response is its
    /// answer (S-037). Answers come in order, so older responses will not be answered any more.
    fn take_answer(&mut self, nonce: &str, rejected: bool, full_state: bool) {
        let found = self.unanswered.iter().position(|it| &*it.nonce == nonce);
        let Some(at) = found else { return };
        let Some(answered) = self.unanswered.drain(..=at).next_back() else { return };
        if rejected {
            self.reject(answered, full_state);
        } else {
            self.accept(answered, full_state);
        }
    }

    fn accept(&mut self, answered: UnansweredResponse, full_state: bool) {
        if full_state {
            self.accepted.clear();
        }
        for name in &answered.removed {
            self.accepted.remove(name);
        }
        for (name, resource) in answered.entries {
            self.rejected.remove(&name);
            if self.covers(&name) {
                self.accepted.insert(name, resource);
            }
        }
    }

    /// Takes in a NACK. Nothing is certain about any part of the response (S-035). A name that is
    /// also in a newer response is decided by the answer to that response.
    fn reject(&mut self, answered: UnansweredResponse, full_state: bool) {
        let is_newest = self.unanswered.is_empty();
        let newer = self.unanswered.iter();
        let newer = newer.flat_map(|it| it.entries.iter().map(|(name, _)| name).chain(&it.removed));
        let newer: BTreeSet<_> = newer.cloned().collect();
        let changes = answered.changes;
        if full_state && is_newest {
            self.known.clear();
        }
        let removed = answered.removed.into_iter().map(|name| (name, String::new()));
        let entries = answered.entries.into_iter();
        let entries = entries.map(|(name, resource)| (name, resource.version().to_string()));
        for (name, version) in removed.chain(entries).filter(|(name, _)| !newer.contains(name)) {
            self.known.remove(&name);
            self.rejected.insert(name, RejectedResource { version, changes });
        }
    }

    /// Takes in a response that is sent.
    pub(super) fn sent(&mut self, now: Time, response: &Response, full_state: bool) {
        let entries = response.entries.iter().filter(|entry| !entry.heartbeat);
        let entries = entries.filter_map(|entry| {
            Some((Arc::clone(&entry.name), Arc::clone(entry.resource.as_ref()?)))
        });
        let entries: Vec<_> = entries.collect();
        if full_state {
            let names: BTreeSet<_> = response.entries.iter().map(|entry| entry.name).collect();
            self.known.retain(|name, _| names.contains(name));
            self.given_names.retain(|name| names.contains(name));
            self.owed.clear();
        }
        for name in &response.removed {
            self.known.remove(name);
            self.given_names.remove(name);
            self.owed.remove(name);
        }
        for (name, resource) in &entries {
            self.known.insert(Arc::clone(name), resource.version().to_string());
            self.given_names.insert(Arc::clone(name));
            self.owed.remove(name);
            self.may_repeat.remove(name);
            self.warming.remove(name);
        }
        self.unanswered.push_back(UnansweredResponse {
            nonce: Arc::clone(&response.nonce),
            sent: now,
            entries,
            removed: response.removed.clone(),
            changes: self.changes,
        });
        self.owes_response = false;
        self.told_part = response.version.ends_with("~part");
        self.retry = false;
        self.released = false;
        self.answered = true;
    }
}
