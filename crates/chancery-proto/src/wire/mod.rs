//! The messages of gRPC on the wire: discovery requests and responses, load reports, and CSDS. A
//! client reads discovery responses with [`crate::reply`].
//!
//! Requests are decoded into the core's values, and only as far as the core uses them: Envoy's node
//! is some 77 kB, and nearly all of it is skipped here. Responses are encoded in two parts, because
//! protobuf lets fields come in any order. [`encode_entries`] is the same for every stream in the
//! same state and is shared; [`encode_tail`] is for one stream. One after the other they are a
//! `DiscoveryResponse` or a `DeltaDiscoveryResponse`.
//!
//! Field numbers are those of
//! [`discovery.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/discovery/v3/discovery.proto)
//! and
//! [`base.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/core/v3/base.proto). v2
//! has the same, except for `Node.build_version`. The decoder bounds nesting (100 levels).

use chancery_core::ErrorDetail;
use prost::Message;

use crate::node_matcher::MatcherFault;
use crate::request_size::RequestTooLarge;

mod address;
mod decode_request;
mod duration;
mod encode_request;
mod entries;
pub(crate) mod fields;
mod load;
mod load_parts;
mod node;
mod node_memory;
mod put;
mod status;
mod tail;
pub use decode_request::{decode_delta, decode_delta_within, decode_sotw, decode_sotw_within};
pub use encode_request::encode_request;
pub use entries::{encode_entries, encode_resource, encode_response};
pub use load::{
    decode_load_report, decode_load_response, encode_load_report, encode_load_response,
};
pub use load_parts::{LoadPart, LoadReportParts};
pub use status::{
    ClientConfig, ClientStatusRequest, ConfigStatus, GenericXdsConfig, UpdateFailureState,
    decode_client_status, decode_client_status_request, encode_client_status,
    encode_client_status_request,
};
pub use tail::encode_tail;

pub(crate) use duration::WireDuration;

/// The error of bytes that are not the expected message; the peer is at fault.
#[derive(Debug, thiserror::Error)]
#[error("{}", sentence(.expected, .source))]
pub struct DecodeError {
    pub(crate) expected: &'static str,
    pub(crate) source: Malformed,
}

impl DecodeError {
    /// Returns true if the message is larger than a limit of the server, and false if it is
    /// malformed.
    pub fn is_limit(&self) -> bool {
        matches!(self.source, Malformed::TooLarge(_))
    }
}

/// The error in one sentence. A limit speaks for itself, and a matcher that means nothing.
fn sentence(expected: &str, source: &Malformed) -> String {
    match source {
        Malformed::TooLarge(limit) => limit.to_string(),
        Malformed::Matcher(fault) => fault.to_string(),
        _ => format!("the message is no `{expected}`"),
    }
}

/// The fault in the bytes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error(transparent)]
    Inside(#[from] prost::DecodeError),
    #[error("a field ends behind the message")]
    Short,
    #[error("a text is not UTF-8")]
    Text,
    #[error("it names no `type_url`")]
    Untyped,
    #[error("it exceeds a limit of the server")]
    TooLarge(#[from] RequestTooLarge),
    #[error("a matcher cannot be used")]
    Matcher(#[from] MatcherFault),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireResourceError {
    /// A `ResourceName`, of which only the name is used.
    #[prost(message, optional, tag = "1")]
    resource_name: Option<WireLocator>,
    #[prost(message, optional, tag = "2")]
    error_detail: Option<WireStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct WireLocator {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

impl From<WireStatus> for ErrorDetail {
    fn from(status: WireStatus) -> Self {
        Self { code: status.code, message: status.message }
    }
}

impl From<&chancery_core::NameError> for WireResourceError {
    fn from(error: &chancery_core::NameError) -> Self {
        let detail = &error.error;
        Self {
            resource_name: Some(WireLocator { name: error.name.to_string() }),
            error_detail: Some(WireStatus { code: detail.code, message: detail.message.clone() }),
        }
    }
}

impl From<WireResourceError> for chancery_core::NameError {
    fn from(error: WireResourceError) -> Self {
        let name = error.resource_name.map(|locator| locator.name).unwrap_or_default();
        let error = error.error_detail.map(ErrorDetail::from).unwrap_or_default();
        Self { name: name.into(), error }
    }
}

#[cfg(test)]
mod tests;
