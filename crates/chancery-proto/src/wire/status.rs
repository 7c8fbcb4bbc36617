//! The status of a client (CSDS): `ClientStatusRequest` and `ClientStatusResponse`
//! ([`csds.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto)).
//!
//! The response is written and read, and the request is read. Field numbers are those of
//! `csds.proto` and `config_dump.proto`; a test compares them with the descriptors. The public
//! values are plain (`SystemTime`, `TypeUrl`, the core's `Node`), and the derived messages stay
//! private.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use chancery_core::client::ResourceState;
use chancery_core::{Node, TypeUrl};
use prost::Message;

use super::node::WireNode;
use super::{DecodeError, WireDuration};

/// A `ClientStatusRequest`, as far as a client uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStatusRequest {
    /// True if the request selects clients, which only a server with many clients can do.
    pub has_matchers: bool,
    /// True if the bodies of resources are left out.
    pub exclude_contents: bool,
}

/// The status of one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientConfig {
    /// The node that the client states to its servers.
    pub node: Option<Arc<Node>>,
    /// The purpose of the client: a target, or `#server`. It is empty if the client does not state
    /// it.
    pub client_scope: String,
    /// The resources it watches.
    pub generic_xds_configs: Vec<GenericXdsConfig>,
}

/// The status of one resource of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct GenericXdsConfig {
    /// Its type.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: Arc<str>,
    /// The version that the client has; empty if it has none.
    pub version_info: Arc<str>,
    /// The body that the client has.
    pub xds_config: Option<Bytes>,
    /// The time at which it came, or was last confirmed.
    pub last_updated: Option<SystemTime>,
    /// The state of the resource; `None` for an unknown one.
    pub client_status: Option<ResourceState>,
    /// The last error, if there is one.
    pub error_state: Option<UpdateFailureState>,
}

/// The last error of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateFailureState {
    /// The time of the error, if it is known.
    pub last_update_attempt: Option<SystemTime>,
    /// The reason why the resource cannot be used.
    pub details: String,
    /// The version that was rejected; empty if none was.
    pub version_info: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireRequest {
    /// `NodeMatcher`s, which are not decoded.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    node_matchers: Vec<Bytes>,
    #[prost(bool, tag = "3")]
    exclude_resource_contents: bool,
}

#[derive(Clone, PartialEq, Message)]
struct WireResponse {
    #[prost(message, repeated, tag = "1")]
    config: Vec<WireConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct WireConfig {
    #[prost(message, optional, tag = "1")]
    node: Option<WireNode>,
    #[prost(message, repeated, tag = "3")]
    generic_xds_configs: Vec<WireGenericConfig>,
    #[prost(string, tag = "4")]
    client_scope: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireGenericConfig {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    version_info: String,
    #[prost(message, optional, tag = "4")]
    xds_config: Option<WireAny>,
    #[prost(message, optional, tag = "5")]
    last_updated: Option<WireDuration>,
    #[prost(int32, tag = "7")]
    client_status: i32,
    #[prost(message, optional, tag = "8")]
    error_state: Option<WireFailure>,
}

#[derive(Clone, PartialEq, Message)]
struct WireAny {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct WireFailure {
    #[prost(message, optional, tag = "2")]
    last_update_attempt: Option<WireDuration>,
    #[prost(string, tag = "3")]
    details: String,
    #[prost(string, tag = "4")]
    version_info: String,
}

/// Decodes a `ClientStatusRequest`.
///
/// # Errors
/// Fails if the bytes are no such message.
pub fn decode_client_status_request(bytes: &[u8]) -> Result<ClientStatusRequest, DecodeError> {
    let message = WireRequest::decode(bytes)
        .map_err(|error| DecodeError { expected: "ClientStatusRequest", source: error.into() })?;
    Ok(ClientStatusRequest {
        has_matchers: !message.node_matchers.is_empty(),
        exclude_contents: message.exclude_resource_contents,
    })
}

/// Encodes a `ClientStatusResponse`.
pub fn encode_client_status(clients: &[ClientConfig]) -> Bytes {
    let config = clients.iter().map(WireConfig::from).collect();
    WireResponse { config }.encode_to_vec().into()
}

/// Decodes a `ClientStatusResponse`. The deprecated form that is sorted by services (`xds_config`)
/// is ignored.
///
/// # Errors
/// Fails if the bytes are no such message.
pub fn decode_client_status(bytes: &[u8]) -> Result<Vec<ClientConfig>, DecodeError> {
    let message = WireResponse::decode(bytes)
        .map_err(|error| DecodeError { expected: "ClientStatusResponse", source: error.into() })?;
    Ok(message.config.into_iter().map(ClientConfig::from).collect())
}

impl From<&ClientConfig> for WireConfig {
    fn from(config: &ClientConfig) -> Self {
        Self {
            node: config.node.as_deref().map(WireNode::from),
            generic_xds_configs: config.generic_xds_configs.iter().map(Into::into).collect(),
            client_scope: config.client_scope.clone(),
        }
    }
}

impl From<WireConfig> for ClientConfig {
    fn from(message: WireConfig) -> Self {
        Self {
            node: message.node.map(|node| Arc::new(node.into())),
            client_scope: message.client_scope,
            generic_xds_configs: message.generic_xds_configs.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&GenericXdsConfig> for WireGenericConfig {
    fn from(config: &GenericXdsConfig) -> Self {
        let type_url = config.type_url.as_str();
        let any = |value: &Bytes| WireAny { type_url: type_url.to_owned(), value: value.clone() };
        let failure = |failure: &UpdateFailureState| WireFailure {
            last_update_attempt: failure.last_update_attempt.and_then(timestamp),
            details: failure.details.clone(),
            version_info: failure.version_info.clone(),
        };
        Self {
            type_url: type_url.to_owned(),
            name: config.name.to_string(),
            version_info: config.version_info.to_string(),
            xds_config: config.xds_config.as_ref().map(any),
            last_updated: config.last_updated.and_then(timestamp),
            client_status: config.client_status.map_or(0, number_of),
            error_state: config.error_state.as_ref().map(failure),
        }
    }
}

impl From<WireGenericConfig> for GenericXdsConfig {
    fn from(message: WireGenericConfig) -> Self {
        let failure = |failure: WireFailure| UpdateFailureState {
            last_update_attempt: failure.last_update_attempt.and_then(time),
            details: failure.details,
            version_info: failure.version_info,
        };
        Self {
            type_url: TypeUrl::new(&message.type_url),
            name: message.name.into(),
            version_info: message.version_info.into(),
            xds_config: message.xds_config.map(|any| any.value),
            last_updated: message.last_updated.and_then(time),
            client_status: STATES.into_iter().find(|it| number_of(*it) == message.client_status),
            error_state: message.error_state.map(failure),
        }
    }
}

const STATES: [ResourceState; 6] = [
    ResourceState::Requested,
    ResourceState::DoesNotExist,
    ResourceState::Acked,
    ResourceState::Nacked,
    ResourceState::ReceivedError,
    ResourceState::Timeout,
];

/// The number in `ClientResourceStatus`.
fn number_of(state: ResourceState) -> i32 {
    match state {
        ResourceState::Requested => 1,
        ResourceState::DoesNotExist => 2,
        ResourceState::Acked => 3,
        ResourceState::Nacked => 4,
        ResourceState::ReceivedError => 5,
        ResourceState::Timeout => 6,
    }
}

/// Encodes a time. Clocks that stand before 1970 are wrong, so such a time is left out.
fn timestamp(time: SystemTime) -> Option<WireDuration> {
    time.duration_since(UNIX_EPOCH).ok().map(WireDuration::from)
}

fn time(timestamp: WireDuration) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from(timestamp).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost_reflect::DynamicMessage;
    use serde_json::json;

    use super::*;
    use crate::schema::Schema;

    const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

    fn client() -> ClientConfig {
        let node = Node { id: "n".to_owned(), ..Node::default() };
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let held = GenericXdsConfig {
            type_url: TypeUrl::new(SECRET),
            name: "a".into(),
            version_info: "1".into(),
            // A message with a text in field 1.
            xds_config: Some(Bytes::from_static(b"\x0a\x01a")),
            last_updated: Some(at(1500)),
            client_status: Some(ResourceState::Nacked),
            error_state: Some(UpdateFailureState {
                last_update_attempt: Some(at(2000)),
                details: "it is bad".to_owned(),
                version_info: "2".to_owned(),
            }),
        };
        let asked = GenericXdsConfig {
            name: "b".into(),
            version_info: "".into(),
            xds_config: None,
            last_updated: None,
            client_status: Some(ResourceState::Requested),
            error_state: None,
            ..held.clone()
        };
        ClientConfig {
            node: Some(Arc::new(node)),
            client_scope: "xds:///x".to_owned(),
            generic_xds_configs: vec![held, asked],
        }
    }

    /// C-136
    #[test]
    fn what_a_client_says_of_itself_is_what_the_descriptors_say() {
        let expected = json!({"config": [{
            "node": {"id": "n"},
            "clientScope": "xds:///x",
            "genericXdsConfigs": [{
                "typeUrl": SECRET,
                "name": "a",
                "versionInfo": "1",
                "xdsConfig": {"@type": SECRET, "name": "a"},
                "lastUpdated": "1970-01-01T00:00:01.500Z",
                "clientStatus": "NACKED",
                "errorState": {
                    "lastUpdateAttempt": "1970-01-01T00:00:02Z",
                    "details": "it is bad",
                    "versionInfo": "2",
                },
            }, {
                "typeUrl": SECRET,
                "name": "b",
                "clientStatus": "REQUESTED",
            }],
        }]});
        let message = "envoy.service.status.v3.ClientStatusResponse";
        let descriptor = Schema::bundled().message(message).unwrap();
        let bytes = encode_client_status(&[client()]);
        let message = DynamicMessage::decode(descriptor, bytes).unwrap();
        assert_eq!(serde_json::to_value(message).unwrap(), expected);
    }

    /// C-136, C-054
    #[test]
    fn every_state_has_its_number() {
        let descriptor = Schema::bundled();
        let states = descriptor.pool().get_enum_by_name("envoy.admin.v3.ClientResourceStatus");
        let states = states.unwrap();
        for state in STATES {
            let number = states.get_value(number_of(state)).unwrap();
            let name = number.name().replace('_', "").to_lowercase();
            assert_eq!(name, format!("{state:?}").to_lowercase());
            let mut client = client();
            client.generic_xds_configs[0].client_status = Some(state);
            let read = decode_client_status(&encode_client_status(&[client.clone()])).unwrap();
            assert_eq!(read, [client]);
        }
    }

    /// C-136
    #[test]
    fn a_question_says_what_it_wants() {
        let read = |bytes: &[u8]| {
            let request = decode_client_status_request(bytes).unwrap();
            (request.has_matchers, request.exclude_contents)
        };
        assert_eq!(read(b""), (false, false));
        assert_eq!(read(&[0x18, 1]), (false, true));
        // One empty matcher.
        assert_eq!(read(&[0x0a, 0]), (true, false));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_bad(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = (decode_client_status(&bytes), decode_client_status_request(&bytes));
        }
    }
}
