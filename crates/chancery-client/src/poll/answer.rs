//! The answer to a poll, of a REST server or of a file.

use chancery_core::client::{ErrorKind, Response};

/// The answer to a poll.
pub(crate) enum PollAnswer {
    /// The poll was answered with all resources.
    Response(Response),
    /// The resources are the same as before.
    Unchanged,
    /// The answer cannot be used, for this reason.
    Unusable(ErrorKind, String),
}
