//! The way of one call that has arrived: its authority, its route, its filters, and the program (C-144, C-129).

use bytes::Bytes;
use chancery_calls::filters::FilterConfig;
use chancery_calls::filters::rbac::ArrivedCall;
use chancery_calls::routing::Call;
use chancery_calls::{Code, Failure};
use http::header::HOST;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use super::serving::{ChainRoutes, ServingChain};
use super::{BoxError, ConnectionInfo, told};
use crate::channel::deadline;
use crate::dice::ThreadDice;
use crate::extend::{CallSide, FilteredCall, ProgramFilter};

/// Answers a call: by the program, if it is let through to it.
pub(super) async fn answer<S, B>(
    chain: &ServingChain,
    info: ConnectionInfo,
    service: S,
    request: Request<Incoming>,
) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (mut head, body) = request.into_parts();
    let admitted = authority(&mut head)
        .and_then(|authority| Ok((admit(chain, &info, &authority, &head, 0)?, authority)))
        .map_err(|failure| status(&failure));
    let admitted = match admitted {
        Ok((Some(next), authority)) => filtered(chain, &info, &authority, &mut head, next).await,
        other => other.map(drop),
    };
    if let Err(status) = admitted {
        return status.into_http();
    }
    let allowed = deadline::stated(&head.headers);
    head.extensions.insert(info);
    let serving = serve(service, Request::from_parts(head, Body::new(body)));
    let answer = match allowed {
        Some(allowed) => timeout(allowed, serving)
            .await
            .unwrap_or_else(|_| Err(Status::deadline_exceeded("the deadline of the call is over"))),
        None => serving.await,
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

/// A filter of the program that a call passes next, and its place among the filters of the call.
struct NextFilter {
    place: usize,
    filter: ProgramFilter,
}

/// Lets the filters of the program see a call, and the others after each of them.
async fn filtered(
    chain: &ServingChain,
    info: &ConnectionInfo,
    authority: &str,
    head: &mut Parts,
    first: NextFilter,
) -> Result<(), Status> {
    let mut next = Some(first);
    while let Some(NextFilter { place, filter }) = next {
        let (path, headers) = (head.uri.path(), &mut head.headers);
        filter.before(FilteredCall { side: CallSide::Server, path, headers }).await?;
        next =
            admit(chain, info, authority, head, place + 1).map_err(|failure| status(&failure))?;
    }
    Ok(())
}

/// Lets a call through, by its route and the filters of that from this place on, up to one of the program.
fn admit(
    chain: &ServingChain,
    info: &ConnectionInfo,
    authority: &str,
    head: &Parts,
    from: usize,
) -> Result<Option<NextFilter>, Failure> {
    let routes = chain.routes();
    let (routes, merged) = match &**routes {
        ChainRoutes::Usable { routes, merged } => (routes, merged),
        ChainRoutes::Failed(failure) => return Err(failure.clone()),
    };
    let (path, headers) = (head.uri.path(), &head.headers);
    let call = Call { authority, path, headers, channel_id: 0 };
    let place = routes.find(&call, &mut ThreadDice)?;
    let arrived = ArrivedCall {
        method: head.method.as_str(),
        authority,
        path,
        headers,
        local: info.local_address(),
        peer: info.peer_address(),
        identity: info.peer().identity(),
    };
    let filters = chain.filters(&place, routes, merged)?.iter().enumerate().skip(from);
    for (place, filter) in filters {
        if let Some(program) = filter.config.custom::<ProgramFilter>() {
            return Ok(Some(NextFilter { place, filter: program.clone() }));
        }
        match &filter.config {
            FilterConfig::Rbac(rbac) => permitted(rbac.check(&arrived).failure())?,
            FilterConfig::Router | FilterConfig::Disabled => {}
            // The reader lets no other filter into the listener of a server. A call never goes past one.
            _ => return Err(Failure::unavailable("a filter of the call is not one of servers")),
        }
    }
    place.serve().map(|()| None)
}

fn permitted(refusal: Option<Failure>) -> Result<(), Failure> {
    refusal.map_or(Ok(()), Err)
}

fn status(failure: &Failure) -> Status {
    Status::new(tonic::Code::from_i32(failure.code as i32), &*failure.message)
}
