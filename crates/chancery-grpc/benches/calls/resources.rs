//! The resources of a channel: a route for each cluster, and endpoints at addresses of loopback.

use std::net::Ipv4Addr;

use bytes::Bytes;
use chancery_core::{Resource, ResourceName, Snapshot, TypeUrl};
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, Locality, SocketAddress};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use prost::Message;

use crate::Result;

/// The clusters `c0`, `c1` …, each with a route for the paths below `/cN/` and with its endpoints; the last one takes all
/// other paths.
pub(crate) struct Clusters {
    pub(crate) number: usize,
    pub(crate) policy: &'static str,
    /// The port of all endpoints.
    pub(crate) port: u16,
}

impl Clusters {
    /// All resources but the endpoints.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let last = self.number - 1;
        let route = |prefix: &str, at: usize| {
            format!("{{match: {{prefix: {prefix}}}, route: {{cluster: c{at}}}}}")
        };
        let mut routes: Vec<_> = (0..last).map(|at| route(&format!("/c{at}/"), at)).collect();
        routes.push(route("/", last));
        let mut text = format!(
            r#"
- "@type": {TYPES}.config.listener.v3.Listener
  name: service
  api_listener:
    api_listener:
      "@type": {TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: x
      route_config:
        virtual_hosts: [{{name: all, domains: ["*"], routes: [{}]}}]
      http_filters:
      - name: router
        typed_config: {{"@type": {TYPES}.extensions.filters.http.router.v3.Router}}
"#,
            routes.join(", ")
        );
        for at in 0..self.number {
            text += &format!(
                r#"
- "@type": {TYPES}.config.cluster.v3.Cluster
  name: c{at}
  type: EDS
  lb_policy: {}
  eds_cluster_config: {{eds_config: {{ads: {{}}}}}}
"#,
                self.policy
            );
        }
        let parsed = parse(&Schema::bundled(), Format::Yaml, text.as_bytes());
        if let Some(fault) = parsed.faults.first() {
            return Err(format!("{fault:?}").into());
        }
        let mut snapshot = Snapshot::new();
        for one in parsed.resources {
            snapshot.insert(&one.type_url, (*one.resource).clone());
        }
        Ok(snapshot)
    }

    /// All resources, with so many endpoints for each cluster.
    pub(crate) fn with_endpoints(&self, number: u32) -> Result<Snapshot> {
        let mut snapshot = self.snapshot()?;
        for at in 0..self.number {
            self.put(&mut snapshot, at, (0..number).collect())?;
        }
        Ok(snapshot)
    }

    /// Gives a cluster the endpoints with these numbers. Each number is another address of loopback.
    pub(crate) fn put(&self, snapshot: &mut Snapshot, at: usize, numbers: Vec<u32>) -> Result<()> {
        let name = format!("c{at}");
        let endpoints = LocalityLbEndpoints {
            locality: Some(Locality { zone: "z".to_owned(), ..Locality::default() }),
            load_balancing_weight: Some(envoy_types::pb::google::protobuf::UInt32Value {
                value: 1,
            }),
            lb_endpoints: numbers.into_iter().map(|number| self.endpoint(number)).collect(),
            ..LocalityLbEndpoints::default()
        };
        let set = ClusterLoadAssignment {
            cluster_name: name.clone(),
            endpoints: vec![endpoints],
            ..ClusterLoadAssignment::default()
        };
        let body = Bytes::from(set.encode_to_vec());
        let type_url = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
        snapshot.insert(&type_url, Resource::new(ResourceName::parse(&name)?, body));
        Ok(())
    }

    fn endpoint(&self, number: u32) -> LbEndpoint {
        // 127.0.0.1 and those after it.
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + number);
        let address = SocketAddress {
            address: address.to_string(),
            port_specifier: Some(PortSpecifier::PortValue(self.port.into())),
            ..SocketAddress::default()
        };
        let address = Some(Address { address: Some(Kind::SocketAddress(address)) });
        let endpoint = Endpoint { address, ..Endpoint::default() };
        LbEndpoint {
            host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
            ..LbEndpoint::default()
        }
    }
}

const TYPES: &str = "type.googleapis.com/envoy";
