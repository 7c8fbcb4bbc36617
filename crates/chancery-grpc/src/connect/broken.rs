//! The text of an error of a connection, for its log and for the status of calls.

use std::error::Error;

use crate::read::quoted;

/// Returns an error with what has caused it, as the alert of a peer that wants a certificate.
pub(crate) fn with_causes(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    // A peer that goes away may have added words of its own.
    quoted(&text).into_owned()
}
