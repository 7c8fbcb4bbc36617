//! Bytes that are written at once arrive whole: over TLS, at peers that stall, half-close or reset.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod common;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use chancery_server::{Config, Metrics, OneAudience, Times, Tls};
use common::authority::{CertificateAuthority, files};
use common::client::{GrpcStream, Http2Client};
use common::message::{SotwRequest, SotwResponse};
use common::{ADS_SOTW, CDS, EDS, PATIENCE, Running, within};
use prometheus_client::registry::Registry;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Larger than the buffers of sockets.
const LARGE: usize = 24 << 20;

async fn subscribed(client: &Http2Client) -> GrpcStream {
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    stream
}

/// The response, which has to be what was published.
async fn has(stream: &mut GrpcStream, clusters: &[(&str, &str)]) -> SotwResponse {
    let response: SotwResponse = stream.next().await.unwrap();
    let found = response.clusters();
    assert_eq!(found.len(), clusters.len());
    for ((name, content), expected) in found.iter().zip(clusters) {
        assert_eq!(name, expected.0);
        assert!(content == expected.1, "{name} was damaged");
    }
    response
}

/// Text that shows if a part of it is lost or moved.
fn text(size: usize) -> String {
    let mut text = String::with_capacity(size + 8);
    for number in 0.. {
        if text.len() >= size {
            break;
        }
        text.push_str(&format!("{number:07} "));
    }
    text
}

#[tokio::test]
async fn small_and_large_responses_arrive_whole_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    let tls = Tls::load(files(directory.path(), false)).unwrap();
    let server = tls_server(tls).await;
    let large = text(LARGE);
    server.publish(&[("a", "1")]);
    let io = authority.connect(server.address, None, "h2").await.unwrap();
    let client = Http2Client::over(io).await;
    let mut stream = subscribed(&client).await;
    for clusters in [[("a", "1")], [("a", &*large)], [("a", "2")], [("a", &*large)]] {
        server.publish(&clusters);
        let response = has(&mut stream, &clusters).await;
        stream.send(&SotwRequest::ack(&response, &[]));
    }
    server.stop.cancel();
    assert_eq!(stream.next::<SotwResponse>().await.unwrap_err(), (14, "draining".to_owned()));
    within(client.connection).await.unwrap().unwrap();
}

async fn tls_server(tls: Arc<Tls>) -> Running {
    let times = Times { drain: Duration::from_millis(10), ..Times::default() };
    let config = Config { times, ..Config::default() };
    Running::with(config, OneAudience("all".into()), Some(tls), Metrics::default()).await
}

#[tokio::test]
async fn many_streams_of_one_connection_and_types_of_one_stream_all_hear() {
    let server = Running::start(Config::default()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        let mut stream = subscribed(&client).await;
        stream.send(&SotwRequest { node: None, ..SotwRequest::first(EDS, &["a"]) });
        streams.push(stream);
    }
    for round in 1..5 {
        let content = round.to_string();
        server.publish(&[("a", &content)]);
        for stream in &mut streams {
            let response = has(stream, &[("a", &content)]).await;
            stream.send(&SotwRequest::ack(&response, &[]));
        }
    }
}

/// A peer that reads when the test says so.
struct RawPeer(TcpStream);

impl RawPeer {
    /// Subscribes with windows that never fill, as Envoy does.
    async fn subscribe(server: &Running) -> Self {
        let mut io = within(TcpStream::connect(server.address)).await.unwrap();
        let message = SotwRequest::first(CDS, &[]).encode_to_vec();
        let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        said.extend(frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]));
        said.extend(frame(8, 0, 0, &[0x7f, 0xff, 0, 0]));
        said.extend(frame(1, 4, 1, &request_headers()));
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        said.extend(frame(0, 0, 1, &[&[0][..], &length, &message].concat()));
        within(io.write_all(&said)).await.unwrap();
        Self(io)
    }

    async fn frame(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        within(self.0.read_exact(&mut head)).await?;
        let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        within(self.0.read_exact(&mut body)).await?;
        if head[3..5] == [6, 0] {
            // A server that says goodbye waits for the answer to a ping.
            within(self.0.write_all(&frame(6, 1, 0, &body))).await?;
        }
        Ok((head[3], body))
    }

    /// Reads one message of the stream.
    async fn message(&mut self) -> SotwResponse {
        let mut read = Vec::new();
        loop {
            let (kind, body) = self.frame().await.unwrap();
            if kind == 0 {
                read.extend(body);
            }
            let Some(length) = read.get(1..5) else { continue };
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
            if read.len() == 5 + length {
                return SotwResponse::decode(&read[5..]).unwrap();
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
}

/// `POST`, `http`, the path, and the headers of gRPC, in the form that needs no table.
fn request_headers() -> Vec<u8> {
    let text = |name: u8, value: &str| {
        let length = u8::try_from(value.len()).unwrap();
        assert!(length < 127);
        [&[name, length][..], value.as_bytes()].concat()
    };
    let content_type = [&[0x0f][..], &text(0x10, "application/grpc")].concat();
    [&[0x83, 0x86][..], &text(0x04, ADS_SOTW), &text(0x01, "x"), &content_type].concat()
}

#[tokio::test]
async fn a_peer_that_stalls_and_reads_again_gets_every_byte_and_the_newest_after_them() {
    // S-108
    let server = Running::start(Config::default()).await;
    let large = text(LARGE);
    server.publish(&[("a", &large)]);
    let mut stalled = RawPeer::subscribe(&server).await;
    let mut first = [0];
    within(stalled.0.peek(&mut first)).await.unwrap();
    // Meanwhile another is served at once, with what is new each time.
    let client = Http2Client::connect(server.address).await;
    let mut stream = subscribed(&client).await;
    let response = has(&mut stream, &[("a", &large)]).await;
    stream.send(&SotwRequest::ack(&response, &[]));
    server.publish(&[("a", "2")]);
    has(&mut stream, &[("a", "2")]).await;
    let late = stalled.message().await;
    assert!(late.clusters()[0].1 == large, "it was damaged");
    let ack = SotwRequest::ack(&late, &[]).encode_to_vec();
    let length = u32::try_from(ack.len()).unwrap().to_be_bytes();
    let ack = frame(0, 0, 1, &[&[0][..], &length, &ack].concat());
    within(stalled.0.write_all(&ack)).await.unwrap();
    assert_eq!(stalled.message().await.clusters()[0].1, "2");
}

#[tokio::test]
async fn a_peer_that_stalls_while_the_server_stops_gets_every_byte_and_the_status() {
    // S-139
    let times = Times { drain: Duration::from_millis(10), grace: PATIENCE, ..Times::default() };
    let server = Running::start(Config { times, ..Config::default() }).await;
    let large = text(LARGE);
    server.publish(&[("a", &large)]);
    let mut stalled = RawPeer::subscribe(&server).await;
    within(stalled.0.peek(&mut [0])).await.unwrap();
    let stopping = tokio::spawn(server.stopped());
    assert!(stalled.message().await.clusters()[0].1 == large, "it was damaged");
    let mut kinds = Vec::new();
    let end = loop {
        match stalled.frame().await {
            Ok((kind, _)) => kinds.push(kind),
            Err(error) => break error.kind(),
        }
    };
    assert_eq!(end, ErrorKind::UnexpectedEof, "an orderly end");
    assert!(kinds.contains(&1), "the status: {kinds:?}");
    within(stopping).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_half_closes_ends_its_connection() {
    let (server, registry) = counted().await;
    server.publish(&[("a", "1")]);
    let mut half = RawPeer::subscribe(&server).await;
    assert_eq!(half.message().await.clusters().len(), 1);
    within(half.0.shutdown()).await.unwrap();
    // No reset: what the server said before can be read.
    while half.frame().await.is_ok() {}
    within(nobody_is_left(&registry)).await;
}

#[tokio::test]
async fn a_peer_that_resets_ends_its_connection_even_in_the_middle_of_a_response() {
    let (server, registry) = counted().await;
    server.publish(&[("a", &text(LARGE))]);
    for _ in 0..4 {
        let reset = RawPeer::subscribe(&server).await;
        within(reset.0.peek(&mut [0])).await.unwrap();
        // Bytes that are not read make closing a reset.
        drop(reset);
    }
    let client = Http2Client::connect(server.address).await;
    has(&mut subscribed(&client).await, &[("a", &text(LARGE))]).await;
    drop(client);
    within(nobody_is_left(&registry)).await;
}

/// A server of which the connections are counted.
async fn counted() -> (Running, Registry) {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let policy = OneAudience("all".into());
    (Running::with(Config::default(), policy, None, metrics).await, registry)
}

async fn nobody_is_left(registry: &Registry) {
    let mut text = String::new();
    while !text.contains("chancery_connections 0") {
        tokio::task::yield_now().await;
        text.clear();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    }
}

#[tokio::test]
async fn a_quiet_peer_that_answers_is_asked_again_and_kept() {
    // S-113
    let times = Times {
        http2_keepalive: Some(Duration::from_millis(20)),
        keepalive_timeout: PATIENCE,
        ..Times::default()
    };
    let server = Running::start(Config { times, ..Config::default() }).await;
    let mut quiet = RawPeer::subscribe(&server).await;
    let mut asked = 0;
    while asked < 3 {
        // It answers what it is asked, and says nothing else.
        asked += usize::from(quiet.frame().await.unwrap().0 == 6);
    }
    server.publish(&[("a", "1")]);
    assert_eq!(quiet.message().await.clusters()[0].1, "1");
}
