//! The answer to a poll, whatever is polled.

use chancery_core::client::{ErrorKind, Response};

/// The answer to a poll.
pub(crate) enum PollAnswer {
    /// All there is.
    Response(Response),
    /// There is nothing new.
    Unchanged,
    /// Nothing can be used, for this reason.
    Unusable(ErrorKind, String),
}
