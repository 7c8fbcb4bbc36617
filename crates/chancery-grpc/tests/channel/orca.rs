//! Servers that report their load, and channels that weigh them by it in the trailers of calls.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use chancery_grpc::Channel;
use chancery_grpc::orca::{CallMetricsLayer, CallMetricsRecorder, ServerMetricsRecorder};
use chancery_testkit::TestServer;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tower_layer::Layer;
use tower_service::Service;

use crate::one_route;
use crate::support::{Answer, Backend, Resources, channel, message, spread, status_alone, within};

/// All calls go to `x`, by the reports of its endpoints. They count at once.
pub(crate) fn by_reports(fields: &str, backends: &[&Backend]) -> Resources {
    let policy = format!(
        r#"load_balancing_policy: {{policies: [{{typed_extension_config: {{name: wrr, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin,
    blackout_period: 0s, weight_update_period: 0.1s{fields}}}}}}}]}}"#
    );
    let resources = Resources::default().routes(&one_route("x")).cluster("x", &policy);
    resources.endpoints("x", &[backends])
}

/// The handler of a server with this name, which records this load of each of its calls.
#[derive(Clone)]
struct Handler(&'static str, f64);

impl Service<Request<Incoming>> for Handler {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let Self(name, utilization) = *self;
        Box::pin(async move {
            let metrics = CallMetricsRecorder::of(request.extensions()).expect("a layer");
            metrics.set_application_utilization(utilization);
            metrics.set_qps(100.0);
            metrics.set_named_metric("queue", 2.0);
            metrics.set_named_metric("private", 5.0);
            Ok(match request.uri().path() {
                "/t/fail" => status_alone("9"),
                _ => message(name, "0"),
            })
        })
    }
}

/// A server that reports its load in the trailers of calls.
pub(crate) async fn reporting(name: &'static str, utilization: f64) -> Backend {
    Backend::serve(move |request| async move {
        let server = ServerMetricsRecorder::default();
        server.set_cpu_utilization(utilization / 2.0);
        let layer = CallMetricsLayer::with_server_metrics(server);
        let answer = layer.layer(Handler(name, utilization)).call(request).await?;
        Ok(answer.map(BodyExt::boxed_unsync))
    })
    .await
}

/// Waits until the calls of a channel are spread as three to one. The schedule of weights is no chance: more than one
/// call in a turn more or less would be wrong.
async fn three_to_one(channel: &Channel, more: &str, less: &str) {
    let is_right = async |calls: usize| {
        let spread = spread(channel, calls).await;
        let found = spread.get(more).copied().unwrap_or_default();
        found.abs_diff(calls * 3 / 4) <= 2 && spread.get(less) == Some(&(calls - found))
    };
    within(async {
        // The weights come when there are reports, and then they stay.
        while !is_right(40).await {}
    })
    .await;
    assert!(is_right(400).await, "and it stays so");
}

/// C-116, with reports at the ends of calls: the one with a third of the utilization gets three times the calls.
#[tokio::test]
async fn servers_are_weighed_by_the_reports_of_their_calls() {
    let (a, b) = (reporting("a", 0.25).await, reporting("b", 0.75).await);
    let resources = by_reports("", &[&a, &b]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    three_to_one(&channel(&server), "a", "b").await;
}
