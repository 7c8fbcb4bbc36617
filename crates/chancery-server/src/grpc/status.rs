//! Statuses of gRPC, in headers and in trailers.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::server::Violation;
use chancery_proto::frames::FrameError;
use chancery_proto::wire::DecodeError;
use http::{HeaderValue, Response, header};
use http_body::Frame;
use tonic::{Code, Status};

use crate::budget::MemoryShortage;
use crate::http_error::{FROM_A_PAGE, status_text};
use crate::policy::Refusal;

/// A response that has nothing but a status.
pub(crate) fn status_response<B: Default>(status: &Status) -> Response<B> {
    let mut response = Response::new(B::default());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    put_status(status, headers);
    response
}

/// The status of a stream that ends because its client should go to another server (S-139).
pub(crate) fn draining() -> Status {
    Status::unavailable("draining")
}

/// The status of a method that is not there. It may be one of v2, which is not enabled (S-010).
pub(crate) fn no_such_method() -> Status {
    Status::unimplemented("this server has no such method")
}

/// The status of a request that a page in a browser sent.
pub(crate) fn from_a_page() -> Status {
    Status::permission_denied(FROM_A_PAGE)
}

/// The status of a stream or call that is one too many for the server, or for its client.
pub(super) fn too_many_streams(limit: usize) -> Status {
    Status::resource_exhausted(format!(
        "the server takes {limit} streams, and this client has as many as are left for others"
    ))
}

/// The status of a stream whose client may hold no more of the server's memory.
pub(crate) fn out_of_memory(shortage: MemoryShortage) -> Status {
    Status::resource_exhausted(shortage.to_string())
}

/// The status of a stream that ends because other clients need the memory that it holds.
pub(crate) fn asked_back() -> Status {
    Status::resource_exhausted(
        "other clients need the memory that the server holds for this one; `limits.memory` is the \
         sum for all of them",
    )
}

/// The status of a stream whose large response waited too long for its turn (S-111).
pub(super) fn too_many_big_responses() -> Status {
    Status::resource_exhausted("too many clients ask for large responses")
}

/// The status of a stream whose client has sent a part of a request, and not the rest in time.
pub(crate) fn too_slow(limit: Duration) -> Status {
    Status::deadline_exceeded(format!(
        "a request has {limit:?} to arrive, and only a part of this one came"
    ))
}

/// The status of a stream whose client ends it within a message.
pub(super) fn cut_short() -> Status {
    Status::internal("a request ends in its middle")
}

/// The status of a stream with a message that cannot be taken out of the bytes.
pub(super) fn of_frame_error(error: FrameError) -> Status {
    match error {
        FrameError::Compressed => Status::unimplemented(
            "compressed requests are not supported: send `grpc-encoding: identity`",
        ),
        FrameError::TooLarge { size, limit } => {
            Status::resource_exhausted(format!("a request has {size} bytes; {limit} are allowed"))
        }
        other => Status::internal(other.to_string()),
    }
}

/// The status of a stream with a message that is no request, or one that exceeds a limit.
pub(super) fn of_decode_error(error: &DecodeError) -> Status {
    if error.is_limit() {
        Status::resource_exhausted(error.to_string())
    } else {
        Status::invalid_argument(error.to_string())
    }
}

/// The status of a stream whose client breaks the protocol or a limit.
pub(super) fn of_violation(violation: &Violation) -> Status {
    if violation.is_limit() {
        Status::resource_exhausted(violation.to_string())
    } else if violation.is_denied() {
        Status::permission_denied(violation.to_string())
    } else {
        Status::invalid_argument(violation.to_string())
    }
}

/// The trailers of a stream that ends because its client should go to another server.
pub(crate) fn draining_trailers() -> Frame<Bytes> {
    trailers(&draining())
}

pub(crate) fn trailers(status: &Status) -> Frame<Bytes> {
    let mut headers = http::HeaderMap::new();
    put_status(status, &mut headers);
    Frame::trailers(headers)
}

fn put_status(status: &Status, headers: &mut http::HeaderMap) {
    let status = Status::new(status.code(), status_text(status.message()));
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
            Refusal::Unstated(_) => Code::FailedPrecondition,
            Refusal::Full(_) => Code::ResourceExhausted,
        };
        Self::new(code, refusal.to_string())
    }
}
