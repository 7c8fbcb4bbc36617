//! The way of one call that has arrived: its authority, its route, its filters, and the program (C-144, C-129).

use std::collections::BTreeSet;

use bytes::Bytes;
use chancery_calls::filters::FilterConfig;
use chancery_calls::filters::rbac::ArrivedCall;
use chancery_calls::routing::Call;
use chancery_calls::{Code, Failure};
use http::header::HOST;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use super::bounded::{self, BoundedBody};
use super::serving::{ChainRoutes, ServingChain};
use super::{BoxError, ConnectionInfo, told};
use crate::channel::deadline;
use crate::codes::status;
use crate::dice::ThreadDice;
use crate::extend::{CallSide, FilteredCall, ProgramFilter};
use crate::metrics::ServerMeter;

/// Answers a call: by the program, if it is let through to it.
pub(super) async fn answer<S, B>(
    chain: &ServingChain,
    info: ConnectionInfo,
    service: S,
    request: Request<Incoming>,
    methods: &BTreeSet<String>,
) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    match ServerMeter::begin(request.uri().path(), methods) {
        None => answer_by(chain, info, service, request.map(Body::new)).await,
        Some(meter) => {
            let request = request.map(|body| Body::new(meter.request(body)));
            let response = Box::pin(answer_by(chain, info, service, request)).await;
            meter.answer(response).map(Body::new)
        }
    }
}

async fn answer_by<S, B>(
    chain: &ServingChain,
    info: ConnectionInfo,
    service: S,
    request: Request<Body>,
) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut head, body) = request.into_parts();
    let allowed = deadline::stated(&head.headers);
    let answering = async {
        admit(chain, &info, &mut head).await?;
        head.extensions.insert(info);
        serve(service, Request::from_parts(head, body)).await
    };
    // A time beyond what the clock can say is no deadline.
    let answer = match allowed.and_then(|allowed| Instant::now().checked_add(allowed)) {
        Some(deadline) => match timeout_at(deadline, answering).await {
            Ok(answer) => {
                answer.map(|it| it.map(|body| Body::new(BoundedBody::new(body, deadline))))
            }
            Err(_) => Err(bounded::exceeded("an answer")),
        },
        None => answering.await,
    };
    answer.unwrap_or_else(Status::into_http)
}

/// Lets the program answer.
async fn serve<S, B>(mut service: S, request: Request<Body>) -> Result<Response<Body>, Status>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    std::future::poll_fn(|cx| service.poll_ready(cx)).await.map_err(failed)?;
    Ok(service.call(request).await.map_err(failed)?.map(Body::new))
}

/// Returns the status of a call that the program could not answer.
fn failed(error: impl Into<BoxError>) -> Status {
    Status::internal(told(&error.into()))
}

/// Returns the authority of a call. `host` stands for it where it is missing, and says nothing otherwise
/// (gRFC A41).
fn authority(head: &mut Parts) -> Result<String, Failure> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, other) = (hosts.next().cloned(), hosts.next());
    if other.is_some() {
        return Err(Failure::new(Code::Internal, "the call has several `host` headers"));
    }
    head.headers.remove(HOST);
    if let Some(authority) = head.uri.authority() {
        return Ok(authority.as_str().to_owned());
    }
    let host = host.as_ref().and_then(|host| host.to_str().ok());
    let host = host.ok_or_else(|| Failure::new(Code::Internal, "the call has no authority"));
    Ok(host?.to_owned())
}

/// Lets a call through, by its route and the filters of that. The call is routed once: a filter that changes headers
/// does not lead it elsewhere, past filters that have not seen it.
async fn admit(
    chain: &ServingChain,
    info: &ConnectionInfo,
    head: &mut Parts,
) -> Result<(), Status> {
    let authority = authority(head).map_err(|failure| status(&failure))?;
    let routes = chain.routes();
    let (routes, merged) = match &*routes {
        ChainRoutes::Usable { routes, merged } => (routes, merged),
        ChainRoutes::Failed(failure) => return Err(status(failure)),
    };
    let call = Call {
        authority: &authority,
        path: head.uri.path(),
        headers: &head.headers,
        channel_id: 0,
    };
    let place = routes.find(&call, &mut ThreadDice).map_err(|failure| status(&failure))?;
    let filters = chain.filters(&place, routes, merged).map_err(|failure| status(&failure))?;
    for filter in filters {
        match &filter.config {
            FilterConfig::Rbac(rbac) => {
                let verdict = rbac.judge(&filter.name, &arrived(head, &authority, info));
                let refusal = verdict.failure();
                refusal.map_or(Ok(()), |failure| Err(status(&failure)))?;
            }
            FilterConfig::Router | FilterConfig::Disabled => {}
            config => match config.custom::<ProgramFilter>() {
                Some(program) => {
                    let call = FilteredCall {
                        side: CallSide::Server,
                        authority: &authority,
                        path: head.uri.path(),
                        headers: &mut head.headers,
                        connection: Some(info),
                    };
                    program.before(call).await?;
                }
                // The reader lets no other filter into the listener of a server. A call never goes past one.
                None => {
                    return Err(Status::unavailable("a filter of the call is not one of servers"));
                }
            },
        }
    }
    place.serve().map_err(|failure| status(&failure))
}

/// Returns a call as RBAC judges it.
fn arrived<'a>(head: &'a Parts, authority: &'a str, info: &'a ConnectionInfo) -> ArrivedCall<'a> {
    ArrivedCall {
        method: head.method.as_str(),
        authority,
        path: head.uri.path(),
        headers: &head.headers,
        local: info.local_address(),
        peer: info.peer_address(),
        identity: info.peer().identity(),
    }
}
