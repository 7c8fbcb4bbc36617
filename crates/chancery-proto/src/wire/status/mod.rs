//! The status of clients (CSDS): `ClientStatusRequest` and `ClientStatusResponse`
//! ([`csds.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto)).
//!
//! A client tells of itself, and a server of the clients that it has: the messages are the same, and
//! what each fills in of a resource is another. Both are written and read. Field numbers are those of
//! `csds.proto` and `config_dump.proto`; a test compares them with the descriptors. The public
//! values are plain (`SystemTime`, `TypeUrl`, the core's `Node`), and the derived messages stay
//! private (`message`).

mod message;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use chancery_core::client::ResourceState;
use chancery_core::{Node, TypeUrl};
use prost::Message;

use self::message::{WireConfig, WireOwnRequest, WireRequest, WireResponse};
use super::DecodeError;
use crate::node_matcher::NodeMatchers;

/// A `ClientStatusRequest`.
#[derive(Clone, Debug, Default)]
pub struct ClientStatusRequest {
    /// The clients that are asked about, which only a server with many clients can choose.
    pub matchers: NodeMatchers,
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
    /// The state of the resource as a server sees it; `None` for an unknown one, and in the words of a
    /// client about itself.
    pub config_status: Option<ConfigStatus>,
    /// The state of the resource as the client sees it; `None` for an unknown one.
    pub client_status: Option<ResourceState>,
    /// The last error, if there is one.
    pub error_state: Option<UpdateFailureState>,
}

/// The state of a resource as a server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfigStatus {
    /// The client has acknowledged it.
    Synced,
    /// The client wants it, and it was not sent.
    NotSent,
    /// It was sent, and the client has not answered.
    Stale,
    /// The client has rejected it.
    Error,
}

/// The last error of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateFailureState {
    /// The body that was rejected, if it is known.
    pub failed_configuration: Option<Bytes>,
    /// The time of the error, if it is known.
    pub last_update_attempt: Option<SystemTime>,
    /// The reason why the resource cannot be used.
    pub details: String,
    /// The version that was rejected; empty if none was.
    pub version_info: String,
}

/// Decodes a `ClientStatusRequest`. Its size is the caller's to bound; matchers have bounds of their own.
///
/// # Errors
/// Fails if the bytes are no such message, or if its matchers mean nothing or exceed their bounds.
pub fn decode_client_status_request(bytes: &[u8]) -> Result<ClientStatusRequest, DecodeError> {
    let fault = |source| DecodeError { expected: "ClientStatusRequest", source };
    let message = WireRequest::decode(bytes).map_err(|error| fault(error.into()))?;
    let matchers = NodeMatchers::read(&message.node_matchers);
    Ok(ClientStatusRequest {
        matchers: matchers.map_err(|error| fault(error.into()))?,
        exclude_contents: message.exclude_resource_contents,
    })
}

/// Encodes a `ClientStatusRequest` about the client with this id, or about all.
pub fn encode_client_status_request(id: Option<&str>, exclude_contents: bool) -> Bytes {
    WireOwnRequest::new(id, exclude_contents).encode_to_vec().into()
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

#[cfg(test)]
mod tests;
