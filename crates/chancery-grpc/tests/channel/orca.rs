//! Servers that report their load, and channels that weigh them by it: in the trailers of calls, and beside them.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use chancery_grpc::Channel;
use chancery_grpc::orca::{
    CallMetricsLayer, CallMetricsRecorder, OpenRcaService, ServerMetricsRecorder,
};
use chancery_testkit::TestServer;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tonic::server::NamedService;
use tower_layer::Layer;
use tower_service::Service;

use crate::one_route;
use crate::support::ports::Port;
use crate::support::{
    Answer, Backend, Resources, channel, message, name, spread, status_alone, until, within,
};

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

/// Reports beside calls, as often as servers do so at most.
const BESIDE: &str = ", enable_oob_load_report: true, oob_reporting_period: 0.01s";

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

/// A server that reports its load beside calls.
struct Watched {
    backend: Backend,
    load: ServerMetricsRecorder,
    /// The streams that were asked for.
    streams: Arc<AtomicUsize>,
}

impl Watched {
    async fn start(name: &'static str, utilization: f64) -> Self {
        let (load, streams) = (ServerMetricsRecorder::default(), Arc::<AtomicUsize>::default());
        load.set_application_utilization(utilization);
        load.set_qps(100.0);
        let service =
            OpenRcaService::new(load.clone()).min_reporting_interval(Duration::from_millis(100));
        let asked = Arc::clone(&streams);
        let backend = Backend::serve(move |request| {
            let (mut service, asked) = (service.clone(), Arc::clone(&asked));
            async move {
                if !request.uri().path().starts_with(&format!("/{}/", OpenRcaService::NAME)) {
                    return Ok(message(name, "0"));
                }
                asked.fetch_add(1, Ordering::Relaxed);
                let answer = service.call(request).await?;
                let body = |body: tonic::body::Body| {
                    body.map_err(|status| panic!("a report is always there: {status}"))
                };
                Ok(answer.map(|it| body(it).boxed_unsync()))
            }
        });
        Self { backend: backend.await, load, streams }
    }
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

/// C-116, with reports beside calls, which are asked for once on each connection; weights follow them.
#[tokio::test]
async fn servers_are_weighed_by_reports_beside_calls() {
    let (a, b) = (Watched::start("a", 0.25).await, Watched::start("b", 0.75).await);
    let resources = by_reports(BESIDE, &[&a.backend, &b.backend]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    three_to_one(&channel, "a", "b").await;
    a.load.set_application_utilization(0.9);
    b.load.set_application_utilization(0.3);
    three_to_one(&channel, "b", "a").await;
    let streams = [&a, &b].map(|it| it.streams.load(Ordering::Relaxed));
    assert_eq!(streams, [1, 1]);
}

/// C-116: without reports it is round robin. The service is missing, and calls hear nothing of that.
#[tokio::test]
async fn servers_without_reports_get_the_same_calls() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let resources = by_reports(BESIDE, &[&a, &b]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "both", |result| name(result) == Some("a")).await;
    until(&channel, "both", |result| name(result) == Some("b")).await;
    assert_eq!(spread(&channel, 40).await, [("a".to_owned(), 20), ("b".to_owned(), 20)].into());
}

/// Tells of the end of a call of a server.
struct Told(tokio::sync::mpsc::Sender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        // It is told once, and there is room for that.
        let _ = self.0.try_send(());
    }
}

/// The stream of reports is a call of the server, and ends with the channel that wants them.
#[tokio::test]
async fn reports_beside_calls_end_with_the_channel() {
    let (ended, mut has_ended) = tokio::sync::mpsc::channel(1);
    let asked = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&asked);
    let backend = Backend::serve(move |request| {
        let (ended, asked) = (ended.clone(), Arc::clone(&counter));
        async move {
            if !request.uri().path().starts_with(&format!("/{}/", OpenRcaService::NAME)) {
                return Ok(message("a", "0"));
            }
            let _told = Told(ended);
            asked.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        }
    })
    .await;
    let resources = by_reports(BESIDE, &[&backend]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "the stream", |_| asked.load(Ordering::Relaxed) == 1).await;
    assert!(has_ended.try_recv().is_err(), "it is wanted");
    drop(channel);
    assert_eq!(within(has_ended.recv()).await, Some(()));
}

/// A server that is to go closes its connections when their calls have ended. The stream of reports ends for that, also
/// where there are no calls, and is asked for again on the next connection.
#[tokio::test]
async fn a_server_can_go_while_it_reports() {
    let port = Port::reserve();
    let listener = TcpListener::bind(port.address()).await.expect("a port");
    let server = Backend::at(listener.local_addr().expect("an address"));
    let resources = by_reports(BESIDE, &[&server]);
    let control = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&control);
    let calling = tokio::spawn(async move {
        until(&channel, "an answer", |result| result.is_ok()).await;
        channel
    });
    for _ in 0..2 {
        let (io, _) = within(listener.accept()).await.expect("a connection");
        let asked = Arc::new(Notify::new());
        let asking = Arc::clone(&asked);
        let answer = service_fn(move |request: Request<Incoming>| {
            let asking = Arc::clone(&asking);
            async move {
                if !request.uri().path().starts_with(&format!("/{}/", OpenRcaService::NAME)) {
                    return Ok::<_, Infallible>(message("a", "0"));
                }
                asking.notify_one();
                std::future::pending().await
            }
        });
        let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let mut serving = pin!(http.serve_connection(TokioIo::new(io), answer));
        within(async {
            tokio::select! {
                ended = serving.as_mut() => panic!("it ended by itself: {ended:?}"),
                () = asked.notified() => {}
            }
        })
        .await;
        serving.as_mut().graceful_shutdown();
        // It ends well, or because the client closes the connection first.
        let _ = within(serving).await;
    }
    within(calling).await.expect("no panic");
}
