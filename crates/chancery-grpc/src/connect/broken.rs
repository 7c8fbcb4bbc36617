//! The text of an error of a connection, for the status of calls.

use std::error::Error;

use crate::read::quoted;

/// Returns what became of a connection. `hyper` says that it was HTTP/2, and its cause says what.
pub(crate) fn told(error: &hyper::Error) -> String {
    match error.source() {
        // A peer can have its words in it.
        Some(cause) => format!("{error}: {}", quoted(&cause.to_string())),
        None => error.to_string(),
    }
}
