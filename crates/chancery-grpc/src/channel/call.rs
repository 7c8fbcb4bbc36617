//! The way of one call: it waits for a configuration, is given a cluster, passes the filters, and is sent.
//!
//! Not here: its attempts (`attempts`).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::filters::FilterChain;
use chancery_calls::retrying::RetryPolicy;
use chancery_calls::routing;
use http::header::{HeaderValue, USER_AGENT};
use http::request::Parts;
use http::{Request, Response};
use tokio::time::{Instant, timeout_at};
use tonic::Status;
use tonic::body::Body;

use super::attempts::Attempts;
use super::awaited::{self, exceeded};
use super::body::ResponseBody;
use super::published::{ClusterHandle, Published};
use super::replay::Replay;
use super::sessions::CallSessions;
use super::shared::Shared;
use super::{Handle, deadline, filters};
use crate::codes::status;
use crate::dice::ThreadDice;
use crate::metrics::CallMeter;

/// Marks a call that waits while connections fail, and fails only at its deadline. It is an extension
/// of the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitForReady;

/// The way of a call, by the routes.
pub(super) struct Way {
    pub(super) cluster: Arc<ClusterHandle>,
    pub(super) hash: Option<u64>,
    pub(super) retry: Option<Arc<RetryPolicy>>,
    /// True if the authority becomes the hostname of the endpoint (C-105).
    pub(super) rewrites_authority: bool,
    pub(super) filters: FilterChain,
    /// The sessions of the call, if one of the filters has some.
    pub(super) sessions: Option<Box<CallSessions>>,
    /// The time that the routes allow, from the beginning of the call.
    allowed: Option<Duration>,
}

/// Makes a call, and measures it.
pub(super) async fn measured(
    handle: Arc<Handle>,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, Status> {
    let target = &handle.shared.target;
    let mut meter = CallMeter::begin(request.uri().path(), request.extensions(), target);
    let mut result = Box::pin(call(Arc::clone(&handle), request, meter.as_mut())).await;
    match (&mut result, meter) {
        (Ok(response), Some(meter)) => response.body_mut().measure(meter),
        (Err(status), Some(meter)) => meter.ended(status.code()),
        (_, None) => {}
    }
    result
}

/// Makes a call.
///
/// Its future is what a channel allocates for each call: those that few calls wait for are kept out of it.
pub(super) async fn call(
    handle: Arc<Handle>,
    request: Request<Body>,
    meter: Option<&mut CallMeter>,
) -> Result<Response<ResponseBody>, Status> {
    let shared = &handle.shared;
    let began = Instant::now();
    let (mut head, messages) = request.into_parts();
    let stated = deadline::stated(&head.headers);
    // The extensions are for this channel, and attempts do without a copy of them.
    let waits = std::mem::take(&mut head.extensions).get::<WaitForReady>().is_some();
    let mut way = match ask(shared, &head, stated, waits)? {
        Some(way) => way,
        None => Box::pin(way(shared, &head, began, stated, waits)).await?,
    };
    head.version = http::Version::HTTP_2;
    head.headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    let end = way.allowed.and_then(|allowed| began.checked_add(allowed));
    if way.filters.filters().len() > 1 {
        let passing = Box::pin(filters::pass(&mut way, &shared.authority, &mut head));
        let late = || exceeded("an HTTP filter of its way");
        if let Some(answer) = within(end, passing, late).await? {
            return answer;
        }
    }
    let (messages, authority) = (Replay::new(messages), shared.uri_authority()?);
    let mut attempts = Attempts { way, head, authority, messages, waits, end, meter };
    attempts.run().await
}

/// Lets something take the time until the end of a call, if it has one. It is pinned by the caller, so that the
/// future of a call has it once. If that is over, `late` says what it has waited for.
pub(super) async fn within<T>(
    end: Option<Instant>,
    work: impl Future<Output = T> + Unpin,
    late: impl FnOnce() -> Status,
) -> Result<T, Status> {
    match end {
        Some(end) => timeout_at(end, work).await.map_err(|_| late()),
        None => Ok(work.await),
    }
}

/// Waits for a configuration, and asks it for the way of the call (C-099, C-103).
async fn way(
    shared: &Shared,
    head: &Parts,
    began: Instant,
    stated: Option<Duration>,
    waits: bool,
) -> Result<Way, Status> {
    let end = stated.and_then(|stated| began.checked_add(stated));
    let mut changes = shared.changes();
    loop {
        if let Some(way) = ask(shared, head, stated, waits)? {
            return Ok(way);
        }
        // A driver that ends publishes that: the sender lives as long as this call.
        let late = || exceeded(awaited::configuration(&shared.published()));
        let changed = within(end, pin!(changes.changed()), late).await?;
        changed.map_err(|_| Status::cancelled("the channel is closed"))?;
    }
}

/// Asks the configuration once. `None` means that the call waits for another one.
fn ask(
    shared: &Shared,
    head: &Parts,
    stated: Option<Duration>,
    waits: bool,
) -> Result<Option<Way>, Status> {
    let published = shared.published();
    let config = match &**published {
        Published::Config(config) => config,
        Published::Failed(failure) if !waits => return Err(status(failure)),
        Published::Failed(_) | Published::Waiting { .. } => return Ok(None),
    };
    let call = routing::Call {
        authority: &shared.authority,
        path: head.uri.path(),
        headers: &head.headers,
        channel_id: shared.channel_id,
    };
    let decision =
        config.routes.decide(&call, &mut ThreadDice).map_err(|failure| status(&failure))?;
    let name = decision.target.name();
    let cluster = config.clusters.get(name).cloned().ok_or_else(|| {
        Status::unavailable(format!("a route leads to `{name}`, which is no cluster"))
    })?;
    let filters = config.filters.with(&decision.overrides());
    let filters = filters.map_err(|why| Status::unavailable(why.to_string()))?;
    Ok(Some(Way {
        cluster,
        hash: Some(decision.hash.value),
        retry: decision.retry().cloned(),
        rewrites_authority: decision.action.rewrites_authority && config.trusts_authorities,
        sessions: CallSessions::of(&filters, &published, &decision),
        filters,
        allowed: decision.timeout(stated, config.max_stream_duration),
    }))
}

/// The name of this channel, for servers.
pub(super) const AGENT: &str = concat!("chancery-grpc/", env!("CARGO_PKG_VERSION"));
