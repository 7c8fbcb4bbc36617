//! Calls through a channel, with the server of this project as the control plane and real backends.

mod certificates;
mod churn;
mod clusters;
mod deadlines;
mod direct;
mod explain;
mod extensions;
mod faults;
mod faults_under_load;
mod load;
mod orca;
mod outage;
mod proxy;
mod retries;
mod sessions;
mod status;
mod support;
mod tls;

use std::time::Duration;

use chancery_core::Snapshot;
use chancery_core::client::ServerFeatures;
use chancery_grpc::WaitForReady;
use chancery_testkit::{TestEventKind, TestServer};
use tokio::io::AsyncWriteExt;
use tonic::Code;

use support::ports::Port;
use support::{
    Backend, Resources, call, call_to, channel, channel_by, code, name, spread, until, with,
};

/// All calls go to this cluster.
pub(crate) fn one_route(cluster: &str) -> String {
    format!("[{{match: {{prefix: /}}, route: {{cluster: {cluster}}}}}]")
}

/// C-094, C-099, C-103, C-113: a call waits for the configuration, and goes to every endpoint in turn
/// under the name of the target.
#[tokio::test]
async fn a_call_goes_to_the_endpoints_of_its_route() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    let resources = resources.endpoints("x", &[&[&a, &b]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    let answer = call_to(&channel, "/t/echo", with("k", "v")).await.expect("an answer");
    assert!(answer.ends_with(" service -"), "{answer}");
    until(&channel, "both", |result| name(result) == Some("a")).await;
    until(&channel, "both", |result| name(result) == Some("b")).await;
    assert_eq!(spread(&channel, 20).await, [("a".to_owned(), 10), ("b".to_owned(), 10)].into());
    assert_eq!((a.connections(), b.connections()), (1, 1));
}

/// C-095, C-096, C-098: routes by path and header, and clusters by weight.
#[tokio::test]
async fn routes_choose_the_cluster() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let routes = "[{match: {path: /t/a}, route: {cluster: a}}, \
                   {match: {prefix: /, headers: [{name: to, string_match: {exact: b}}]}, route: {cluster: b}}, \
                   {match: {path: /t/both}, route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 1}]}}}]";
    let resources = Resources::default().routes(routes).cluster("a", "").cluster("b", "");
    let resources = resources.endpoints("a", &[&[&a]]).endpoints("b", &[&[&b]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    let mut both = String::new();
    for _ in 0..40 {
        let answer = call_to(&channel, "/t/a", with("k", "v")).await.expect("an answer");
        assert!(answer.starts_with("a "), "{answer}");
        let answer = call_to(&channel, "/t/x", with("to", "b")).await.expect("an answer");
        assert!(answer.starts_with("b "), "{answer}");
        both += &call_to(&channel, "/t/both", with("k", "v")).await.expect("an answer")[..1];
    }
    assert!(both.contains('a') && both.contains('b'), "{both}");
    let none = call_to(&channel, "/t/none", with("k", "v")).await.expect_err("no route");
    assert_eq!(none.code(), Code::Unavailable, "{none}");
}

/// C-103: a listener that does not exist fails calls when that is known, unless they wait for ready. The
/// server says that what it removes is not to be used any more (`fail_on_data_errors`).
#[tokio::test]
async fn a_listener_that_is_missing_fails_calls() {
    let a = Backend::start("a").await;
    let server = TestServer::start(Snapshot::new()).await.expect("a server");
    let features = ServerFeatures { fail_on_data_errors: true, ..ServerFeatures::default() };
    let channel = channel_by(&server, features);
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move {
            let mut request = with("k", "v");
            request.extensions_mut().insert(WaitForReady);
            call_to(&channel, "/t/echo", request).await
        }
    });
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    server.publish(resources.endpoints("x", &[&[&a]]).snapshot());
    let answer = waiting.await.expect("no panic").expect("an answer");
    assert!(answer.starts_with("a "), "{answer}");
    server.publish(Snapshot::new());
    until(&channel, "the end of the service", |result| code(result) == Code::Unavailable).await;
}

/// C-102: the route allows less than the application, or the application less than the route.
#[tokio::test]
async fn the_deadline_of_the_route_ends_a_call() {
    let a = Backend::start("a").await;
    let routes = "[{match: {path: /t/slow}, route: {cluster: x, max_stream_duration: {max_stream_duration: 0.05s}}}, \
                   {match: {prefix: /}, route: {cluster: x, max_stream_duration: {grpc_timeout_header_max: 10s}}}]";
    let resources = Resources::default().routes(routes).cluster("x", "").endpoints("x", &[&[&a]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "an answer", |result| result.is_ok()).await;
    let slow =
        call_to(&channel, "/t/slow", with("k", "v")).await.expect_err("it is never answered");
    assert_eq!(slow.code(), Code::DeadlineExceeded);
    let mut request = with("k", "v");
    request.set_timeout(Duration::from_secs(20));
    let answer = call_to(&channel, "/t/echo", request).await.expect("an answer");
    let stated = answer.rsplit(' ').next().expect("a timeout");
    let micros: u64 = stated.strip_suffix('u').expect("microseconds").parse().expect("a number");
    assert!(micros <= 10_000_000, "{stated}");
}

/// C-110: a backend that dies is left for the next priority, and its connection is made again.
#[tokio::test]
async fn calls_fail_over_to_the_next_priority() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    let resources = resources.endpoints("x", &[&[&a], &[&b]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    assert_eq!(spread(&channel, 20).await, [("a".to_owned(), 20)].into());
    assert_eq!(b.connections(), 0);
    drop(a);
    until(&channel, "the next priority", |result| name(result) == Some("b")).await;
    assert_eq!(spread(&channel, 20).await, [("b".to_owned(), 20)].into());
}

/// C-100, C-101, C-120: under a stream of updates no call fails, and what stays keeps its connection.
#[tokio::test]
async fn updates_fail_no_call() {
    let (a, b, c) =
        (Backend::start("a").await, Backend::start("b").await, Backend::start("c").await);
    let version = |cluster: &str, other: &Backend| {
        let resources = Resources::default().routes(&one_route(cluster)).cluster(cluster, "");
        resources.endpoints(cluster, &[&[&a, other]]).snapshot()
    };
    let server = TestServer::start(version("x", &b)).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "the first", |result| name(result) == Some("b")).await;
    for round in 0..10 {
        server.publish(version(["y", "x"][round % 2], [&c, &b][round % 2]));
        let expected = ["c", "b"][round % 2];
        until(&channel, "the newest", |result| match result {
            Ok(name) => name == expected,
            Err(status) => panic!("a call failed: {status}"),
        })
        .await;
    }
    assert_eq!(a.connections(), 1, "it was in every version");
}

/// C-107, C-108: what is rejected changes nothing.
#[tokio::test]
async fn a_cluster_that_is_rejected_changes_nothing() {
    let a = Backend::start("a").await;
    let resources = Resources::default().routes(&one_route("x"));
    let good = resources.clone().cluster("x", "").endpoints("x", &[&[&a]]);
    let server = TestServer::start(good.snapshot()).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "the first", |result| result.is_ok()).await;
    let bad = resources.cluster("x", "lb_policy: MAGLEV").endpoints("x", &[&[&a]]);
    server.publish(bad.snapshot());
    // The server hears of the rejection, and calls go on.
    let clusters = chancery_core::TypeUrl::new("envoy.config.cluster.v3.Cluster");
    loop {
        let event =
            tokio::time::timeout(support::PATIENCE, server.event()).await.expect("an event");
        if matches!(event.kind, TestEventKind::Rejected { type_url, .. } if type_url == clusters) {
            break;
        }
    }
    assert_eq!(name(&call(&channel).await), Some("a"));
}

/// C-119: the addresses of a name of DNS.
#[tokio::test]
async fn a_name_of_dns_leads_to_its_addresses() {
    let a = Backend::start("a").await;
    let resources = Resources::default().routes(&one_route("x")).dns("x", "localhost", &a);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    assert_eq!(spread(&channel(&server), 5).await, [("a".to_owned(), 5)].into());
}

/// C-113: one that speaks something else is not connected, and the next priority takes its calls.
#[tokio::test]
async fn an_endpoint_that_speaks_something_else_takes_no_calls() {
    let port = Port::reserve();
    let odd = tokio::net::TcpListener::bind(port.address()).await.expect("a port");
    let (a, b) = (Backend::start("a").await, Backend::at(odd.local_addr().expect("one")));
    let answering = tokio::spawn(async move {
        while let Ok((mut stream, _)) = odd.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    let resources = resources.endpoints("x", &[&[&b], &[&a]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    assert_eq!(spread(&channel(&server), 20).await, [("a".to_owned(), 20)].into());
    answering.abort();
}

/// C-113: one that accepts connections and says nothing is not connected.
#[tokio::test]
async fn an_endpoint_that_says_nothing_takes_no_calls() {
    let port = Port::reserve();
    let silent = tokio::net::TcpListener::bind(port.address()).await.expect("a port");
    let (a, b) = (Backend::start("a").await, Backend::at(silent.local_addr().expect("one")));
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    let resources = resources.endpoints("x", &[&[&a, &b]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    assert_eq!(spread(&channel(&server), 20).await, [("a".to_owned(), 20)].into());
}

/// The status of the server reaches the caller.
#[tokio::test]
async fn a_call_ends_with_the_status_of_the_server() {
    let a = Backend::start("a").await;
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    let resources = resources.endpoints("x", &[&[&a]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    let failed = call_to(&channel, "/t/fail", with("k", "v")).await.expect_err("it fails");
    assert_eq!(failed.code(), Code::FailedPrecondition);
}
