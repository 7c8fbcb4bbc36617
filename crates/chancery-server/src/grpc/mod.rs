//! Discovery streams over gRPC.
//!
//! ```text
//!   request body --> [framing] --> [session]: machine, audience, metrics --> [framing] --> response body
//!                                     ^
//!                                     +-- snapshots of the audience (a watch), deadlines (a timer)
//! ```
//!
//! A stream has no task and no channel. The connection polls the body of its response when all of its
//! chunks but one are on their way, and that poll drives the machine. A response that cannot be sent
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

use crate::activity::RequestContext;
use crate::policy::Refusal;
use crate::request::RequestBody;
use crate::routes::StreamRoute;
use crate::shared::{Shared, StreamPermit};

pub(crate) use body::StreamBody;
use send_permits::SendPermits;
use session::Session;

/// Opens discovery streams, and holds the encodings and permits that they share.
pub(crate) struct StreamService {
    shared: Arc<Shared>,
    permits: SendPermits,
}

impl StreamService {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let limits = &shared.config.limits;
        Self { permits: SendPermits::new(limits.max_big_responses), shared: Arc::clone(shared) }
    }

    /// Opens a discovery stream. The response's body is the stream.
    ///
    /// # Errors
    /// With the status for the client, if it cannot be opened now.
    pub(crate) fn open(
        self: &Arc<Self>,
        context: &RequestContext,
        route: &StreamRoute,
        request: Request<RequestBody>,
    ) -> Result<Response<StreamBody>, Status> {
        let permit = self.admit(context)?;
        let (variant, only) = (route.variant, route.type_url.clone());
        let session = Session::open(permit, Arc::clone(&context.peer), variant, only);
        let activity = Arc::clone(&context.activity);
        let body = StreamBody::new(Arc::clone(self), request.into_body(), session, activity);
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
        Ok(response)
    }

    /// Lets one more stream or call in.
    ///
    /// # Errors
    /// With the status for the client, if there are too many or the connection drains.
    pub(crate) fn admit(&self, context: &RequestContext) -> Result<StreamPermit, Status> {
        if context.activity.is_draining() {
            return Err(draining());
        }
        StreamPermit::take(&self.shared).ok_or_else(|| {
            let limit = self.shared.config.limits.max_streams;
            Status::resource_exhausted(format!("the server has its {limit} streams"))
        })
    }
}

/// A response that has nothing but a status.
pub(crate) fn status_response<B: Default>(status: &Status) -> Response<B> {
    let mut response = Response::new(B::default());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    put_status(status, headers);
    response
}

/// The status of a stream that ends because its client should go to another server (S-139).
fn draining() -> Status {
    Status::unavailable("draining")
}

/// The trailers with that status.
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
