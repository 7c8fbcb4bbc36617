//! The metrics of servers.

#[path = "../server/support.rs"]
#[expect(dead_code, reason = "the tests of servers use the rest")]
mod support;

use chancery_core::Snapshot;
use chancery_grpc::{ChannelBuilder, Credentials};
use chancery_testkit::TestServer;
use http::Request;
use http_body_util::Full;

use self::support::{Peer, Resources, Running, SERVED, inline};
use super::{MEMORY, call_to, request};

/// A control plane and a server that serves all calls, with a name for this method.
async fn serving(method: &'static str) -> (TestServer, Running) {
    let control = TestServer::start(Snapshot::new()).await.expect("a control plane");
    let mut server = Running::set(&control, |builder| builder.measured_methods([method]));
    control.publish(Resources::default().simple(server.address, &inline(SERVED)).snapshot());
    server.serves().await;
    (control, server)
}

/// C-138: a call is measured at both of its ends, which agree about the bytes (gRFC A66). A target without a scheme is
/// told with one, and a channel without a control plane has neither locality nor backend service (gRFC A78, A89).
#[tokio::test]
async fn a_call_is_measured_at_both_ends() {
    let (_control, server) = serving("t/both").await;
    let target = format!("dns:///{}", server.address);
    let channel = ChannelBuilder::new(&server.address.to_string());
    let channel = channel.credentials(Credentials::insecure()).build();
    let channel = channel.expect("a channel");
    let answer = call_to(&channel, "/t/both", request("both", 5_000)).await.expect("an answer");
    let client = format!("t/both {target} OK  ");
    for (series, sum) in [
        ("grpc.server.call.started t/both".to_owned(), 1.0),
        ("grpc.server.call.rcvd_total_compressed_message_size t/both OK".to_owned(), 5_000.0),
        (
            "grpc.server.call.sent_total_compressed_message_size t/both OK".to_owned(),
            answer.len() as f64,
        ),
        (format!("grpc.client.attempt.sent_total_compressed_message_size {client}"), 5_000.0),
        (
            format!("grpc.client.attempt.rcvd_total_compressed_message_size {client}"),
            answer.len() as f64,
        ),
    ] {
        assert_eq!(MEMORY.has(&series).await, (sum, 1), "{series}");
    }
    assert_eq!(MEMORY.has("grpc.server.call.duration t/both OK").await.1, 1);
}

/// C-138: a call that the control plane does not let through has its code, one that the client gives up is cancelled,
/// and methods that the program has not named are one (gRFC A66).
#[tokio::test]
async fn calls_that_fail_are_measured() {
    let control = TestServer::start(Snapshot::new()).await.expect("a control plane");
    let names = ["/t/refused", "t/slow"];
    let mut server = Running::set(&control, |builder| builder.measured_methods(names));
    let routes = "[{match: {path: /t/refused}, route: {cluster: x}}, \
                   {match: {prefix: /}, non_forwarding_action: {}}]";
    control.publish(Resources::default().simple(server.address, &inline(routes)).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    peer.call("service", "/t/refused").await;
    peer.call("service", "/t/anything").await;
    let slow = peer.begin("service", "/t/slow");
    server.slow().await;
    slow.abort();
    for series in ["t/refused UNAVAILABLE", "other OK", "t/slow CANCELLED"] {
        assert_eq!(MEMORY.has(&format!("grpc.server.call.duration {series}")).await.1, 1);
    }
    let mut peer = Peer::connect(server.address).await;
    let request = Request::post("http://service/t/refused").header("grpc-timeout", "1n");
    let request = request.body(Full::default()).expect("a request");
    peer.send(request).await.expect("no panic");
    for (method, calls) in [("t/refused", 2.0), ("t/slow", 1.0), ("other", 1.0)] {
        let (started, _) = MEMORY.has(&format!("grpc.server.call.started {method}")).await;
        assert_eq!(started, calls, "{method}");
    }
}
