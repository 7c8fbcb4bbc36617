//! What goes in and out of the machines: requests and responses as values, without protobuf.

use std::sync::Arc;
use std::time::Duration;

use crate::{Names, Node, Resource, ResourceName, Share, TypeUrl, Versions};

/// A point in time: how long after a moment of the driver's choice. The core has no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

impl std::ops::Add<Duration> for Time {
    type Output = Self;
    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}

/// A `DiscoveryRequest`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SotwRequest {
    /// Who asks; later messages of a stream may leave it out.
    pub node: Option<Arc<Node>>,
    /// The type asked for; may be empty on a stream of one type.
    pub type_url: Arc<str>,
    /// The version the client accepted last; empty if none.
    pub version: Arc<str>,
    /// The nonce of the response this answers; empty if it answers none.
    pub nonce: Arc<str>,
    /// The whole subscription.
    pub names: Names,
    /// Why the response was rejected.
    pub error: Option<ErrorDetail>,
}

/// A `DeltaDiscoveryRequest`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeltaRequest {
    /// Who asks; later messages of a stream may leave it out.
    pub node: Option<Arc<Node>>,
    /// The type asked for; may be empty on a stream of one type.
    pub type_url: Arc<str>,
    /// The nonce of the response this answers; empty if it answers none.
    pub nonce: Arc<str>,
    /// Names to add to the subscription.
    pub subscribe: Names,
    /// Names to take out of it.
    pub unsubscribe: Names,
    /// What the client holds from an earlier stream, by name.
    pub initial_versions: Versions,
    /// Why the response was rejected.
    pub error: Option<ErrorDetail>,
}

/// A request of either variant.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are those of the protocol")]
pub enum Request {
    Sotw(SotwRequest),
    Delta(DeltaRequest),
}

impl Request {
    /// Which form of the protocol it is of.
    pub fn variant(&self) -> Variant {
        match self {
            Self::Sotw(_) => Variant::Sotw,
            Self::Delta(_) => Variant::Delta,
        }
    }

    /// Who asks, if the message says so.
    pub fn node(&self) -> Option<&Arc<Node>> {
        match self {
            Self::Sotw(request) => request.node.as_ref(),
            Self::Delta(request) => request.node.as_ref(),
        }
    }

    /// Says who asks.
    pub fn introduce(&mut self, node: &Arc<Node>) {
        let place = match self {
            Self::Sotw(request) => &mut request.node,
            Self::Delta(request) => &mut request.node,
        };
        *place = Some(Arc::clone(node));
    }

    /// The type asked for; may be empty on a stream of one type.
    pub fn type_url(&self) -> &Arc<str> {
        match self {
            Self::Sotw(request) => &request.type_url,
            Self::Delta(request) => &request.type_url,
        }
    }

    /// The nonce of the response this answers; empty if it answers none.
    pub fn nonce(&self) -> &str {
        match self {
            Self::Sotw(request) => &request.nonce,
            Self::Delta(request) => &request.nonce,
        }
    }

    /// Why a response was rejected, if this does reject one.
    pub fn error(&self) -> Option<&ErrorDetail> {
        match self {
            Self::Sotw(request) => request.error.as_ref(),
            Self::Delta(request) => request.error.as_ref(),
        }
    }
}

/// A `google.rpc.Status` inside a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorDetail {
    /// A gRPC status code.
    pub code: i32,
    /// Free text, not stable between client releases (S-034).
    pub message: String,
}

impl ErrorDetail {
    /// Nobody can tell what went wrong.
    pub const UNKNOWN: i32 = 2;
    /// What was sent cannot be used.
    pub const INVALID_ARGUMENT: i32 = 3;
    /// There is no such thing.
    pub const NOT_FOUND: i32 = 5;
    /// Not for this peer.
    pub const PERMISSION_DENIED: i32 = 7;
    /// The server does not know how.
    pub const UNIMPLEMENTED: i32 = 12;
    /// The peer broke a rule of the transport.
    pub const INTERNAL: i32 = 13;
    /// Not now; it may pass by itself.
    pub const UNAVAILABLE: i32 = 14;
    /// The peer did not prove who it is.
    pub const UNAUTHENTICATED: i32 = 16;

    /// What gRPC calls a status code, if it has a name.
    pub fn name_of(code: i32) -> Option<&'static str> {
        const NAMES: [&str; 17] = [
            "OK",
            "CANCELLED",
            "UNKNOWN",
            "INVALID_ARGUMENT",
            "DEADLINE_EXCEEDED",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "RESOURCE_EXHAUSTED",
            "FAILED_PRECONDITION",
            "ABORTED",
            "OUT_OF_RANGE",
            "UNIMPLEMENTED",
            "INTERNAL",
            "UNAVAILABLE",
            "DATA_LOSS",
            "UNAUTHENTICATED",
        ];
        usize::try_from(code).ok().and_then(|code| NAMES.get(code)).copied()
    }
}

/// What a machine is told.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "an input is made, taken and never kept")]
pub enum Input {
    /// The client sent a message.
    Request(Request),
    /// This is what the client should see from now on.
    Snapshot(Arc<crate::Snapshot>),
}

/// A `DiscoveryResponse` or `DeltaDiscoveryResponse`, not yet encoded.
///
/// Every entry is of type [`Response::type_url`] (S-008) and no name is in it twice (S-060).
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Which of the two messages this is.
    pub variant: Variant,
    /// The type of every entry.
    pub type_url: TypeUrl,
    /// SotW `version_info`, delta `system_version_info`.
    pub version: Arc<str>,
    /// Not empty, and never used before on this stream (S-028).
    pub nonce: Arc<str>,
    /// The resources.
    pub entries: Arc<[Entry]>,
    /// Names the client should forget. Delta only.
    pub removed: Vec<Arc<str>>,
    /// Why names cannot be given (S-068).
    pub errors: Vec<NameError>,
    /// Whether SotW entries are wrapped in `Resource` (S-085). Delta entries always are (S-084).
    pub wrapped: bool,
    /// Whether other streams send the same entries.
    pub share: Option<Share>,
}

/// One resource in a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name in the wrapper, in the spelling that was asked for (S-062, S-114).
    pub name: Arc<str>,
    /// Further names in the wrapper (S-091).
    pub aliases: Vec<Arc<str>>,
    /// What it is; `None` says that an alias cannot be resolved (S-093).
    pub resource: Option<Arc<Resource>>,
    /// Whether the wrapper carries the resource's TTL.
    pub ttl: bool,
    /// Whether the body stays out, which refreshes the TTL and changes nothing (S-087).
    pub heartbeat: bool,
}

impl Entry {
    /// A resource under its own name, without its TTL.
    pub(crate) fn of(resource: &Arc<Resource>) -> Self {
        Self {
            name: resource.name().shared(),
            aliases: resource.aliases().iter().map(ResourceName::shared).collect(),
            resource: Some(Arc::clone(resource)),
            ttl: false,
            heartbeat: false,
        }
    }
}

/// An entry of `resource_errors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// The name that was asked for.
    pub name: Arc<str>,
    /// Why it is not given.
    pub error: ErrorDetail,
}

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are those of the protocol")]
pub enum Variant {
    Sotw,
    Delta,
}

/// What a stream is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every type the client asks for (ADS).
    Aggregated,
    /// The type of one service.
    Only(TypeUrl),
}

/// What happened on a stream, for logs, metrics and library users. The core never logs.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The first message said who the client is (S-023). Until a snapshot is given, nothing is sent.
    Identified(Arc<Node>),
    /// The first message did not say it usably (S-024): the driver must decide.
    Anonymous,
    /// The same client stated other dynamic parameters (S-025): choose its snapshot again.
    ParametersChanged(Arc<Node>),
    /// A later message stated another identity, which was ignored (S-025).
    IdentityIgnored {
        /// What the message claimed.
        claimed: String,
    },
    /// The subscription to a type changed.
    Subscribed {
        /// Which type.
        type_url: TypeUrl,
        /// Whether everything is subscribed to.
        wildcard: bool,
        /// How many names are.
        names: usize,
    },
    /// The first request of a type named nothing, which does not mean everything for this type, and
    /// there is something of it (S-053). Told once.
    Unnamed {
        /// Which type.
        type_url: TypeUrl,
        /// The number of resources there are for the client.
        resources: usize,
    },
    /// The client accepted a response.
    Acked {
        /// Of which type.
        type_url: TypeUrl,
        /// Which version.
        version: Arc<str>,
        /// Which response.
        nonce: Arc<str>,
        /// How long it took.
        after: Duration,
    },
    /// The client rejected a response (S-032, S-034).
    Nacked {
        /// Of which type.
        type_url: TypeUrl,
        /// Which version.
        version: Arc<str>,
        /// Which response.
        nonce: Arc<str>,
        /// Why, in the client's words.
        error: ErrorDetail,
    },
    /// The client answered a later response and never this one: it has read it, and whether it
    /// accepted it is not known (S-037).
    Skipped {
        /// Of which type.
        type_url: TypeUrl,
        /// Which response.
        nonce: Arc<str>,
    },
    /// A request carried the nonce of no response that is under way, nor of the one answered last:
    /// it is neither ACK nor NACK (S-037).
    Stale {
        /// Of which type.
        type_url: TypeUrl,
        /// Which response.
        nonce: Arc<str>,
    },
}

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
