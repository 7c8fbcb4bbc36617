//! The way of one call: it waits for a configuration, is given a cluster, passes the filters, and is sent.
//!
//! Not here: its attempts (`attempts`).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::filters::FilterChain;
use chancery_calls::retrying::RetryPolicy;
use chancery_calls::{Code, Failure, routing};
use http::header::{HeaderValue, USER_AGENT};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use tokio::time::{Instant, timeout_at};
use tonic::Status;
use tonic::body::Body;

use super::attempts::Attempts;
use super::body::{ResponseBody, exceeded};
use super::published::{ClusterHandle, Published};
use super::replay::Replay;
use super::shared::Shared;
use super::{deadline, filters};
use crate::dice::ThreadDice;

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
    filters: FilterChain,
    /// The time that the routes allow, from the beginning of the call.
    allowed: Option<Duration>,
}

/// Makes a call.
pub(super) async fn call(
    shared: Arc<Shared>,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, Status> {
    let began = Instant::now();
    let (mut head, messages) = request.into_parts();
    let stated = deadline::stated(&head.headers);
    let waits = head.extensions.get::<WaitForReady>().is_some();
    let way = within(began, stated, way(&shared, &head, stated, waits)).await??;
    set_target(&mut head, &shared.authority)?;
    let end = way.allowed.and_then(|allowed| began.checked_add(allowed));
    let sending = async {
        if let Some(answer) = filters::pass(&way.filters, &head.headers).await {
            return answer;
        }
        Attempts { way, head, messages: Replay::new(messages), waits, end }.run().await
    };
    within_end(end, sending).await?
}

/// Lets something take the time that is left of a call.
async fn within<T>(
    began: Instant,
    allowed: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, Status> {
    within_end(allowed.and_then(|allowed| began.checked_add(allowed)), work).await
}

/// Lets something take the time until the end of a call, if it has one.
async fn within_end<T>(end: Option<Instant>, work: impl Future<Output = T>) -> Result<T, Status> {
    match end {
        Some(end) => timeout_at(end, work).await.map_err(|_| exceeded()),
        None => Ok(work.await),
    }
}

/// Waits for a configuration, and asks it for the way of the call (C-099, C-103).
async fn way(
    shared: &Shared,
    head: &Parts,
    stated: Option<Duration>,
    waits: bool,
) -> Result<Way, Status> {
    let mut changes = shared.changes();
    loop {
        match &**shared.published() {
            Published::Config(config) => {
                let call = routing::Call {
                    authority: &shared.authority,
                    path: head.uri.path(),
                    headers: &head.headers,
                    channel_id: shared.channel_id,
                };
                let decision = config.routes.decide(&call, &mut ThreadDice).map_err(status)?;
                let name = decision.target.name();
                let cluster = config.clusters.get(name).cloned().ok_or_else(|| {
                    Status::unavailable(format!("a route leads to `{name}`, which is no cluster"))
                })?;
                let allowed = decision.timeout(stated, config.max_stream_duration);
                let filters = config.filters.with(&decision.overrides());
                let filters = filters.map_err(|why| Status::unavailable(why.to_string()))?;
                let (hash, retry) = (Some(decision.hash.value), decision.retry().cloned());
                let rewrites_authority =
                    decision.action.rewrites_authority && config.trusts_authorities;
                return Ok(Way { cluster, hash, retry, rewrites_authority, filters, allowed });
            }
            Published::Failed(failure) if !waits => return Err(status(failure.clone())),
            Published::Failed(_) | Published::Waiting => {}
        }
        // A driver that ends publishes that: the sender lives as long as this call.
        changes.changed().await.map_err(|_| Status::cancelled("the channel is closed"))?;
    }
}

/// Addresses a request to the service, whatever the client that made it has put there.
pub(super) fn set_target(head: &mut Parts, authority: &str) -> Result<(), Status> {
    let path = head.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let uri = Uri::builder().scheme(Scheme::HTTP).authority(authority).path_and_query(path);
    head.uri = uri.build().map_err(|error| Status::internal(error.to_string()))?;
    head.version = http::Version::HTTP_2;
    head.headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    Ok(())
}

/// The name of this channel, for servers.
const AGENT: &str = concat!("chancery-grpc/", env!("CARGO_PKG_VERSION"));

/// The code of a call that has failed, as decisions take it.
pub(super) fn code(of: tonic::Code) -> Code {
    u32::try_from(of as i32).ok().and_then(Code::from_number).unwrap_or(Code::Unknown)
}

pub(super) fn status(failure: Failure) -> Status {
    Status::new(tonic::Code::from_i32(failure.code as i32), &*failure.message)
}
