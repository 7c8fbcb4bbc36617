//! The metrics of channels, as a recorder is given them.

#[path = "channel/support.rs"]
#[expect(dead_code, reason = "the tests of channels use the rest")]
mod support;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use chancery_grpc::{Label, METRICS, Metric, MetricKind, MetricsRecorder, set_metrics_recorder};
use chancery_testkit::TestServer;
use support::{Backend, Resources, call_to, channel, message, status_alone, with};

/// Remembers what it is given: the sum of each series, and the number of values.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<BTreeMap<String, (f64, usize)>>>);

impl Memory {
    fn take(&self, metric: &'static Metric, kind: MetricKind, value: f64, labels: &[Label<'_>]) {
        assert_eq!(metric.kind, kind, "{}", metric.name);
        assert!(METRICS.iter().any(|known| known.name == metric.name), "{}", metric.name);
        let names: Vec<_> = labels.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, metric.labels, "{}", metric.name);
        let labels: Vec<_> = labels.iter().map(|(_, value)| *value).collect();
        let mut all = self.0.lock().expect("no panic");
        let series = all.entry(format!("{} {}", metric.name, labels.join(" "))).or_default();
        *series = (series.0 + value, series.1 + 1);
    }

    /// The sum and the number of values of a series.
    fn of(&self, series: &str) -> Option<(f64, usize)> {
        self.0.lock().expect("no panic").get(series).copied()
    }
}

impl MetricsRecorder for Memory {
    fn add(&self, metric: &'static Metric, by: u64, labels: &[Label<'_>]) {
        self.take(metric, MetricKind::Counter, by as f64, labels);
    }

    fn change(&self, metric: &'static Metric, by: i64, labels: &[Label<'_>]) {
        self.take(metric, MetricKind::UpDownCounter, by as f64, labels);
    }

    fn observe(&self, metric: &'static Metric, value: f64, labels: &[Label<'_>]) {
        self.take(metric, MetricKind::Histogram, value, labels);
    }
}

/// C-138: calls and attempts by method, target, status, locality and cluster; retries; and connections.
#[tokio::test]
async fn calls_and_connections_are_measured() {
    let memory = Memory::default();
    set_metrics_recorder(memory.clone()).expect("it is the first");
    set_metrics_recorder(Memory::default()).expect_err("there is one");
    let backend = Backend::serve(|request| async move {
        let previous = request.headers().get("grpc-previous-rpc-attempts");
        let is_first = previous.is_none() && request.uri().path() == "/t/flaky";
        Ok::<_, Infallible>(if is_first { status_alone("14") } else { message("a", "0") })
    });
    let backend = backend.await;
    let retry = "retry_policy: {retry_on: unavailable, retry_back_off: {base_interval: 0.001s}}";
    let routes = format!("[{{match: {{prefix: /}}, route: {{cluster: x, {retry}}}}}]");
    let resources = Resources::default().routes(&routes).cluster("x", "");
    let server = TestServer::start(resources.endpoints("x", &[&[&backend]]).snapshot());
    let server = server.await.expect("a server");
    let channel = channel(&server);
    for path in ["/t/echo", "/t/flaky"] {
        let mut request = with("k", "v");
        if path == "/t/flaky" {
            request.extensions_mut().insert(tonic::GrpcMethod::new("t", "flaky"));
        }
        call_to(&channel, path, request).await.expect("an answer");
    }
    let locality = "{region=\"\", zone=\"z\", sub_zone=\"\"}";
    let target = "xds:///service";
    for (series, values) in [
        (format!("grpc.client.attempt.started other {target}"), 1),
        (format!("grpc.client.attempt.started t/flaky {target}"), 2),
        (format!("grpc.client.attempt.duration t/flaky {target} UNAVAILABLE {locality} x"), 1),
        (format!("grpc.client.attempt.duration t/flaky {target} OK {locality} x"), 1),
        (format!("grpc.client.call.duration t/flaky {target} OK"), 1),
        (format!("grpc.client.call.duration other {target} OK"), 1),
        (format!("grpc.client.call.retries t/flaky {target}"), 1),
        (format!("grpc.client.call.retry_delay t/flaky {target}"), 1),
        ("grpc.subchannel.connection_attempts_succeeded ".to_owned(), 1),
        ("grpc.subchannel.open_connections ".to_owned(), 1),
    ] {
        let found = memory.of(&series).map(|(_, values)| values);
        assert_eq!(found, Some(values), "{series}: {memory:?}");
    }
    assert_eq!(memory.of(&format!("grpc.client.call.retries other {target}")), None);
}
