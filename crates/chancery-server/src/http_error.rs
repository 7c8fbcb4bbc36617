//! Errors of HTTP.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

/// An error of HTTP with a line of text.
pub(crate) fn http_error(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(format!("{text}\n")));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
