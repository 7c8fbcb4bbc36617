//! Servers that report their load, ours and those of gRPC for Go, and the calls that clients give them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use chancery_grpc::orca::{
    CallMetrics, CallMetricsRecorder, OpenRcaService, ServerMetricsRecorder,
};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::codegen::Service as TowerService;
use tonic::server::NamedService;

use super::backends::{Answer, message};
use super::resources::Service;
use super::servers::{Running, program};
use super::{Batch, Mesh, runtime, with_mesh};
use crate::support::clients::clients;
use crate::support::ports::Port;
use crate::support::wait;

/// The servers, and the part of their capacity that they use.
const SERVERS: [(&str, f64); 2] = [("light", 0.25), ("heavy", 0.75)];

/// A service whose calls go by the weights of the reports of these servers, with these fields of the policy.
fn weighed(name: &str, fields: &str, ports: &[Port; 2]) -> Service {
    let policy = format!(
        "\"@type\": type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin, \
         blackout_period: 0s, weight_update_period: 0.1s{fields}"
    );
    let policy = format!("{{typed_extension_config: {{name: wrr, typed_config: {{{policy}}}}}}}");
    // The xDS of grpc-js does not know the first, and takes the second.
    let other =
        "type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin";
    let other =
        format!("{{typed_extension_config: {{name: rr, typed_config: {{\"@type\": {other}}}}}}}");
    let routes = format!("[{{match: {{prefix: /}}, route: {{cluster: {name}}}}}]");
    let service = Service::new(name, &routes);
    let service =
        service.cluster(name, &format!("load_balancing_policy: {{policies: [{policy}, {other}]}}"));
    let [light, heavy] = ports.each_ref().map(Port::number);
    service.endpoints(name, &[(0, 1, &[light, heavy])], "")
}

/// The two ways of reports.
fn services(ports: &[Port; 2]) -> Vec<Service> {
    let beside = ", enable_oob_load_report: true, oob_reporting_period: 0.1s";
    vec![weighed("with-calls", "", ports), weighed("beside-calls", beside, ports)]
}

/// In every client but grpc-js the one that uses a third of what the other does gets three times the calls.
#[track_caller]
fn follow(mesh: &mut Mesh, path: &str, word: usize) {
    for service in ["with-calls", "beside-calls"] {
        let batch = Batch::one(service, path).times(40);
        let mut light = |batch| {
            let count = |outcomes: Vec<super::clients::Outcome>| {
                outcomes.iter().filter(|it| it.word(word) == Ok(SERVERS[0].0)).count()
            };
            let ended: Vec<_> = mesh.calls(batch);
            let ended = ended.into_iter().filter(|(client, _)| *client != "Node");
            ended.map(|(client, calls)| (client, count(calls))).collect::<Vec<_>>()
        };
        // Until there are reports it is round robin.
        wait::holds("the weights to be known", || {
            light(batch).iter().all(|(_, calls)| calls.abs_diff(30) <= 3)
        });
        for (client, calls) in light(batch.times(400)) {
            // Five standard deviations, as if it were by chance.
            assert!(calls.abs_diff(300) <= 43, "{client}, {service}: {calls} of 400");
        }
    }
}

/// A handler that records its load.
#[derive(Clone)]
struct Handler(&'static str, f64);

impl TowerService<Request<Incoming>> for Handler {
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let Self(name, utilization) = *self;
        let metrics = CallMetricsRecorder::of(request.extensions()).cloned();
        let metrics = metrics.expect("there is a layer");
        metrics.set_application_utilization(utilization);
        metrics.set_qps(100.0);
        metrics.set_request_cost("rows", 3.0);
        Box::pin(async move {
            // A client that goes away is not answered.
            let _ = request.into_body().collect().await;
            Ok(message(name))
        })
    }
}

/// Starts our servers.
fn start_ours(runtime: &Runtime) -> [Port; 2] {
    SERVERS.map(|(name, utilization)| {
        let load = ServerMetricsRecorder::default();
        load.set_application_utilization(utilization);
        load.set_qps(100.0);
        let beside = OpenRcaService::new(load).min_reporting_interval(Duration::from_millis(100));
        let port = Port::reserve();
        let listener = runtime.block_on(TcpListener::bind(port.address())).expect("a port");
        let handler = CallMetrics::new(Handler(name, utilization));
        runtime.spawn(accept(listener, handler, beside));
        port
    })
}

async fn accept(listener: TcpListener, handler: CallMetrics<Handler>, beside: OpenRcaService) {
    while let Ok((socket, _)) = listener.accept().await {
        let (handler, beside) = (handler.clone(), beside.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (mut handler, mut beside) = (handler.clone(), beside.clone());
            async move {
                let is_beside =
                    request.uri().path().starts_with(&format!("/{}/", OpenRcaService::NAME));
                Ok::<_, Infallible>(match is_beside {
                    true => beside.call(request).await?,
                    false => handler.call(request).await?.map(tonic::body::Body::new),
                })
            }
        });
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(builder.serve_connection(TokioIo::new(socket), service));
    }
}

/// C-116: other clients weigh our servers by what they report, with calls and beside them.
#[test]
fn clients_weigh_our_servers() {
    let runtime = runtime();
    let ports = start_ours(&runtime);
    with_mesh(|_| services(&ports), |mesh, _| follow(mesh, "/t/echo", 0));
}

/// C-116: our client weighs servers of gRPC for Go as the others do.
#[test]
fn clients_weigh_servers_of_go() {
    let Some(programs) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let ports = SERVERS.map(|_| Port::reserve());
    let started = SERVERS.iter().zip(&ports).map(|((name, utilization), port)| {
        let mut command = programs.grpc_go("server");
        let load = format!("load={utilization}");
        command.args([&port.number().to_string(), *name, &load]);
        program(dir.path(), name, command, &serde_json::json!({}))
    });
    let _running: Vec<Running> = started.collect();
    // The answer is `hello BODY from NAME`, with an empty body.
    with_mesh(|_| services(&ports), |mesh, _| follow(mesh, "/hello.Greeter/SayHello", 3));
}
