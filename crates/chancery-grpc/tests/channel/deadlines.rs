//! The status of a call whose time is over says what it has waited for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::Snapshot;
use chancery_core::client::ServerFeatures;
use chancery_grpc::{Channel, ChannelBuilder, Credentials, WaitForReady};
use chancery_testkit::TestServer;
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::net::TcpListener;
use tonic::codegen::tokio_stream;
use tonic::{Code, Request};

use super::one_route;
use super::support::ports::Port;
use super::support::{Backend, Resources, call_to, channel, channel_at, code, status_alone, until};

/// Makes a call that has little time, and returns the message of its end.
async fn late(channel: &Channel, path: &'static str, request: Request<Bytes>) -> String {
    let mut request = request;
    request.set_timeout(Duration::from_millis(200));
    let status = call_to(channel, path, request).await.expect_err("its time is over");
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let told = status.message().strip_prefix("the deadline of the call is over; it waited for ");
    told.unwrap_or_else(|| panic!("{status}")).to_owned()
}

fn plain() -> Request<Bytes> {
    Request::new(Bytes::new())
}

fn waiting() -> Request<Bytes> {
    let mut request = plain();
    request.extensions_mut().insert(WaitForReady);
    request
}

fn direct(address: SocketAddr) -> Channel {
    let target = format!("ipv4:{address}");
    let builder = ChannelBuilder::new(&target).credentials(Credentials::insecure());
    builder.without_proxy().build().expect("a channel")
}

/// Something that takes connections and says nothing.
async fn silent() -> (TcpListener, SocketAddr, Port) {
    let port = Port::reserve();
    let listener = TcpListener::bind(port.address()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address, port)
}

/// C-099, C-102: a control plane that says nothing, one that has no listener, and one that cannot be reached.
#[tokio::test]
async fn a_call_says_that_it_waits_for_its_configuration() {
    const NOT_SENT: &str = "the configuration, which the control plane has not sent";
    let (_silent, address, _port) = silent().await;
    let nothing = channel_at(address, ServerFeatures::default());
    assert_eq!(late(&nothing, "/t/echo", plain()).await, NOT_SENT);
    let server = TestServer::start(Snapshot::new()).await.expect("a server");
    let absent = channel(&server);
    until(&absent, "the failure", |result| code(result) == Code::Unavailable).await;
    let told = late(&absent, "/t/echo", waiting()).await;
    assert!(told.starts_with("a configuration: lds `service`"), "{told}");
    let port = Port::reserve();
    let nobody = channel_at(port.address().parse().expect("one"), ServerFeatures::default());
    until(&nobody, "the failure", |result| code(result) == Code::Unavailable).await;
    let told = late(&nobody, "/t/echo", waiting()).await;
    assert!(told.starts_with("a configuration: "), "{told}");
    assert!(told.contains("Connection refused"), "{told}");
}

/// C-102, C-113: an endpoint that says nothing, and one that cannot be reached.
#[tokio::test]
async fn a_call_says_that_it_waits_for_a_connection() {
    let (_silent, address, _port) = silent().await;
    let told = late(&direct(address), "/t/echo", plain()).await;
    let cluster = format!("a connection to an endpoint of cluster `ipv4:{address}`: ");
    assert_eq!(told, format!("{cluster}{address} does not answer"));
    let port = Port::reserve();
    let nobody = direct(port.address().parse().expect("an address"));
    until(&nobody, "the failure", |result| code(result) == Code::Unavailable).await;
    let told = late(&nobody, "/t/echo", waiting()).await;
    assert!(told.starts_with("a connection"), "{told}");
    assert!(told.contains("Connection refused"), "{told}");
}

/// C-102: a server that does not answer, and one that begins to.
#[tokio::test]
async fn a_call_says_which_answer_it_waits_for() {
    let a = Backend::start("a").await;
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    let resources = resources.endpoints("x", &[&[&a]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let told = late(&channel(&server), "/t/slow", plain()).await;
    assert_eq!(told, format!("the answer of {}", a.address));
    let half = Backend::serve(|_| async {
        let nothing = tokio_stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let body = UnsyncBoxBody::new(StreamBody::new(nothing));
        let answer = Response::builder().header("content-type", "application/grpc").body(body);
        Ok(answer.expect("an answer"))
    })
    .await;
    let told = late(&direct(half.address), "/t/echo", plain()).await;
    assert_eq!(told, format!("the rest of the answer of {}", half.address));
}

/// C-102, C-148: the next attempt would come too late.
#[tokio::test]
async fn a_call_says_that_it_waits_for_another_attempt() {
    let bad = Backend::serve(|_| async { Ok(status_alone("14")) }).await;
    let routes = "[{match: {prefix: /}, route: {cluster: x, retry_policy: {retry_on: unavailable, \
                   retry_back_off: {base_interval: 60s, max_interval: 60s}}}}]";
    let resources = Resources::default().routes(routes).cluster("x", "");
    let resources = resources.endpoints("x", &[&[&bad]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let told = late(&channel(&server), "/t/echo", plain()).await;
    assert_eq!(told, "another attempt, as the last one has ended with UNAVAILABLE");
}
