//! The parts of discovery messages that servers and clients share, as values without protobuf.
//!
//! The values are as they came: a field may be empty or malformed, and the machine that takes it
//! decides. Not here: responses, which differ between a server (`server/response.rs`) and a client
//! (`client/response.rs`), and bytes (`chancery_proto::wire`).

use std::sync::Arc;
use std::time::Duration;

use crate::{Names, Node, TypeUrl, Versions};

/// The end of the version of a response that is a part of all members of a wildcard or a glob.
///
/// A server adds it, because nothing in the protocol says that more comes (S-110). Clients that do
/// not know it use the version in texts alone.
pub(crate) const PART_SUFFIX: &str = "~part";

/// A point in time, as the duration since a moment of the driver's choice. The core has no clock.
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
    /// The node that asks. Later messages of a stream may leave it out.
    pub node: Option<Arc<Node>>,
    /// The type that is asked for. It may be empty on a stream of one type.
    pub type_url: Arc<str>,
    /// The version that the client accepted last; empty if there is none.
    pub version: Arc<str>,
    /// The nonce of the response that the request answers; empty if it answers none.
    pub nonce: Arc<str>,
    /// The whole subscription.
    pub names: Names,
    /// The reason why the client rejects the response; `None` if it does not.
    pub error: Option<ErrorDetail>,
}

/// A `DeltaDiscoveryRequest`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeltaRequest {
    /// The node that asks. Later messages of a stream may leave it out.
    pub node: Option<Arc<Node>>,
    /// The type that is asked for. It may be empty on a stream of one type.
    pub type_url: Arc<str>,
    /// The nonce of the response that the request answers; empty if it answers none.
    pub nonce: Arc<str>,
    /// The names to add to the subscription.
    pub subscribe: Names,
    /// The names to remove from it.
    pub unsubscribe: Names,
    /// The versions of the resources that the client holds from an earlier stream, by name.
    pub initial_versions: Versions,
    /// The reason why the client rejects the response; `None` if it does not.
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
    /// The variant of the protocol.
    pub fn variant(&self) -> Variant {
        match self {
            Self::Sotw(_) => Variant::Sotw,
            Self::Delta(_) => Variant::Delta,
        }
    }

    /// The node that asks, if the message has it.
    pub fn node(&self) -> Option<&Arc<Node>> {
        match self {
            Self::Sotw(request) => request.node.as_ref(),
            Self::Delta(request) => request.node.as_ref(),
        }
    }

    /// States the node that asks.
    pub fn introduce(&mut self, node: &Arc<Node>) {
        let place = match self {
            Self::Sotw(request) => &mut request.node,
            Self::Delta(request) => &mut request.node,
        };
        *place = Some(Arc::clone(node));
    }

    /// The type that is asked for. It may be empty on a stream of one type.
    pub fn type_url(&self) -> &Arc<str> {
        match self {
            Self::Sotw(request) => &request.type_url,
            Self::Delta(request) => &request.type_url,
        }
    }

    /// The nonce of the response that the request answers; empty if it answers none.
    pub fn nonce(&self) -> &str {
        match self {
            Self::Sotw(request) => &request.nonce,
            Self::Delta(request) => &request.nonce,
        }
    }

    /// Returns true if taking the request may take work for all resources of the type, as far as it says
    /// so itself: it names the wildcard, or rejects a response, which may have had all of them.
    ///
    /// A first request of a type that names nothing may be a wildcard too (S-050). That does not stand
    /// in the request, and its work is done by the responses.
    pub fn is_about_everything(&self) -> bool {
        let names_wildcard = match self {
            Self::Sotw(request) => request.names.contains("*"),
            Self::Delta(request) => {
                request.subscribe.contains("*") || request.unsubscribe.contains("*")
            }
        };
        names_wildcard || self.error().is_some()
    }

    /// The reason why the client rejects a response, if it does.
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
    /// The code of the error, which is one of gRPC.
    pub code: i32,
    /// The text of the error. It is free form and differs between releases of clients (S-034).
    pub message: String,
}

impl ErrorDetail {
    /// The cause is unknown.
    pub const UNKNOWN: i32 = 2;
    /// The message or resource cannot be used.
    pub const INVALID_ARGUMENT: i32 = 3;
    /// There is no such resource.
    pub const NOT_FOUND: i32 = 5;
    /// The peer may not have the resource.
    pub const PERMISSION_DENIED: i32 = 7;
    /// The server does not have the method.
    pub const UNIMPLEMENTED: i32 = 12;
    /// The peer broke a rule of the transport.
    pub const INTERNAL: i32 = 13;
    /// The server cannot answer now, and may be able to later.
    pub const UNAVAILABLE: i32 = 14;
    /// The peer did not prove its identity.
    pub const UNAUTHENTICATED: i32 = 16;

    /// The name of a status code in gRPC, if it has one.
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

/// An entry of `resource_errors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// The name that was asked for.
    pub name: Arc<str>,
    /// The reason why it is not given.
    pub error: ErrorDetail,
}

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are those of the protocol")]
pub enum Variant {
    Sotw,
    Delta,
}

/// The types that a stream carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Every type that the client asks for (ADS).
    Aggregated,
    /// The type of one service.
    Only(TypeUrl),
}

impl Scope {
    /// Returns true if a type is carried.
    pub fn carries(&self, type_url: &TypeUrl) -> bool {
        self.only().is_none_or(|only| only == type_url)
    }

    /// Returns the type of a stream that carries one.
    pub fn only(&self) -> Option<&TypeUrl> {
        match self {
            Self::Aggregated => None,
            Self::Only(type_url) => Some(type_url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_or_a_rejection_is_about_everything() {
        let sotw = |names: &[&str]| {
            Request::Sotw(SotwRequest { names: names.iter().collect(), ..SotwRequest::default() })
        };
        assert!(sotw(&["a", "*"]).is_about_everything());
        assert!(!sotw(&["a"]).is_about_everything());
        let delta = |subscribe: &[&str], unsubscribe: &[&str]| {
            let subscribe = subscribe.iter().collect();
            let unsubscribe = unsubscribe.iter().collect();
            Request::Delta(DeltaRequest { subscribe, unsubscribe, ..DeltaRequest::default() })
        };
        assert!(delta(&["*"], &[]).is_about_everything());
        assert!(delta(&[], &["*"]).is_about_everything());
        assert!(!delta(&["a"], &["b"]).is_about_everything());
        let error = Some(ErrorDetail::default());
        let nack = Request::Delta(DeltaRequest { error, ..DeltaRequest::default() });
        assert!(nack.is_about_everything());
    }
}
