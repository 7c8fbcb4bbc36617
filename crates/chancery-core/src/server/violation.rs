//! The reasons to close a stream.

use std::sync::Arc;

use crate::TypeUrl;

/// Why a stream must be closed. Single resources never are a reason (S-072).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The client's fault: an aggregated stream needs a type in each message (S-006).
    #[error("a request on an aggregated stream names no `type_url`")]
    NoType,
    /// The client's fault: the message contradicts the service it was sent to (S-006).
    #[error("a request for `{found}` was sent to the service of `{expected}`")]
    WrongType {
        /// What the request said.
        found: Arc<str>,
        /// What the service is for.
        expected: TypeUrl,
    },
    /// The client's fault: the message is of the other variant of the protocol.
    #[error("a message of the other protocol variant was sent")]
    WrongVariant,
    /// A limit: raise it if the client means well.
    #[error("the subscription to `{type_url}` names {found} resources; {limit} are allowed")]
    TooManyNames {
        /// The type subscribed to.
        type_url: TypeUrl,
        /// How many names it would have.
        found: usize,
        /// How many it may have.
        limit: usize,
    },
    /// A limit: raise it if the client means well.
    #[error("the stream asks for more than {limit} types")]
    TooManyTypes {
        /// How many types one stream may ask for.
        limit: usize,
    },
}

impl Violation {
    /// Whether a limit was met, as opposed to a broken protocol.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::TooManyNames { .. } | Self::TooManyTypes { .. })
    }
}
