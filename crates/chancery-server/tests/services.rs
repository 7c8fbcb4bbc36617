//! A program's own gRPC services on the port of the server.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use chancery_server::{Config, Limits, OneAudience, Peer, Server, Times};
use http::Method;
use tokio::sync::Notify;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};

use crate::common::client::Http2Client;
use crate::common::message::{SotwRequest, SotwResponse};
use crate::common::{ADS_SOTW, CDS, Running, within};

const ECHO: &str = "/test.Echo/Echo";
const WAIT: &str = "/test.Echo/Wait";

/// A service made of tonic's parts: one method that echoes, one that waits before it answers.
#[derive(Clone, Default)]
struct Echo {
    /// Ends the waiting of `Wait`.
    go_on: Arc<Notify>,
    /// The calls that are open, those whose response is not finished among them.
    open: Arc<AtomicUsize>,
}

/// Messages as they are.
#[derive(Clone, Copy)]
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;
    fn encoder(&mut self) -> Self {
        *self
    }
    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;
    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// The messages of a client, sent back one by one.
struct Echoed {
    messages: Streaming<Bytes>,
    open: Arc<AtomicUsize>,
}

impl tonic::codegen::tokio_stream::Stream for Echoed {
    type Item = Result<Bytes, Status>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.messages).poll_next(cx)
    }
}

impl Drop for Echoed {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl StreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = Echoed;
    type Future = Ready<Result<Response<Echoed>, Status>>;
    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Arc::clone(&self.open);
        ready(Ok(Response::new(Echoed { messages: request.into_inner(), open })))
    }
}

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;
    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let go_on = Arc::clone(&self.go_on);
        self.open.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let peer = Arc::clone(request.extensions().get::<Arc<Peer>>().unwrap());
            assert!(peer.address.is_some_and(|address| address.ip().is_loopback()));
            go_on.notified().await;
            Ok(Response::new(request.into_inner()))
        })
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl tonic::codegen::Service<http::Request<tonic::body::Body>> for Echo {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(BytesCodec);
            Ok(match request.uri().path() {
                ECHO => grpc.streaming(echo, request).await,
                WAIT => grpc.unary(echo, request).await,
                _ => Status::unimplemented("no such method of the program").into_http(),
            })
        })
    }
}

async fn server(config: Config, echo: &Echo) -> Running {
    let echo = echo.clone();
    let policy = OneAudience("all".into());
    Running::of(|store| Server::new(store, policy, config).with_service(echo), None).await
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// Waits for the server to notice something, which pings let it do.
async fn until(client: &mut Http2Client, holds: impl Fn() -> bool) {
    within(async {
        while !holds() {
            client.ping().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_service_of_the_program_streams_beside_discovery() {
    let server = server(Config::default(), &Echo::default()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut discovery = client.open(ADS_SOTW).await.unwrap();
    let mut echo = client.open(ECHO).await.unwrap();
    for round in ["one", "two", "three"] {
        echo.send(&text(round));
        assert_eq!(echo.next::<String>().await.unwrap(), round, "while the stream is open");
    }
    discovery.send(&SotwRequest::first(CDS, &[]));
    assert_eq!(discovery.next::<SotwResponse>().await.unwrap().clusters().len(), 1);
    let large = "x".repeat(1 << 20);
    echo.send(&large);
    assert_eq!(echo.next::<String>().await.unwrap(), large, "more than a window");
    echo.close();
    assert_eq!(echo.next::<String>().await.unwrap_err().0, 0, "the trailers of the service");
    server.stopped().await;
}

#[tokio::test]
async fn only_calls_of_grpc_get_to_a_service() {
    let server = server(Config::default(), &Echo::default()).await;
    let client = Http2Client::connect(server.address).await;
    let plain = client.request(Method::POST, ECHO, &[], "").await;
    assert_eq!(plain.status(), 404);
    assert_eq!(
        client.open("/test.Echo/No").await.err().unwrap().1,
        "no such method of the program"
    );
    assert_eq!(client.open("/test.Other/Echo").await.err().unwrap().0, 12);
}

#[tokio::test]
async fn a_call_counts_as_a_stream_until_its_body_ends() {
    // S-111
    let limits = Limits { max_streams: 1, ..Limits::default() };
    let echo = Echo::default();
    let server = server(Config { limits, ..Config::default() }, &echo).await;
    let mut client = Http2Client::connect(server.address).await;
    let call = client.open(ECHO).await.unwrap();
    assert_eq!(client.open(ADS_SOTW).await.err().unwrap().0, 8, "one past the limit");
    assert_eq!(client.open(ECHO).await.err().unwrap().0, 8);
    drop(call);
    until(&mut client, || echo.open.load(Ordering::SeqCst) == 0).await;
    let discovery = client.open(ADS_SOTW).await.unwrap();
    assert_eq!(client.open(ECHO).await.err().unwrap().0, 8);
    drop(discovery);
}

#[tokio::test]
async fn the_limit_of_a_connection_holds_for_calls_too() {
    let limits = Limits { max_streams_per_connection: 2, ..Limits::default() };
    let server = server(Config { limits, ..Config::default() }, &Echo::default()).await;
    let mut client = Http2Client::connect(server.address).await;
    client.ping().await;
    let _calls = [client.open(ECHO).await.unwrap(), client.open(ECHO).await.unwrap()];
    let third = client.open(ECHO);
    let waits = tokio::select! {
        biased;
        _ = third => false,
        () = client_pings(&server) => true,
    };
    assert!(waits, "the client waits for one of the two to end");
}

/// Another connection is served meanwhile.
async fn client_pings(server: &Running) {
    let mut other = Http2Client::connect(server.address).await;
    for _ in 0..10 {
        other.ping().await;
    }
}

#[tokio::test]
async fn at_shutdown_open_calls_end_and_those_that_are_answered_soon_are_answered() {
    // S-139
    let times = Times { drain: Duration::from_millis(10), ..Times::default() };
    let echo = Echo::default();
    let server = server(Config { times, ..Config::default() }, &echo).await;
    let mut client = Http2Client::connect(server.address).await;
    let mut idle = client.open(ECHO).await.unwrap();
    let slow = Http2Client::connect(server.address).await;
    let message = text("answer");
    let answer = tokio::spawn(async move { slow.call(WAIT, &message).await });
    until(&mut client, || echo.open.load(Ordering::SeqCst) == 2).await;
    server.stop.cancel();
    assert_eq!(idle.next::<String>().await.unwrap_err(), (14, text("draining")));
    echo.go_on.notify_one();
    let mut answer = within(answer).await.unwrap().ok().unwrap();
    assert_eq!(answer.next::<String>().await.unwrap(), "answer");
    assert_eq!(answer.next::<String>().await.unwrap_err().0, 0);
    server.stopped().await;
}

/// A service under the name of one that the server has.
#[derive(Clone)]
struct OwnHealth;

impl NamedService for OwnHealth {
    const NAME: &'static str = "grpc.health.v1.Health";
}

impl tonic::codegen::Service<http::Request<tonic::body::Body>> for OwnHealth {
    type Response = http::Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, _: http::Request<tonic::body::Body>) -> Self::Future {
        let response = http::Response::builder().header("grpc-status", "9");
        let response = response.header("content-type", "application/grpc");
        ready(Ok(response.body(String::new()).unwrap()))
    }
}

#[tokio::test]
async fn a_service_of_the_program_comes_before_one_of_the_server() {
    let policy = OneAudience("all".into());
    let make = |store| Server::new(store, policy, Config::default()).with_service(OwnHealth);
    let server = Running::of(make, None).await;
    let client = Http2Client::connect(server.address).await;
    assert_eq!(client.open("/grpc.health.v1.Health/Watch").await.err().unwrap().0, 9);
}
