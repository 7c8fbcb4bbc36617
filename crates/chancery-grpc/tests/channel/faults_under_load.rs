//! Faults of endpoints and of the control plane, and changes, while calls go on.

use std::sync::mpsc as blocking;
use std::time::Duration;

use chancery_core::Snapshot;
use chancery_core::client::ServerFeatures;
use chancery_grpc::{Channel, ChannelBuilder, Keepalive, WaitForReady};
use chancery_testkit::TestServer;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::Code;

use super::certificates::{Authority, Folder};
use super::load::{CALLERS, Load};
use super::one_route;
use super::retries::retried_route;
use super::support::ports::Port;
use super::support::{
    Backend, PATIENCE, Resources, bootstrap, call, call_to, channel, channel_by, code, name,
    spread, until, with, within,
};
use super::tls;

/// The resources that lead to these backends, one after the other, by these routes.
fn resources(routes: &str, backends: &[&Backend]) -> Snapshot {
    let resources = Resources::default().routes(routes).cluster("x", "");
    resources.endpoints("x", &[backends]).snapshot()
}

/// Callers of a channel.
pub(crate) fn load_of(channel: &Channel) -> Load {
    let channel = channel.clone();
    Load::of(move || {
        let channel = channel.clone();
        async move { call(&channel).await }
    })
}

/// C-113: an endpoint that dies takes only the calls with it that it had begun, of which each caller has one.
#[tokio::test]
async fn an_endpoint_that_dies_fails_only_calls_that_it_has() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let server = TestServer::start(resources(&one_route("x"), &[&a, &b])).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "both", |result| name(result) == Some("b")).await;
    let mut load = load_of(&channel);
    load.goes_on(500).await;
    drop(b);
    load.goes_on(500).await;
    let failures = load.end().await;
    assert!(failures.len() <= CALLERS, "{}: {failures:?}", failures.len());
    assert!(failures.iter().all(|it| it.code() == Code::Unavailable), "{failures:?}");
    assert_eq!(spread(&channel, 20).await, [("a".to_owned(), 20)].into());
}

/// C-148: with a policy of retries none fails. On one thread the answers of the endpoint are whole: one that has begun
/// could not be tried again.
#[tokio::test]
async fn an_endpoint_that_dies_fails_no_call_that_is_tried_again() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let server = TestServer::start(resources(&retried_route(), &[&a, &b])).await;
    let server = server.expect("a server");
    let channel = channel(&server);
    until(&channel, "both", |result| name(result) == Some("b")).await;
    let mut load = load_of(&channel);
    load.goes_on(500).await;
    drop(b);
    load.goes_on(500).await;
    load.ends_well().await;
    assert_eq!(a.connections(), 1);
}

/// Takes one connection, and as many calls on it as there are callers. Then it is as if the network were gone:
/// nothing is answered, and nobody listens.
async fn black_hole(listener: TcpListener, is_full: oneshot::Sender<()>) {
    let (socket, _) = within(listener.accept()).await.expect("a connection");
    drop(listener);
    let mut connection = h2::server::handshake(socket).await.expect("a handshake");
    let mut calls = Vec::new();
    while calls.len() < CALLERS {
        calls.push(within(connection.accept()).await.expect("a call").expect("a good one"));
    }
    is_full.send(()).expect("the test goes on");
    std::future::pending::<()>().await;
}

/// Stops the clock. The runtime would move it whenever it waits for the network, if it did not wait for a thread, too.
/// That thread has an end, so that a test that hangs comes to one.
fn stop_clock() -> blocking::Sender<()> {
    let (running, stopped) = blocking::channel();
    tokio::task::spawn_blocking(move || stopped.recv_timeout(PATIENCE));
    tokio::time::pause();
    running
}

/// C-113, C-148: an endpoint that does not answer any more is found by keepalive, and its calls are tried again
/// elsewhere.
#[tokio::test]
async fn keepalive_takes_an_endpoint_out_that_is_silent() {
    let (a, port) = (Backend::start("a").await, Port::reserve());
    let listener = TcpListener::bind(port.address()).await.expect("a port");
    let silent = Backend::at(listener.local_addr().expect("an address"));
    let (is_full, full) = oneshot::channel();
    let hole = tokio::spawn(black_hole(listener, is_full));
    let server = TestServer::start(resources(&retried_route(), &[&a, &silent])).await;
    let server = server.expect("a server");
    let bootstrap = bootstrap(server.address(), ServerFeatures::default());
    let builder = ChannelBuilder::new("xds:///service").bootstrap(bootstrap);
    let mut keepalive = Keepalive::after(Duration::from_secs(10));
    keepalive.timeout = Duration::from_secs(2);
    let channel = builder.keepalive(keepalive).build().expect("a channel");
    let clock = stop_clock();
    let mut load = load_of(&channel);
    // Every caller waits for the endpoint that is silent.
    full.await.expect("the calls come");
    // The time of silence, and that for an answer to the question. Who waits for the calls waits for longer.
    for _ in 0..14 {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    // Calls wait a moment before they are tried again.
    tokio::time::resume();
    drop(clock);
    load.goes_on(500).await;
    load.ends_well().await;
    assert_eq!(spread(&channel, 20).await, [("a".to_owned(), 20)].into());
    hole.abort();
}

/// C-103: calls that wait for ready go on when a listener that was removed comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_listener_that_comes_back_is_used_again() {
    let a = Backend::start("a").await;
    let good = resources(&one_route("x"), &[&a]);
    let server = TestServer::start(good.clone()).await.expect("a server");
    let features = ServerFeatures { fail_on_data_errors: true, ..ServerFeatures::default() };
    let channel = channel_by(&server, features);
    let patient = channel.clone();
    let mut load = Load::of(move || {
        let (channel, mut request) = (patient.clone(), with("k", "v"));
        request.extensions_mut().insert(WaitForReady);
        async move { call_to(&channel, "/t/echo", request).await }
    });
    for _ in 0..10 {
        load.goes_on(200).await;
        server.publish(Snapshot::new());
        until(&channel, "the end of the service", |it| code(it) == Code::Unavailable).await;
        server.publish(good.clone());
    }
    load.goes_on(200).await;
    load.ends_well().await;
}

/// C-073: without a control plane calls go on by the last configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn calls_go_on_without_the_control_plane() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let server = TestServer::start(resources(&one_route("x"), &[&a, &b])).await.expect("a server");
    let channel = channel(&server);
    let mut load = load_of(&channel);
    load.goes_on(500).await;
    server.stop().await;
    load.goes_on(4_000).await;
    load.ends_well().await;
    assert_eq!((a.connections(), b.connections()), (1, 1));
}

/// C-121, C-123: connections are made anew when a cluster asks for other names, and no call fails because of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_change_of_tls_fails_no_call() {
    const CHANGES: usize = 20;
    let authority = Authority::new();
    let a = Backend::secured("a", authority.server(&["a.example"])).await;
    let b = Backend::secured("b", authority.server(&["b.example", "a.example"])).await;
    let folder = Folder::trusting(&authority);
    let version = |other: &str| {
        let fields = tls::names(&format!("{{exact: a.example}}, {{exact: {other}}}"));
        let resources = Resources::default().routes(&one_route("x")).cluster("x", &fields);
        resources.endpoints("x", &[&[&a, &b]]).snapshot()
    };
    let server = TestServer::start(version("first.example")).await.expect("a server");
    let channel = tls::builder(&server, &folder).build().expect("a channel");
    let mut load = load_of(&channel);
    load.goes_on(200).await;
    for change in 0..CHANGES {
        server.publish(version(&format!("name-{change}.example")));
        while a.connections().min(b.connections()) <= change + 1 {
            load.goes_on(1).await;
        }
    }
    load.goes_on(200).await;
    load.ends_well().await;
    assert_eq!((a.connections(), b.connections()), (CHANGES + 1, CHANGES + 1));
}
