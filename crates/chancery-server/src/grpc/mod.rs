//! Discovery streams over gRPC.
//!
//! ```text
//!   request body --> [framing] --> [session]: machine, audience, metrics --> [framing] --> response body
//!                                     ^
//!                                     +-- snapshots of the audience (a watch), deadlines (a timer)
//! ```
//!
//! There is no task and no channel per stream: the response body is polled by the connection when
//! all but one chunk of what it got is on its way, and drives the machine then. What cannot be sent
//! is therefore not made, and a slow client costs nothing but its own time (S-108).

mod account;
mod body;
mod framing;
mod send_permits;
mod session;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use tonic::{Code, Status};

use crate::body::{ActiveRequest, ServerBody};
use crate::policy::{Peer, Refusal};
use crate::request::RequestBody;
use crate::routes::StreamRoute;
use crate::shared::{Shared, StreamPermit};

pub(crate) use body::StreamBody;
pub(crate) use send_permits::SendPermits;
use session::Session;

/// Opens a discovery stream: the answer is its body.
pub(crate) fn open(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    route: &StreamRoute,
    active: ActiveRequest,
    request: Request<RequestBody>,
) -> Response<ServerBody> {
    if active.activity().is_draining() {
        return refuse(&draining());
    }
    let Some(slot) = StreamPermit::take(shared) else {
        let text = format!("the server has its {} streams", shared.config.limits.max_streams);
        return refuse(&Status::resource_exhausted(text));
    };
    let session = Session::open(slot, Arc::clone(peer), route.variant, route.type_url.clone());
    let body = StreamBody::new(request.into_body(), session, Arc::clone(active.activity()));
    let mut response = Response::new(ServerBody::stream(body, active));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
    response
}

/// An answer that is nothing but a status.
pub(crate) fn refuse(status: &Status) -> Response<ServerBody> {
    let mut response = Response::new(ServerBody::default());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    put_status(status, headers);
    response
}

/// Why a stream ends that is only asked to go elsewhere (S-139).
fn draining() -> Status {
    Status::unavailable("draining")
}

/// The end of any stream that is asked to go elsewhere.
pub(crate) fn draining_trailers() -> Frame<Bytes> {
    trailers(&draining())
}

fn trailers(status: &Status) -> Frame<Bytes> {
    let mut headers = http::HeaderMap::new();
    put_status(status, &mut headers);
    Frame::trailers(headers)
}

fn put_status(status: &Status, headers: &mut http::HeaderMap) {
    if status.add_header(headers).is_err() {
        headers.insert("grpc-status", HeaderValue::from(status.code() as i32));
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Unidentified(_) => Code::InvalidArgument,
            Refusal::Denied(_) => Code::PermissionDenied,
            Refusal::Unavailable(_) => Code::Unavailable,
        };
        Self::new(code, refusal.to_string())
    }
}
