//! The types that clients subscribe to, and the methods that serve them.

use chancery_core::{Api, TypeUrl};

/// The two variants of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// State of the world.
    Sotw,
    /// Incremental.
    Delta,
}

/// Parses a type from its short name, as in `cds`, or from its URL.
///
/// # Errors
/// No type has this short name.
pub fn parse_type(text: &str) -> Result<TypeUrl, String> {
    if text.contains('/') {
        return Ok(TypeUrl::new(text));
    }
    let known = |url: &TypeUrl| url.short() == text && !url.message_name().contains("api.v2");
    TypeUrl::known().find(known).ok_or_else(|| {
        format!("no type is called `{text}`; write `cds`, `eds` and the like, or a full URL")
    })
}

impl Protocol {
    /// The word with which the names of its methods begin.
    fn verb(self) -> &'static str {
        match self {
            Self::Sotw => "Stream",
            Self::Delta => "Delta",
        }
    }
}

/// The method of the service that serves this type alone; nothing if it has none.
pub(crate) fn method(url: &TypeUrl, protocol: Protocol) -> Option<String> {
    let (service, noun) = match url.api() {
        Api::Cds => ("cluster.v3.ClusterDiscoveryService", "Clusters"),
        Api::Eds => ("endpoint.v3.EndpointDiscoveryService", "Endpoints"),
        Api::Lds => ("listener.v3.ListenerDiscoveryService", "Listeners"),
        Api::Rds => ("route.v3.RouteDiscoveryService", "Routes"),
        Api::Srds => ("route.v3.ScopedRoutesDiscoveryService", "ScopedRoutes"),
        Api::Vhds if protocol == Protocol::Delta => {
            ("route.v3.VirtualHostDiscoveryService", "VirtualHosts")
        }
        Api::Sds => ("secret.v3.SecretDiscoveryService", "Secrets"),
        Api::Rtds => ("runtime.v3.RuntimeDiscoveryService", "Runtime"),
        Api::Ecds => ("extension.v3.ExtensionConfigDiscoveryService", "ExtensionConfigs"),
        _ => return None,
    };
    Some(format!("/envoy.service.{service}/{}{noun}", protocol.verb()))
}

/// The method of the aggregated service, which serves all types.
pub(crate) fn aggregated(protocol: Protocol) -> String {
    let verb = protocol.verb();
    format!("/envoy.service.discovery.v3.AggregatedDiscoveryService/{verb}AggregatedResources")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_short_or_in_full() {
        let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        assert_eq!(parse_type("cds").unwrap().as_str(), url);
        assert_eq!(parse_type(url).unwrap().as_str(), url);
        assert_eq!(
            parse_type("type.googleapis.com/of.mine").unwrap().as_str(),
            "type.googleapis.com/of.mine"
        );
        assert!(parse_type("cdx").unwrap_err().contains("`cdx`"));
    }

    #[test]
    fn types_of_their_own_service_have_a_method() {
        let eds = parse_type("eds").unwrap();
        assert_eq!(
            method(&eds, Protocol::Sotw).unwrap(),
            "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints"
        );
        assert!(method(&eds, Protocol::Delta).unwrap().ends_with("/DeltaEndpoints"));
        assert_eq!(method(&parse_type("vhds").unwrap(), Protocol::Sotw), None);
    }
}
