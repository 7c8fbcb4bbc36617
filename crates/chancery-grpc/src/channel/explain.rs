//! The way of a call in words, for people and programs that ask why calls go where they go. Nothing is
//! sent, and nothing is connected.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{
    ChildName, Connectivity, Description, Endpoint, EndpointLocality, Pick, PickArgs, Picked,
    TreePart, Wake,
};
use chancery_calls::routing::{self, ChosenTarget, Decision, Explanation};
use chancery_calls::{Code, Failure};
use chancery_core::printable::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Printable, cut};
use http::HeaderMap;
use tokio::time::{Instant, timeout_at};

use super::deadline;
use super::published::{ChannelConfig, ClusterHandle, Published};
use super::shared::Shared;
use crate::dice::ThreadDice;

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
    /// The virtual host that has the authority.
    pub virtual_host: Option<String>,
    /// The domain of the virtual host that matches the authority.
    pub domain: Option<String>,
    /// The first routes that did not match. There may be more ([`passed_total`](Self::passed_total)).
    pub passed: Vec<PassedRoute>,
    /// The number of routes before the one that matched.
    pub passed_total: usize,
    /// The route that matched.
    pub route: Option<ExplainedRoute>,
    /// The cluster of the route; of weighted clusters the one that the dice of this explanation have chosen.
    pub cluster: Option<ExplainedCluster>,
    /// The time that the route and the headers allow.
    pub timeout: Option<Duration>,
    /// The cluster with all below it, if it is known. Its root is an order of clusters, which has one if the
    /// cluster is no aggregate.
    pub balancing: Option<Description>,
    /// The end of the way.
    pub outcome: Outcome,
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
pub enum Outcome {
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
    /// The address.
    pub address: SocketAddr,
}

/// The choice for a call in its cluster, as far as somebody can know it who does not call.
enum Choice {
    To(Picked),
    /// A call would have this connected first.
    Connects(Wake),
    /// Connections are being made.
    Connecting,
    Fails(Failure, bool),
}

/// Explains a call. It waits up to `limit` for a configuration and for connections that are being made.
pub(super) async fn explain(
    shared: &Shared,
    method: &str,
    headers: &HeaderMap,
    limit: Duration,
) -> CallExplanation {
    // A time beyond what the clock can say is no limit.
    let end = Instant::now().checked_add(limit).unwrap_or_else(|| Instant::now() + FAR);
    let path = format!("/{}", method.strip_prefix('/').unwrap_or(method));
    let nothing = CallExplanation::of(&shared.authority, &path);
    let Ok(Ok(_permit)) = timeout_at(end, shared.explanations.acquire()).await else {
        return nothing.waiting("a turn: many explanations are being made at this time");
    };
    let Ok(found) = timeout_at(end, configured(shared)).await else {
        return nothing.waiting("the configuration, which the control plane has not sent");
    };
    let (mut explanation, cluster, hash) = match found {
        Ok(published) => match &*published {
            Published::Config(config) => routed(shared, config, nothing, headers),
            Published::Failed(failure) => (nothing.failing(failure, true), None, None),
            Published::Waiting => (nothing.waiting("the configuration"), None, None),
        },
        Err(failure) => (nothing.failing(&failure, false), None, None),
    };
    let Some(cluster) = cluster else { return explanation };
    let chosen = timeout_at(end, settled(&cluster, &explanation.path, headers, hash)).await;
    let answered = timeout_at(end.max(Instant::now() + ANSWER), cluster.describe()).await;
    explanation.balancing = answered.ok().and_then(Result::ok);
    explanation.outcome =
        outcome(&cluster, explanation.balancing.as_ref(), chosen.unwrap_or(Choice::Connecting));
    explanation
}

/// Waits until there is a configuration, or the reason why there is none.
async fn configured(shared: &Shared) -> Result<Arc<Published>, Failure> {
    let mut changes = shared.changes();
    loop {
        let published = Arc::clone(&shared.published());
        if !matches!(*published, Published::Waiting) {
            return Ok(published);
        }
        let closed = |_| Failure::new(Code::Cancelled, "the channel is closed");
        changes.changed().await.map_err(closed)?;
    }
}

/// Adds what routes say, and returns the cluster and the hash of the call.
fn routed(
    shared: &Shared,
    config: &ChannelConfig,
    mut to: CallExplanation,
    headers: &HeaderMap,
) -> (CallExplanation, Option<Arc<ClusterHandle>>, Option<u64>) {
    let path = to.path.clone();
    let call = routing::Call {
        authority: &shared.authority,
        path: &path,
        headers,
        channel_id: shared.channel_id,
    };
    let explained = config.routes.explain(&call, &mut ThreadDice);
    to.take(&explained);
    let decision = match explained.decision() {
        Ok(decision) => decision,
        Err(failure) => return (to.failing(failure, false), None, None),
    };
    to.timeout = decision.timeout(deadline::stated(headers), config.max_stream_duration);
    to.cluster = Some(ExplainedCluster::of(decision));
    let name = decision.target.name();
    match config.clusters.get(name) {
        Some(cluster) => (to, Some(Arc::clone(cluster)), Some(decision.hash.value)),
        None => {
            let why = format!("a route leads to `{}`, which is no cluster", quoted(name));
            (to.failing(&Failure::unavailable(why), false), None, None)
        }
    }
}

/// Waits until the picker has an answer, or would have something connected first.
async fn settled(
    cluster: &ClusterHandle,
    path: &str,
    headers: &HeaderMap,
    hash: Option<u64>,
) -> Choice {
    let mut changes = cluster.changes();
    loop {
        if let Some(choice) = preview(cluster, path, headers, hash) {
            return choice;
        }
        if changes.changed().await.is_err() {
            return Choice::Fails(Failure::new(Code::Cancelled, "the cluster is gone"), false);
        }
    }
}

/// Asks the picker once. `None` means that connections are being made.
fn preview(
    cluster: &ClusterHandle,
    path: &str,
    metadata: &HeaderMap,
    hash: Option<u64>,
) -> Option<Choice> {
    let state = cluster.state();
    if state.is_closed {
        return Some(Choice::Fails(Failure::unavailable("the channel is closed"), false));
    }
    let mut dice = ThreadDice;
    let mut args = PickArgs { path, metadata, hash, dice: &mut dice, wake: None, permit: None };
    let waits_if_told = state.connectivity != Connectivity::Ready;
    match state.picker.as_ref()?.preview(&mut args) {
        Pick::To(picked) => Some(Choice::To(picked)),
        Pick::Queue => args.wake.map(Choice::Connects),
        Pick::Fail(failure) => Some(Choice::Fails(failure, waits_if_told)),
        Pick::Drop(failure) => Some(Choice::Fails(failure, false)),
    }
}

fn outcome(cluster: &ClusterHandle, tree: Option<&Description>, choice: Choice) -> Outcome {
    match choice {
        Choice::To(picked) => {
            let way = tree.and_then(|tree| tree.way_to(&picked.endpoint)).unwrap_or_default();
            let priorities = way.iter().filter(|child| !is_cluster(child.description.as_ref()));
            let priority = priorities.clone().find_map(|child| match child.name {
                ChildName::Priority { place, .. } => Some(place),
                _ => None,
            });
            Outcome::Sent(ExplainedPlace {
                cluster: picked.cluster.as_deref().unwrap_or(&cluster.name).to_owned(),
                priority,
                locality: Arc::clone(&picked.endpoint.locality),
                address: picked.address,
            })
        }
        Choice::Connects(Wake::Endpoint(id)) => {
            let endpoint = tree.and_then(|tree| tree.endpoint(id)).map(|it| &it.endpoint);
            Outcome::Waits(match endpoint.and_then(|it: &Arc<Endpoint>| it.addresses.first()) {
                Some(address) => {
                    format!("a connection to {address}, which is made when a call needs it")
                }
                None => "a connection, which is made when a call needs it".to_owned(),
            })
        }
        Choice::Connects(Wake::All) => {
            Outcome::Waits("a connection, which is made when a call needs it".to_owned())
        }
        Choice::Connecting => Outcome::Waits("connections, which are being made".to_owned()),
        Choice::Fails(failure, waits_if_told) => failed(&failure, waits_if_told),
    }
}

fn is_cluster(description: Option<&Description>) -> bool {
    description.is_some_and(|it| matches!(it.part, TreePart::Cluster { .. }))
}

fn failed(failure: &Failure, waits_if_told: bool) -> Outcome {
    let status = super::call::status(failure.clone());
    Outcome::Fails { code: status.code(), message: status.message().to_owned(), waits_if_told }
}

impl CallExplanation {
    /// Explains a call of which nothing is known yet.
    fn of(authority: &str, path: &str) -> Self {
        Self {
            authority: authority.to_owned(),
            path: path.to_owned(),
            virtual_host: None,
            domain: None,
            passed: Vec::new(),
            passed_total: 0,
            route: None,
            cluster: None,
            timeout: None,
            balancing: None,
            outcome: Outcome::Waits(String::new()),
            routing: format!("call of `{}` at `{}`", quoted(path), quoted(authority)),
        }
    }

    fn waiting(self, what: &str) -> Self {
        Self { outcome: Outcome::Waits(what.to_owned()), ..self }
    }

    fn failing(self, failure: &Failure, waits_if_told: bool) -> Self {
        Self { outcome: failed(failure, waits_if_told), ..self }
    }

    /// Takes what the routes say.
    fn take(&mut self, explained: &Explanation<'_>) {
        self.routing = explained.to_string();
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

impl ExplainedCluster {
    fn of(decision: &Decision<'_>) -> Self {
        let share = match decision.target {
            ChosenTarget::Weighted { cluster, total, .. } => Some((cluster.weight, total)),
            ChosenTarget::Cluster(_) | ChosenTarget::Plugin(_) => None,
        };
        Self { name: decision.target.name().to_string(), share }
    }
}

impl Display for CallExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.routing)?;
        if let Some(root) = &self.balancing {
            // An order of one cluster says nothing that the cluster does not say.
            match root.children.as_slice() {
                [only] if is_cluster(only.description.as_ref()) => {
                    only.description.iter().try_for_each(|it| writeln!(f, "{it}"))?;
                }
                _ => writeln!(f, "clusters {root}")?,
            }
        }
        write!(f, "{}", self.outcome)
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(ExplainedPlace { cluster, priority, locality, address }) => {
                write!(f, "the next call goes to {address}, in cluster `{}`", quoted(cluster))?;
                if let Some(priority) = priority {
                    write!(f, ", priority {priority}")?;
                }
                write!(f, ", locality {locality}")
            }
            Self::Waits(what) => write!(f, "a call waits for {what}"),
            Self::Fails { code, message, waits_if_told } => {
                let message = Printable(cut(message, MAX_MESSAGE_BYTES));
                write!(f, "a call fails with {code:?}: {message}")?;
                if *waits_if_told {
                    f.write_str("; one that waits for ready waits")?;
                }
                Ok(())
            }
        }
    }
}

/// A text of somebody else, for a line.
fn quoted(text: &str) -> impl Display + use<'_> {
    Printable(cut(text, MAX_NAME_BYTES))
}

/// The time for the driver to describe a cluster, beyond the limit of an explanation.
const ANSWER: Duration = Duration::from_secs(1);
/// A time that nobody waits.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);
