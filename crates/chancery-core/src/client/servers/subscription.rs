//! One type on one stream: what the server was told, and what it is owed.
//!
//! The two variants differ in how they say the same: SotW repeats the whole subscription, delta
//! says what changed. Both are derived from the names that are wanted when the wire has room, so a
//! thousand new watches make one request. Not here: which names are wanted (`realm`), and whether a
//! response is good (`receive`).
//!
//! Names that were asked for and are unknown run out of time (C-065): the clock starts when the
//! request leaves, and stops with the stream.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::client::cache::authority::WantedNames;
use crate::client::watching::watchers::{EVERYTHING, is_group};
use crate::{DeltaRequest, ErrorDetail, Names, ResourceName, SotwRequest, Time, TypeUrl};

/// One type on one stream.
#[derive(Debug)]
pub(in crate::client) struct ClientSubscription {
    pub(in crate::client) type_url: TypeUrl,
    /// Names that may have become wanted or unwanted since the server was told.
    changed: BTreeSet<ResourceName>,
    /// Names of which all was forgotten since the server was told that they are wanted. Who wants
    /// them again must have the server say again what it said.
    forgotten: BTreeSet<ResourceName>,
    /// Names of which the server said something that did not count, as another one was believed. It
    /// has to say that again once it is believed itself (C-089).
    unheard: BTreeSet<ResourceName>,
    /// What the server was told; `None` before the first request.
    subscribed: Option<BTreeSet<ResourceName>>,
    /// Whether a name was ever said: if not, an empty list means everything (C-033).
    named: bool,
    /// The nonce of the newest response.
    nonce: Arc<str>,
    /// The answers that are owed, in the order of their responses.
    owed: VecDeque<OwedAnswer>,
    awaited: ResourceTimers,
    /// Names whose time stands still, because they may be those of resources that nobody can name.
    suspended: BTreeSet<ResourceName>,
    /// Resources from before the stream whose versions the server was told in the first request
    /// (C-040): its silence confirms them.
    claimed: BTreeSet<ResourceName>,
}

/// The answer to a response.
#[derive(Debug)]
struct OwedAnswer {
    nonce: Arc<str>,
    /// The version that is accepted by then: that of the response, or the one before it.
    version: Arc<str>,
    /// Why it is rejected, if it is.
    error: Option<ErrorDetail>,
}

impl ClientSubscription {
    pub(in crate::client) fn new(type_url: TypeUrl) -> Self {
        Self {
            type_url,
            changed: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            unheard: BTreeSet::new(),
            subscribed: None,
            named: false,
            nonce: "".into(),
            owed: VecDeque::new(),
            awaited: ResourceTimers::default(),
            suspended: BTreeSet::new(),
            claimed: BTreeSet::new(),
        }
    }

    /// Whether anything was ever asked for.
    pub(in crate::client) fn was_asked(&self) -> bool {
        self.subscribed.is_some()
    }

    /// Whether the server was told that this is wanted.
    pub(in crate::client) fn is_subscribed(&self, name: &ResourceName) -> bool {
        self.subscribed.as_ref().is_some_and(|told| told.contains(name))
    }

    /// Whether it was told that everything is.
    pub(in crate::client) fn is_subscribed_to_all(&self) -> bool {
        self.subscribed.as_ref().is_some_and(|told| told.contains(EVERYTHING))
    }

    /// Returns true if the server knows which version the client has of a resource from before.
    pub(in crate::client) fn was_announced(&self, name: &ResourceName) -> bool {
        self.claimed.contains(name)
    }

    /// Something about the names may have changed.
    pub(in crate::client) fn names_changed(&mut self, name: &ResourceName) {
        self.changed.insert(name.clone());
    }

    /// All that was known of a name is forgotten.
    pub(in crate::client) fn ask_again(&mut self, name: &ResourceName) {
        if self.is_subscribed(name) {
            self.forgotten.insert(name.clone());
        }
    }

    /// Something was said of a name, and does not count.
    pub(in crate::client) fn note_ignored(&mut self, name: &ResourceName) {
        if self.is_subscribed(name) {
            self.unheard.insert(name.clone());
        }
    }

    /// What the server says of these names counts from now on.
    pub(in crate::client) fn ask_again_for_ignored(
        &mut self,
        counts: impl Fn(&ResourceName) -> bool,
    ) {
        let again = self.unheard.extract_if(.., |name| counts(name));
        self.forgotten.extend(again);
    }

    /// Names that are wanted again before the server heard that they are not. From now on it counts
    /// as not told of them.
    fn wanted_again(&mut self, wants: &WantedNames<'_>) -> BTreeSet<ResourceName> {
        let mut again = std::mem::take(&mut self.forgotten);
        again.retain(|name| wants.wants(name));
        if let Some(told) = &mut self.subscribed {
            again.retain(|name| told.remove(name));
        }
        again.iter().for_each(|name| self.awaited.forget(name));
        again
    }

    /// A response came and has to be answered: with the version that is accepted now, and with what
    /// is wrong with it, if anything is.
    pub(in crate::client) fn owe_answer(
        &mut self,
        nonce: &Arc<str>,
        version: Arc<str>,
        error: Option<ErrorDetail>,
    ) {
        self.nonce = Arc::clone(nonce);
        self.owed.push_back(OwedAnswer { nonce: Arc::clone(nonce), version, error });
    }

    /// Returns the number of responses that are not answered.
    pub(in crate::client) fn owed_answers(&self) -> usize {
        self.owed.len()
    }

    /// A name that the server was asked for has until then.
    pub(in crate::client) fn start_timer(&mut self, name: &ResourceName, until: Time) {
        if self.is_subscribed(name) {
            self.awaited.add(name, until);
        }
    }

    /// The server spoke of a name. The wait for a resource is over then; what there is in a group
    /// may come in more than one response.
    pub(in crate::client) fn note_received(&mut self, name: &ResourceName) {
        self.unheard.remove(name);
        self.suspended.remove(name);
        if !is_group(name) {
            self.awaited.forget(name);
        }
    }

    /// The time of a name stands still.
    pub(in crate::client) fn suspend_timer(&mut self, name: &ResourceName) {
        self.awaited.forget(name);
        self.suspended.insert(name.clone());
    }

    /// Names whose time stood still have until then.
    pub(in crate::client) fn resume_timers(&mut self, until: Time) {
        for name in std::mem::take(&mut self.suspended) {
            self.start_timer(&name, until);
        }
    }

    /// Whether the server has spoken of all it was asked for, or need not.
    pub(in crate::client) fn awaits_nothing(&self) -> bool {
        self.awaited.until.is_empty()
    }

    /// The next name whose time is over.
    pub(in crate::client) fn next_timed_out(&mut self, now: Time) -> Option<ResourceName> {
        self.awaited.overdue(now)
    }

    /// When the next wait ends.
    pub(in crate::client) fn deadline(&mut self) -> Option<Time> {
        self.awaited.next()
    }

    /// Whether the next request rejects something.
    pub(in crate::client) fn rejects(&self) -> bool {
        self.owed.front().is_some_and(|answer| answer.error.is_some())
    }

    /// Whether there may be something to say.
    pub(in crate::client) fn may_be_due(&self) -> bool {
        self.may_ask_more() || !self.owed.is_empty()
    }

    /// Whether there may be something to ask for that was not asked for before.
    pub(in crate::client) fn may_ask_more(&self) -> bool {
        self.subscribed.is_none() || !self.changed.is_empty() || !self.forgotten.is_empty()
    }

    /// The next poll (C-044), if it is time for one or there are new names. What is polled keeps no
    /// session: the question is whole each time, and the answer to the last one is its version.
    ///
    /// A poll with new names carries no version, because many servers compare nothing else, and
    /// would say that nothing is new.
    pub(in crate::client) fn poll(
        &mut self,
        wants: &WantedNames<'_>,
        version: &Arc<str>,
        until: Time,
        is_time: bool,
    ) -> Option<SotwRequest> {
        let wanted = wants.names();
        self.wanted_again(wants);
        self.changed.clear();
        self.suspended.retain(|name| wanted.contains(name));
        let mut told = self.subscribed.take().unwrap_or_default();
        told.difference(&wanted).for_each(|name| self.awaited.forget(name));
        let is_new = !wanted.is_subset(&told);
        if wanted.is_empty() || !(is_new || is_time) {
            told.retain(|name| wanted.contains(name));
            self.subscribed = Some(told);
            return None;
        }
        for name in wanted.difference(&told).filter(|name| wants.is_awaited_whole(name)) {
            self.awaited.add(name, until);
        }
        let mut names = Names::default();
        if !(self.type_url.rules().legacy_wildcard && is_everything(&wanted)) {
            wanted.iter().for_each(|name| names.push(name.as_str()));
        }
        self.subscribed = Some(wanted);
        Some(SotwRequest {
            node: None,
            type_url: self.type_url.as_str().into(),
            version: if is_new { "".into() } else { Arc::clone(version) },
            nonce: "".into(),
            names,
            error: std::mem::take(&mut self.owed).pop_back().and_then(|answer| answer.error),
        })
    }

    /// The next SotW request, if one is due. Names that have changed wait for the answer to the newest
    /// response: servers ignore what comes with an older nonce.
    pub(in crate::client) fn sotw(
        &mut self,
        wants: &WantedNames<'_>,
        version: &Arc<str>,
        until: Time,
    ) -> Option<SotwRequest> {
        if !self.is_due(wants) {
            return None;
        }
        let answer = self.owed.pop_front();
        let (nonce, version, error) = match answer {
            Some(answer) => (answer.nonce, answer.version, answer.error),
            None => (Arc::clone(&self.nonce), Arc::clone(version), None),
        };
        let names =
            if self.owed.is_empty() { self.renew_names(wants, until) } else { self.same_names() };
        let type_url = self.type_url.as_str().into();
        Some(SotwRequest { node: None, type_url, version, nonce, names, error })
    }

    /// The names that the server was told last.
    fn same_names(&self) -> Names {
        let mut names = Names::default();
        let told = self.subscribed.as_ref().filter(|told| !self.is_said_silently(told));
        told.into_iter().flatten().for_each(|name| names.push(name.as_str()));
        names
    }

    /// The names that are wanted now, which the server is about to be told.
    fn renew_names(&mut self, wants: &WantedNames<'_>, until: Time) -> Names {
        let mut wanted = wants.names();
        // The only way out of an empty list that means everything is to say `*` first, and the
        // empty list again then.
        let silent = self.is_silent_wildcard();
        // A server that repeats nothing by itself has to hear both that a name is not wanted and,
        // next, that it is.
        let again = self.wanted_again(wants);
        wanted.retain(|name| !again.contains(name));
        let leaves = wanted.is_empty() && silent;
        self.changed = again;
        if leaves {
            wanted.insert(everything());
            self.forgotten.extend(self.changed.take(EVERYTHING));
            self.changed.insert(everything());
        }
        let told = self.subscribed.take().unwrap_or_default();
        for name in wanted.difference(&told).filter(|name| wants.is_awaited_whole(name)) {
            self.awaited.add(name, until);
        }
        told.difference(&wanted).for_each(|name| self.awaited.forget(name));
        let mut names = Names::default();
        if leaves || !self.is_said_silently(&wanted) {
            wanted.iter().for_each(|name| names.push(name.as_str()));
            self.named |= !wanted.is_empty();
        }
        self.subscribed = Some(wanted);
        names
    }

    /// The next delta request, if one is due.
    pub(in crate::client) fn delta(
        &mut self,
        wants: &WantedNames<'_>,
        until: Time,
    ) -> Option<DeltaRequest> {
        if !self.is_due(wants) {
            return None;
        }
        let mut request =
            DeltaRequest { type_url: self.type_url.as_str().into(), ..DeltaRequest::default() };
        if self.subscribed.is_none() {
            let wanted = wants.names();
            request.initial_versions = wants.versions();
            if !self.is_said_silently(&wanted) {
                wanted.iter().for_each(|name| request.subscribe.push(name.as_str()));
                self.named = true;
            }
            let versions = request.initial_versions.iter();
            let names = versions.filter_map(|(name, _)| ResourceName::read(name).ok());
            self.claimed = names.filter(|name| wants.old(name).next().is_some()).collect();
            for name in &wanted {
                if self.is_awaited(wants, name) {
                    self.awaited.add(name, until);
                }
            }
            self.subscribed = Some(wanted);
            self.changed.clear();
        } else {
            self.edit(wants, until, &mut request);
        }
        // Only an answer carries a nonce (C-040).
        if let Some(answer) = self.owed.pop_front() {
            request.nonce = answer.nonce;
            request.error = answer.error;
        }
        Some(request)
    }

    fn edit(&mut self, wants: &WantedNames<'_>, until: Time, request: &mut DeltaRequest) {
        // Whoever subscribes again is told again.
        let again = self.wanted_again(wants);
        self.changed.extend(again);
        for name in std::mem::take(&mut self.changed) {
            let Some(told) = &mut self.subscribed else { return };
            if !wants.wants(&name) {
                if told.remove(&name) {
                    self.awaited.forget(&name);
                    request.unsubscribe.push(name.as_str());
                }
            } else if told.insert(name.clone()) {
                request.subscribe.push(name.as_str());
                self.named = true;
                if self.is_awaited(wants, &name) {
                    self.awaited.add(&name, until);
                }
            }
        }
    }

    /// Returns true if a server of delta has to speak of a name: also of what is left from before,
    /// if it does not know that the client has that.
    fn is_awaited(&self, wants: &WantedNames<'_>, name: &ResourceName) -> bool {
        wants.is_awaited(name) || wants.old(name).any(|one| !self.was_announced(one))
    }

    fn is_due(&mut self, wants: &WantedNames<'_>) -> bool {
        let Some(told) = &self.subscribed else { return !wants.names().is_empty() };
        self.changed.retain(|name| wants.wants(name) != told.contains(name));
        self.forgotten.retain(|name| told.contains(name));
        self.unheard.retain(|name| told.contains(name));
        self.suspended.retain(|name| told.contains(name));
        let again = self.forgotten.iter().any(|name| wants.wants(name));
        again || !self.owed.is_empty() || !self.changed.is_empty()
    }

    /// Whether the server was told by an empty list that everything is wanted.
    fn is_silent_wildcard(&self) -> bool {
        !self.named && self.is_subscribed_to_all()
    }

    /// Old servers know no `*`, so it is left out where that means the same (C-033).
    fn is_said_silently(&self, wanted: &BTreeSet<ResourceName>) -> bool {
        !self.named && self.type_url.rules().legacy_wildcard && is_everything(wanted)
    }
}

fn is_everything(names: &BTreeSet<ResourceName>) -> bool {
    names.len() == 1 && names.contains(EVERYTHING)
}

fn everything() -> ResourceName {
    ResourceName::read(EVERYTHING).expect("`*` is an opaque name")
}

/// Names that were asked for and have not come.
#[derive(Debug, Default)]
struct ResourceTimers {
    until: BTreeMap<ResourceName, Time>,
    /// In the order their time ends, with some that came meanwhile.
    order: VecDeque<(Time, ResourceName)>,
}

impl ResourceTimers {
    fn add(&mut self, name: &ResourceName, until: Time) {
        self.until.insert(name.clone(), until);
        self.order.push_back((until, name.clone()));
    }

    fn forget(&mut self, name: &ResourceName) {
        self.until.remove(name);
    }

    fn next(&mut self) -> Option<Time> {
        while let Some((until, name)) = self.order.front() {
            if self.until.get(name) == Some(until) {
                return Some(*until);
            }
            self.order.pop_front();
        }
        None
    }

    fn overdue(&mut self, now: Time) -> Option<ResourceName> {
        if self.next()? > now {
            return None;
        }
        let (_, name) = self.order.pop_front()?;
        self.until.remove(&name);
        Some(name)
    }
}
