//! Clusters, read and checked (C-107, C-112, C-147). Not here: transport sockets.

use bytes::Bytes;
use chancery_calls::balancing::PolicyConfig;
use chancery_client::ResourceType;
use envoy_types::pb::envoy::config::cluster::v3 as cds;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::endpoint::v3 as eds;
use envoy_types::pb::envoy::extensions::clusters::aggregate::v3::ClusterConfig;
use prost::Message;

use super::{opened, policies, quoted};

/// A cluster, as far as calls depend on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cluster {
    pub(crate) kind: ClusterKind,
    /// The policy; an aggregate has none of its own (A75).
    pub(crate) policy: PolicyConfig,
    /// The number of calls that may be under way.
    pub(crate) max_requests: u32,
    /// True if calls are counted for the server that the cluster came from.
    pub(crate) reports_load: bool,
}

/// Where the endpoints of a cluster come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterKind {
    /// EDS, under this name.
    Eds { service: String },
    /// A name of DNS.
    LogicalDns { host: String, port: u16 },
    /// Other clusters, the best first.
    Aggregate(Vec<String>),
}

impl ResourceType for Cluster {
    const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";

    fn decode(name: &str, body: &Bytes) -> Result<Self, String> {
        let cluster: cds::Cluster = Message::decode(body.clone()).map_err(|it| it.to_string())?;
        read(name, &cluster)
    }
}

/// Reads a cluster of this name.
pub(crate) fn read(name: &str, cluster: &cds::Cluster) -> Result<Cluster, String> {
    let kind = kind(name, cluster)?;
    if let Some(socket) = &cluster.transport_socket {
        // A call must not go in the clear where the control plane asks for TLS.
        return Err(format!("transport_socket: `{}` is not supported yet", quoted(&socket.name)));
    }
    let policy = match kind {
        ClusterKind::Aggregate(_) => PolicyConfig::RoundRobin,
        _ => policies::read(cluster)?,
    };
    let reports_load = match cluster.lrs_server.as_ref().map(|it| &it.config_source_specifier) {
        None => false,
        Some(Some(core::config_source::ConfigSourceSpecifier::Self_(_))) => true,
        Some(_) => return Err("lrs_server: it must be `self`".to_owned()),
    };
    Ok(Cluster { kind, policy, max_requests: max_requests(cluster), reports_load })
}

fn kind(name: &str, cluster: &cds::Cluster) -> Result<ClusterKind, String> {
    use cds::cluster::{ClusterDiscoveryType, DiscoveryType};
    const EXPECTED: &str = "a cluster must be `EDS`, `LOGICAL_DNS` or an aggregate";
    let number = match &cluster.cluster_discovery_type {
        Some(ClusterDiscoveryType::ClusterType(custom)) => {
            let config = custom.typed_config.as_ref().and_then(opened::<ClusterConfig>);
            let config = config.ok_or(format!("cluster_type: {EXPECTED}"))??;
            if config.clusters.is_empty() {
                return Err("cluster_type: an aggregate must name clusters".to_owned());
            }
            return Ok(ClusterKind::Aggregate(config.clusters));
        }
        Some(ClusterDiscoveryType::Type(number)) => *number,
        None => DiscoveryType::Static.into(),
    };
    match DiscoveryType::try_from(number) {
        Ok(DiscoveryType::Eds) => eds(name, cluster),
        Ok(DiscoveryType::LogicalDns) => {
            logical_dns(cluster).map_err(|why| format!("load_assignment: {why}"))
        }
        _ => Err(format!("type: {EXPECTED}")),
    }
}

fn eds(name: &str, cluster: &cds::Cluster) -> Result<ClusterKind, String> {
    use core::config_source::ConfigSourceSpecifier::{Ads, Self_};
    let config = cluster.eds_cluster_config.as_ref().ok_or("eds_cluster_config: it is missing")?;
    let source = config.eds_config.as_ref().and_then(|it| it.config_source_specifier.as_ref());
    if !matches!(source, Some(Ads(_) | Self_(_))) {
        return Err("eds_cluster_config.eds_config: it must be `ads` or `self`".to_owned());
    }
    let service = match config.service_name.as_str() {
        "" if name.starts_with("xdstp:") => {
            let why = "it must be set in a cluster whose name begins with `xdstp:`";
            return Err(format!("eds_cluster_config.service_name: {why}"));
        }
        "" => name.to_owned(),
        service => service.to_owned(),
    };
    Ok(ClusterKind::Eds { service })
}

fn logical_dns(cluster: &cds::Cluster) -> Result<ClusterKind, String> {
    let assignment = cluster.load_assignment.as_ref().ok_or("it is missing")?;
    let [locality] = &*assignment.endpoints else {
        return Err("it must have one locality".to_owned());
    };
    let [endpoint] = &*locality.lb_endpoints else {
        return Err("it must have one endpoint".to_owned());
    };
    let Some(eds::lb_endpoint::HostIdentifier::Endpoint(endpoint)) = &endpoint.host_identifier
    else {
        return Err("`endpoint` is missing".to_owned());
    };
    let address = endpoint.address.as_ref().and_then(|it| it.address.as_ref());
    let Some(core::address::Address::SocketAddress(socket)) = address else {
        return Err("the address must be a `socket_address`".to_owned());
    };
    let Some(core::socket_address::PortSpecifier::PortValue(port)) = socket.port_specifier else {
        return Err("`port_value` is missing".to_owned());
    };
    let port = u16::try_from(port).map_err(|_| format!("{port} is no port"))?;
    match socket.address.as_str() {
        "" => Err("`address` is missing".to_owned()),
        host => Ok(ClusterKind::LogicalDns { host: host.to_owned(), port }),
    }
}

/// Returns the limit of the first thresholds of the priority DEFAULT; 1024 if there is none.
fn max_requests(cluster: &cds::Cluster) -> u32 {
    let thresholds = cluster.circuit_breakers.as_ref().map(|it| &*it.thresholds);
    let default = thresholds.unwrap_or_default().iter();
    let mut default = default.filter(|it| it.priority() == core::RoutingPriority::Default);
    let limit = default.next().and_then(|it| it.max_requests.as_ref());
    limit.map_or(1024, |limit| limit.value)
}
