//! The metrics of channels and servers, as a recorder is given them. A process has one recorder, which all tests of
//! this program share: each looks at a method of its own.

#[expect(
    clippy::duplicate_mod,
    reason = "the support of channels and that of servers reserve ports, by locks on files"
)]
mod servers;
#[path = "../channel/support.rs"]
#[expect(dead_code, reason = "the tests of channels use the rest")]
mod support;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use chancery_grpc::{Label, METRICS, Metric, MetricKind, MetricsRecorder, set_metrics_recorder};
use chancery_testkit::TestServer;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use support::{Backend, Resources, call_to, channel, message, status_alone, with, within};
use tonic::{Code, GrpcMethod, Request};

/// The recorder of the process.
static MEMORY: LazyLock<Memory> = LazyLock::new(|| {
    let memory = Memory::default();
    set_metrics_recorder(memory.clone()).expect("it is the first");
    memory
});

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

    /// Waits until a series has a value: the end of a call is measured a little after it is seen.
    async fn has(&self, series: &str) -> (f64, usize) {
        within(async {
            loop {
                match self.of(series) {
                    Some(found) => return found,
                    None => tokio::task::yield_now().await,
                }
            }
        })
        .await
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
    let memory = &*MEMORY;
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
            request.extensions_mut().insert(GrpcMethod::new("t", "flaky"));
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
    ] {
        let found = memory.of(&series).map(|(_, values)| values);
        assert_eq!(found, Some(values), "{series}: {memory:?}");
    }
    assert_eq!(memory.of(&format!("grpc.client.call.retries other {target}")), None);
    for metric in ["connection_attempts_succeeded", "open_connections"] {
        assert!(memory.of(&format!("grpc.subchannel.{metric} ")).is_some(), "{metric}");
    }
}

/// A request of a generated client for a method, with a message of so many bytes.
fn request(method: &'static str, bytes: usize) -> Request<bytes::Bytes> {
    let mut request = Request::new(vec![b'x'; bytes].into());
    request.extensions_mut().insert(GrpcMethod::new("t", method));
    request
}

/// C-138: the bytes of messages are those of each attempt, without frames (gRFC A66).
#[tokio::test]
async fn sizes_of_messages_are_measured() {
    let memory = &*MEMORY;
    let backend = Backend::serve(|request| async move {
        let is_first = !request.headers().contains_key("grpc-previous-rpc-attempts");
        let body = BodyExt::collect(request.into_body()).await.expect("a body");
        assert_eq!(body.to_bytes().len(), 40_005);
        Ok::<_, Infallible>(if is_first { status_alone("14") } else { message("answer", "0") })
    });
    let backend = backend.await;
    let retry = "retry_policy: {retry_on: unavailable, retry_back_off: {base_interval: 0.001s}}";
    let routes = format!("[{{match: {{prefix: /}}, route: {{cluster: sized, {retry}}}}}]");
    let resources = Resources::default().routes(&routes).cluster("sized", "");
    let server = TestServer::start(resources.endpoints("sized", &[&[&backend]]).snapshot());
    let server = server.await.expect("a server");
    call_to(&channel(&server), "/t/sized", request("sized", 40_000)).await.expect("an answer");
    let place = "{region=\"\", zone=\"z\", sub_zone=\"\"} sized";
    for (metric, status, bytes) in [
        ("sent", "UNAVAILABLE", 40_000.0),
        ("sent", "OK", 40_000.0),
        ("rcvd", "UNAVAILABLE", 0.0),
        ("rcvd", "OK", 6.0),
    ] {
        let metric = format!("grpc.client.attempt.{metric}_total_compressed_message_size");
        let series = format!("{metric} t/sized xds:///service {status} {place}");
        assert_eq!(memory.of(&series), Some((bytes, 1)), "{series}: {memory:?}");
    }
}

/// C-138: an attempt counts from before its endpoint is chosen: one that finds none has failed in its cluster, and one
/// that waits for one may come to the deadline of the call (gRFC A66, A89).
#[tokio::test]
async fn attempts_without_an_endpoint_are_measured() {
    let memory = &*MEMORY;
    let backend = Backend::at("127.0.0.1:1".parse().expect("an address"));
    let routes = "[{match: {prefix: /}, route: {cluster: down}}]";
    let resources = Resources::default().routes(routes).cluster("down", "");
    let server = TestServer::start(resources.endpoints("down", &[&[&backend]]).snapshot());
    let server = server.await.expect("a server");
    let channel = channel(&server);
    let failed =
        call_to(&channel, "/t/down", request("down", 0)).await.expect_err("nobody is there");
    assert_eq!(failed.code(), Code::Unavailable);
    let mut waiting = request("late", 0);
    waiting.extensions_mut().insert(chancery_grpc::WaitForReady);
    waiting.set_timeout(Duration::from_millis(1));
    let failed = call_to(&channel, "/t/late", waiting).await.expect_err("nobody is there");
    assert_eq!(failed.code(), Code::DeadlineExceeded);
    for (method, status) in [("down", "UNAVAILABLE"), ("late", "DEADLINE_EXCEEDED")] {
        let started = format!("grpc.client.attempt.started t/{method} xds:///service");
        assert_eq!(memory.of(&started), Some((1.0, 1)), "{memory:?}");
        let series =
            format!("grpc.client.attempt.duration t/{method} xds:///service {status}  down");
        let (_, values) = memory.of(&series).unwrap_or_else(|| panic!("{series}: {memory:?}"));
        assert_eq!(values, 1);
    }
}

/// C-138: an answer that is none of gRPC ends an attempt and its call with the code that it stands for, and one without a
/// status with UNKNOWN.
#[tokio::test]
async fn answers_without_a_status_are_measured() {
    let memory = &*MEMORY;
    let backend = Backend::serve(|request| async move {
        let mut response = Response::new(Full::default().boxed_unsync());
        if request.uri().path() == "/t/page" {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        Ok::<_, Infallible>(response)
    });
    let backend = backend.await;
    let routes = "[{match: {prefix: /}, route: {cluster: pages}}]";
    let resources = Resources::default().routes(routes).cluster("pages", "");
    let server = TestServer::start(resources.endpoints("pages", &[&[&backend]]).snapshot());
    let server = server.await.expect("a server");
    let channel = channel(&server);
    for (method, path, status) in
        [("page", "/t/page", "UNAVAILABLE"), ("silent", "/t/silent", "UNKNOWN")]
    {
        call_to(&channel, path, request(method, 0)).await.expect_err("there is no status");
        let duration = format!("duration t/{method} xds:///service {status}");
        let attempt = format!(
            "grpc.client.attempt.{duration} {{region=\"\", zone=\"z\", sub_zone=\"\"}} pages"
        );
        for series in [attempt, format!("grpc.client.call.{duration}")] {
            let found = memory.of(&series).map(|(_, values)| values);
            assert_eq!(found, Some(1), "{series}: {memory:?}");
        }
    }
}
