//! The referee at the server's end of one stream: it knows what the server knew when it sent.
//!
//! The reference client checks the rules that hold even if messages cross on the wire. The referee
//! checks the others: nothing is sent twice without a reason (S-075, S-079), no second response is
//! sent without need before the first is answered (S-042), a route never comes before its cluster
//! and a cluster is never removed before its routes (S-097, S-098), and a changed cluster gets its
//! endpoints again (S-099).

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::server::{Response, ResponseEntry, Settings};
use chancery_core::{Features, Request, Resource, Snapshot, Time, TypeUrl, Variant};

use super::subscription_view::SubscriptionView;
use super::world::type_url;
use crate::client::Fault;

/// The content of a response, beside what the client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseContent {
    /// The response has something that the client does not have.
    News,
    /// The response only refreshes TTLs.
    Refresh,
}

/// The referee of one stream.
#[derive(Clone, Debug)]
pub(super) struct Referee {
    variant: Variant,
    settings: Arc<Settings>,
    features: Features,
    target: Arc<Snapshot>,
    views: BTreeMap<TypeUrl, SubscriptionView>,
    /// The names that left the target snapshot, with the time and their last resource.
    vanished: BTreeMap<(TypeUrl, Arc<str>), (Time, Arc<Resource>)>,
    began: Time,
}

impl Referee {
    pub(super) fn new(
        now: Time,
        variant: Variant,
        settings: Arc<Settings>,
        features: Features,
        target: Arc<Snapshot>,
    ) -> Self {
        let (views, vanished) = (BTreeMap::new(), BTreeMap::new());
        Self { variant, settings, features, target, views, vanished, began: now }
    }

    /// Takes in that the server got another snapshot.
    pub(super) fn published(&mut self, now: Time, snapshot: &Arc<Snapshot>) {
        let before = std::mem::replace(&mut self.target, Arc::clone(snapshot));
        for type_url in before.types() {
            let set = snapshot.set(type_url);
            for gone in
                before.set(type_url).iter().filter(|it| set.get(it.name().as_str()).is_none())
            {
                let key = (type_url.clone(), gone.name().shared());
                self.vanished.insert(key, (now, Arc::clone(gone)));
            }
        }
        for (type_url, view) in &mut self.views {
            if before.set(type_url) != snapshot.set(type_url) {
                view.set_changed(snapshot.set(type_url));
            }
        }
        self.vanished.retain(|(type_url, name), _| snapshot.set(type_url).get(name).is_none());
    }

    /// Takes in that the server got a request.
    pub(super) fn received(&mut self, request: &Request) {
        let url = match request {
            Request::Sotw(request) => TypeUrl::new(&request.type_url),
            Request::Delta(request) => TypeUrl::new(&request.type_url),
        };
        let set = self.target.set(&url);
        let view = self.views.entry(url.clone()).or_default();
        match request {
            Request::Sotw(request) => view.sotw(&url, request, set),
            Request::Delta(request) => view.delta(&url, request, set),
        }
    }

    /// Checks a response that the server sends, and says whether it has news.
    pub(super) fn sent(
        &mut self,
        now: Time,
        response: &Response,
    ) -> Result<ResponseContent, Fault> {
        let url = &response.type_url;
        let check = self.check(now, response);
        check.map_err(|why| {
            Fault(format!("{why}, in {} response {}", url.short(), response.nonce))
        })?;
        let full_state = self.full_state(url);
        let has_news = self.has_news(response);
        let first = self.views.get(url).is_some_and(|view| !view.answered);
        self.warm(response);
        if let Some(view) = self.views.get_mut(url) {
            view.sent(now, response, full_state);
        }
        if first && self.variant == Variant::Delta && url.short() == "cds" {
            // S-100: the client may have subscribed to these before the clusters.
            for dependent in ["eds", "sds"] {
                let view = self.views.entry(type_url(dependent)).or_default();
                view.owed.extend(view.given_names.iter().cloned());
            }
        }
        Ok(if has_news { ResponseContent::News } else { ResponseContent::Refresh })
    }

    /// Returns true if anything in the response differs from what the client has.
    fn has_news(&self, response: &Response) -> bool {
        let known = self.views.get(&response.type_url).map(|view| &view.known);
        let has = |entry: &ResponseEntry| {
            let version = entry.resource.as_ref().map(|resource| resource.version().to_string());
            entry.heartbeat || known.and_then(|known| known.get(&entry.name)) == version.as_ref()
        };
        let refreshes = response.entries.iter().any(|entry| self.refreshes(&entry));
        !refreshes
            || !response.removed.is_empty()
            || !response.entries.iter().all(|entry| has(&entry))
    }

    /// Checks that the server owes nothing once nothing moves any more.
    pub(super) fn check_settled(&self) -> Result<(), Fault> {
        for (url, view) in &self.views {
            let set = self.target.set(url);
            let waits = |name: &&Arc<str>| set.get(name).is_some() && self.has_cluster(url, name);
            let waits = view.warming.iter().find(waits);
            if let Some(name) = waits {
                return Err(Fault(format!(
                    "the cluster of {} `{name}` changed and still warms (S-099)",
                    url.short()
                )));
            }
        }
        Ok(())
    }

    /// Returns true if the client accepted a cluster that leads to these endpoints. One that it
    /// rejected warms nothing.
    fn has_cluster(&self, url: &TypeUrl, name: &str) -> bool {
        let clusters = self.views.get(&type_url("cds"));
        let accepted = clusters.into_iter().flat_map(|view| view.accepted.values());
        let mut links = accepted.flat_map(|cluster| &cluster.facts().links);
        links.any(|link| link.type_url == *url && link.name.as_str() == name)
    }

    /// Returns true if a resource that is absent from a response is removed by it.
    fn full_state(&self, url: &TypeUrl) -> bool {
        self.variant == Variant::Sotw && url.rules().full_state
    }

    fn check(&self, now: Time, response: &Response) -> Result<(), String> {
        let Some(view) = self.views.get(&response.type_url).filter(|view| view.interest.is_some())
        else {
            return Err("nobody asked (T-21)".to_owned());
        };
        if self.has_news(response) {
            self.check_hold(now, view)?; // A TTL cannot wait for a late answer.
        }
        self.check_wrapping(response)?;
        for entry in response.entries.iter() {
            self.check_entry(now, view, response, &entry)?;
        }
        self.check_removals(now, view, response)?;
        self.check_reason(view, response)
    }

    /// Checks S-042: only one response of a type is unanswered at a time.
    fn check_hold(&self, now: Time, view: &SubscriptionView) -> Result<(), String> {
        let Some(last) = view.unanswered.back() else { return Ok(()) };
        if view.released || now >= last.sent + self.settings.ack_wait {
            return Ok(());
        }
        Err(format!("response {} is not answered yet (S-042)", last.nonce))
    }

    /// Checks S-085 and S-086: wrappers and TTLs are sent only to clients that support them.
    fn check_wrapping(&self, response: &Response) -> Result<(), String> {
        let sotw = self.variant == Variant::Sotw;
        if sotw && response.wrapped && !self.features.wrapped_sotw {
            return Err("entries are wrapped for a client that cannot read it (S-085)".to_owned());
        }
        let can = self.features.ttl && (!sotw || self.features.wrapped_sotw);
        for entry in response.entries.iter() {
            let has = entry.resource.as_ref().is_some_and(|resource| resource.ttl().is_some());
            if entry.ttl != (has && can) {
                return Err(format!(
                    "the TTL of `{}` is not what it should be (S-086)",
                    entry.name
                ));
            }
        }
        Ok(())
    }

    fn check_entry(
        &self,
        now: Time,
        view: &SubscriptionView,
        response: &Response,
        entry: &ResponseEntry,
    ) -> Result<(), String> {
        let (name, url) = (&entry.name, &response.type_url);
        let Some(resource) = &entry.resource else { return Ok(()) };
        let owed = view.owed.contains(name);
        if !view.covers(name) && !owed {
            return Err(format!("`{name}` is not subscribed to (S-045)"));
        }
        let version = resource.version().to_string();
        let known = view.known.get(name) == Some(&version);
        if entry.heartbeat {
            let fine = known || view.rejected(name, &version);
            return if fine {
                Ok(())
            } else {
                Err(format!("heartbeat for unknown `{name}` (S-088)"))
            };
        }
        let current = self.target.set(url).get(name);
        if current.is_none_or(|current| current.version() != resource.version())
            && !self.outlives(view, url, name, resource)
        {
            return Err(format!("`{name}` is not what the snapshot has"));
        }
        if known
            && !owed
            && !self.refreshes(entry)
            && !view.may_repeat.contains(name)
            && !view.rejected.contains_key(name)
            && !self.full_state(url)
        {
            return Err(format!("the client has `{name}` already (S-079)"));
        }
        self.check_links(now, entry)
    }

    /// Returns true if a resource that left the snapshot may still be sent, because the client has it
    /// and its removal waits (S-098).
    fn outlives(
        &self,
        view: &SubscriptionView,
        url: &TypeUrl,
        name: &Arc<str>,
        resource: &Resource,
    ) -> bool {
        let vanished = self.vanished.get(&(url.clone(), Arc::clone(name)));
        // A rejection says nothing sure about single resources (S-035), and a client that asks
        // again may have dropped what it accepted (S-075).
        let version = resource.version().to_string();
        let has = view.known.get(name) == Some(&version)
            || view.rejected(name, &version)
            || view.accepted.get(name).is_some_and(|accepted| **accepted == *resource);
        view.given_names.contains(name)
            && vanished.is_some_and(|(_, last)| has || **last == *resource)
    }

    /// Returns true if the entry may only refresh a TTL. SotW refreshes with the body, because an
    /// entry without one would remove the resource (S-057, S-087).
    fn refreshes(&self, entry: &ResponseEntry) -> bool {
        entry.heartbeat || (entry.ttl && self.variant == Variant::Sotw)
    }

    /// Checks S-097: clusters come before the resources that refer to them.
    fn check_links(&self, _now: Time, entry: &ResponseEntry) -> Result<(), String> {
        let links = entry.resource.iter().flat_map(|resource| &resource.facts().links);
        for link in links.filter(|link| link.type_url.short() == "cds") {
            let Some(clusters) = self.views.get(&link.type_url) else { continue };
            let name = link.name.as_str();
            let exists = self.target.set(&link.type_url).get(name).is_some();
            if exists && clusters.covers(name) && !clusters.given_names.contains(name) {
                return Err(format!("`{}` leads to `{name}`, not given yet (S-097)", entry.name));
            }
        }
        Ok(())
    }

    /// Checks S-056 and S-098: nothing is removed that exists, and nothing is removed too early.
    fn check_removals(
        &self,
        now: Time,
        view: &SubscriptionView,
        response: &Response,
    ) -> Result<(), String> {
        let url = &response.type_url;
        let set = self.target.set(url);
        let given = |name: &str| response.entries.iter().any(|entry| &*entry.name == name);
        if self.full_state(url)
            && let Some(missing) =
                set.iter().find(|it| view.covers(it.name().as_str()) && !given(it.name().as_str()))
        {
            return Err(format!("`{}` exists and is left out (S-056)", missing.name()));
        }
        for name in &response.removed {
            if set.get(name).is_some() && view.covers(name) {
                return Err(format!("`{name}` exists and is removed"));
            }
            if !view.covers(name) && !view.owed.contains(name) {
                return Err(format!("removed `{name}` is not subscribed to (S-045)"));
            }
            if !view.known.contains_key(name)
                && !view.owed.contains(name)
                && !view.rejected.contains_key(name)
                && !view.is_under_way(name)
                && !view.accepted.contains_key(name)
            {
                return Err(format!("`{name}` is removed twice (S-080)"));
            }
        }
        let absent = view.given_names.iter().filter(|name| self.full_state(url) && !given(name));
        absent.chain(&response.removed).try_for_each(|name| self.check_unused(now, url, name))
    }

    /// Checks that no resource which the client accepted refers to this one, unless the removal has
    /// waited long enough.
    fn check_unused(&self, now: Time, url: &TypeUrl, name: &Arc<str>) -> Result<(), String> {
        let holds = self.views.get(url).is_some_and(|view| {
            // A client that subscribes again may have dropped it, and is answered at once (S-075,
            // S-095).
            view.given_names.contains(name)
                && !view.owed.contains(name)
                && (view.known.contains_key(name) || view.accepted_resource(name).is_some())
        });
        if !matches!(url.short(), "cds" | "eds") || !holds {
            return Ok(()); // A resource that was always rejected is not used.
        }
        let vanished = self.vanished.get(&(url.clone(), Arc::clone(name))).map(|(at, _)| *at);
        if now >= vanished.unwrap_or(self.began) + self.settings.removal_wait {
            return Ok(());
        }
        for (referrers, view) in &self.views {
            let stuck = self.variant == Variant::Sotw && !referrers.rules().full_state;
            for (referrer, resource) in &view.accepted {
                // SotW cannot remove this one, so the server does not wait for it.
                if stuck && self.target.set(referrers).get(referrer).is_none() {
                    continue;
                }
                let links = &resource.facts().links;
                if links.iter().any(|link| link.type_url == *url && link.name.as_str() == &**name) {
                    let short = referrers.short();
                    return Err(format!(
                        "`{name}` goes while {short} `{referrer}` uses it (S-098)"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks S-033, S-040 and S-106: the response has something that the client does not have and
    /// did not reject.
    fn check_reason(&self, view: &SubscriptionView, response: &Response) -> Result<(), String> {
        let fresh = |entry: &ResponseEntry| {
            let version = entry.resource.as_ref().map(|resource| resource.version().to_string());
            let version = version.unwrap_or_default();
            let had = view.known.get(&entry.name) == Some(&version);
            let refused = view.refuses(&entry.name, &version);
            self.refreshes(entry)
                || (!had && !refused)
                || view.owed.contains(&entry.name)
                || view.may_repeat.contains(&entry.name)
        };
        let absent = view.known.keys().chain(view.rejected.keys()).any(|name| {
            self.full_state(&response.type_url)
                && !response.entries.iter().any(|entry| entry.name == *name)
        });
        // A rejected name that left the snapshot is given up, so the rest may be sent again.
        let given = |name: &str| response.entries.iter().any(|entry| &*entry.name == name);
        let mut gone = self.vanished.keys().filter(|(url, _)| *url == response.type_url);
        let given_up = gone.any(|(_, name)| view.rejected.contains_key(name) && !given(name));
        let reason = view.owes_response
            || view.told_part
            || view.retry
            || given_up
            || absent
            || !response.removed.is_empty()
            || !response.errors.is_empty()
            || response.entries.iter().any(|entry| fresh(&entry))
            || (self.full_state(&response.type_url) && !view.owed.is_empty());
        if reason { Ok(()) } else { Err("it has nothing new in it (S-033, S-040)".to_owned()) }
    }

    /// Records that clusters which are new to the client wait for their endpoints (S-099).
    fn warm(&mut self, response: &Response) {
        if response.type_url.short() != "cds" {
            return;
        }
        let clusters = self.views.get(&response.type_url).cloned().unwrap_or_default();
        for entry in response.entries.iter().filter(|entry| !entry.heartbeat) {
            let (name, Some(resource)) = (&entry.name, &entry.resource) else { continue };
            let known = clusters.known.get(name) == Some(&resource.version().to_string());
            let again = clusters.owed.contains(name)
                || clusters.may_repeat.contains(name)
                || clusters.rejected.contains_key(name);
            if known && !again {
                continue;
            }
            let has = known || clusters.accepted_resource(name) == Some(resource);
            for link in resource.facts().links.iter().filter(|link| link.type_url.short() == "eds")
            {
                let view = self.views.entry(link.type_url.clone()).or_default();
                if view.covers(link.name.as_str()) {
                    view.owed.insert(link.name.shared());
                    if !has {
                        view.warming.insert(link.name.shared());
                    }
                }
            }
        }
    }
}
