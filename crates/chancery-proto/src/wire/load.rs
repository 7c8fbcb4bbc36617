//! Load reports on the wire: `LoadStatsRequest` of the client and `LoadStatsResponse` of the server
//! ([`lrs.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/load_stats/v3/lrs.proto)).
//!
//! Both messages are written and read. A server reads reports in parts (`load_parts`). Statistics of TCP connections are ignored.
//! Envoy tells the calls to single endpoints, if it is asked to, and no gRPC client does. Field numbers are those of `lrs.proto` and
//! `load_report.proto`; a test compares them with the descriptors.
//!
//! The derived messages repeat the values of [`chancery_core::client::load`], because the core
//! knows no protobuf: its values have maps, durations and sums where the messages have lists and
//! optional parts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::Locality;
use chancery_core::client::load::{
    ClusterSelection, ClusterStats, EndpointStats, LoadKey, LoadReport, LoadResponse,
    LocalityStats, MetricStats,
};
use prost::Message;

use super::address::WireAddress;
use super::node::{WireLocality, WireNode};
use super::{DecodeError, WireDuration};

#[derive(Clone, PartialEq, Message)]
struct LoadStatsRequest {
    #[prost(message, optional, tag = "1")]
    node: Option<WireNode>,
    #[prost(message, repeated, tag = "2")]
    cluster_stats: Vec<WireClusterStats>,
}

#[derive(Clone, PartialEq, Message)]
struct LoadStatsResponse {
    #[prost(string, repeated, tag = "1")]
    clusters: Vec<String>,
    #[prost(message, optional, tag = "2")]
    load_reporting_interval: Option<WireDuration>,
    #[prost(bool, tag = "3")]
    report_endpoint_granularity: bool,
    #[prost(bool, tag = "4")]
    send_all_clusters: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireClusterStats {
    #[prost(string, tag = "1")]
    cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    upstream_locality_stats: Vec<UpstreamLocalityStats>,
    #[prost(uint64, tag = "3")]
    total_dropped_requests: u64,
    #[prost(message, optional, tag = "4")]
    load_report_interval: Option<WireDuration>,
    #[prost(message, repeated, tag = "5")]
    dropped_requests: Vec<DroppedRequests>,
    #[prost(string, tag = "6")]
    cluster_service_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct DroppedRequests {
    #[prost(string, tag = "1")]
    category: String,
    #[prost(uint64, tag = "2")]
    dropped_count: u64,
}

#[derive(Clone, PartialEq, Message)]
struct UpstreamLocalityStats {
    #[prost(message, optional, tag = "1")]
    locality: Option<WireLocality>,
    #[prost(uint64, tag = "2")]
    total_successful_requests: u64,
    #[prost(uint64, tag = "3")]
    total_requests_in_progress: u64,
    #[prost(uint64, tag = "4")]
    total_error_requests: u64,
    #[prost(message, repeated, tag = "5")]
    load_metric_stats: Vec<NamedStats>,
    #[prost(message, repeated, tag = "7")]
    upstream_endpoint_stats: Vec<UpstreamEndpointStats>,
    #[prost(uint64, tag = "8")]
    total_issued_requests: u64,
    #[prost(message, optional, tag = "12")]
    cpu_utilization: Option<UnnamedStats>,
    #[prost(message, optional, tag = "13")]
    mem_utilization: Option<UnnamedStats>,
    #[prost(message, optional, tag = "14")]
    application_utilization: Option<UnnamedStats>,
}

#[derive(Clone, PartialEq, Message)]
struct UpstreamEndpointStats {
    #[prost(message, optional, tag = "1")]
    address: Option<WireAddress>,
    #[prost(uint64, tag = "2")]
    total_successful_requests: u64,
    #[prost(uint64, tag = "3")]
    total_requests_in_progress: u64,
    #[prost(uint64, tag = "4")]
    total_error_requests: u64,
    #[prost(message, repeated, tag = "5")]
    load_metric_stats: Vec<NamedStats>,
    #[prost(uint64, tag = "7")]
    total_issued_requests: u64,
}

#[derive(Clone, PartialEq, Message)]
struct NamedStats {
    #[prost(string, tag = "1")]
    metric_name: String,
    #[prost(uint64, tag = "2")]
    num_requests_finished_with_metric: u64,
    #[prost(double, tag = "3")]
    total_metric_value: f64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct UnnamedStats {
    #[prost(uint64, tag = "1")]
    num_requests_finished_with_metric: u64,
    #[prost(double, tag = "2")]
    total_metric_value: f64,
}

/// Encodes a `LoadStatsRequest`.
pub fn encode_load_report(report: &LoadReport) -> Bytes {
    let message = LoadStatsRequest {
        node: report.node.as_deref().map(WireNode::from),
        cluster_stats: report.clusters.iter().map(WireClusterStats::from).collect(),
    };
    message.encode_to_vec().into()
}

/// Decodes a `LoadStatsRequest`. The statistics of one locality at several priorities are added up.
///
/// # Errors
/// Fails if the bytes are no such message.
pub fn decode_load_report(bytes: &[u8]) -> Result<LoadReport, DecodeError> {
    let message = LoadStatsRequest::decode(bytes)
        .map_err(|error| DecodeError { expected: "LoadStatsRequest", source: error.into() })?;
    Ok(LoadReport {
        node: message.node.map(|node| Arc::new(node.into())),
        clusters: message.cluster_stats.into_iter().map(ClusterStats::from).collect(),
    })
}

/// Encodes a `LoadStatsResponse`.
pub fn encode_load_response(answer: &LoadResponse) -> Bytes {
    let clusters = match &answer.clusters {
        ClusterSelection::All => Vec::new(),
        ClusterSelection::Named(names) => names.iter().map(ToString::to_string).collect(),
    };
    let message = LoadStatsResponse {
        clusters,
        load_reporting_interval: answer.interval.map(WireDuration::from),
        report_endpoint_granularity: answer.by_endpoint,
        send_all_clusters: answer.clusters == ClusterSelection::All,
    };
    message.encode_to_vec().into()
}

/// Decodes a `LoadStatsResponse`.
///
/// # Errors
/// Fails if the bytes are no such message.
pub fn decode_load_response(bytes: &[u8]) -> Result<LoadResponse, DecodeError> {
    let message = LoadStatsResponse::decode(bytes)
        .map_err(|error| DecodeError { expected: "LoadStatsResponse", source: error.into() })?;
    let names = message.clusters.iter().map(|name| name.as_str().into());
    Ok(LoadResponse {
        clusters: if message.send_all_clusters {
            ClusterSelection::All
        } else {
            ClusterSelection::Named(names.collect())
        },
        interval: message.load_reporting_interval.and_then(|it| it.try_into().ok()),
        by_endpoint: message.report_endpoint_granularity,
    })
}

impl From<&ClusterStats> for WireClusterStats {
    fn from(stats: &ClusterStats) -> Self {
        let drops = stats.drops.iter().map(|(category, count)| DroppedRequests {
            category: category.to_string(),
            dropped_count: *count,
        });
        Self {
            cluster_name: stats.key.cluster.to_string(),
            cluster_service_name: stats.key.service.to_string(),
            upstream_locality_stats: stats.localities.iter().map(Into::into).collect(),
            total_dropped_requests: stats.dropped,
            dropped_requests: drops.collect(),
            load_report_interval: Some(stats.interval.into()),
        }
    }
}

impl From<WireClusterStats> for ClusterStats {
    fn from(message: WireClusterStats) -> Self {
        let mut stats = Self {
            key: LoadKey {
                cluster: message.cluster_name.into(),
                service: message.cluster_service_name.into(),
            },
            dropped: message.total_dropped_requests,
            interval: message
                .load_report_interval
                .and_then(|interval| interval.try_into().ok())
                .unwrap_or(Duration::ZERO),
            ..Self::default()
        };
        for drops in message.dropped_requests {
            let count = stats.drops.entry(drops.category.into()).or_default();
            *count = count.saturating_add(drops.dropped_count);
        }
        for part in message.upstream_locality_stats {
            let locality = part.locality.clone().map(Locality::from).unwrap_or_default();
            stats.localities.entry(locality).or_default().add(&part.into());
        }
        stats
    }
}

impl From<(&Locality, &LocalityStats)> for UpstreamLocalityStats {
    fn from((locality, stats): (&Locality, &LocalityStats)) -> Self {
        Self {
            locality: Some(locality.into()),
            total_successful_requests: stats.succeeded,
            total_requests_in_progress: stats.in_progress,
            total_error_requests: stats.errored,
            total_issued_requests: stats.issued,
            load_metric_stats: named_stats(&stats.named),
            upstream_endpoint_stats: stats.endpoints.iter().map(Into::into).collect(),
            cpu_utilization: unnamed(stats.cpu),
            mem_utilization: unnamed(stats.mem),
            application_utilization: unnamed(stats.application),
        }
    }
}

impl From<UpstreamLocalityStats> for LocalityStats {
    fn from(message: UpstreamLocalityStats) -> Self {
        let mut endpoints = BTreeMap::<_, EndpointStats>::new();
        for stats in message.upstream_endpoint_stats {
            let Some(address) = stats.address.as_ref().and_then(WireAddress::text) else {
                continue;
            };
            endpoints.entry(address.into()).or_default().add(&stats.into());
        }
        Self {
            issued: message.total_issued_requests,
            succeeded: message.total_successful_requests,
            errored: message.total_error_requests,
            in_progress: message.total_requests_in_progress,
            cpu: metric(message.cpu_utilization),
            mem: metric(message.mem_utilization),
            application: metric(message.application_utilization),
            named: named_sums(message.load_metric_stats),
            endpoints,
        }
    }
}

impl From<(&Arc<str>, &EndpointStats)> for UpstreamEndpointStats {
    fn from((address, stats): (&Arc<str>, &EndpointStats)) -> Self {
        Self {
            address: Some(WireAddress::of(address)),
            total_successful_requests: stats.succeeded,
            total_requests_in_progress: stats.in_progress,
            total_error_requests: stats.errored,
            load_metric_stats: named_stats(&stats.named),
            total_issued_requests: stats.issued,
        }
    }
}

impl From<UpstreamEndpointStats> for EndpointStats {
    fn from(message: UpstreamEndpointStats) -> Self {
        Self {
            issued: message.total_issued_requests,
            succeeded: message.total_successful_requests,
            errored: message.total_error_requests,
            in_progress: message.total_requests_in_progress,
            named: named_sums(message.load_metric_stats),
        }
    }
}

fn named_stats(named: &BTreeMap<Arc<str>, MetricStats>) -> Vec<NamedStats> {
    let message = |(name, stats): (&Arc<str>, &MetricStats)| NamedStats {
        metric_name: name.to_string(),
        num_requests_finished_with_metric: stats.requests,
        total_metric_value: stats.total,
    };
    named.iter().map(message).collect()
}

fn named_sums(messages: Vec<NamedStats>) -> BTreeMap<Arc<str>, MetricStats> {
    let mut named = BTreeMap::<_, MetricStats>::new();
    for stats in messages {
        let sum = named.entry(stats.metric_name.into()).or_default();
        sum.add(MetricStats {
            requests: stats.num_requests_finished_with_metric,
            total: stats.total_metric_value,
        });
    }
    named
}

/// Encodes a metric. One that was never reported is left out.
fn unnamed(stats: MetricStats) -> Option<UnnamedStats> {
    (stats.requests > 0).then_some(UnnamedStats {
        num_requests_finished_with_metric: stats.requests,
        total_metric_value: stats.total,
    })
}

fn metric(stats: Option<UnnamedStats>) -> MetricStats {
    stats.map_or_else(MetricStats::default, |stats| MetricStats {
        requests: stats.num_requests_finished_with_metric,
        total: stats.total_metric_value,
    })
}

#[cfg(test)]
mod tests {
    use chancery_core::server::RequestLimits;
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;
    use prost_reflect::DynamicMessage;
    use serde_json::json;

    use super::*;
    use crate::samples::{node, text};
    use crate::schema::Schema;
    use crate::wire::{LoadPart, LoadReportParts};

    fn name() -> impl Strategy<Value = Arc<str>> {
        text().prop_map(Arc::from)
    }

    fn metric() -> impl Strategy<Value = MetricStats> {
        (1..9_u64, any::<i32>())
            .prop_map(|(requests, total)| MetricStats { requests, total: f64::from(total) / 8.0 })
    }

    prop_compose! {
        fn locality_stats()(
            (issued, succeeded) in (any::<u32>(), any::<u32>()),
            (errored, in_progress) in (any::<u32>(), any::<u32>()),
            (cpu, mem, application) in (metric(), metric(), metric()),
            named in btree_map(name(), metric(), 0..3),
            endpoints in btree_map(address(), endpoint_stats(), 0..3),
        ) -> LocalityStats {
            let [issued, succeeded] = [issued, succeeded].map(u64::from);
            let [errored, in_progress] = [errored, in_progress].map(u64::from);
            LocalityStats {
                issued, succeeded, errored, in_progress, cpu, mem, application, named, endpoints,
            }
        }
    }

    prop_compose! {
        fn endpoint_stats()(
            (issued, succeeded) in (any::<u32>(), any::<u32>()),
            (errored, in_progress) in (any::<u32>(), any::<u32>()),
            named in btree_map(name(), metric(), 0..3),
        ) -> EndpointStats {
            let [issued, succeeded] = [issued, succeeded].map(u64::from);
            let [errored, in_progress] = [errored, in_progress].map(u64::from);
            EndpointStats { issued, succeeded, errored, in_progress, named }
        }
    }

    fn address() -> impl Strategy<Value = Arc<str>> {
        let socket = (any::<std::net::IpAddr>(), any::<u16>());
        let socket = socket.prop_map(|(ip, port)| std::net::SocketAddr::new(ip, port).to_string());
        let pipe = text().prop_map(|path| format!("unix:{path}"));
        prop_oneof![socket, pipe].prop_map(Arc::from)
    }

    fn locality() -> impl Strategy<Value = Locality> {
        (text(), text(), text()).prop_map(|(region, zone, sub_zone)| Locality {
            region,
            zone,
            sub_zone,
        })
    }

    prop_compose! {
        fn cluster_stats()(
            (cluster, service) in (name(), name()),
            localities in btree_map(locality(), locality_stats(), 0..3),
            drops in btree_map(name(), any::<u64>(), 0..3),
            dropped in any::<u64>(),
            millis in any::<u32>(),
        ) -> ClusterStats {
            let key = LoadKey { cluster, service };
            let interval = Duration::from_millis(millis.into());
            ClusterStats { key, localities, drops, dropped, interval }
        }
    }

    proptest! {
        /// C-132
        #[test]
        fn a_server_reads_what_a_client_reports(
            node in proptest::option::of(node()),
            clusters in vec(cluster_stats(), 0..3),
        ) {
            let report = LoadReport { node, clusters };
            let bytes = encode_load_report(&report);
            let mut parts = LoadReportParts::new(bytes.clone());
            prop_assert_eq!(&parts.node(&RequestLimits::NONE).unwrap(), &report.node);
            for cluster in &report.clusters {
                let part = parts.next_part().unwrap();
                prop_assert_eq!(part, Some(LoadPart::Cluster(cluster.clone())));
            }
            prop_assert_eq!(parts.next_part().unwrap(), None);
            prop_assert_eq!(decode_load_report(&bytes).unwrap(), report);
        }

        /// C-131
        #[test]
        fn a_client_reads_what_a_server_wants(
            names in proptest::option::of(btree_set(name(), 0..3)),
            interval in proptest::option::of(0..u64::from(u32::MAX)),
            by_endpoint in any::<bool>(),
        ) {
            let clusters = names.map_or(ClusterSelection::All, ClusterSelection::Named);
            let answer = LoadResponse { clusters, interval: interval.map(Duration::from_micros), by_endpoint };
            prop_assert_eq!(decode_load_response(&encode_load_response(&answer)).unwrap(), answer);
        }

        #[test]
        fn no_bytes_are_too_bad(bytes in vec(any::<u8>(), 0..64)) {
            let _ = (decode_load_report(&bytes), decode_load_response(&bytes));
            let mut parts = LoadReportParts::new(bytes.into());
            let _ = parts.node(&RequestLimits::NONE);
            while let Ok(Some(_)) = parts.next_part() {}
        }
    }

    /// The JSON form of the bytes, by the descriptors.
    fn meant(message: &str, bytes: Bytes) -> serde_json::Value {
        let descriptor = Schema::bundled().message(message).unwrap();
        let message = DynamicMessage::decode(descriptor, bytes).unwrap();
        assert_eq!(message.unknown_fields().count(), 0);
        serde_json::to_value(message).unwrap()
    }

    fn report() -> LoadReport {
        let of = |requests, total| MetricStats { requests, total };
        let here = Locality { region: "r".into(), zone: "z".into(), sub_zone: "s".into() };
        let endpoint = EndpointStats {
            issued: 11,
            succeeded: 12,
            errored: 13,
            in_progress: 14,
            named: [("queue".into(), of(15, 1.5))].into(),
        };
        let stats = LocalityStats {
            issued: 1,
            succeeded: 2,
            errored: 3,
            in_progress: 4,
            cpu: of(5, 0.5),
            mem: of(6, 0.25),
            application: of(7, 0.125),
            named: [("named_metrics.queue".into(), of(8, 80.0))].into(),
            endpoints: [("192.0.2.1:80".into(), endpoint)].into(),
        };
        let cluster = ClusterStats {
            key: LoadKey { cluster: "a".into(), service: "a.eds".into() },
            localities: [(here, stats)].into(),
            drops: [("lb".into(), 9)].into(),
            dropped: 10,
            interval: Duration::from_millis(1500),
        };
        let node = chancery_core::Node { id: "n".to_owned(), ..chancery_core::Node::default() };
        LoadReport { node: Some(Arc::new(node)), clusters: vec![cluster] }
    }

    /// C-132, C-135
    #[test]
    fn a_report_is_what_the_descriptors_say() {
        let unnamed = |requests: &str, total: f64| json!({"numRequestsFinishedWithMetric": requests, "totalMetricValue": total});
        let expected = json!({
            "node": {"id": "n"},
            "clusterStats": [{
                "clusterName": "a",
                "clusterServiceName": "a.eds",
                "upstreamLocalityStats": [{
                    "locality": {"region": "r", "zone": "z", "subZone": "s"},
                    "totalIssuedRequests": "1",
                    "totalSuccessfulRequests": "2",
                    "totalErrorRequests": "3",
                    "totalRequestsInProgress": "4",
                    "cpuUtilization": unnamed("5", 0.5),
                    "memUtilization": unnamed("6", 0.25),
                    "applicationUtilization": unnamed("7", 0.125),
                    "loadMetricStats": [{
                        "metricName": "named_metrics.queue",
                        "numRequestsFinishedWithMetric": "8",
                        "totalMetricValue": 80.0,
                    }],
                    "upstreamEndpointStats": [{
                        "address": {"socketAddress": {"address": "192.0.2.1", "portValue": 80}},
                        "totalIssuedRequests": "11",
                        "totalSuccessfulRequests": "12",
                        "totalErrorRequests": "13",
                        "totalRequestsInProgress": "14",
                        "loadMetricStats": [{
                            "metricName": "queue",
                            "numRequestsFinishedWithMetric": "15",
                            "totalMetricValue": 1.5,
                        }],
                    }],
                }],
                "droppedRequests": [{"category": "lb", "droppedCount": "9"}],
                "totalDroppedRequests": "10",
                "loadReportInterval": "1.500s",
            }],
        });
        let message = "envoy.service.load_stats.v3.LoadStatsRequest";
        assert_eq!(meant(message, encode_load_report(&report())), expected);
    }

    /// C-131
    #[test]
    fn an_answer_is_what_the_descriptors_say() {
        let named = ClusterSelection::Named(["a".into(), "b".into()].into());
        let interval = Some(Duration::from_secs(10));
        let message = "envoy.service.load_stats.v3.LoadStatsResponse";
        let bytes =
            encode_load_response(&LoadResponse { clusters: named, interval, by_endpoint: true });
        let expected = json!({
            "clusters": ["a", "b"],
            "loadReportingInterval": "10s",
            "reportEndpointGranularity": true,
        });
        assert_eq!(meant(message, bytes), expected);
        let bytes = encode_load_response(&LoadResponse {
            clusters: ClusterSelection::All,
            interval: None,
            by_endpoint: false,
        });
        assert_eq!(meant(message, bytes), json!({"sendAllClusters": true}));
    }

    /// C-131: a negative time, or one whose parts are out of range, is ignored.
    #[test]
    fn an_interval_that_is_no_time_is_none() {
        for (seconds, nanos) in [(-1, 0), (0, -1), (1, -1), (0, 1_000_000_000), (i64::MIN, 0)] {
            let interval = Some(WireDuration { seconds, nanos });
            let message =
                LoadStatsResponse { load_reporting_interval: interval, ..Default::default() };
            let answer = decode_load_response(&message.encode_to_vec()).unwrap();
            assert_eq!(answer.interval, None, "{seconds} {nanos}");
        }
    }
}
