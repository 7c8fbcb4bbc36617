//! The reasons to close a stream.

use std::sync::Arc;

use crate::TypeUrl;

/// A reason to close a stream. A single bad resource is none (S-072, [xRFC
/// TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md)).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A fault of the client: a request on an aggregated stream has no type (S-006,
    /// [`type_url`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/discovery/v3/discovery.proto#envoy-v3-api-field-service-discovery-v3-discoveryrequest-type-url)).
    #[error("a request on an aggregated stream names no `type_url`")]
    NoType,
    /// A fault of the client: the type of a request is not that of the service (S-006).
    #[error("a request for `{found}` was sent to the service of `{expected}`")]
    WrongType {
        /// The type in the request.
        found: Arc<str>,
        /// The type of the service.
        expected: TypeUrl,
    },
    /// A fault of the client: a message is of the other variant of the protocol.
    #[error("a message of the other protocol variant was sent")]
    WrongVariant,
    /// The client subscribes to more names than the limit of the server allows. An operator raises
    /// [`max_names`](super::Settings::max_names) for clients that need more.
    #[error("with those of `{type_url}` the stream names {found} resources; {limit} are allowed")]
    TooManyNames {
        /// The type that was subscribed to last.
        type_url: TypeUrl,
        /// The number of names of all types.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// The names that the client subscribes to are longer together than the limit of the server
    /// allows. An operator raises [`max_name_bytes`](super::Settings::max_name_bytes) for clients
    /// that need more.
    #[error(
        "with those of `{type_url}` the names of the stream have {found} bytes; {limit} are allowed"
    )]
    TooManyNameBytes {
        /// The type that was subscribed to last.
        type_url: TypeUrl,
        /// The bytes of all names of all types.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// The client's node takes more memory than the limit of the server allows. An operator raises
    /// [`max_node_bytes`](super::Settings::max_node_bytes), of which the limit is eight times, for
    /// clients that need more.
    #[error("the node takes {found} bytes; {limit} are allowed, eight times `max-node-bytes`")]
    NodeTooLarge {
        /// The bytes that are kept of the node.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A text by which the node says who it is, is longer than a name may be. An operator raises
    /// [`max_name_length`](super::Settings::max_name_length) for clients that need more.
    #[error("`{field}` of the node has {found} bytes; {limit} are allowed (`max-name-length`)")]
    NodeTextTooLong {
        /// The name of the field.
        field: &'static str,
        /// The bytes of the text.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// The client asks for more types than the limit of the server allows. An operator raises
    /// [`max_types`](super::Settings::max_types) for clients that need more.
    #[error("the stream asks for more than {limit} types")]
    TooManyTypes {
        /// The limit.
        limit: usize,
    },
    /// The client is a stranger, and a resource that it is to be sent holds a secret in one of its
    /// fields (S-137). To leave the resource out would delete it on the client (S-056).
    #[error(
        "`{name}` of `{type_url}` holds a secret, which is sent only over mutual TLS, a Unix \
         socket or loopback, unless `secrets-anywhere` is set"
    )]
    Withheld {
        /// The type.
        type_url: TypeUrl,
        /// The name of the resource.
        name: Arc<str>,
    },
}

impl Violation {
    /// Returns true if a limit of the server was exceeded, and false if the client broke the
    /// protocol.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::TooManyNames { .. }
                | Self::TooManyNameBytes { .. }
                | Self::NodeTooLarge { .. }
                | Self::NodeTextTooLong { .. }
                | Self::TooManyTypes { .. }
        )
    }

    /// Returns true if the client asks for something that it may not have.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Withheld { .. })
    }
}
