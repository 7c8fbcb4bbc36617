//! Statuses of gRPC, in headers and in trailers.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body::Frame;
use tonic::{Code, Status};

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
pub(super) fn draining() -> Status {
    Status::unavailable("draining")
}

/// The trailers with that status.
pub(crate) fn draining_trailers() -> Frame<Bytes> {
    trailers(&draining())
}

pub(super) fn trailers(status: &Status) -> Frame<Bytes> {
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
