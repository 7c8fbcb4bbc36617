//! Servers, with the server of this project as the control plane and real connections.

mod calls;
#[path = "../channel/certificates.rs"]
#[allow(dead_code, reason = "tests of channels need more of it")]
mod certificates;
mod drains;
mod end_to_end;
mod limits;
#[path = "../channel/load.rs"]
mod load;
mod support;
mod tls;

use chancery_core::Snapshot;
use chancery_testkit::TestServer;

use support::{
    Answer, Peer, Resources, Running, SERVED, call, chain, inline, patient, rds, rejection,
    silence, subscription, until, within,
};

const OK: i32 = 0;
const DEADLINE_EXCEEDED: i32 = 4;
const PERMISSION_DENIED: i32 = 7;
const UNAVAILABLE: i32 = 14;

/// The types of listeners and of routes.
const LDS: &str = "envoy.config.listener.v3.Listener";
const RDS: &str = "envoy.config.route.v3.RouteConfiguration";

/// A route for no call.
const REFUSED: &str = "[{match: {prefix: /}, route: {cluster: x}}]";

async fn control() -> TestServer {
    TestServer::start(Snapshot::new()).await.expect("a control plane")
}

/// A control plane and a server that serves all calls.
async fn serving() -> (TestServer, Running) {
    let control = control().await;
    let mut server = Running::start(&control);
    control.publish(Resources::default().simple(server.address, &inline(SERVED)).snapshot());
    server.serves().await;
    (control, server)
}

/// C-140, C-141: a server takes no connection before it has a listener and after the listener is gone, and
/// calls that are under way end as they would.
#[tokio::test]
async fn a_server_serves_while_it_has_a_listener() {
    let control = control().await;
    let mut server = Running::start(&control);
    assert_eq!(silence(server.address).await, b"");
    let state = server.state().await;
    assert!(state.starts_with("not serving: ") && state.contains("there is no"), "{state}");
    control.publish(Resources::default().simple(server.address, &inline(SERVED)).snapshot());
    assert_eq!(server.state().await, "serving");
    let mut peer = Peer::connect(server.address).await;
    let answer = peer.call("orders.example", "/t/echo").await;
    assert_eq!(answer, Answer { code: OK, text: "orders.example 127.0.0.1".to_owned() });
    let slow = peer.begin("service", "/t/slow");
    server.slow().await;
    control.publish(Snapshot::new());
    let state = server.state().await;
    assert!(state.starts_with("not serving: ") && state.contains("there is no"), "{state}");
    assert_eq!(silence(server.address).await, b"");
    server.release();
    assert_eq!(within(slow).await.expect("no panic").code, OK);
    peer.ended().await;
}

/// C-140: a server starts without a control plane, and says what it waits for.
#[tokio::test]
async fn a_server_starts_without_a_control_plane() {
    let nobody = support::ports::Port::reserve();
    let address = nobody.address().parse().expect("an address");
    let mut server = Running::with(address, "127.0.0.1", |builder| builder, |program| program);
    let state = server.state().await;
    assert!(state.starts_with("not serving: "), "{state}");
    assert_eq!(silence(server.address).await, b"");
    server.stop();
    within(server.task).await.expect("no panic").expect("a good end");
}

/// C-141, C-142: a listener that is for another address is not used, and one for any port is.
#[tokio::test]
async fn the_listener_is_for_the_address_of_the_server() {
    let (control, mut server) = serving().await;
    let at = server.address;
    let fields = format!("default_filter_chain: {}", chain("", &inline(SERVED), ""));
    let mut other = at;
    other.set_ip([127, 0, 0, 2].into());
    control.publish(Resources::default().listener_at(at, other, &fields).snapshot());
    let expected =
        format!("not serving: the server is bound to {at}, and its listener is for {other}");
    assert_eq!(server.state().await, expected);
    assert_eq!(silence(at).await, b"");
    other = at;
    other.set_port(0);
    control.publish(Resources::default().listener_at(at, other, &fields).snapshot());
    assert_eq!(server.state().await, "serving");
    assert_eq!(call(at, "/t/echo").await.code, OK);
}

/// C-142: the control plane hears why a listener is rejected, and the last good one stays in use.
#[tokio::test]
async fn a_listener_that_is_rejected_changes_nothing() {
    let control = control().await;
    let mut server =
        Running::set(&control, |builder| builder.bootstrap(patient(control.address())));
    control.publish(Resources::default().simple(server.address, &inline(SERVED)).snapshot());
    server.serves().await;
    let fields = format!(
        "use_original_dst: true\n  default_filter_chain: {}",
        chain("", &inline(REFUSED), "")
    );
    control.publish(Resources::default().listener(server.address, &fields).snapshot());
    let why = rejection(&control, LDS).await;
    assert!(why.contains("use_original_dst: gRPC does not support this field"), "{why}");
    assert_eq!(call(server.address, "/t/echo").await.code, OK);
}

/// C-143: the chain of a connection is the one that matches best; a connection without one is closed.
#[tokio::test]
async fn each_connection_has_its_filter_chain() {
    let control = control().await;
    let mut server =
        Running::with(control.address(), "0.0.0.0", |builder| builder, |program| program);
    let matching = |ranges: &str, routes: &str| {
        let ranges = format!("filter_chain_match: {{prefix_ranges: [{ranges}]}},");
        chain(&ranges, &inline(routes), "")
    };
    let fields = format!(
        "filter_chains: [{}, {}]",
        matching("{address_prefix: 127.0.0.0, prefix_len: 30}", REFUSED),
        matching("{address_prefix: 127.0.0.1, prefix_len: 32}", SERVED),
    );
    control.publish(Resources::default().listener(server.address, &fields).snapshot());
    server.serves().await;
    let at = |last| ([127, 0, 0, last], server.address.port()).into();
    assert_eq!(call(at(1), "/t/echo").await.text, "service 127.0.0.1");
    assert_eq!(call(at(2), "/t/echo").await.code, UNAVAILABLE);
    assert_eq!(silence(at(4)).await, b"");
}

/// C-145: a change of the listener drains old connections, whose calls end as they would.
#[tokio::test]
async fn a_changed_listener_drains_old_connections() {
    let (control, mut server) = serving().await;
    let mut peer = Peer::connect(server.address).await;
    let slow = peer.begin("service", "/t/slow");
    server.slow().await;
    control.publish(Resources::default().simple(server.address, &inline(REFUSED)).snapshot());
    let refused = async {
        while call(server.address, "/t/echo").await.code != UNAVAILABLE {
            tokio::task::yield_now().await;
        }
    };
    within(refused).await;
    server.release();
    assert_eq!(within(slow).await.expect("no panic").code, OK);
    peer.ended().await;
}

/// C-145: a call that does not end within the grace is ended.
#[tokio::test]
async fn a_drain_has_an_end() {
    let control = control().await;
    let grace = std::time::Duration::from_millis(20);
    let mut server = Running::set(&control, |builder| builder.drain_grace(grace));
    control.publish(Resources::default().simple(server.address, &inline(SERVED)).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    let slow = peer.begin("service", "/t/slow");
    server.slow().await;
    control.publish(Snapshot::new());
    let answer = within(slow).await.expect("no panic");
    assert_eq!(answer.code, support::LOST, "{answer:?}");
    peer.ended().await;
}

/// C-144, C-145: routes are replaced under connections that stay; those that are rejected change nothing.
#[tokio::test]
async fn a_change_of_routes_keeps_connections() {
    let control = control().await;
    let mut server =
        Running::set(&control, |builder| builder.bootstrap(patient(control.address())));
    let listener = Resources::default().simple(server.address, &rds("r"));
    control.publish(listener.clone().routes("r", REFUSED).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    assert_eq!(peer.call("service", "/t/echo").await.code, UNAVAILABLE);
    control.publish(listener.clone().routes("r", SERVED).snapshot());
    until(&mut peer, "/t/echo", |answer| answer.code == OK).await;
    control.publish(listener.routes("r", "[{match: {safe_regex: {regex: \"(\"}}}]").snapshot());
    rejection(&control, RDS).await;
    assert_eq!(peer.call("service", "/t/echo").await.code, OK);
}

/// C-144: routes that cannot be used fail calls, and not the listener.
#[tokio::test]
async fn routes_that_cannot_be_used_fail_calls() {
    let control = control().await;
    let mut server = Running::start(&control);
    let listener = Resources::default().simple(server.address, &rds("r"));
    let bad = "[{match: {safe_regex: {regex: \"(\"}}}]";
    control.publish(listener.clone().routes("r", bad).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    let answer = peer.call("service", "/t/echo").await;
    assert_eq!(answer.code, UNAVAILABLE, "{answer:?}");
    assert!(answer.text.contains("safe_regex"), "{answer:?}");
    control.publish(listener.routes("r", SERVED).snapshot());
    until(&mut peer, "/t/echo", |answer| answer.code == OK).await;
}

/// C-145: a listener waits for its routes, and the one before serves until then.
#[tokio::test]
async fn a_listener_waits_for_its_routes() {
    let (control, server) = serving().await;
    let next = Resources::default().simple(server.address, &rds("r"));
    control.publish(next.snapshot());
    subscription(&control, RDS).await;
    let mut peer = Peer::connect(server.address).await;
    assert_eq!(peer.call("service", "/t/echo").await.code, OK);
    control.publish(next.routes("r", REFUSED).snapshot());
    let refused = async {
        while call(server.address, "/t/echo").await.code != UNAVAILABLE {
            tokio::task::yield_now().await;
        }
    };
    within(refused).await;
    // It is one of the listener before.
    peer.ended().await;
}
