//! Errors of HTTP.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

/// The reason why a request with an `Origin` is refused (S-137).
pub(crate) const FROM_A_PAGE: &str =
    "a request with an `Origin` comes from a web page, and clients of xDS are none";

/// An error of HTTP with a line of text.
pub(crate) fn http_error(status: StatusCode, text: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(format!("{text}\n")));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
