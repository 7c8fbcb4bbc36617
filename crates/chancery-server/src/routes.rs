//! The paths of discovery, over gRPC and REST, and their meaning, read from the descriptors (S-001,
//! S-010).
//!
//! But for those of load reports and of CSDS, no path is written down here: a service that the schema knows is served
//! under the name it has there. Not here: the other gRPC services on the port (`tower_service`), and the response to a
//! request (`service`).

use std::collections::HashMap;

use chancery_core::{TypeUrl, Variant};
use chancery_proto::schema::{MethodKind, Schema, Service};

use crate::csds::CallKind;

/// The routes by path.
pub(crate) struct Routes(HashMap<String, Route>);

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A discovery stream over gRPC.
    Stream(StreamRoute),
    /// A poll over REST. The path decides the type, whatever the body says (S-018).
    Poll(TypeUrl),
    /// A stream of load reports over gRPC (S-130).
    Load,
    /// A call for the status of clients over gRPC (S-134).
    Csds(CallKind),
    /// The same over REST.
    CsdsPoll,
}

/// A method that opens a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamRoute {
    pub(crate) variant: Variant,
    /// `None` for the aggregated service.
    pub(crate) type_url: Option<TypeUrl>,
}

impl Routes {
    /// The routes of v3, and those of v2 if `v2` is true.
    pub(crate) fn new(schema: &Schema, v2: bool) -> Self {
        Self(schema.services(v2).iter().flat_map(routes_of).collect())
    }

    /// Has load reports taken too.
    pub(crate) fn add_load(&mut self) {
        self.0.insert(STREAM_LOAD_STATS.to_owned(), Route::Load);
    }

    /// Has the status of clients told too.
    pub(crate) fn add_csds(&mut self) {
        let calls =
            [(FETCH_CLIENT_STATUS, CallKind::Fetch), (STREAM_CLIENT_STATUS, CallKind::Stream)];
        self.0.extend(calls.map(|(path, kind)| (path.to_owned(), Route::Csds(kind))));
        self.0.insert(POLL_CLIENT_STATUS.to_owned(), Route::CsdsPoll);
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Route> {
        self.0.get(path)
    }
}

/// The method of load reports, of v3; no client in use has that of v2 alone.
const STREAM_LOAD_STATS: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

/// The methods of CSDS, of v3, and its path over REST.
const FETCH_CLIENT_STATUS: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
const STREAM_CLIENT_STATUS: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";
const POLL_CLIENT_STATUS: &str = "/v3/discovery:client_status";

fn routes_of(service: &Service) -> impl Iterator<Item = (String, Route)> + '_ {
    service.methods.iter().filter_map(|method| {
        let variant = match method.kind {
            MethodKind::Sotw => Variant::Sotw,
            MethodKind::Delta => Variant::Delta,
            MethodKind::Fetch => {
                let poll = Route::Poll(method.type_url.clone()?);
                return Some((method.rest_path.clone()?, poll));
            }
        };
        let route = StreamRoute { variant, type_url: method.type_url.clone() };
        Some((method.path.clone(), Route::Stream(route)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the path has a route.
    fn has_route(routes: &Routes, path: &str) -> bool {
        routes.get(path).is_some()
    }

    #[test]
    fn every_service_of_v3_is_routed_as_it_is_spelt_in_its_definition() {
        // S-001, S-002, S-003, S-004
        let routes = Routes::new(&Schema::bundled(), false);
        for (package, service, noun) in [
            ("listener", "ListenerDiscoveryService", "Listeners"),
            ("route", "RouteDiscoveryService", "Routes"),
            ("route", "ScopedRoutesDiscoveryService", "ScopedRoutes"),
            ("cluster", "ClusterDiscoveryService", "Clusters"),
            ("endpoint", "EndpointDiscoveryService", "Endpoints"),
            ("secret", "SecretDiscoveryService", "Secrets"),
            ("runtime", "RuntimeDiscoveryService", "Runtime"),
            ("extension", "ExtensionConfigDiscoveryService", "ExtensionConfigs"),
            ("discovery", "AggregatedDiscoveryService", "AggregatedResources"),
        ] {
            for method in ["Stream", "Delta"] {
                let path = format!("/envoy.service.{package}.v3.{service}/{method}{noun}");
                assert!(has_route(&routes, &path), "{path}");
            }
        }
        assert!(has_route(
            &routes,
            "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts"
        ));
        let leds = "/envoy.service.endpoint.v3.LocalityEndpointDiscoveryService";
        assert!(has_route(&routes, &format!("{leds}/DeltaLocalityEndpoints")));
        assert!(!has_route(
            &routes,
            "/envoy.service.route.v3.VirtualHostDiscoveryService/StreamVirtualHosts"
        ));
    }

    #[test]
    fn rest_has_the_eight_paths_and_no_others() {
        // S-018
        let routes = Routes::new(&Schema::bundled(), false);
        for suffix in [
            "listeners",
            "routes",
            "scoped-routes",
            "clusters",
            "endpoints",
            "secrets",
            "runtime",
            "extension_configs",
        ] {
            assert!(has_route(&routes, &format!("/v3/discovery:{suffix}")), "{suffix}");
        }
        assert!(!has_route(&routes, "/v3/discovery:virtual_hosts"));
        let polls = routes.0.values().filter(|route| matches!(route, Route::Poll(_)));
        assert_eq!(polls.count(), 8);
    }

    #[test]
    fn v2_is_there_only_if_it_is_wanted() {
        // S-010
        let ads =
            "/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources";
        assert!(!has_route(&Routes::new(&Schema::bundled(), false), ads));
        let both = Routes::new(&Schema::bundled(), true);
        assert!(has_route(&both, ads));
        assert!(has_route(&both, "/envoy.api.v2.ClusterDiscoveryService/StreamClusters"));
        assert!(has_route(&both, "/v2/discovery:clusters"));
    }
}
