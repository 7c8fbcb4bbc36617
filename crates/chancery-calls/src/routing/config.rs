//! A route configuration, and the way of a call through it.

use std::sync::Arc;

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};

use super::domains::{DomainIndex, DomainPlace};
use super::explain::{Explanation, Recorder};
use super::{Call, Decision, DomainPattern, Mismatch, Place, Route};
use crate::filters::Overrides;
use crate::retrying::RetryPolicy;
use crate::{Dice, Failure};

/// The routes of a listener, and the index of their domains.
///
/// No virtual host at all is fine: calls fail, and the resource is not rejected (C-094).
#[derive(Debug)]
pub struct RouteConfig {
    hosts: Vec<VirtualHost>,
    domains: DomainIndex,
}

/// The routes of some authorities.
#[derive(Clone, Debug)]
pub struct VirtualHost {
    /// The name, which is for people.
    pub name: Arc<str>,
    /// The authorities.
    pub domains: Vec<DomainPattern>,
    /// The routes, of which the first that matches counts.
    pub routes: Vec<Route>,
    /// The retry policy of routes that have none.
    pub retry: Option<Arc<RetryPolicy>>,
    /// Configurations of filters for all calls.
    pub overrides: Overrides,
}

/// Someone who hears what a search passes over.
pub(super) trait Observer<'a> {
    fn entered(&mut self, host: &'a VirtualHost, domain: &'a DomainPattern);
    fn passed(&mut self, index: usize, route: &'a Route, mismatch: Mismatch<'a>);
}

/// Nobody hears anything; the search costs nothing more.
struct Nobody;

impl<'a> Observer<'a> for Nobody {
    fn entered(&mut self, _: &'a VirtualHost, _: &'a DomainPattern) {}

    fn passed(&mut self, _: usize, _: &'a Route, _: Mismatch<'a>) {}
}

impl RouteConfig {
    /// Takes virtual hosts, and makes the index. If two have one domain, the first has it.
    pub fn new(hosts: Vec<VirtualHost>) -> Self {
        let mut domains = DomainIndex::default();
        for (host, virtual_host) in hosts.iter().enumerate() {
            for (domain, pattern) in virtual_host.domains.iter().enumerate() {
                domains.insert(pattern, DomainPlace { host, domain });
            }
        }
        Self { hosts, domains }
    }

    /// The virtual hosts in their order.
    pub fn hosts(&self) -> &[VirtualHost] {
        &self.hosts
    }

    /// The virtual host of an authority.
    pub fn host(&self, authority: &str) -> Option<&VirtualHost> {
        self.domains.find(authority).map(|place| &self.hosts[place.host])
    }

    /// Decides where a call goes. A failure is the status of the call.
    pub fn decide(&self, call: &Call<'_>, dice: &mut impl Dice) -> Result<Decision<'_>, Failure> {
        self.find(call, dice)?.forward(call, dice)
    }

    /// Finds the route of a call, whatever its action.
    pub fn find(&self, call: &Call<'_>, dice: &mut impl Dice) -> Result<Place<'_>, Failure> {
        self.search(call, dice, &mut Nobody)
    }

    /// Decides as [`decide`](Self::decide) does, and tells how it came to that.
    pub fn explain(&self, call: &Call<'_>, dice: &mut impl Dice) -> Explanation<'_> {
        let mut recorder = Recorder::default();
        let place = self.search(call, dice, &mut recorder);
        let decision = place.and_then(|place| place.forward(call, dice));
        recorder.explain(call, decision)
    }

    fn search<'a>(
        &'a self,
        call: &Call<'_>,
        dice: &mut impl Dice,
        observer: &mut impl Observer<'a>,
    ) -> Result<Place<'a>, Failure> {
        let found = self.domains.find(call.authority).ok_or_else(|| no_host(call))?;
        let DomainPlace { host: host_index, domain: domain_index } = found;
        let host = &self.hosts[host_index];
        observer.entered(host, &host.domains[domain_index]);
        for (route_index, route) in host.routes.iter().enumerate() {
            match route.mismatch(call, dice) {
                None => return Ok(Place { host, host_index, domain_index, route, route_index }),
                Some(mismatch) => observer.passed(route_index, route, mismatch),
            }
        }
        Err(no_route(host, call))
    }
}

/// A text of the configuration or of the caller, as messages have it.
pub(super) fn quoted(text: &str) -> impl std::fmt::Display + use<'_> {
    Printable(cut(text, MAX_NAME_BYTES))
}

fn no_host(call: &Call<'_>) -> Failure {
    let authority = quoted(call.authority);
    Failure::unavailable(format!("no virtual host has a domain for the authority `{authority}`"))
}

fn no_route(host: &VirtualHost, call: &Call<'_>) -> Failure {
    let (name, path) = (quoted(&host.name), quoted(call.path));
    Failure::unavailable(format!("no route of virtual host `{name}` matches a call of `{path}`"))
}
