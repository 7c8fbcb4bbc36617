//! The metrics of channels, as a real SDK of OpenTelemetry exports them.

#[path = "channel/support.rs"]
#[expect(dead_code, reason = "the tests of channels use the rest")]
mod support;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chancery_grpc::{METRICS, MetricKind, OpenTelemetryRecorder, set_metrics_recorder};
use chancery_testkit::TestServer;
use opentelemetry::KeyValue;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use support::{Backend, Resources, call_to, channel, message, status_alone, with};

/// One metric, as it was exported.
#[derive(Clone, Debug, PartialEq)]
struct Exported {
    kind: MetricKind,
    unit: String,
    description: String,
    bounds: Vec<f64>,
    /// The attributes of each series with its count: that of the values of a histogram, or the sum.
    series: BTreeMap<String, i64>,
}

/// Keeps what was exported last, by names.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Exported>>>);

impl PushMetricExporter for Kept {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let mut kept = self.0.lock().expect("no panic");
        for scope in metrics.scope_metrics() {
            assert_eq!(scope.scope().name(), "chancery-grpc");
            assert_eq!(scope.scope().version(), Some(env!("CARGO_PKG_VERSION")));
            for metric in scope.metrics() {
                let (kind, bounds, series) = taken(metric.data());
                let (unit, description) = (metric.unit().into(), metric.description().into());
                let exported = Exported { kind, unit, description, bounds, series };
                kept.insert(metric.name().to_owned(), exported);
            }
        }
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

fn taken(data: &AggregatedMetrics) -> (MetricKind, Vec<f64>, BTreeMap<String, i64>) {
    match data {
        AggregatedMetrics::U64(MetricData::Sum(sum)) => {
            assert!(sum.is_monotonic());
            let series = sum.data_points();
            let series = series.map(|it| (text(it.attributes()), it.value().cast_signed()));
            (MetricKind::Counter, Vec::new(), series.collect())
        }
        AggregatedMetrics::I64(MetricData::Sum(sum)) => {
            assert!(!sum.is_monotonic());
            let series = sum.data_points().map(|it| (text(it.attributes()), it.value()));
            (MetricKind::UpDownCounter, Vec::new(), series.collect())
        }
        AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
            let bounds = histogram.data_points().next().expect("a series").bounds().collect();
            let series = histogram.data_points();
            let series = series.map(|it| (text(it.attributes()), it.count().cast_signed()));
            (MetricKind::Histogram, bounds, series.collect())
        }
        other => panic!("no metric of gRPC is {other:?}"),
    }
}

fn text<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> String {
    let mut all: Vec<_> = attributes.map(|it| format!("{}={}", it.key, it.value)).collect();
    all.sort();
    all.join(" ")
}

/// C-138: what calls and connections count arrives at an exporter of OpenTelemetry, with names, units, attributes and
/// buckets of gRPC.
#[tokio::test]
async fn calls_and_connections_are_exported() {
    let kept = Kept::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(kept.clone()).build();
    set_metrics_recorder(OpenTelemetryRecorder::new(&provider)).expect("it is the first");
    let backend = Backend::serve(|request| async move {
        let is_first = !request.headers().contains_key("grpc-previous-rpc-attempts");
        Ok::<_, Infallible>(if is_first { status_alone("14") } else { message("a", "0") })
    });
    let backend = backend.await;
    let retry = "retry_policy: {retry_on: unavailable, retry_back_off: {base_interval: 0.001s}}";
    let routes = format!("[{{match: {{prefix: /}}, route: {{cluster: x, {retry}}}}}]");
    let resources = Resources::default().routes(&routes).cluster("x", "");
    let server = TestServer::start(resources.endpoints("x", &[&[&backend]]).snapshot());
    let server = server.await.expect("a server");
    let mut request = with("k", "v");
    request.extensions_mut().insert(tonic::GrpcMethod::new("t", "flaky"));
    call_to(&channel(&server), "/t/flaky", request).await.expect("an answer");
    provider.force_flush().expect("it is exported");

    let exported = kept.0.lock().expect("no panic").clone();
    for (name, found) in &exported {
        let known = METRICS.iter().find(|known| known.name == name).expect("a metric of gRPC");
        assert_eq!(found.kind, known.kind, "{name}");
        assert_eq!(found.unit, known.unit, "{name}");
        assert_eq!(found.description, known.description, "{name}");
        assert_eq!(found.bounds, known.bounds, "{name}");
    }
    let call = "grpc.method=t/flaky";
    let target = "grpc.target=xds:///service";
    let place =
        "grpc.lb.backend_service=x grpc.lb.locality={region=\"\", zone=\"z\", sub_zone=\"\"}";
    let attempts = [
        (format!("{place} {call} grpc.status=UNAVAILABLE {target}"), 1),
        (format!("{place} {call} grpc.status=OK {target}"), 1),
    ];
    let at_target = [(format!("{call} {target}"), 1)];
    let expected = [
        ("grpc.client.attempt.started", [(format!("{call} {target}"), 2)].to_vec()),
        ("grpc.client.attempt.duration", attempts.to_vec()),
        ("grpc.client.attempt.sent_total_compressed_message_size", attempts.to_vec()),
        ("grpc.client.attempt.rcvd_total_compressed_message_size", attempts.to_vec()),
        ("grpc.client.call.duration", [(format!("{call} grpc.status=OK {target}"), 1)].to_vec()),
        ("grpc.client.call.retries", at_target.to_vec()),
        ("grpc.client.call.retry_delay", at_target.to_vec()),
        ("grpc.subchannel.connection_attempts_succeeded", [(String::new(), 1)].to_vec()),
        ("grpc.subchannel.open_connections", [(String::new(), 1)].to_vec()),
    ];
    let names: Vec<_> = exported.keys().map(String::as_str).collect();
    let mut expected_names = expected.clone().map(|(name, _)| name);
    expected_names.sort_unstable();
    assert_eq!(names, expected_names);
    for (name, series) in expected {
        assert_eq!(exported[name].series, series.into_iter().collect(), "{name}");
    }
}

/// C-138: the units and buckets that gRPC recommends (gRFC A66, A78, A96).
#[test]
fn units_and_buckets_are_those_of_grpc() {
    let metric = |name: &str| *METRICS.iter().find(|it| it.name == name).expect("a metric");
    let seconds = metric("grpc.client.attempt.duration");
    assert_eq!((seconds.unit, seconds.bounds.len()), ("s", 41));
    assert_eq!(seconds.bounds[..4], [0.0, 0.00001, 0.00005, 0.0001]);
    assert_eq!(seconds.bounds[38..], [20.0, 50.0, 100.0]);
    for (name, is_server) in [("grpc.client.attempt", false), ("grpc.server.call", true)] {
        for direction in ["sent", "rcvd"] {
            let name = format!("{name}.{direction}_total_compressed_message_size");
            let sizes = metric(&name);
            assert_eq!((sizes.unit, sizes.bounds.len()), ("By", 14));
            assert_eq!(sizes.bounds[..4], [0.0, 1024.0, 2048.0, 4096.0]);
            assert_eq!(sizes.bounds[13], 4_294_967_296.0);
            assert_eq!(sizes.labels.contains(&"grpc.target"), !is_server);
        }
    }
    assert_eq!(metric("grpc.server.call.started").unit, "{call}");
    let transparent = metric("grpc.client.call.transparent_retries");
    assert_eq!(transparent.unit, "{transparent_retry}");
    assert_eq!(transparent.bounds, [1.0, 2.0, 3.0, 4.0, 5.0, 10.0]);
    assert_eq!(metric("grpc.client.call.retries").bounds, [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(metric("grpc.lb.wrr.endpoint_weights").unit, "{weight}");
}
