//! The facts that must be true once nothing has happened for long enough.
//!
//! Each authority believes the best server that can be reached and has something to give, and each
//! watcher believes what that server has; or it has a word that says why not. The servers are asked
//! for what is watched and for nothing else, and nothing else is held.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use chancery_core::client::{AuthorityKey, ErrorKind, Fallback, Machine, ServerId, StreamId};
use chancery_core::{ErrorDetail, TypeUrl, Variant};

use super::audience::{BelievedResource, SimulatedWatch};
use super::host::{Host, Mood};
use super::link::Link;
use super::plan::{FederationPlan, SimulatedAuthority, TYPES, type_url};
use super::referee::Referee;

/// All there is to look at.
pub(super) struct FinalState<'a> {
    pub(super) plan: &'a FederationPlan,
    pub(super) hosts: &'a [Host],
    pub(super) links: &'a BTreeMap<StreamId, Link>,
    pub(super) watches: &'a [SimulatedWatch],
    pub(super) referee: &'a Referee,
    pub(super) client: &'a Machine,
}

impl FinalState<'_> {
    pub(super) fn settled(&self) -> Result<(), String> {
        self.plan.authorities.iter().try_for_each(|authority| self.authority(authority))?;
        for host in self.hosts.iter().filter(|host| host.mood == Mood::Up) {
            for short in TYPES {
                self.asked(host.id, &type_url(short))?;
            }
        }
        self.client.resources().try_for_each(|one| {
            let mut watches = self.of(one.authority).filter(|it| it.type_url == *one.type_url);
            if watches.any(|watch| watch.covers(one.name.as_str())) {
                return Ok(());
            }
            Err(format!("`{}` is kept, and nobody watches it (C-050)", one.name))
        })
    }

    fn of(&self, key: &AuthorityKey) -> impl Iterator<Item = &SimulatedWatch> {
        self.watches.iter().filter(move |watch| watch.authority == *key)
    }

    fn host(&self, id: ServerId) -> &Host {
        &self.hosts[id.index()]
    }

    fn authority(&self, authority: &SimulatedAuthority) -> Result<(), String> {
        if self.of(&authority.key).next().is_none() {
            return Ok(());
        }
        let believed = self.referee.believed(self.plan, &authority.key);
        let key = &authority.key;
        for better in authority.servers.iter().take_while(|one| **one != believed) {
            let host = self.host(*better);
            if host.mood == Mood::Up && self.of(key).any(|watch| serves(host, watch)) {
                let (better, believed) = (better.index(), believed.index());
                return Err(format!("{key} believes s{believed}, and s{better} delivers (C-089)"));
            }
        }
        if self.host(believed).mood != Mood::Up && authority.servers.last() != Some(&believed) {
            let waits = |watch: &SimulatedWatch| {
                authority.fallback == Fallback::Reachability || is_unresolved(watch)
            };
            if let Some(watch) = self.of(key).find(|watch| waits(watch)) {
                return Err(format!("{} could be had elsewhere (C-087)", watch.label()));
            }
        }
        for watch in self.of(key) {
            let verdict = self.watch(watch, self.host(believed));
            verdict.map_err(|why| format!("{}: {why}", watch.label()))?;
        }
        Ok(())
    }

    fn watch(&self, watch: &SimulatedWatch, host: &Host) -> Result<(), String> {
        let own = watch.own();
        if host.mood != Mood::Up {
            // Resources that expired meanwhile are reported last.
            let is_last = self.plan.authority(&watch.authority).servers.last() == Some(&host.id);
            let is_away = is_last && matches!(host.mood, Mood::Down | Mood::Curt);
            let hears = is_away && !self.plan.dangers.ttl;
            let told =
                if hears { own.error == Some(ErrorKind::Unreachable) } else { own.error.is_some() };
            return if told { Ok(()) } else { Err("it is not told of the outage".to_owned()) };
        }
        if watch.is_group() {
            return self.group(watch, host);
        }
        if own.value.is_none() && own.error.is_none() {
            return Err("it waits, and nothing says why".to_owned());
        }
        match host.usable_body(&watch.type_url, &watch.name) {
            Some(Ok(body)) => same(&own, &body),
            Some(Err(())) if own.error == Some(ErrorKind::Rejected) => Ok(()),
            Some(Err(())) => Err(format!("what is there is bad, and it believes {own:?}")),
            None => self.absent(watch, &watch.name, &own, host),
        }
    }

    /// Only delta, and SotW for types that are whole, can say that a resource is no more (C-056).
    fn absent(
        &self,
        watch: &SimulatedWatch,
        name: &str,
        own: &BelievedResource,
        host: &Host,
    ) -> Result<(), String> {
        let says = self.says_absence(watch, host);
        let was_there = own
            .value
            .as_ref()
            .is_some_and(|(body, _)| self.referee.was_sent(host.id, &watch.type_url, name, body));
        if own.error.is_some() || (!says && was_there) {
            return Ok(());
        }
        Err(format!("`{name}` is not there, and it believes {own:?}"))
    }

    fn says_absence(&self, watch: &SimulatedWatch, host: &Host) -> bool {
        let variant = self.plan.protocol(host.id).variant();
        variant == Variant::Delta || watch.type_url.rules().full_state
    }

    fn group(&self, watch: &SimulatedWatch, host: &Host) -> Result<(), String> {
        let own = watch.own();
        if !watch.view.settled && own.error.is_none() {
            return Err("it does not settle, and nothing says why".to_owned());
        }
        if own.error == Some(ErrorKind::Unreachable) {
            return Err("it is told of an outage that is over".to_owned());
        }
        for resource in host.snapshot.set(&watch.type_url).iter() {
            let name = resource.name().as_str();
            let Some(Ok(body)) =
                host.usable_body(&watch.type_url, name).filter(|_| watch.must_hear_of(name))
            else {
                continue;
            };
            let known = watch.view.resources.get(name).cloned().unwrap_or_default();
            same(&known, &body).map_err(|why| format!("`{name}`: {why}"))?;
        }
        let held = watch.view.resources.iter().filter(|(_, it)| it.value.is_some());
        for (name, known) in held.filter(|(name, _)| watch.must_hear_of(name)) {
            if host.usable_body(&watch.type_url, name).is_none() {
                if self.says_absence(watch, host) {
                    return Err(format!("`{name}` is a member no more"));
                }
                self.absent(watch, name, known, host)?;
            }
        }
        Ok(())
    }

    /// A server knows exactly what is wanted of it.
    fn asked(&self, server: ServerId, url: &TypeUrl) -> Result<(), String> {
        let wanted = self.watches.iter().filter(|watch| {
            watch.type_url == *url && self.referee.is_asked(self.plan, &watch.authority, server)
        });
        let wanted: BTreeSet<_> = wanted.map(|watch| watch.name.clone()).collect();
        let mut told = BTreeSet::new();
        for (_, link) in self.links.iter().filter(|(id, _)| id.server == server) {
            let (all, names) = link.interest(url);
            told.extend(names);
            told.extend(all.then(|| "*".to_owned()));
        }
        if told == wanted {
            return Ok(());
        }
        let short = url.short();
        Err(format!("s{} knows {told:?} of {short}, not {wanted:?} (C-032)", server.index()))
    }
}

fn same(known: &BelievedResource, body: &Bytes) -> Result<(), String> {
    let is_same = known.value.as_ref().is_some_and(|(held, _)| held == body);
    if is_same && known.error.is_none() {
        return Ok(());
    }
    Err(format!("there is {:?}, and it believes {known:?}", String::from_utf8_lossy(body)))
}

/// Returns true if a server has something good for a watch.
fn serves(host: &Host, watch: &SimulatedWatch) -> bool {
    let set = host.snapshot.set(&watch.type_url);
    let mut names =
        set.iter().map(|one| one.name().as_str()).filter(|name| watch.must_hear_of(name));
    names.any(|name| matches!(host.usable_body(&watch.type_url, name), Some(Ok(_))))
}

/// Returns true if nothing is held of it, and it is not known not to exist.
fn is_unresolved(watch: &SimulatedWatch) -> bool {
    let own = watch.own();
    let is_missing =
        matches!(own.error, Some(ErrorKind::Missing | ErrorKind::Refused(ErrorDetail::NOT_FOUND)));
    if watch.is_group() { !watch.view.settled } else { own.value.is_none() && !is_missing }
}
