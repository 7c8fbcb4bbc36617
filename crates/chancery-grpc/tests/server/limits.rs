//! The limits of a server, and its end.

use std::time::Duration;

use tokio::net::TcpStream;

use super::support::{Peer, Resources, Running, SERVED, inline, silence, within};
use super::{OK, control, serving};

/// A server that is asked to end takes no connection any more, and lets its calls end.
#[tokio::test]
async fn a_shutdown_lets_calls_end() {
    let (_control, mut server) = serving().await;
    let mut peer = Peer::connect(server.address).await;
    let slow = peer.begin("service", "/t/slow");
    server.slow().await;
    server.stop();
    assert_eq!(server.state().await, "not serving: the server is shutting down");
    let refused = async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within(refused).await;
    server.release();
    assert_eq!(within(slow).await.expect("no panic").code, OK);
    peer.ended().await;
    within(server.task).await.expect("no panic").expect("a good end");
}

/// A server that is dropped ends its calls and its connections.
#[tokio::test]
async fn a_server_that_is_dropped_ends_its_calls() {
    let (_control, mut server) = serving().await;
    let mut peer = Peer::connect(server.address).await;
    let slow = peer.begin("service", "/t/slow");
    server.slow().await;
    server.task.abort();
    assert_eq!(within(slow).await.expect("no panic").code, super::support::LOST);
    peer.ended().await;
    assert!(TcpStream::connect(server.address).await.is_err());
}

/// A connection that does not begin to speak HTTP/2 is closed.
#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let control = control().await;
    let timeout = Duration::from_millis(20);
    let mut server = Running::set(&control, |builder| builder.handshake_timeout(timeout));
    control.publish(Resources::default().simple(server.address, &inline(SERVED)).snapshot());
    server.serves().await;
    silence(server.address).await;
    assert_eq!(super::call(server.address, "/t/echo").await.code, OK);
}

/// Connections have a limit, and one that ends makes room.
#[tokio::test]
async fn connections_have_a_limit() {
    let control = control().await;
    let mut server = Running::set(&control, |builder| builder.max_connections(1));
    control.publish(Resources::default().simple(server.address, &inline(SERVED)).snapshot());
    server.serves().await;
    let mut peer = Peer::connect(server.address).await;
    assert_eq!(peer.call("service", "/t/echo").await.code, OK);
    assert_eq!(silence(server.address).await, b"");
    drop(peer);
    let room = async {
        while super::call(server.address, "/t/echo").await.code != OK {
            tokio::task::yield_now().await;
        }
    };
    within(room).await;
}

/// Two servers cannot have one address, and an address is one of a socket.
#[tokio::test]
async fn a_server_has_an_address_of_its_own() {
    let (control, server) = serving().await;
    let build = |address: &str| {
        let bootstrap = super::support::bootstrap(control.address());
        chancery_grpc::ServerBuilder::new(address).bootstrap(bootstrap).build()
    };
    let taken = build(&server.address.to_string()).expect_err("it is taken");
    assert_eq!(taken.to_string(), format!("the server cannot be bound to {}", server.address));
    let malformed = build("localhost").expect_err("it has no port");
    let why = "`localhost` is no address of a socket, as `0.0.0.0:50051`";
    assert_eq!(malformed.to_string(), why);
    let bootstrap = chancery_client::Bootstrap {
        server_template: None,
        ..super::support::bootstrap(control.address())
    };
    let port = super::support::ports::Port::reserve();
    let builder = chancery_grpc::ServerBuilder::new(&port.address()).bootstrap(bootstrap);
    let nameless = builder.build().expect_err("it has no template").to_string();
    assert!(nameless.contains("server_listener_resource_name_template"), "{nameless}");
}
