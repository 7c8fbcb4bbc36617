//! Envoy's types as values, with the feature `envoy-types`.
//!
//! A body is only checked to be of its type. A program that checks more has a [`ResourceType`] of
//! its own, which may decode one of these first.

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint};
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::{
    RouteConfiguration, ScopedRouteConfiguration, VirtualHost,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use envoy_types::pb::envoy::service::runtime::v3::Runtime;
use prost::Message;

use super::ResourceType;

macro_rules! typed {
    ($($message:ty = $name:literal),* $(,)?) => {
        $(impl ResourceType for $message {
            const TYPE_URL: &'static str = $name;

            fn decode(_name: &str, body: &Bytes) -> Result<Self, String> {
                Message::decode(body.clone()).map_err(|fault| fault.to_string())
            }
        })*

        /// The name of each type here, and the name that it has of itself.
        #[cfg(test)]
        fn names() -> Vec<(&'static str, String)> {
            vec![$(($name, <$message as prost::Name>::full_name())),*]
        }
    };
}

typed! {
    Cluster = "envoy.config.cluster.v3.Cluster",
    ClusterLoadAssignment = "envoy.config.endpoint.v3.ClusterLoadAssignment",
    FilterChain = "envoy.config.listener.v3.FilterChain",
    LbEndpoint = "envoy.config.endpoint.v3.LbEndpoint",
    Listener = "envoy.config.listener.v3.Listener",
    RouteConfiguration = "envoy.config.route.v3.RouteConfiguration",
    Runtime = "envoy.service.runtime.v3.Runtime",
    ScopedRouteConfiguration = "envoy.config.route.v3.ScopedRouteConfiguration",
    Secret = "envoy.extensions.transport_sockets.tls.v3.Secret",
    TypedExtensionConfig = "envoy.config.core.v3.TypedExtensionConfig",
    VirtualHost = "envoy.config.route.v3.VirtualHost",
}

#[cfg(test)]
mod tests {
    use chancery_core::TypeUrl;

    use super::*;

    #[test]
    fn every_type_of_the_protocol_has_its_own_name() {
        for (name, own) in names() {
            assert_eq!(name, own);
        }
        let is_new = |name: &str| name.starts_with("envoy.") && name.contains(".v3.");
        for type_url in TypeUrl::known().filter(|type_url| is_new(type_url.message_name())) {
            let name = type_url.message_name();
            assert!(names().iter().any(|(known, _)| *known == name), "{name}");
        }
    }

    #[test]
    fn bytes_of_another_type_are_refused() {
        let why =
            <Cluster as ResourceType>::decode("a", &Bytes::from_static(b"\x08\x01")).unwrap_err();
        assert!(why.contains("name"), "{why}");
    }
}
