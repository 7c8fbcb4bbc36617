//! Clusters, read and checked (C-107, C-147). Not here: their policies, outlier detection, sessions and transport.

use bytes::Bytes;
use chancery_calls::balancing::{Detection, PolicyConfig};
use chancery_client::ResourceType;
use chancery_core::client::load::ReportedMetrics;
use envoy_types::pb::envoy::config::cluster::v3 as cds;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::endpoint::v3 as eds;
use envoy_types::pb::envoy::extensions::clusters::aggregate::v3::ClusterConfig;
use prost::Message;

use super::fault::{At, Fault};
use super::kept_sessions::KeptSessions;
use super::surroundings::Surroundings;
use super::transport::Transport;
use super::{kept_sessions, opened, outliers, policies, transport};

/// A cluster, as far as calls depend on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cluster {
    pub(crate) kind: ClusterKind,
    /// The policy. That of an aggregate is checked, and means nothing (A75).
    pub(crate) policy: PolicyConfig,
    /// The number of calls that may be under way.
    pub(crate) max_requests: u32,
    /// True if calls are counted for the server that the cluster came from.
    pub(crate) reports_load: bool,
    /// The metrics of endpoints that go into these reports.
    pub(crate) reported_metrics: ReportedMetrics,
    /// The endpoints that sessions stay with, and for how long.
    pub(crate) sessions: KeptSessions,
    /// When endpoints are taken out for their errors.
    pub(crate) detection: Option<Detection>,
    /// The way to its endpoints.
    pub(crate) transport: Transport,
}

/// Where the endpoints of a cluster come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterKind {
    /// EDS, under this name if the cluster states one, or that of the cluster.
    Eds { service: Option<String> },
    /// A name of DNS.
    LogicalDns { host: String, port: u16 },
    /// Other clusters, the best first.
    Aggregate(Vec<String>),
}

impl ResourceType for Cluster {
    const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";

    fn decode(name: &str, body: &Bytes) -> Result<Self, String> {
        let cluster: cds::Cluster = Message::decode(body.clone()).map_err(|it| it.to_string())?;
        Ok(read(name, &cluster, &Surroundings::default())?)
    }
}

/// Reads a cluster of this name.
pub(super) fn read(
    name: &str,
    cluster: &cds::Cluster,
    surroundings: &Surroundings,
) -> Result<Cluster, Fault> {
    let kind = kind(name, cluster)?;
    let transport = transport::read(cluster, surroundings)?;
    let detection = cluster.outlier_detection.as_ref().map(outliers::read).transpose();
    let policy = policies::read(cluster, &surroundings.policies)?;
    let sessions = kept_sessions::read(cluster)?;
    let reports_load = match cluster.lrs_server.as_ref().map(|it| &it.config_source_specifier) {
        None => false,
        Some(Some(core::config_source::ConfigSourceSpecifier::Self_(_))) => true,
        Some(_) => return Err("it must be `self`").at("lrs_server"),
    };
    Ok(Cluster {
        kind,
        policy,
        max_requests: max_requests(cluster),
        reports_load,
        reported_metrics: ReportedMetrics::new(&cluster.lrs_report_endpoint_metrics),
        sessions,
        detection: detection.at("outlier_detection")?,
        transport,
    })
}

fn kind(name: &str, cluster: &cds::Cluster) -> Result<ClusterKind, Fault> {
    use cds::cluster::{ClusterDiscoveryType, DiscoveryType};
    const EXPECTED: &str = "a cluster must be `EDS`, `LOGICAL_DNS` or an aggregate";
    let number = match &cluster.cluster_discovery_type {
        Some(ClusterDiscoveryType::ClusterType(custom)) => {
            let config = custom.typed_config.as_ref().and_then(opened::<ClusterConfig>);
            let config = config.ok_or(EXPECTED).at("cluster_type")?;
            let clusters = config.at("cluster_type.typed_config")?.clusters;
            if clusters.is_empty() {
                return Err("it must name clusters").at("cluster_type.typed_config.clusters");
            }
            return Ok(ClusterKind::Aggregate(clusters));
        }
        Some(ClusterDiscoveryType::Type(number)) => *number,
        None => DiscoveryType::Static.into(),
    };
    match DiscoveryType::try_from(number) {
        Ok(DiscoveryType::Eds) => eds(name, cluster).at("eds_cluster_config"),
        Ok(DiscoveryType::LogicalDns) => logical_dns(cluster).at("load_assignment"),
        _ => Err(EXPECTED).at("type"),
    }
}

fn eds(name: &str, cluster: &cds::Cluster) -> Result<ClusterKind, Fault> {
    use core::config_source::ConfigSourceSpecifier::{Ads, Self_};
    let config = cluster.eds_cluster_config.as_ref();
    let source = config.and_then(|it| it.eds_config.as_ref()?.config_source_specifier.as_ref());
    if !matches!(source, Some(Ads(_) | Self_(_))) {
        return Err("it must be `ads` or `self`").at("eds_config");
    }
    let service = match config.map_or("", |it| &it.service_name) {
        "" if name.starts_with("xdstp:") => {
            let why = "it must be set in a cluster whose name begins with `xdstp:`";
            return Err(why).at("service_name");
        }
        "" => None,
        service => Some(service.to_owned()),
    };
    Ok(ClusterKind::Eds { service })
}

fn logical_dns(cluster: &cds::Cluster) -> Result<ClusterKind, Fault> {
    let assignment = cluster.load_assignment.as_ref().ok_or("it must be set")?;
    let [locality] = &*assignment.endpoints else {
        return Err("there must be one locality").at("endpoints");
    };
    let [endpoint] = &*locality.lb_endpoints else {
        return Err("there must be one endpoint").at("endpoints[0].lb_endpoints");
    };
    let Some(eds::lb_endpoint::HostIdentifier::Endpoint(endpoint)) = &endpoint.host_identifier
    else {
        return Err("it must be set").at("endpoints[0].lb_endpoints[0].endpoint");
    };
    let address = endpoint.address.as_ref().and_then(|it| it.address.as_ref());
    let name = dns_name(address).at("endpoints[0].lb_endpoints[0].endpoint.address");
    name.map(|(host, port)| ClusterKind::LogicalDns { host, port })
}

fn dns_name(address: Option<&core::address::Address>) -> Result<(String, u16), Fault> {
    let Some(core::address::Address::SocketAddress(socket)) = address else {
        return Err("it must be a `socket_address`".into());
    };
    if !socket.resolver_name.is_empty() {
        return Err("it must be empty").at("socket_address.resolver_name");
    }
    let port = match socket.port_specifier {
        Some(core::socket_address::PortSpecifier::PortValue(port)) => u16::try_from(port).ok(),
        _ => None,
    };
    let port = port.filter(|port| *port > 0).ok_or("it must be from 1 to 65535");
    let port = port.at("socket_address.port_value")?;
    match socket.address.as_str() {
        "" => Err("it must be set").at("socket_address.address"),
        host => Ok((host.to_owned(), port)),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::support::{any, fault_of, read};
    use super::*;

    /// A cluster with EDS and these fields.
    fn eds(fields: Value) -> Value {
        let mut cluster = json!({"type": "EDS", "edsClusterConfig": {"edsConfig": {"ads": {}}}});
        cluster.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        cluster
    }

    fn kind(cluster: Value) -> Result<ClusterKind, String> {
        read::<Cluster>(&cluster).map(|cluster| cluster.kind)
    }

    fn aggregate(clusters: Value) -> Value {
        let config =
            any("extensions.clusters.aggregate.v3.ClusterConfig", json!({"clusters": clusters}));
        json!({"clusterType": {"name": "envoy.clusters.aggregate", "typedConfig": config}})
    }

    #[test]
    fn endpoints_come_from_the_stream() {
        // C-107
        let service =
            |name: Option<&str>| Ok(ClusterKind::Eds { service: name.map(str::to_owned) });
        for source in ["ads", "self"] {
            let config = json!({"edsConfig": {source: {}}});
            let unnamed = json!({"name": "c", "edsClusterConfig": config});
            assert_eq!(kind(eds(unnamed)), service(None));
        }
        let named = json!({"edsConfig": {"ads": {}}, "serviceName": "s"});
        assert_eq!(kind(eds(json!({"edsClusterConfig": named}))), service(Some("s")));
        let xdstp = "xdstp://a/envoy.config.cluster.v3.Cluster/c";
        assert_eq!(
            kind(eds(json!({"name": xdstp, "edsClusterConfig": named}))),
            service(Some("s"))
        );
        let file = json!({"edsConfig": {"pathConfigSource": {"path": "/a"}}});
        let why = "eds_cluster_config.eds_config: it must be `ads` or `self`";
        for config in [file, json!({}), Value::Null] {
            assert_eq!(fault_of::<Cluster>(&eds(json!({"edsClusterConfig": config}))), why);
        }
        assert_eq!(
            fault_of::<Cluster>(&eds(json!({"name": xdstp}))),
            "eds_cluster_config.service_name: it must be set in a cluster whose name begins with `xdstp:`"
        );
    }

    #[test]
    fn other_kinds_of_clusters_are_rejected() {
        // C-107
        let expected = "a cluster must be `EDS`, `LOGICAL_DNS` or an aggregate";
        for kind in ["STATIC", "STRICT_DNS", "ORIGINAL_DST"] {
            let fault = fault_of::<Cluster>(&json!({"type": kind}));
            assert_eq!(fault, format!("type: {expected}"));
        }
        assert_eq!(fault_of::<Cluster>(&json!({})), format!("type: {expected}"));
        let custom = any("extensions.clusters.dns.v3.DnsCluster", json!({}));
        let custom = json!({"clusterType": {"name": "c", "typedConfig": custom}});
        assert_eq!(fault_of::<Cluster>(&custom), format!("cluster_type: {expected}"));
    }

    #[test]
    fn an_aggregate_names_clusters() {
        // C-107
        let names = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(kind(aggregate(json!(["a", "b"]))), Ok(ClusterKind::Aggregate(names)));
        let none = fault_of::<Cluster>(&aggregate(json!([])));
        assert_eq!(none, "cluster_type.typed_config.clusters: it must name clusters");
        // C-112, gRFC A29: its policy and its socket are checked, although it has no connections.
        let mut other = aggregate(json!(["a"]));
        other["lbPolicy"] = json!("MAGLEV");
        assert!(fault_of::<Cluster>(&other).starts_with("lb_policy: "));
        other["lbPolicy"] = json!("ROUND_ROBIN");
        other["transportSocket"] = json!({"name": "raw"});
        let fault = fault_of::<Cluster>(&other);
        assert!(fault.starts_with("transport_socket.name: "), "{fault}");
    }

    #[test]
    fn a_cluster_of_dns_has_one_name() {
        // C-107
        let dns = |endpoints: Value| {
            let assignment = json!({"clusterName": "c", "endpoints": endpoints});
            json!({"type": "LOGICAL_DNS", "loadAssignment": assignment})
        };
        let at = |socket: Value| {
            let endpoint = json!({"endpoint": {"address": {"socketAddress": socket}}});
            dns(json!([{"lbEndpoints": [endpoint]}]))
        };
        let good = at(json!({"address": "a.test", "portValue": 80}));
        let name = ClusterKind::LogicalDns { host: "a.test".to_owned(), port: 80 };
        assert_eq!(kind(good), Ok(name));
        let pipe = json!({"endpoint": {"address": {"pipe": {"path": "/a"}}}});
        let (endpoints, endpoint) =
            ("endpoints[0].lb_endpoints", "endpoints[0].lb_endpoints[0].endpoint");
        let socket = format!("{endpoint}.address.socket_address");
        for (cluster, expected) in [
            (json!({"type": "LOGICAL_DNS"}), ": it must be set".to_owned()),
            (dns(json!([])), ".endpoints: there must be one locality".to_owned()),
            (dns(json!([{}, {}])), ".endpoints: there must be one locality".to_owned()),
            (dns(json!([{}])), format!(".{endpoints}: there must be one endpoint")),
            (
                dns(json!([{"lbEndpoints": [{}, {}]}])),
                format!(".{endpoints}: there must be one endpoint"),
            ),
            (dns(json!([{"lbEndpoints": [{}]}])), format!(".{endpoint}: it must be set")),
            (
                dns(json!([{"lbEndpoints": [pipe]}])),
                format!(".{endpoint}.address: it must be a `socket_address`"),
            ),
            (at(json!({"portValue": 80})), format!(".{socket}.address: it must be set")),
            (
                at(json!({"address": "a", "portValue": 0})),
                format!(".{socket}.port_value: it must be from 1 to 65535"),
            ),
            (
                at(json!({"address": "a", "portValue": 65_536})),
                format!(".{socket}.port_value: it must be from 1 to 65535"),
            ),
            (
                at(json!({"address": "a", "namedPort": "http"})),
                format!(".{socket}.port_value: it must be from 1 to 65535"),
            ),
            (
                at(json!({"address": "a", "portValue": 1, "resolverName": "r"})),
                format!(".{socket}.resolver_name: it must be empty"),
            ),
        ] {
            assert_eq!(fault_of::<Cluster>(&cluster), format!("load_assignment{expected}"));
        }
    }

    #[test]
    fn the_limit_of_calls_is_that_of_the_first_default_thresholds() {
        // C-147
        let limit = |thresholds: Value| {
            let cluster = eds(json!({"circuitBreakers": {"thresholds": thresholds}}));
            read::<Cluster>(&cluster).unwrap().max_requests
        };
        assert_eq!(limit(json!([])), 1024);
        assert_eq!(limit(json!([{"priority": "HIGH", "maxRequests": 1}])), 1024);
        assert_eq!(limit(json!([{"maxConnections": 1}, {"maxRequests": 3}])), 1024);
        let both =
            json!([{"priority": "HIGH", "maxRequests": 1}, {"maxRequests": 2}, {"maxRequests": 3}]);
        assert_eq!(limit(both), 2);
        assert_eq!(limit(json!([{"maxRequests": 0}])), 0);
    }

    #[test]
    fn loads_are_reported_to_the_server_of_the_cluster_or_nowhere() {
        // C-081
        let cluster = |source: Value| eds(json!({"lrsServer": source}));
        assert!(read::<Cluster>(&cluster(json!({"self": {}}))).unwrap().reports_load);
        assert!(!read::<Cluster>(&eds(json!({}))).unwrap().reports_load);
        for source in [json!({"ads": {}}), json!({})] {
            assert_eq!(fault_of::<Cluster>(&cluster(source)), "lrs_server: it must be `self`");
        }
        let metrics = json!(["cpu_utilization", "named_metrics.queue", "unknown"]);
        let metrics = eds(json!({"lrsReportEndpointMetrics": metrics}));
        assert_eq!(
            read::<Cluster>(&metrics).unwrap().reported_metrics,
            ReportedMetrics::new(["cpu_utilization", "named_metrics.queue"])
        );
    }

    #[test]
    fn a_cluster_that_says_nothing_has_defaults() {
        // C-113, C-147, C-149
        let cluster = read::<Cluster>(&eds(json!({"name": "c"}))).unwrap();
        let expected = Cluster {
            kind: ClusterKind::Eds { service: None },
            policy: PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin)),
            max_requests: 1024,
            reports_load: false,
            reported_metrics: ReportedMetrics::default(),
            sessions: KeptSessions::default(),
            detection: None,
            transport: Transport::default(),
        };
        assert_eq!(cluster, expected);
    }
}
