//! The walk on the way of a call for those who ask about it. It is the way of `call`, with the same waits; but
//! nothing is sent, and nothing is connected. Not here: the explanation that comes of it (`explanation`).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{
    ChildName, Connectivity, Description, Pick, PickArgs, Picked, Wake,
};
use chancery_calls::routing;
use chancery_calls::{Code, Failure};
use http::HeaderMap;
use tokio::time::{Instant, timeout_at};

use super::explanation::{
    CallExplanation, ExplainedCluster, ExplainedFilter, ExplainedOutcome, ExplainedPlace,
    is_cluster, quoted,
};
use super::filters;
use super::published::{ChannelConfig, ClusterHandle, Published};
use super::sessions::CallSession;
use super::shared::Shared;
use super::{awaited, deadline};
use crate::dice::ThreadDice;

/// The choice for a call in its cluster, as far as somebody can know it who does not call.
enum Choice {
    /// Load balancing has chosen this, or a session if that is true.
    To(Picked, bool),
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
        return nothing.waiting(&awaited::configuration(&shared.published()));
    };
    let (mut explanation, routed) = match found {
        Ok(published) => match &*published {
            Published::Config(config) => routed(shared, config, nothing, headers),
            Published::Failed(failure) => (nothing.failing(failure, true), None),
            Published::Waiting { .. } => {
                (nothing.waiting(&awaited::configuration(&published)), None)
            }
        },
        Err(failure) => (nothing.failing(&failure, false), None),
    };
    let chosen = match &routed {
        Some(routed) => timeout_at(end, settled(routed, &explanation.path, headers)).await.ok(),
        None => None,
    };
    let question = shared.ask(routed.as_ref().map(|routed| routed.cluster.id));
    let answered = timeout_at(end.max(Instant::now() + ANSWER), question).await;
    let answer = answered.ok().and_then(Result::ok).unwrap_or_default();
    explanation.outdated = answer.outdated.iter().map(|error| error.text.to_string()).collect();
    explanation.balancing = answer.balancing;
    explanation.left_out = answer.left_out;
    if let Some(Routed { cluster, .. }) = &routed {
        explanation.outcome =
            outcome(cluster, explanation.balancing.as_ref(), chosen.unwrap_or(Choice::Connecting));
    }
    explanation
}

/// Waits until there is a configuration, or the reason why there is none.
async fn configured(shared: &Shared) -> Result<Arc<Published>, Failure> {
    let mut changes = shared.changes();
    loop {
        let published = Arc::clone(&shared.published());
        if !matches!(*published, Published::Waiting { .. }) {
            return Ok(published);
        }
        let closed = |_| Failure::new(Code::Cancelled, "the channel is closed");
        changes.changed().await.map_err(closed)?;
    }
}

/// The way of a call by the routes and by its session.
struct Routed {
    cluster: Arc<ClusterHandle>,
    hash: u64,
    session: Option<CallSession>,
}

/// Adds what routes and filters say, and returns the way of the call.
fn routed(
    shared: &Shared,
    config: &ChannelConfig,
    mut to: CallExplanation,
    headers: &HeaderMap,
) -> (CallExplanation, Option<Routed>) {
    let path = to.path.clone();
    let call = routing::Call {
        authority: &shared.authority,
        path: &path,
        headers,
        channel_id: shared.channel_id,
    };
    let mut explained = config.routes.explain(&call, &mut ThreadDice);
    if !config.is_direct {
        to.take(&explained);
    }
    let decision = match explained.decision() {
        Ok(decision) => *decision,
        Err(failure) => return (to.failing(failure, false), None),
    };
    to.cluster = Some(ExplainedCluster::of(&decision));
    to.timeout = decision.timeout(deadline::stated(headers), config.max_stream_duration);
    let chain = match config.filters.with(&decision.overrides()) {
        Ok(chain) => chain,
        Err(why) => return (to.failing(&Failure::unavailable(why.to_string()), false), None),
    };
    to.filters = ExplainedFilter::all(&chain, &path, headers);
    if let Some(failure) = filters::certain_end(&chain) {
        return (to.failing(&failure, false), None);
    }
    let session = CallSession::after(&chain, &path, headers);
    let of_session = session.as_ref().and_then(|session| decision.redirected(session.cluster()?));
    if let Some(decision) = of_session {
        explained = explained.led_to(decision);
        to.take(&explained);
        to.cluster = Some(ExplainedCluster::of(&decision));
    }
    let decision = of_session.unwrap_or(decision);
    let name = decision.target.name();
    match config.clusters.get(name) {
        Some(cluster) => {
            let (cluster, hash) = (Arc::clone(cluster), decision.hash.value);
            (to, Some(Routed { cluster, hash, session }))
        }
        None => {
            let why = format!("a route leads to `{}`, which is no cluster", quoted(name));
            (to.failing(&Failure::unavailable(why), false), None)
        }
    }
}

/// Waits until the picker has an answer, or would have something connected first.
async fn settled(routed: &Routed, path: &str, headers: &HeaderMap) -> Choice {
    let mut changes = routed.cluster.changes();
    loop {
        if let Some(choice) = preview(routed, path, headers) {
            return choice;
        }
        if changes.changed().await.is_err() {
            return Choice::Fails(Failure::new(Code::Cancelled, "the cluster is gone"), false);
        }
    }
}

/// Asks the picker once. `None` means that connections are being made.
fn preview(routed: &Routed, path: &str, metadata: &HeaderMap) -> Option<Choice> {
    let state = routed.cluster.state();
    if state.is_closed {
        return Some(Choice::Fails(Failure::unavailable("the channel is closed"), false));
    }
    let mut dice = ThreadDice;
    let mut args = PickArgs {
        path,
        metadata,
        hash: Some(routed.hash),
        session: routed.session.as_ref().map(CallSession::addresses),
        dice: &mut dice,
        wake: None,
        permit: None,
        by_session: false,
    };
    let waits_if_told = state.connectivity != Connectivity::Ready;
    match state.picker.as_ref()?.preview(&mut args) {
        Pick::To(picked) => Some(Choice::To(picked, args.by_session)),
        Pick::Queue => args.wake.map(Choice::Connects),
        Pick::Fail(failure) => Some(Choice::Fails(failure, waits_if_told)),
        Pick::Drop(failure) => Some(Choice::Fails(failure, false)),
    }
}

fn outcome(
    cluster: &ClusterHandle,
    tree: Option<&Description>,
    choice: Choice,
) -> ExplainedOutcome {
    match choice {
        Choice::To(picked, by_session) => {
            let way = tree.and_then(|tree| tree.way_to(&picked.endpoint)).unwrap_or_default();
            let priorities = way.iter().filter(|child| !is_cluster(child.description.as_ref()));
            let priority = priorities.clone().find_map(|child| match child.name {
                ChildName::Priority { place, .. } => Some(place),
                _ => None,
            });
            ExplainedOutcome::Sent(ExplainedPlace {
                cluster: picked.cluster.as_deref().unwrap_or(&cluster.name).to_owned(),
                priority,
                locality: Arc::clone(&picked.endpoint.locality),
                endpoint: picked.endpoint.shown(picked.address),
                address: picked.address,
                by_session,
            })
        }
        Choice::Connects(Wake::Endpoint(id)) => {
            let endpoint = tree.and_then(|tree| tree.endpoint(id)).map(|it| &it.endpoint);
            ExplainedOutcome::Waits(
                match endpoint.and_then(|it| it.addresses.first().map(|at| it.shown(*at))) {
                    Some(address) => {
                        format!("a connection to {address}, which is made when a call needs it")
                    }
                    None => "a connection, which is made when a call needs it".to_owned(),
                },
            )
        }
        Choice::Connects(Wake::Session(address)) => ExplainedOutcome::Waits(format!(
            "a connection to {address}, the endpoint of its session, which is made when a call needs it"
        )),
        Choice::Connects(Wake::All) => {
            ExplainedOutcome::Waits("a connection, which is made when a call needs it".to_owned())
        }
        Choice::Connecting => {
            ExplainedOutcome::Waits("connections, which are being made".to_owned())
        }
        Choice::Fails(failure, waits_if_told) => ExplainedOutcome::of(&failure, waits_if_told),
    }
}

/// The time for the driver to answer, beyond the limit of an explanation.
const ANSWER: Duration = Duration::from_secs(1);
/// A time that nobody waits.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);
