//! Errors of HTTP, and the text of any error that a client is told.

use bytes::Bytes;
use chancery_core::printable::{MAX_MESSAGE_BYTES, PrintForm, cut, printable};
use http::{HeaderValue, Response, StatusCode, header};

/// The reason why a request with an `Origin` is refused (S-137).
pub(crate) const FROM_A_PAGE: &str =
    "a request with an `Origin` comes from a web page, and clients of xDS are none";

/// An error of HTTP with a line of text.
pub(crate) fn http_error(status: StatusCode, text: &str) -> Response<Bytes> {
    let text = format!("{}\n", status_text(text));
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// The text of an error in a response. It may quote a peer, and is shown by another one's tools, so
/// it is cut and escaped like a line of the log.
pub(crate) fn status_text(text: &str) -> String {
    printable(&cut(text, MAX_MESSAGE_BYTES), PrintForm::Line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_error_is_one_short_line() {
        assert_eq!(status_text("no\r\n\u{202e}such `ä`"), "no\\r\\n\\u{202e}such `ä`");
        assert!(status_text(&"x".repeat(1 << 20)).len() < MAX_MESSAGE_BYTES + 100);
    }
}
