//! Faults that the control plane injects into calls.

use chancery_testkit::TestServer;
use tonic::Code;

use super::support::{Backend, Resources, call_to, channel, code, with};

const TYPE: &str =
    "\"@type\": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";

/// The resources of a channel with this fault, and routes of which one has none.
async fn server(backend: &Backend, fault: &str) -> TestServer {
    let filter = format!("- {{name: fault, typed_config: {{{TYPE}, {fault}}}}}");
    let off = format!("{{{TYPE}}}");
    let routes = format!(
        "[{{match: {{path: /t/off}}, route: {{cluster: x}}, typed_per_filter_config: {{fault: {off}}}}}, \
          {{match: {{prefix: /}}, route: {{cluster: x}}}}]"
    );
    let resources = Resources::default().filtered_routes(&filter, &routes).cluster("x", "");
    let resources = resources.endpoints("x", &[&[backend]]);
    TestServer::start(resources.snapshot()).await.expect("a server")
}

/// C-150, C-093: calls are aborted without being sent, but for those of a route that says otherwise.
#[tokio::test]
async fn calls_are_aborted() {
    let backend = Backend::start("a").await;
    let server = server(&backend, "abort: {grpc_status: 7, percentage: {numerator: 100}}").await;
    let channel = channel(&server);
    let answer = call_to(&channel, "/t/echo", with("k", "v")).await;
    assert_eq!((code(&answer), backend.calls()), (Code::PermissionDenied, 0), "{answer:?}");
    let answer = call_to(&channel, "/t/off", with("k", "v")).await;
    assert_eq!(code(&answer), Code::Ok, "{answer:?}");
}

/// C-150, C-102: a delay is a part of the time of the call.
#[tokio::test]
async fn calls_are_delayed() {
    let backend = Backend::start("a").await;
    let server =
        server(&backend, "delay: {fixed_delay: 3600s, percentage: {numerator: 100}}").await;
    let channel = channel(&server);
    let mut request = with("k", "v");
    request.set_timeout(std::time::Duration::from_millis(20));
    let answer = call_to(&channel, "/t/echo", request).await;
    assert_eq!((code(&answer), backend.calls()), (Code::DeadlineExceeded, 0), "{answer:?}");
}

/// C-150: a call says in a header how it wants to end.
#[tokio::test]
async fn a_call_asks_for_its_fault() {
    let backend = Backend::start("a").await;
    let server = server(&backend, "abort: {header_abort: {}, percentage: {numerator: 100}}").await;
    let channel = channel(&server);
    let asks = with("x-envoy-fault-abort-grpc-request", "5");
    let answer = call_to(&channel, "/t/echo", asks).await;
    assert_eq!(code(&answer), Code::NotFound, "{answer:?}");
    // An OK without a message is no answer to a call that wants one.
    let asks = with("x-envoy-fault-abort-grpc-request", "0");
    let answer = call_to(&channel, "/t/echo", asks).await;
    assert_eq!((code(&answer), backend.calls()), (Code::Internal, 0), "{answer:?}");
    let answer = call_to(&channel, "/t/echo", with("k", "v")).await;
    assert_eq!(code(&answer), Code::Ok, "{answer:?}");
}
