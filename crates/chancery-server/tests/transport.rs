//! Bytes that are written at once arrive whole: over TLS, at peers that stall, half-close or reset.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use chancery_proto::frames::framed;
use chancery_server::{Config, Metrics, OneAudience, Times, Tls};
use prometheus_client::registry::Registry;
use prost::Message;
use tokio::io::AsyncWriteExt;

use crate::common::authority::{CertificateAuthority, files};
use crate::common::client::{GrpcStream, Http2Client};
use crate::common::message::{SotwRequest, SotwResponse};
use crate::common::raw::{RawPeer, data};
use crate::common::{ADS_SOTW, CDS, EDS, PATIENCE, Running, within};

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
    stalled.write(&data(&framed(&ack))).await;
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
