//! The way of a call as a value and in words, for people and programs that ask why calls go where they go. Not
//! here: how the way is found (`explain`).

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::Failure;
use chancery_calls::balancing::{Description, EndpointLocality, TreePart};
use chancery_calls::filters::session::SessionCookie;
use chancery_calls::filters::{FilterChain, FilterConfig};
use chancery_calls::routing::{ChosenTarget, Decision, Explanation};
use chancery_core::printable::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Printable, cut};
use http::HeaderMap;

use super::sessions::CallSession;

/// The way that a call would take, and the reasons.
///
/// Its text has the routes first, then the cluster with its priorities, localities and endpoints, and then
/// the [`outcome`](Self::outcome).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallExplanation {
    /// The name of the service, as routes see it.
    pub authority: String,
    /// The path of the method.
    pub path: String,
    /// The virtual host that has the authority; `None` also of a target without a control plane.
    pub virtual_host: Option<String>,
    /// The domain of the virtual host that matches the authority.
    pub domain: Option<String>,
    /// The first routes that did not match. There may be more ([`passed_total`](Self::passed_total)).
    pub passed: Vec<PassedRoute>,
    /// The number of routes before the one that matched.
    pub passed_total: usize,
    /// The route that matched.
    pub route: Option<ExplainedRoute>,
    /// The cluster of the route; of weighted clusters the one that the session of the call names, or else the one
    /// that the dice of this explanation have chosen.
    pub cluster: Option<ExplainedCluster>,
    /// The HTTP filters that the call passes before it is sent, but for those that do nothing.
    pub filters: Vec<ExplainedFilter>,
    /// The time that the route and the headers allow.
    pub timeout: Option<Duration>,
    /// The cluster with all below it, if it is known. Its root is an order of clusters, which has one if the
    /// cluster is no aggregate.
    pub balancing: Option<Description>,
    /// The things that the way leaves out, a sentence for each cluster: endpoints that take no calls, as the control
    /// plane says that they are not healthy, localities without a weight, and clusters that cannot be used.
    pub left_out: Vec<String>,
    /// The reasons why something on the way may be older than what the control plane has: it has sent a version
    /// that was rejected, or cannot be reached.
    pub outdated: Vec<String>,
    /// The end of the way.
    pub outcome: ExplainedOutcome,
    /// The text about the routes.
    routing: String,
}

/// A route that did not match.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassedRoute {
    /// Its place in the virtual host; 0 is the first.
    pub index: usize,
    /// Its name, which may be empty.
    pub name: String,
    /// The first condition that does not hold, in words.
    pub reason: String,
}

/// The route that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedRoute {
    /// Its place in the virtual host; 0 is the first.
    pub index: usize,
    /// Its name, which may be empty.
    pub name: String,
    /// Its conditions, in words.
    pub conditions: String,
}

/// A filter that a call passes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedFilter {
    /// The name of this use of the filter.
    pub name: String,
    /// The effect on the call, in words.
    pub effect: String,
}

/// The cluster of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedCluster {
    /// Its name.
    pub name: String,
    /// Its weight and the sum of all weights, if it is one of weighted clusters.
    pub share: Option<(u32, u32)>,
}

/// The end of the way of a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExplainedOutcome {
    /// The call would be sent here.
    Sent(ExplainedPlace),
    /// The call would wait, for this.
    Waits(String),
    /// The call would fail with this status. A call that waits for ready would wait, if
    /// [`waits_if_told`](Self::Fails::waits_if_told) is true.
    Fails {
        /// The code.
        code: tonic::Code,
        /// The message.
        message: String,
        /// True if a call with [`WaitForReady`](crate::WaitForReady) would wait.
        waits_if_told: bool,
    },
}

/// The place that a call would be sent to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExplainedPlace {
    /// The cluster; below an aggregate cluster one of those that this names.
    pub cluster: String,
    /// The priority of the endpoint in it; 0 is the best.
    pub priority: Option<usize>,
    /// The locality of the endpoint.
    pub locality: Arc<EndpointLocality>,
    /// The address; `0.0.0.0:0` of an endpoint that has none.
    pub address: SocketAddr,
    /// True if the session of the call has chosen the endpoint, and no policy.
    pub by_session: bool,
    /// The endpoint as people know it: its address, or the name of one that has none.
    pub endpoint: String,
}

impl CallExplanation {
    /// Explains a call of which nothing is known yet.
    pub(super) fn of(authority: &str, path: &str) -> Self {
        Self {
            authority: authority.to_owned(),
            path: path.to_owned(),
            virtual_host: None,
            domain: None,
            passed: Vec::new(),
            passed_total: 0,
            route: None,
            cluster: None,
            filters: Vec::new(),
            timeout: None,
            balancing: None,
            left_out: Vec::new(),
            outdated: Vec::new(),
            outcome: ExplainedOutcome::Waits(String::new()),
            routing: format!("call of `{}` at `{}`", quoted(path), quoted(authority)),
        }
    }

    pub(super) fn waiting(self, what: &str) -> Self {
        Self { outcome: ExplainedOutcome::Waits(what.to_owned()), ..self }
    }

    pub(super) fn failing(self, failure: &Failure, waits_if_told: bool) -> Self {
        Self { outcome: ExplainedOutcome::of(failure, waits_if_told), ..self }
    }

    /// Takes what the routes say.
    pub(super) fn take(&mut self, explained: &Explanation<'_>) {
        self.routing = explained.to_string();
        if explained.decision().is_err() {
            // The last line has the failure, which the outcome says.
            self.routing.truncate(self.routing.rfind('\n').unwrap_or_default());
        }
        if let Some((host, domain)) = explained.host() {
            (self.virtual_host, self.domain) =
                (Some(host.name.to_string()), Some(domain.to_string()));
        }
        let passed = explained.passed().iter().map(|(index, route, mismatch)| PassedRoute {
            index: *index,
            name: route.name.to_string(),
            reason: mismatch.to_string(),
        });
        (self.passed, self.passed_total) = (passed.collect(), explained.passed_total());
        self.route = explained.decision().as_ref().ok().map(|decision| ExplainedRoute {
            index: decision.place.route_index,
            name: decision.place.route.name.to_string(),
            conditions: decision.place.route.matcher.to_string(),
        });
    }
}

impl ExplainedFilter {
    pub(super) fn all(chain: &FilterChain, path: &str, headers: &HeaderMap) -> Vec<Self> {
        let with_effect = chain.filters().iter().filter_map(|filter| {
            let effect = match &filter.config {
                FilterConfig::Router | FilterConfig::Disabled => return None,
                FilterConfig::Faults(policy) => policy.to_string(),
                FilterConfig::Session(cookie) => session(cookie, path, headers),
                FilterConfig::Custom(program) => {
                    format!("is `{}` of the program, which sees the call", quoted(program.kind()))
                }
                other => {
                    format!("fails the call, as `{}` is not supported yet", quoted(other.kind()))
                }
            };
            Some(Self { name: filter.name.to_string(), effect })
        });
        with_effect.collect()
    }
}

/// Tells the session that a filter finds in a call.
fn session(cookie: &Arc<SessionCookie>, path: &str, headers: &HeaderMap) -> String {
    let name = quoted(cookie.name());
    let Some(session) = CallSession::new(cookie, path, headers) else {
        return format!("has the cookie `{name}` for calls of other paths");
    };
    let Some(address) = session.addresses().first() else {
        return format!("begins a session, as the call has no cookie `{name}` of one");
    };
    match session.cluster() {
        Some(cluster) => {
            let cluster = quoted(cluster);
            format!("finds a session with {address} in cluster `{cluster}`, by the cookie `{name}`")
        }
        None => format!("finds a session with {address}, by the cookie `{name}`"),
    }
}

impl ExplainedCluster {
    pub(super) fn of(decision: &Decision<'_>) -> Self {
        let share = match decision.target {
            ChosenTarget::Weighted { cluster, total, .. } => Some((cluster.weight, total)),
            ChosenTarget::Cluster(_) | ChosenTarget::Plugin(_) => None,
        };
        Self { name: decision.target.name().to_string(), share }
    }
}

impl ExplainedOutcome {
    /// The outcome of a call that fails.
    pub(super) fn of(failure: &Failure, waits_if_told: bool) -> Self {
        let status = crate::codes::status(failure);
        Self::Fails { code: status.code(), message: status.message().to_owned(), waits_if_told }
    }
}

impl Display for CallExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.routing)?;
        for ExplainedFilter { name, effect } in &self.filters {
            writeln!(f, "filter `{}` {effect}", quoted(name))?;
        }
        if let Some(root) = &self.balancing {
            // An order of one cluster says nothing that the cluster does not say.
            match root.children.as_slice() {
                [only] if is_cluster(only.description.as_ref()) => {
                    only.description.iter().try_for_each(|it| writeln!(f, "{it}"))?;
                }
                _ => writeln!(f, "clusters {root}")?,
            }
        }
        for what in self.left_out.iter().take(MAX_LEFT_OUT) {
            writeln!(f, "left out: {}", Printable(cut(what, MAX_MESSAGE_BYTES)))?;
        }
        for error in &self.outdated {
            writeln!(f, "may be old: {}", Printable(cut(error, MAX_MESSAGE_BYTES)))?;
        }
        write!(f, "{}", self.outcome)
    }
}

impl Display for ExplainedOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(ExplainedPlace {
                cluster,
                priority,
                locality,
                endpoint,
                by_session,
                ..
            }) => {
                write!(f, "the call would go to {endpoint}, in cluster `{}`", quoted(cluster))?;
                if let Some(priority) = priority {
                    write!(f, ", priority {priority}")?;
                }
                write!(f, ", locality {locality}")?;
                f.write_str(if *by_session { ", by its session" } else { "" })
            }
            Self::Waits(what) => write!(f, "a call waits for {what}"),
            Self::Fails { code, message, waits_if_told } => {
                let message = Printable(cut(message, MAX_MESSAGE_BYTES));
                write!(f, "a call fails with {}: {message}", crate::codes::code(*code))?;
                if *waits_if_told {
                    f.write_str("; a call that waits for ready would wait")?;
                }
                Ok(())
            }
        }
    }
}

/// The number of clusters of which it is told what is left out.
const MAX_LEFT_OUT: usize = 16;

/// Returns true for a cluster, and false for a priority of one.
pub(super) fn is_cluster(description: Option<&Description>) -> bool {
    description.is_some_and(|it| matches!(it.part, TreePart::Cluster { .. }))
}

/// A text of somebody else, for a line.
pub(super) fn quoted(text: &str) -> impl Display + use<'_> {
    Printable(cut(text, MAX_NAME_BYTES))
}
