//! The requests of a subscription, made of the names that are wanted when the wire has room.
//!
//! The variants differ in how they say the same: SotW repeats the whole subscription, delta says
//! what changed, and a poll is a whole question each time. A thousand new watches make one request
//! ([subscribing]).
//!
//! [subscribing]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#how-the-client-specifies-what-resources-to-return

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::subscription::ClientSubscription;
use crate::client::cache::{ResourceCache, WantedNames};
use crate::client::ids::ServerId;
use crate::client::setup::{Protocol, Settings};
use crate::client::watching::EVERYTHING;
use crate::{
    DeltaRequest, Names, Node, Request, ResourceName, SotwRequest, Time, TypeUrl, Variant,
};

/// All that a request is made of beside the subscription.
pub(super) struct RequestContext<'a> {
    pub(super) node: &'a Arc<Node>,
    pub(super) settings: &'a Settings,
    pub(super) server: ServerId,
    pub(super) protocol: Protocol,
    /// The versions that were accepted from the server.
    pub(super) accepted: &'a BTreeMap<TypeUrl, Arc<str>>,
    pub(super) cache: &'a ResourceCache,
    /// The time that the server has to speak of names it is asked for.
    pub(super) until: Time,
}

impl RequestContext<'_> {
    pub(super) fn is_polled(&self) -> bool {
        self.protocol.is_polled()
    }
}

impl ClientSubscription {
    /// Returns the next request, if one is due. `is_time` says that of a poll.
    pub(super) fn request(
        &mut self,
        context: &RequestContext<'_>,
        is_time: bool,
    ) -> Option<Request> {
        let type_url = self.type_url.clone();
        let wants = WantedNames::new(context.cache, context.server, &type_url);
        let accepted = context.accepted.get(&type_url);
        match context.protocol {
            Protocol::Poll { .. } => {
                let version = accepted.cloned().unwrap_or_default();
                self.poll(&wants, &version, context.until, is_time).map(Request::Sotw)
            }
            Protocol::Stream { variant: Variant::Sotw, .. } => {
                // To a new stream, a version says what the client has (C-031).
                let is_said = self.was_asked() || wants.holds_its_version();
                let version = accepted.filter(|_| is_said).cloned().unwrap_or_default();
                self.sotw(&wants, &version, context.until).map(Request::Sotw)
            }
            Protocol::Stream { variant: Variant::Delta, .. } => {
                self.delta(&wants, context.until).map(Request::Delta)
            }
        }
    }

    /// Returns the next poll (C-044), if it is time for one or there are new names. A source that
    /// is polled keeps no session: the question is whole each time, and the answer to the last
    /// response is its version.
    ///
    /// A poll with new names carries no version, because many servers compare nothing else, and
    /// would say that nothing is new.
    fn poll(
        &mut self,
        wants: &WantedNames<'_>,
        version: &Arc<str>,
        until: Time,
        is_time: bool,
    ) -> Option<SotwRequest> {
        let wanted = wants.names();
        self.take_asking_again(wants);
        self.changed.clear();
        self.timers.retain_suspended(|name| wanted.contains(name));
        let mut before = self.subscribed.take().unwrap_or_default();
        before.difference(&wanted).for_each(|name| self.timers.stop(name));
        let is_new = !wanted.is_subset(&before);
        if wanted.is_empty() || !(is_new || is_time) {
            before.retain(|name| wanted.contains(name));
            self.subscribed = Some(before);
            return None;
        }
        for name in wanted.difference(&before).filter(|name| wants.is_awaited_whole(name)) {
            self.timers.start(name, until);
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

    /// Returns the next SotW request, if one is due. Names that have changed wait for the answer to
    /// the newest response: servers ignore what comes with an older nonce.
    fn sotw(
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

    /// Returns the names that the server was told last.
    fn same_names(&self) -> Names {
        let mut names = Names::default();
        let subscribed = self.subscribed.as_ref().filter(|names| !self.is_implicit(names));
        subscribed.into_iter().flatten().for_each(|name| names.push(name.as_str()));
        names
    }

    /// Returns the names that are wanted now, which the server is about to be told.
    fn renew_names(&mut self, wants: &WantedNames<'_>, until: Time) -> Names {
        let mut wanted = wants.names();
        // The only way out of an empty list that means everything is to say `*` first, and the
        // empty list again then.
        let is_implicit = !self.has_named && self.is_subscribed_to_all();
        // A server that repeats nothing by itself has to hear both that a name is not wanted and,
        // next, that it is.
        let again = self.take_asking_again(wants);
        wanted.retain(|name| !again.contains(name));
        let leaves = wanted.is_empty() && is_implicit;
        self.changed = again;
        if leaves {
            wanted.insert(everything());
            self.asking_again.extend(self.changed.take(EVERYTHING));
            self.changed.insert(everything());
        }
        let before = self.subscribed.take().unwrap_or_default();
        for name in wanted.difference(&before).filter(|name| wants.is_awaited_whole(name)) {
            self.timers.start(name, until);
        }
        before.difference(&wanted).for_each(|name| self.timers.stop(name));
        let mut names = Names::default();
        if leaves || !self.is_implicit(&wanted) {
            wanted.iter().for_each(|name| names.push(name.as_str()));
            self.has_named |= !wanted.is_empty();
        }
        self.subscribed = Some(wanted);
        names
    }

    /// Returns the next delta request, if one is due.
    fn delta(&mut self, wants: &WantedNames<'_>, until: Time) -> Option<DeltaRequest> {
        if !self.is_due(wants) {
            return None;
        }
        let type_url = self.type_url.as_str().into();
        let mut request = DeltaRequest { type_url, ..DeltaRequest::default() };
        match self.subscribed.take() {
            None => self.begin_delta(wants, until, &mut request),
            Some(subscribed) => self.edit_delta(subscribed, wants, until, &mut request),
        }
        // Only an answer carries a nonce (C-040).
        if let Some(answer) = self.owed.pop_front() {
            request.nonce = answer.nonce;
            request.error = answer.error;
        }
        Some(request)
    }

    /// Fills in the first request of a stream, with the versions of what is held
    /// ([`initial_resource_versions`], C-040).
    ///
    /// [`initial_resource_versions`]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds
    fn begin_delta(&mut self, wants: &WantedNames<'_>, until: Time, request: &mut DeltaRequest) {
        let wanted = wants.names();
        request.initial_versions = wants.versions();
        if !self.is_implicit(&wanted) {
            wanted.iter().for_each(|name| request.subscribe.push(name.as_str()));
            self.has_named = true;
        }
        let versions = request.initial_versions.iter();
        let names = versions.filter_map(|(name, _)| ResourceName::read(name).ok());
        self.announced = names.filter(|name| wants.unconfirmed(name).next().is_some()).collect();
        for name in &wanted {
            if self.is_awaited(wants, name) {
                self.timers.start(name, until);
            }
        }
        self.subscribed = Some(wanted);
        self.changed.clear();
    }

    /// Fills in the difference to what the server was told before.
    fn edit_delta(
        &mut self,
        mut subscribed: BTreeSet<ResourceName>,
        wants: &WantedNames<'_>,
        until: Time,
        request: &mut DeltaRequest,
    ) {
        // Whoever subscribes again is told again.
        for name in std::mem::take(&mut self.asking_again) {
            if wants.wants(&name) && subscribed.remove(&name) {
                self.timers.stop(&name);
                self.changed.insert(name);
            }
        }
        for name in std::mem::take(&mut self.changed) {
            if !wants.wants(&name) {
                if subscribed.remove(&name) {
                    self.timers.stop(&name);
                    request.unsubscribe.push(name.as_str());
                }
            } else if subscribed.insert(name.clone()) {
                request.subscribe.push(name.as_str());
                self.has_named = true;
                if self.is_awaited(wants, &name) {
                    self.timers.start(&name, until);
                }
            }
        }
        self.subscribed = Some(subscribed);
    }

    /// Takes out the names that are wanted again before the server heard that they are not. From
    /// now on it counts as not told of them.
    fn take_asking_again(&mut self, wants: &WantedNames<'_>) -> BTreeSet<ResourceName> {
        let mut again = std::mem::take(&mut self.asking_again);
        again.retain(|name| wants.wants(name));
        if let Some(subscribed) = &mut self.subscribed {
            again.retain(|name| subscribed.remove(name));
        }
        again.iter().for_each(|name| self.timers.stop(name));
        again
    }

    /// Returns true if a server of delta has to speak of a name: also of what is left from before,
    /// if it does not know that the client has that.
    fn is_awaited(&self, wants: &WantedNames<'_>, name: &ResourceName) -> bool {
        wants.is_awaited(name) || wants.unconfirmed(name).any(|one| !self.was_announced(one))
    }

    fn is_due(&mut self, wants: &WantedNames<'_>) -> bool {
        let Some(subscribed) = &self.subscribed else { return !wants.names().is_empty() };
        self.changed.retain(|name| wants.wants(name) != subscribed.contains(name));
        self.asking_again.retain(|name| subscribed.contains(name));
        self.ignored.retain(|name| subscribed.contains(name));
        self.timers.retain_suspended(|name| subscribed.contains(name));
        let again = self.asking_again.iter().any(|name| wants.wants(name));
        again || !self.owed.is_empty() || !self.changed.is_empty()
    }

    /// Returns true if these names are asked for by an empty list. Old servers know no `*`, so it
    /// is left out where that means the same (C-033).
    fn is_implicit(&self, wanted: &BTreeSet<ResourceName>) -> bool {
        !self.has_named && self.type_url.rules().legacy_wildcard && is_everything(wanted)
    }
}

fn is_everything(names: &BTreeSet<ResourceName>) -> bool {
    names.len() == 1 && names.contains(EVERYTHING)
}

fn everything() -> ResourceName {
    ResourceName::read(EVERYTHING).expect("`*` is an opaque name")
}
