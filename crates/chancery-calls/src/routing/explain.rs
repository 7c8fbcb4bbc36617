//! The decision about a call in words: for `explain` of a channel, and for people who ask why.
//!
//! It is made by the search that decides, which tells what it passes over.

use std::fmt::{self, Display, Formatter};

use super::config::{Observer, quoted};
use super::{
    Call, ChosenTarget, Decision, DomainPattern, ForwardAction, Mismatch, Route, VirtualHost,
};
use crate::Failure;

/// The routes before the one that matched of which each is told.
const MAX_PASSED: usize = 32;

/// The way on which a call came to its route, or the reason why it did not.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// The authority and the path that were asked for.
    authority: String,
    path: String,
    entered: Option<(&'a VirtualHost, &'a DomainPattern)>,
    passed: Vec<(usize, &'a Route, Mismatch<'a>)>,
    /// The number of routes that did not match, also those that are not in the list.
    passed_total: usize,
    decision: Result<Decision<'a>, Failure>,
}

impl<'a> Explanation<'a> {
    /// The decision that is explained.
    pub fn decision(&self) -> &Result<Decision<'a>, Failure> {
        &self.decision
    }

    /// The same of a call that its session leads somewhere else.
    #[must_use]
    pub fn led_to(self, decision: Decision<'a>) -> Self {
        Self { decision: Ok(decision), ..self }
    }

    /// The virtual host and the domain that matched, if one did.
    pub fn host(&self) -> Option<(&'a VirtualHost, &'a DomainPattern)> {
        self.entered
    }

    /// The first routes that did not match, with their places and reasons. There may be more
    /// ([`passed_total`](Self::passed_total)).
    pub fn passed(&self) -> &[(usize, &'a Route, Mismatch<'a>)] {
        &self.passed
    }

    /// The number of routes that did not match.
    pub fn passed_total(&self) -> usize {
        self.passed_total
    }
}

/// Keeps what a search tells, up to a bound.
#[derive(Default)]
pub(super) struct Recorder<'a> {
    entered: Option<(&'a VirtualHost, &'a DomainPattern)>,
    passed: Vec<(usize, &'a Route, Mismatch<'a>)>,
    passed_total: usize,
}

impl<'a> Observer<'a> for Recorder<'a> {
    fn entered(&mut self, host: &'a VirtualHost, domain: &'a DomainPattern) {
        self.entered = Some((host, domain));
    }

    fn passed(&mut self, index: usize, route: &'a Route, mismatch: Mismatch<'a>) {
        self.passed_total += 1;
        if self.passed.len() < MAX_PASSED {
            self.passed.push((index, route, mismatch));
        }
    }
}

impl<'a> Recorder<'a> {
    pub(super) fn explain(
        self,
        call: &Call<'_>,
        decision: Result<Decision<'a>, Failure>,
    ) -> Explanation<'a> {
        Explanation {
            authority: call.authority.to_owned(),
            path: call.path.to_owned(),
            entered: self.entered,
            passed: self.passed,
            passed_total: self.passed_total,
            decision,
        }
    }
}

impl Display for Explanation<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "call of `{}` at `{}`", quoted(&self.path), quoted(&self.authority))?;
        if let Some((host, domain)) = self.entered {
            writeln!(f, "virtual host `{}`, by its domain `{domain}`", quoted(&host.name))?;
        }
        for (index, route, mismatch) in &self.passed {
            writeln!(f, "{} {mismatch}", RouteTitle(*index, route))?;
        }
        let more = self.passed_total - self.passed.len();
        if more > 0 {
            writeln!(f, "{more} more routes do not match")?;
        }
        match &self.decision {
            Err(failure) => write!(f, "it fails with {}: {}", failure.code, failure.message),
            Ok(decision) => {
                let place = &decision.place;
                let title = RouteTitle(place.route_index, place.route);
                writeln!(f, "{title} matches: {}", place.route.matcher)?;
                write!(f, "{}{}", decision.target, Settings(decision))
            }
        }
    }
}

/// A route by its place, and its name if it has one.
struct RouteTitle<'a>(usize, &'a Route);

impl Display for RouteTitle<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "route {}", self.0)?;
        match &*self.1.name {
            "" => Ok(()),
            name => write!(f, " `{}`", quoted(name)),
        }
    }
}

impl Display for ChosenTarget<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = quoted(self.name());
        match self {
            Self::Cluster(_) => write!(f, "cluster `{name}`"),
            Self::Plugin(_) => write!(f, "the plugin `{name}` chooses the cluster"),
            Self::Weighted { cluster, total, .. } => {
                write!(f, "cluster `{name}`, which has {} of {total} calls", cluster.weight)
            }
        }
    }
}

/// The lines about the settings of the route that count for the call.
struct Settings<'a>(&'a Decision<'a>);

impl Display for Settings<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Decision { action, hash, .. } = self.0;
        limit(action, f)?;
        if !action.hash_policies.is_empty() {
            let origin =
                if hash.is_random { "random, as no policy gives one" } else { "by policy" };
            write!(f, "\nhash {:016x}, {origin}", hash.value)?;
        }
        if let Some(retry) = self.0.retry().filter(|retry| !retry.conditions().is_empty()) {
            write!(f, "\nat most {} attempts", retry.attempts())?;
        }
        if action.rewrites_authority {
            f.write_str("\nthe authority becomes the hostname of the endpoint")?;
        }
        Ok(())
    }
}

fn limit(action: &ForwardAction, f: &mut Formatter<'_>) -> fmt::Result {
    let limits = action.limits;
    match limits.grpc_timeout_header_max.or(limits.max_stream_duration) {
        None => Ok(()),
        Some(limit) if limit.is_zero() => f.write_str("\nno time limit"),
        Some(limit) => write!(f, "\nat most {limit:?}"),
    }
}
