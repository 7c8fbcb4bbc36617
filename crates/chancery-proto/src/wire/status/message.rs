//! The messages of CSDS, to and from the plain values.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use chancery_core::TypeUrl;
use chancery_core::client::ResourceState;
use prost::Message;

use super::{ClientConfig, ConfigStatus, GenericXdsConfig, UpdateFailureState};
use crate::wire::WireDuration;
use crate::wire::node::WireNode;

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireRequest {
    /// `NodeMatcher`s, which are decoded one by one within bounds.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) node_matchers: Vec<Bytes>,
    #[prost(bool, tag = "3")]
    pub(super) exclude_resource_contents: bool,
}

/// A `ClientStatusRequest` as it is asked here.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WireOwnRequest {
    #[prost(message, optional, tag = "1")]
    node_matcher: Option<WireIdMatcher>,
    #[prost(bool, tag = "3")]
    exclude_resource_contents: bool,
}

/// A `NodeMatcher` of an id.
#[derive(Clone, PartialEq, Message)]
struct WireIdMatcher {
    #[prost(message, optional, tag = "1")]
    node_id: Option<WireExact>,
}

/// A `StringMatcher` of a whole text.
#[derive(Clone, PartialEq, Message)]
struct WireExact {
    /// It is written also if it is empty, because it is one of several fields.
    #[prost(string, optional, tag = "1")]
    exact: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) config: Vec<WireConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireConfig {
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
    #[prost(int32, tag = "6")]
    config_status: i32,
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
    #[prost(message, optional, tag = "1")]
    failed_configuration: Option<WireAny>,
    #[prost(message, optional, tag = "2")]
    last_update_attempt: Option<WireDuration>,
    #[prost(string, tag = "3")]
    details: String,
    #[prost(string, tag = "4")]
    version_info: String,
}

impl WireOwnRequest {
    pub(super) fn new(id: Option<&str>, exclude_resource_contents: bool) -> Self {
        let matcher = |id: &str| {
            let node_id = Some(WireExact { exact: Some(id.to_owned()) });
            WireIdMatcher { node_id }
        };
        Self { node_matcher: id.map(matcher), exclude_resource_contents }
    }
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
            failed_configuration: failure.failed_configuration.as_ref().map(any),
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
            config_status: config.config_status.map_or(0, number_of_config),
            client_status: config.client_status.map_or(0, number_of),
            error_state: config.error_state.as_ref().map(failure),
        }
    }
}

impl From<WireGenericConfig> for GenericXdsConfig {
    fn from(message: WireGenericConfig) -> Self {
        let failure = |failure: WireFailure| UpdateFailureState {
            failed_configuration: failure.failed_configuration.map(|any| any.value),
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
            config_status: CONFIG_STATES
                .into_iter()
                .find(|it| number_of_config(*it) == message.config_status),
            client_status: STATES.into_iter().find(|it| number_of(*it) == message.client_status),
            error_state: message.error_state.map(failure),
        }
    }
}

pub(super) const CONFIG_STATES: [ConfigStatus; 4] =
    [ConfigStatus::Synced, ConfigStatus::NotSent, ConfigStatus::Stale, ConfigStatus::Error];

/// The number in `ConfigStatus`.
pub(super) fn number_of_config(status: ConfigStatus) -> i32 {
    match status {
        ConfigStatus::Synced => 1,
        ConfigStatus::NotSent => 2,
        ConfigStatus::Stale => 3,
        ConfigStatus::Error => 4,
    }
}

pub(super) const STATES: [ResourceState; 6] = [
    ResourceState::Requested,
    ResourceState::DoesNotExist,
    ResourceState::Acked,
    ResourceState::Nacked,
    ResourceState::ReceivedError,
    ResourceState::Timeout,
];

/// The number in `ClientResourceStatus`.
pub(super) fn number_of(state: ResourceState) -> i32 {
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
