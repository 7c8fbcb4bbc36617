//! Each limit of the transports, at the limit and one past it.

use std::time::Duration;

use bytes::Bytes;
use chancery_server::{Config, Limits, Times};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::common::client::Http2Client;
use crate::common::message::{DeltaRequest, DeltaResponse, Node, SotwRequest, SotwResponse};
use crate::common::{ADS_DELTA, ADS_SOTW, CDS, Running, within};

fn with_limits(limits: Limits) -> Config {
    Config { limits, times: quick(), ..Config::default() }
}

fn with_times(times: Times) -> Config {
    Config { times, ..Config::default() }
}

fn quick() -> Times {
    Times { drain: Duration::from_millis(10), ..Times::default() }
}

#[tokio::test]
async fn streams_past_the_limit_are_refused_at_once_and_come_in_when_others_end() {
    // S-111
    let limits = Limits { max_streams: 2, ..Limits::default() };
    let server = Running::start(with_limits(limits)).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let first = client.open(ADS_SOTW).await.unwrap();
    let _second = client.open(ADS_SOTW).await.unwrap();
    assert_eq!(client.open(ADS_SOTW).await.err().unwrap().0, 8);
    let json = [("content-type", "application/json")];
    let path = "/v3/discovery:clusters";
    let poll = client.request(http::Method::POST, path, &json, "{}").await;
    assert_eq!(poll.status(), 503);
    drop(first);
    within(async { while client.open(ADS_SOTW).await.is_err() {} }).await;
}

#[tokio::test]
async fn a_connection_has_as_many_streams_as_allowed() {
    let limits = Limits { max_streams_per_connection: 2, ..Limits::default() };
    let server = Running::start(with_limits(limits)).await;
    let client = Http2Client::connect(server.address).await;
    let first = client.open(ADS_SOTW).await.unwrap();
    let _second = client.open(ADS_SOTW).await.unwrap();
    let third = client.open(ADS_SOTW);
    tokio::pin!(third);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut third).await;
    assert!(early.is_err(), "the client waits");
    drop(first);
    within(third).await.unwrap();
}

#[tokio::test]
async fn a_request_at_the_limit_is_read_and_one_past_it_ends_the_stream() {
    // S-110
    let limits = Limits { max_request_bytes: 1000, ..Limits::default() };
    let server = Running::start(with_limits(limits)).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let request = |size: usize| {
        let base = prost::Message::encoded_len(&SotwRequest::first(CDS, &[]));
        // An unknown field of the wanted length: a key of two bytes and a length of two.
        let filler = size - base - 4;
        let mut bytes = prost::Message::encode_to_vec(&SotwRequest::first(CDS, &[]));
        prost::encoding::bytes::encode(100, &Bytes::from(vec![0; filler]), &mut bytes);
        assert_eq!(bytes.len(), size);
        bytes
    };
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send_bytes(&request(1000));
    assert_eq!(stream.next::<SotwResponse>().await.unwrap().resources.len(), 1);
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send_bytes(&request(1001));
    assert_eq!(stream.next::<SotwResponse>().await.unwrap_err().0, 8);
}

#[tokio::test]
async fn a_delta_client_may_reconnect_with_a_hundred_thousand_resources() {
    // S-110
    let server = Running::start(Config::default()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_DELTA).await.unwrap();
    let version = "0123456789abcdef0123456789abcdef";
    let held = (0..100_000).map(|n| (format!("outbound|80||service-{n}.test"), version.to_owned()));
    let node = SotwRequest::first(CDS, &[]).node;
    let held = held.collect();
    stream.send(&DeltaRequest { node, type_url: CDS.to_owned(), held, ..DeltaRequest::default() });
    let mut removed = 0;
    while removed < 100_000 {
        let response: DeltaResponse = stream.next().await.unwrap();
        removed += response.removed.len();
        let nonce = response.nonce;
        stream.send(&DeltaRequest { type_url: CDS.to_owned(), nonce, ..DeltaRequest::default() });
    }
}

#[tokio::test]
async fn names_past_the_limit_end_the_stream() {
    let mut config = with_times(quick());
    config.protocol.max_names = 2;
    let server = Running::start(config).await;
    server.publish(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &["a", "b"]));
    let response: SotwResponse = stream.next().await.unwrap();
    assert_eq!(response.resources.len(), 2);
    stream.send(&SotwRequest::ack(&response, &["a", "b", "c"]));
    assert_eq!(stream.next::<SotwResponse>().await.unwrap_err().0, 8);
}

#[tokio::test]
async fn a_name_past_the_limit_ends_the_stream() {
    // S-110: at the limit, and one past it
    let mut config = with_times(quick());
    config.protocol.max_name_length = 100;
    let server = Running::start(config).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    let (longest, longer) = ("n".repeat(100), "n".repeat(101));
    stream.send(&SotwRequest::first(CDS, &["a", &longest]));
    let response: SotwResponse = stream.next().await.unwrap();
    assert_eq!(response.resources.len(), 1);
    stream.send(&SotwRequest::ack(&response, &["a", &longer]));
    let (code, message) = stream.next::<SotwResponse>().await.unwrap_err();
    assert_eq!(code, 8, "{message}");
    assert!(message.contains("101 bytes; 100 are allowed"), "{message}");
}

#[tokio::test]
async fn a_node_past_the_limit_ends_the_stream() {
    // S-110: at the limit, and one past it
    let mut config = with_times(quick());
    config.protocol.max_node_bytes = 100;
    let server = Running::start(config).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    for (length, is_served) in [(98, true), (99, false)] {
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        let mut request = SotwRequest::first(CDS, &["a"]);
        request.node = Some(Node { id: "i".repeat(length), ..Node::default() });
        stream.send(&request);
        match stream.next::<SotwResponse>().await {
            Ok(response) => assert!(is_served && response.resources.len() == 1),
            Err((code, message)) => assert!(!is_served && code == 8, "{code} {message}"),
        }
    }
}

#[tokio::test]
async fn connections_past_the_limit_are_closed() {
    let limits = Limits { max_connections: 1, ..Limits::default() };
    let server = Running::start(with_limits(limits)).await;
    let mut first = Http2Client::connect(server.address).await;
    first.ping().await;
    let mut second = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(within(second.read(&mut [0])).await.unwrap_or(0), 0);
    first.ping().await;
    drop(first);
    within(async {
        loop {
            let mut again = TcpStream::connect(server.address).await.unwrap();
            // The server's settings come first on a connection that is served.
            again_writes_preface(&mut again).await;
            if matches!(again.read(&mut [0; 9]).await, Ok(9)) {
                break;
            }
        }
    })
    .await;
}

async fn again_writes_preface(io: &mut TcpStream) {
    use tokio::io::AsyncWriteExt;
    io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.ok();
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let times = Times { handshake_timeout: Duration::from_secs(1), ..quick() };
    let server = Running::start(with_times(times)).await;
    let mut speaks = Http2Client::connect(server.address).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(within(silent.read(&mut [0])).await.unwrap_or(0), 0);
    speaks.ping().await;
}

#[tokio::test]
async fn a_connection_without_streams_is_closed_and_one_with_streams_is_not() {
    let times = Times { idle_timeout: Duration::from_secs(1), ..quick() };
    let server = Running::start(with_times(times)).await;
    server.publish(&[("a", "1")]);
    let mut busy = Http2Client::connect(server.address).await;
    let mut stream = busy.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    stream.next::<SotwResponse>().await.unwrap();
    let idle = Http2Client::connect(server.address).await;
    within(idle.connection).await.unwrap().unwrap();
    busy.ping().await;
    server.publish(&[("a", "2")]);
    stream.send(&SotwRequest { nonce: "1".to_owned(), ..SotwRequest::first(CDS, &[]) });
    stream.next::<SotwResponse>().await.unwrap();
    drop(stream);
    within(busy.connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_old_connection_is_asked_to_go_after_its_first_answer() {
    // S-112, T-27
    let times =
        Times { max_connection_age: Some(Duration::from_secs(1)), age_jitter: 0.5, ..quick() };
    let server = Running::start(with_times(times)).await;
    let mut client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    // Nothing is published until the connection is old, so the stream has no answer yet.
    let other = Http2Client::connect(server.address).await;
    let idle = other.open(ADS_SOTW).await;
    within(async { while server_takes_streams(&mut client).await {} }).await;
    server.publish(&[("a", "1")]);
    assert_eq!(stream.next::<SotwResponse>().await.unwrap().resources.len(), 1);
    assert_eq!(stream.next::<SotwResponse>().await.unwrap_err(), (14, "draining".to_owned()));
    within(client.connection).await.unwrap().unwrap();
    drop(idle);
}

/// Returns true if the connection still takes new streams, which a GOAWAY ends.
async fn server_takes_streams(client: &mut Http2Client) -> bool {
    client.accepts_streams().await
}

#[tokio::test]
async fn clients_may_ping_as_often_as_they_like() {
    // S-113
    let server = Running::start(Config::default()).await;
    let mut client = Http2Client::connect(server.address).await;
    let _stream = client.open(ADS_SOTW).await.unwrap();
    for _ in 0..1000 {
        client.ping().await;
    }
    assert!(!client.connection.is_finished());
}

#[tokio::test]
async fn a_peer_that_does_not_answer_is_given_up() {
    // S-113
    let times = Times {
        http2_keepalive: Some(Duration::from_millis(50)),
        keepalive_timeout: Duration::from_millis(50),
        ..quick()
    };
    let server = Running::start(with_times(times)).await;
    let mut dead = TcpStream::connect(server.address).await.unwrap();
    again_writes_preface(&mut dead).await;
    // It reads, but it answers no ping.
    within(async { while dead.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {} }).await;
}

#[tokio::test]
async fn who_does_not_read_keeps_no_other_from_a_big_response() {
    // S-108, S-111: forty clients take no byte, there is a permit for one
    let limits = Limits { max_big_responses: 1, ..Limits::default() };
    let server = Running::start(with_limits(limits)).await;
    server.publish(&[("a", &"x".repeat(1 << 20))]);
    let mut stalled = Vec::new();
    for _ in 0..40 {
        let client = Http2Client::connect(server.address).await;
        let mut unread = client.open(ADS_SOTW).await.unwrap();
        unread.send(&SotwRequest::first(CDS, &[]));
        unread.peek().await;
        stalled.push((client, unread));
    }
    let reader = Http2Client::connect(server.address).await;
    let mut stream = reader.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    let first: SotwResponse = stream.next().await.unwrap();
    stream.send(&SotwRequest::ack(&first, &[]));
    server.publish(&[("a", &"y".repeat(1 << 20))]);
    stream.next::<SotwResponse>().await.unwrap();
    for (_client, unread) in &mut stalled {
        unread.next::<SotwResponse>().await.unwrap();
    }
}
