//! The reason for which a request to the API is not answered, in the one form that all of them have.

use http::header::{ALLOW, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;

use super::schema::document;
use crate::admin::json;

document! {
    /// The reason for which a request is not answered.
    struct ErrorDocument {
        /// The kind of the reason, a word that stays the same.
        code: String,
        /// The reason, for people.
        message: String,
        /// The way to a request that is answered, where one is known.
        hint: Option<String> = default,
    }
}

/// The reason for which a request is not answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl ApiError {
    /// An error with a status and a code.
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None, header: None }
    }

    /// A parameter of the query or of the path is not what it has to be.
    pub(crate) fn parameter(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, BAD_PARAMETER, message)
    }

    /// Nothing has the name that was asked for.
    pub(crate) fn unknown(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// The server has not loaded anything yet.
    pub(crate) fn too_early() -> Self {
        let early = "the first load is not complete";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, TOO_EARLY, early);
        error.header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// The answer could not be made.
    pub(crate) fn failed() -> Self {
        let failed = "it failed; the log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", failed)
    }

    /// The endpoint has other methods.
    pub(crate) fn method(allowed: &'static str) -> Self {
        let message = format!("only {}", allowed.replace(", ", " and "));
        let error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", message);
        error.header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// The answer that says it.
    pub(crate) fn response(self) -> Response<Full<Bytes>> {
        let Self { status, code, message, hint, header } = self;
        let mut response = json(&ErrorDocument { code: code.to_owned(), message, hint });
        *response.status_mut() = status;
        response.headers_mut().extend(header.map(|header| *header));
        response
    }
}

/// The code for a parameter that is not what it has to be.
pub(crate) const BAD_PARAMETER: &str = "bad-parameter";

/// The code for a path that the API does not have.
pub(crate) const NO_SUCH_PATH: &str = "no-such-path";

/// The code before the first load.
pub(crate) const TOO_EARLY: &str = "too-early";
