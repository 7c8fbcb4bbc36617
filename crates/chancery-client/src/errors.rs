//! Errors as text for people, and as the status of a call.

use std::error::Error;

use chancery_core::ErrorDetail;

/// Returns the text of an error and of all its causes.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

/// The status of a server that cannot be reached, for this reason.
pub(crate) fn unavailable(message: String) -> ErrorDetail {
    ErrorDetail { code: ErrorDetail::UNAVAILABLE, message }
}

/// The status of a call on which the peer breaks the protocol.
pub(crate) fn internal(message: String) -> ErrorDetail {
    ErrorDetail { code: ErrorDetail::INTERNAL, message }
}
