//! The discovery messages on the gRPC wire, and those of load reports and CSDS; responses of discovery as a
//! client reads them are in [`crate::reply`].
//!
//! Requests are decoded into the core's values, and only as far as the core looks: Envoy's node is
//! some 77 kB, nearly all of it skipped here. Responses are encoded in two parts, because protobuf
//! lets fields come in any order: [`encode_entries`] is the same for every stream in the same state
//! and is shared, [`encode_tail`] is what only one stream is told. One after the other they are a
//! `DiscoveryResponse` or a `DeltaDiscoveryResponse`.
//!
//! Field numbers are those of `discovery.proto` and `base.proto`; v2 has the same, but for
//! `Node.build_version`. Nesting is bounded by the decoder (100 levels).

use std::collections::BTreeMap;
use std::time::Duration;

use chancery_core::{ErrorDetail, Locality, Node, TypeUrl, Value};
use prost::Message;

mod decode_request;
mod encode_request;
mod entries;
pub(crate) mod fields;
mod load;
mod status;
mod tail;
pub use decode_request::{decode_delta, decode_sotw};
pub use encode_request::encode_request;
pub use entries::{encode_entries, encode_response};
pub use load::{
    decode_load_report, decode_load_response, encode_load_report, encode_load_response,
};
pub use status::{
    ClientConfig, ClientStatusRequest, GenericXdsConfig, UpdateFailureState, decode_client_status,
    decode_client_status_request, encode_client_status,
};
pub use tail::encode_tail;

/// A message that is no discovery request or response: the peer's fault.
#[derive(Debug, thiserror::Error)]
#[error("the message is no `{expected}`")]
pub struct DecodeError {
    pub(crate) expected: &'static str,
    pub(crate) source: Malformed,
}

/// What is wrong with the bytes.
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
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireResourceError {
    /// A `ResourceName`, of which only the name is ever looked at.
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

#[derive(Clone, PartialEq, Message)]
struct WireNode {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    cluster: String,
    #[prost(message, optional, tag = "3")]
    metadata: Option<WireStruct>,
    #[prost(message, optional, tag = "4")]
    locality: Option<WireLocality>,
    /// v2 only: `<commit>/<version>/...`.
    #[prost(string, tag = "5")]
    build_version: String,
    #[prost(string, tag = "6")]
    user_agent_name: String,
    #[prost(string, tag = "7")]
    user_agent_version: String,
    #[prost(message, optional, tag = "8")]
    user_agent_build_version: Option<WireBuildVersion>,
    #[prost(string, repeated, tag = "10")]
    client_features: Vec<String>,
    #[prost(btree_map = "string, message", tag = "12")]
    dynamic_parameters: BTreeMap<String, WireContextParams>,
}

#[derive(Clone, PartialEq, Message)]
struct WireLocality {
    #[prost(string, tag = "1")]
    region: String,
    #[prost(string, tag = "2")]
    zone: String,
    #[prost(string, tag = "3")]
    sub_zone: String,
}

/// A `google.protobuf.Duration`, or a `Timestamp`, which has the same fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WireDuration {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireBuildVersion {
    #[prost(message, optional, tag = "1")]
    version: Option<WireSemanticVersion>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireSemanticVersion {
    #[prost(uint32, tag = "1")]
    major: u32,
    #[prost(uint32, tag = "2")]
    minor: u32,
    #[prost(uint32, tag = "3")]
    patch: u32,
}

#[derive(Clone, PartialEq, Message)]
struct WireContextParams {
    #[prost(btree_map = "string, string", tag = "1")]
    params: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct WireStruct {
    #[prost(btree_map = "string, message", tag = "1")]
    fields: BTreeMap<String, WireValue>,
}

#[derive(Clone, PartialEq, Message)]
struct WireList {
    #[prost(message, repeated, tag = "1")]
    values: Vec<WireValue>,
}

#[derive(Clone, PartialEq, Message)]
struct WireValue {
    #[prost(oneof = "WireKind", tags = "1, 2, 3, 4, 5, 6")]
    kind: Option<WireKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum WireKind {
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Struct(WireStruct),
    #[prost(message, tag = "6")]
    List(WireList),
}

impl From<WireNode> for Node {
    fn from(node: WireNode) -> Self {
        let user_agent_version = node.version();
        let locality = node.locality.map(Locality::from).unwrap_or_default();
        let parameters = node.dynamic_parameters.into_iter();
        Self {
            id: node.id,
            cluster: node.cluster,
            locality,
            metadata: node.metadata.map(map_of).unwrap_or_default(),
            user_agent_name: node.user_agent_name,
            user_agent_version,
            client_features: node.client_features,
            dynamic_parameters: parameters.map(|(of, context)| (of, context.params)).collect(),
        }
    }
}

impl From<WireLocality> for Locality {
    fn from(locality: WireLocality) -> Self {
        let WireLocality { region, zone, sub_zone } = locality;
        Self { region, zone, sub_zone }
    }
}

impl From<Duration> for WireDuration {
    fn from(time: Duration) -> Self {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        // Below a billion, always.
        Self { seconds, nanos: time.subsec_nanos().cast_signed() }
    }
}

/// Times that are negative, or whose parts do not fit, are none.
impl TryFrom<WireDuration> for Duration {
    type Error = ();
    fn try_from(time: WireDuration) -> Result<Self, ()> {
        let seconds = u64::try_from(time.seconds).map_err(|_| ())?;
        let nanos = u32::try_from(time.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
        Ok(Self::new(seconds, nanos.ok_or(())?))
    }
}

impl WireNode {
    fn version(&self) -> String {
        if let Some(version) = self.user_agent_build_version.and_then(|build| build.version) {
            return version.to_string();
        }
        if !self.user_agent_version.is_empty() {
            return self.user_agent_version.clone();
        }
        self.build_version.split('/').nth(1).unwrap_or(&self.build_version).to_owned()
    }
}

impl std::fmt::Display for WireSemanticVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

fn map_of(fields: WireStruct) -> BTreeMap<String, Value> {
    fields.fields.into_iter().map(|(key, value)| (key, value.into())).collect()
}

impl From<WireValue> for Value {
    fn from(value: WireValue) -> Self {
        match value.kind {
            None | Some(WireKind::Null(_)) => Self::Null,
            Some(WireKind::Number(number)) => Self::Number(number),
            Some(WireKind::Text(text)) => Self::Text(text),
            Some(WireKind::Bool(yes)) => Self::Bool(yes),
            Some(WireKind::Struct(fields)) => Self::Map(map_of(fields)),
            Some(WireKind::List(list)) => {
                Self::List(list.values.into_iter().map(Self::from).collect())
            }
        }
    }
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

/// The type URL of the wrapper `Resource`, which v2 has under a name of its own.
fn wrapper_of(type_url: &TypeUrl) -> &'static str {
    let name = type_url.message_name();
    if name.starts_with("envoy.api.v2.") || name.starts_with("envoy.service.discovery.v2.") {
        "type.googleapis.com/envoy.api.v2.Resource"
    } else {
        "type.googleapis.com/envoy.service.discovery.v3.Resource"
    }
}

#[cfg(test)]
mod tests;
