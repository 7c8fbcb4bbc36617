//! The way of one call: it waits for a configuration, is given a cluster, waits for an endpoint, and is
//! sent. A call that no server has seen is sent again elsewhere (gRFC A6).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{Connectivity, Permit, Pick, PickArgs, Picked};
use chancery_calls::routing;
use chancery_calls::{Code, Failure};
use http::header::{HeaderValue, USER_AGENT};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Status;
use tonic::body::Body;

use super::body::{ResponseBody, Sent, exceeded, lost};
use super::deadline;
use super::place::CallPlace;
use super::published::{ClusterHandle, Published};
use super::shared::Shared;
use crate::connect::Sender;
use crate::dice::ThreadDice;

/// Marks a call that waits while connections fail, and fails only at its deadline. It is an extension
/// of the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitForReady;

/// The way of a call, by the routes.
struct Way {
    cluster: Arc<ClusterHandle>,
    hash: Option<u64>,
    /// The time that the routes allow, from the beginning of the call.
    allowed: Option<Duration>,
}

/// Makes a call.
pub(super) async fn call(
    shared: Arc<Shared>,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, Status> {
    let began = Instant::now();
    let (mut head, body) = request.into_parts();
    let stated = deadline::stated(&head.headers);
    let waits = head.extensions.get::<WaitForReady>().is_some();
    let way = within(began, stated, way(&shared, &head, stated, waits)).await??;
    set_target(&mut head, &shared.authority)?;
    let end = way.allowed.and_then(|allowed| began.checked_add(allowed));
    let sending = send(way, Request::from_parts(head, body), waits, end);
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
                let hash = Some(decision.hash.value);
                return Ok(Way { cluster, hash, allowed });
            }
            Published::Failed(failure) if !waits => return Err(status(failure.clone())),
            Published::Failed(_) | Published::Waiting => {}
        }
        // A driver that ends publishes that: the sender lives as long as this call.
        changes.changed().await.map_err(|_| Status::cancelled("the channel is closed"))?;
    }
}

/// Waits for an endpoint and sends the call there, until some server has seen it.
async fn send(
    Way { cluster, hash, .. }: Way,
    request: Request<Body>,
    waits: bool,
    end: Option<Instant>,
) -> Result<Response<ResponseBody>, Status> {
    let (mut head, mut body) = request.into_parts();
    let mut attempts = 0_u32;
    loop {
        let (picked, permit, mut sender) = endpoint(&cluster, &head, hash, waits).await?;
        if let Some(end) = end {
            deadline::state(&mut head.headers, end.saturating_duration_since(Instant::now()));
        }
        attempts = attempts.saturating_add(1);
        let place = CallPlace::new(&cluster.name, &picked, attempts);
        let mut sent = Sent::new(picked, permit, Arc::clone(&cluster));
        match sender.try_send_request(Request::from_parts(head, body)).await {
            Ok(mut response) => {
                response.extensions_mut().insert(place);
                sent.hear(response.headers());
                let deadline = end.map(|end| Box::pin(sleep_until(end)));
                return Ok(response.map(|inner| ResponseBody::new(inner, deadline, sent)));
            }
            Err(mut error) => match error.take_message() {
                // The connection took no more calls, and the driver will hear of it.
                Some(unsent) => (head, body) = unsent.into_parts(),
                None => return Err(lost(&error.into_error())),
            },
        }
    }
}

/// Waits until the picker of the cluster chooses an endpoint that is connected.
async fn endpoint(
    cluster: &ClusterHandle,
    head: &Parts,
    hash: Option<u64>,
    waits: bool,
) -> Result<(Picked, Option<Permit>, Sender), Status> {
    let mut changes = cluster.changes();
    loop {
        if let Some(found) = pick(cluster, head, hash, waits)? {
            return Ok(found);
        }
        changes.changed().await.map_err(|_| Status::cancelled("the cluster is gone"))?;
    }
}

/// Asks the picker once. `None` means that the call waits for another one.
fn pick(
    cluster: &ClusterHandle,
    head: &Parts,
    hash: Option<u64>,
    waits: bool,
) -> Result<Option<(Picked, Option<Permit>, Sender)>, Status> {
    let state = cluster.state();
    if state.is_closed {
        return Err(Status::unavailable("the channel is closed"));
    }
    let Some(picker) = &state.picker else { return Ok(None) };
    let mut dice = ThreadDice;
    let mut args = PickArgs {
        path: head.uri.path(),
        metadata: &head.headers,
        hash,
        dice: &mut dice,
        wake: None,
        permit: None,
    };
    let pick = picker.pick(&mut args);
    let (wake, permit) = (args.wake, args.permit);
    if let Some(wake) = wake {
        cluster.wake(wake);
    }
    match pick {
        // A connection that was lost a moment ago has no sender, and another picker comes.
        Pick::To(picked) => match state.sender(picked.subchannel) {
            Some(sender) if !sender.is_closed() => Ok(Some((picked, permit, sender))),
            _ => Ok(None),
        },
        Pick::Queue => Ok(None),
        Pick::Fail(_) if waits && state.connectivity != Connectivity::Ready => Ok(None),
        Pick::Fail(failure) | Pick::Drop(failure) => Err(status(failure)),
    }
}

/// Addresses a request to the service, whatever the client that made it has put there.
fn set_target(head: &mut Parts, authority: &str) -> Result<(), Status> {
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

pub(super) fn status(failure: Failure) -> Status {
    let code = match failure.code {
        Code::Unavailable => tonic::Code::Unavailable,
        other => tonic::Code::from_i32(other as i32),
    };
    Status::new(code, &*failure.message)
}
