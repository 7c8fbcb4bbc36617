//! The share of one client of what the server holds, and the end of one that reads nothing.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use chancery_server::{Config, Limits, Metrics, OneAudience, Times, Tls};
use h2::Reason;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::version::TLS13;

use crate::common::authority::{CertificateAuthority, connect_with, files};
use crate::common::client::{GrpcStream, Http2Client};
use crate::common::message::{SotwRequest, SotwResponse};
use crate::common::scraped::Scraped;
use crate::common::{ADS_SOTW, CDS, EDS, Running, within};

const MIB: usize = 1 << 20;

fn stalls_after(stall_timeout: Duration) -> Config {
    let times = Times { stall_timeout, drain: Duration::from_millis(10), ..Times::default() };
    Config { times, ..Config::default() }
}

fn with_memory(memory: usize) -> Config {
    Config { limits: Limits { memory, ..Limits::default() }, ..Config::default() }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_ended_and_one_with_nothing_to_read_is_not() {
    // S-108, S-109
    let server = Running::start(stalls_after(Duration::from_millis(100))).await;
    server.publish(&[("a", "1")]);
    let quiet = Http2Client::connect(server.address).await;
    let mut quiet = quiet.open(ADS_SOTW).await.unwrap();
    quiet.send(&SotwRequest::first(CDS, &[]));
    let unanswered: SotwResponse = quiet.next().await.unwrap();
    server.publish(&[("a", &"x".repeat(MIB))]);
    let client = Http2Client::connect(server.address).await;
    let mut stalled = client.open(ADS_SOTW).await.unwrap();
    stalled.send(&SotwRequest::first(CDS, &[]));
    assert_eq!(stalled.reset_unread().await, Some(Reason::ENHANCE_YOUR_CALM));
    quiet.send(&SotwRequest::ack(&unanswered, &[]));
    quiet.next::<SotwResponse>().await.unwrap();
}

#[tokio::test]
async fn a_client_that_takes_a_byte_now_and_then_is_ended() {
    // S-108
    let server = Running::start(stalls_after(Duration::from_millis(400))).await;
    server.publish(&[("a", &"x".repeat(MIB))]);
    let io = TcpStream::connect(server.address).await.unwrap();
    let client = Http2Client::with_window(io, 1).await;
    let mut dribbles = client.open(ADS_SOTW).await.unwrap();
    dribbles.send(&SotwRequest::first(CDS, &[]));
    // Each of them makes room for one more byte.
    let end = loop {
        match dribbles.read_a_byte().await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(reason) => break reason,
        }
    };
    assert_eq!(end, Some(Reason::ENHANCE_YOUR_CALM));
}

/// Publishes a new state of 4 MiB.
fn publish_state(server: &Running, state: usize) {
    server.publish(&[("a", &format!("{state}{}", "x".repeat(4 * MIB)))]);
}

#[tokio::test]
async fn superseded_states_that_only_unread_streams_keep_count() {
    // S-108
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let (config, policy) = (with_memory(72 * MIB), OneAudience("all".into()));
    let server = Running::with(config, policy, None, metrics).await;
    let metrics = Scraped(registry);
    let mut unread = Vec::new();
    for state in 0..12 {
        publish_state(&server, state);
        let client = Http2Client::connect(server.address).await;
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        stream.send(&SotwRequest::first(CDS, &[]));
        stream.peek().await;
        unread.push((client, stream));
    }
    publish_state(&server, 12);
    // Half of 64 MiB are for one client, and each state is 4 MiB and its encoding.
    metrics.has_at_least("chancery_cut_off_total{reason=\"share\"}", 8).await;
    metrics.has_at_least("chancery_memory_held_bytes", 16 * MIB).await;
    let held = metrics.value("chancery_memory_held_bytes").unwrap();
    assert!(held <= 32 * MIB, "{held} bytes");
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    stream.next::<SotwResponse>().await.unwrap();
}

#[tokio::test]
async fn streams_that_keep_the_same_superseded_state_are_charged_for_it_once() {
    // S-108
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let (config, policy) = (with_memory(72 * MIB), OneAudience("all".into()));
    let server = Running::with(config, policy, None, metrics).await;
    let metrics = Scraped(registry);
    publish_state(&server, 0);
    let mut slow = Vec::new();
    for _ in 0..20 {
        let client = Http2Client::connect(server.address).await;
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        stream.send(&SotwRequest::first(CDS, &[]));
        stream.peek().await;
        slow.push((client, stream));
    }
    publish_state(&server, 1);
    metrics.has_at_least("chancery_memory_held_bytes", 4 * MIB).await;
    let held = metrics.value("chancery_memory_held_bytes").unwrap();
    assert!(held <= 16 * MIB, "{held} bytes");
    for (_, stream) in &mut slow {
        stream.next::<SotwResponse>().await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_takes_a_part_of_a_small_response_is_ended() {
    // S-108
    let server = Running::start(stalls_after(Duration::from_millis(100))).await;
    server.publish(&[("a", &"x".repeat(10_000))]);
    let io = TcpStream::connect(server.address).await.unwrap();
    let client = Http2Client::with_window(io, 1).await;
    let mut stalled = client.open(ADS_SOTW).await.unwrap();
    stalled.send(&SotwRequest::first(CDS, &[]));
    assert_eq!(stalled.reset_unread().await, Some(Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test]
async fn the_certificates_that_clients_show_count() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    let tls = Tls::load(files(directory.path(), true)).unwrap();
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let policy = OneAudience("all".into());
    let server = Running::with(Config::default(), policy, Some(tls), metrics).await;
    let others = vec![CertificateDer::from(vec![0x30; 15_000])];
    let client = authority.client_with(Some(authority.sign()), others, "h2", &[&TLS13]);
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(Http2Client::over(connect_with(&client, server.address).await.unwrap()).await);
    }
    // Each is kept twice.
    Scraped(registry).has_at_least("chancery_memory_held_bytes", 20 * 2 * 15_000).await;
}

#[tokio::test]
async fn responses_that_wait_for_a_socket_are_few_and_count() {
    // S-108
    const RESPONSE: usize = 200_000;
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let config = stalls_after(Duration::from_secs(3600));
    let server = Running::with(config, OneAudience("all".into()), None, metrics).await;
    let (names, body) = ((0..2).map(|at| format!("c{at}")), "x".repeat(RESPONSE / 2));
    let clusters: Vec<_> = names.collect();
    let clusters: Vec<_> = clusters.iter().map(|name| (&**name, &*body)).collect();
    server.publish(&clusters);
    let (io, closed) = (TcpStream::connect(server.address).await.unwrap(), Arc::default());
    let io = Gated { io, closed: Arc::clone(&closed) };
    let mut client = Http2Client::with_window(io, (1 << 31) - 1).await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        streams.push(client.open(ADS_SOTW).await.unwrap());
    }
    closed.store(true, Ordering::Release);
    for stream in &mut streams {
        stream.send(&SotwRequest::first(CDS, &[]));
    }
    let metrics = Scraped(registry);
    // The streams themselves, and a bounded part of what waits for the socket.
    let streams_alone = streams.len() * 4096;
    metrics.has_at_least("chancery_memory_held_bytes", streams_alone + 256 * 1024).await;
    let held = metrics.value("chancery_memory_held_bytes").unwrap();
    assert!(held < streams_alone * 4 + MIB, "{held} bytes of {}", streams.len() * RESPONSE);
    closed.store(false, Ordering::Release);
    client.ping().await;
    for stream in &mut streams {
        stream.next::<SotwResponse>().await.unwrap();
    }
}

#[tokio::test]
async fn a_request_has_a_time_to_arrive() {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let config = stalls_after(Duration::from_millis(100));
    let server = Running::with(config, OneAudience("all".into()), None, metrics).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut quiet = client.open(ADS_SOTW).await.unwrap();
    quiet.send(&SotwRequest::first(CDS, &[]));
    let answer: SotwResponse = quiet.next().await.unwrap();
    let mut halved = client.open(ADS_SOTW).await.unwrap();
    halved.send_part(1_000, 999);
    let (code, message) = halved.next::<SotwResponse>().await.unwrap_err();
    assert_eq!((code, message.contains("100ms")), (4, true), "{message}");
    let metrics = Scraped(registry);
    assert_eq!(metrics.value("chancery_cut_off_total{reason=\"stalled\"}"), Some(1));
    // A stream between two requests is not ended.
    quiet.send(&SotwRequest::ack(&answer, &["a"]));
    quiet.next::<SotwResponse>().await.unwrap();
}

#[tokio::test]
async fn a_client_that_reads_slowly_is_not_ended() {
    // S-108
    let server = Running::start(stalls_after(Duration::from_secs(3))).await;
    server.publish(&[("a", &"x".repeat(MIB))]);
    let client = Http2Client::connect(server.address).await;
    let mut slow = client.open(ADS_SOTW).await.unwrap();
    slow.send(&SotwRequest::first(CDS, &[]));
    // It takes some of it only after a part of that time, and all of it long after it.
    let mut pauses = tokio::time::interval(Duration::from_millis(300));
    for _ in 0..12 {
        pauses.tick().await;
        slow.read_some().await;
    }
    slow.next::<SotwResponse>().await.unwrap();
}

#[tokio::test]
async fn a_drain_does_not_wait_for_a_client_that_reads_nothing() {
    // S-139
    let mut config = stalls_after(Duration::from_secs(3600));
    config.times.grace = Duration::from_secs(3600);
    let server = Running::start(config).await;
    server.publish(&[("a", &"x".repeat(MIB))]);
    let client = Http2Client::connect(server.address).await;
    let mut stalled = client.open(ADS_SOTW).await.unwrap();
    stalled.send(&SotwRequest::first(CDS, &[]));
    stalled.peek().await;
    server.stopped().await;
}

/// A socket from which nothing is read while the gate is closed.
struct Gated {
    io: TcpStream,
    closed: Arc<AtomicBool>,
}

impl AsyncRead for Gated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.closed.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Gated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn a_connection_whose_socket_takes_nothing_is_closed() {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let config = stalls_after(Duration::from_millis(300));
    let server = Running::with(config, OneAudience("all".into()), None, metrics).await;
    server.publish(&[("a", &"x".repeat(64 * MIB))]);
    let (io, closed) = (TcpStream::connect(server.address).await.unwrap(), Arc::default());
    let io = Gated { io, closed: Arc::clone(&closed) };
    let client = Http2Client::with_window(io, (1 << 31) - 1).await;
    let mut stalled = client.open(ADS_SOTW).await.unwrap();
    closed.store(true, Ordering::Release);
    stalled.send(&SotwRequest::first(CDS, &[]));
    let metrics = Scraped(registry);
    metrics.has("chancery_connections 0").await;
    assert!(metrics.value("chancery_cut_off_total{reason=\"stalled\"}").is_some());
}

#[tokio::test]
async fn requests_that_never_end_take_no_more_than_half_of_the_memory() {
    let server = Running::start(with_memory(36 * MIB)).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut endless = Vec::new();
    for _ in 0..4 {
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        stream.send_part(60 << 20, 5 * MIB);
        endless.push(stream);
    }
    let (code, text) = first_to_end(&mut endless).await;
    assert_eq!(code, 8);
    assert!(text.contains("limits.memory"), "{text}");
    let other = Http2Client::connect_from([127, 0, 0, 2], server.address).await;
    let mut stream = other.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    stream.next::<SotwResponse>().await.unwrap();
}

/// Opens a connection from an address and says nothing more. `None` if it is closed.
async fn idle_from(from: [u8; 4], to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut io = within(socket.connect(to)).await.unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    io.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..]].concat()).await.ok()?;
    within(io.read_exact(&mut [0; 9])).await.ok()?;
    Some(io)
}

#[tokio::test]
async fn connections_without_a_request_make_room_for_a_client_that_holds_little() {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let (config, policy) = (with_memory(9 * MIB / 4), OneAudience("all".into()));
    let server = Running::with(config, policy, None, metrics).await;
    server.publish(&[("a", "1")]);
    let busy = Http2Client::connect_from([127, 0, 3, 0], server.address).await;
    let mut stream = busy.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    let first = stream.next::<SotwResponse>().await.unwrap();
    let mut idle = Vec::new();
    for at in 0..200 {
        idle.extend(idle_from([127, 0, 3, at / 50], server.address).await);
    }
    assert!(idle.len() > 100, "{} of 200 were open", idle.len());
    for at in 0..4 {
        let other = Http2Client::connect_from([127, 0, 4, at], server.address).await;
        let mut stream = other.open(ADS_SOTW).await.unwrap();
        stream.send(&SotwRequest::first(CDS, &[]));
        stream.next::<SotwResponse>().await.unwrap();
    }
    assert!(Scraped(registry).value("chancery_cut_off_total{reason=\"asked-back\"}").is_some());
    server.publish(&[("a", "2")]);
    stream.send(&SotwRequest::ack(&first, &[]));
    stream.next::<SotwResponse>().await.unwrap();
}

#[tokio::test]
async fn names_count_over_all_streams_of_a_client() {
    let server = Running::start(with_memory(36 * MIB)).await;
    server.publish(&[("a", "1")]);
    let names: Vec<String> = (0..15_000).map(|n| format!("{n:0100}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let client = Http2Client::connect(server.address).await;
    let mut served = Vec::new();
    let refused = loop {
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        stream.send(&SotwRequest::first(CDS, &names));
        stream.send(&SotwRequest::first(EDS, &[]));
        match stream.next::<SotwResponse>().await {
            Ok(_) => served.push(stream),
            Err(status) => break status,
        }
    };
    assert_eq!(refused.0, 8);
    assert!(refused.1.contains("limits.memory"), "{}", refused.1);
    assert!((1..4).contains(&served.len()), "{} streams", served.len());
    let other = Http2Client::connect_from([127, 0, 0, 2], server.address).await;
    let mut stream = other.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    stream.next::<SotwResponse>().await.unwrap();
}

#[tokio::test]
async fn requests_that_wait_behind_a_response_that_is_not_read_count() {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let (config, policy) = (with_memory(9 * MIB), OneAudience("all".into()));
    let server = Running::with(config, policy, None, metrics).await;
    let metrics = Scraped(registry);
    server.publish(&[("a", &"x".repeat(MIB))]);
    let mut held = Vec::new();
    // Each connection has room for a window of 1 MiB, and half of 8 MiB are for one client.
    for _ in 0..12 {
        let client = Http2Client::connect(server.address).await;
        let mut stalled = client.open(ADS_SOTW).await.unwrap();
        stalled.send(&SotwRequest::first(CDS, &[]));
        stalled.peek().await;
        stalled.send_part(60 << 20, MIB);
        held.push((client, stalled));
    }
    within(async {
        while held.len() > 4 {
            held.retain(|(client, _)| !client.connection.is_finished());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    metrics.has_at_least("chancery_memory_held_bytes", 3 * MIB).await;
    assert!(metrics.value("chancery_memory_held_bytes").unwrap() <= 4 * MIB);
}

#[tokio::test]
async fn polls_that_are_not_read_hold_little_and_all_that_they_hold_counts() {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let (config, policy) = (with_memory(36 * MIB), OneAudience("all".into()));
    let server = Running::with(config, policy, None, metrics).await;
    let metrics = Scraped(registry);
    let clusters: Vec<_> = (0..2_000).map(|n| (format!("{n:0500}"), n.to_string())).collect();
    let clusters: Vec<_> = clusters.iter().map(|(name, of)| (&**name, &**of)).collect();
    server.publish(&clusters);
    let mut unread = Vec::new();
    for _ in 0..50 {
        let mut io = TcpStream::connect(server.address).await.unwrap();
        let head = "POST /v3/discovery:clusters HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
        within(io.write_all(head.as_bytes())).await.unwrap();
        unread.push(io);
    }
    metrics.has_at_least("chancery_memory_held_bytes", 2 * MIB).await;
    assert!(metrics.value("chancery_memory_held_bytes").unwrap() < 10 * MIB);
    let client = Http2Client::connect(server.address).await;
    let body = "{}";
    let json = [("content-type", "application/json")];
    let answer = client.request(http::Method::POST, "/v3/discovery:clusters", &json, body).await;
    assert!(answer.body().len() > MIB, "{} bytes", answer.body().len());
}

#[tokio::test]
async fn the_node_of_a_poll_that_is_held_counts() {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let (config, policy) = (with_memory(36 * MIB), OneAudience("all".into()));
    let times = Times { rest_hold: Duration::from_secs(3600), ..Times::default() };
    let server = Running::with(Config { times, ..config }, policy, None, metrics).await;
    let metrics = Scraped(registry);
    let maps = vec!["{\"\":0}"; 6_000].join(",");
    let body = format!("{{\"node\": {{\"id\": \"n\", \"metadata\": {{\"k\": [{maps}]}}}}}}");
    let mut held = Vec::new();
    // Nothing is published yet. A map takes 600 bytes, and its text seven.
    for _ in 0..2 {
        let mut io = TcpStream::connect(server.address).await.unwrap();
        let head = "POST /v3/discovery:clusters HTTP/1.1\r\nhost: x\r\ncontent-length:";
        let head = format!("{head} {}\r\n\r\n{body}", body.len());
        within(io.write_all(head.as_bytes())).await.unwrap();
        held.push(io);
    }
    metrics.has_at_least("chancery_memory_held_bytes", 7 * MIB).await;
}

#[tokio::test]
async fn calls_of_health_that_say_nothing_count() {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let (config, policy) = (with_memory(9 * MIB), OneAudience("all".into()));
    let server = Running::with(config, policy, None, metrics).await;
    let metrics = Scraped(registry);
    let client = Http2Client::connect(server.address).await;
    let mut open = Vec::new();
    for _ in 0..600 {
        open.push(client.begin("/grpc.health.v1.Health/Watch").await);
    }
    metrics.has_at_least("chancery_cut_off_total{reason=\"share\"}", 200).await;
    assert!(metrics.value("chancery_memory_held_bytes").unwrap() <= 5 * MIB);
    let other = Http2Client::connect_from([127, 0, 0, 2], server.address).await;
    let mut stream = other.open(ADS_SOTW).await.unwrap();
    server.publish(&[("a", "1")]);
    stream.send(&SotwRequest::first(CDS, &[]));
    stream.next::<SotwResponse>().await.unwrap();
}

/// The status of the first of these streams that ends.
async fn first_to_end(streams: &mut [GrpcStream]) -> (i32, String) {
    let mut ends: Vec<_> =
        streams.iter_mut().map(|stream| Box::pin(stream.next::<SotwResponse>())).collect();
    let first = std::future::poll_fn(|cx| {
        let ready = ends.iter_mut().map(|end| end.as_mut().poll(cx)).find(Poll::is_ready);
        ready.unwrap_or(Poll::Pending)
    });
    within(first).await.unwrap_err()
}

#[tokio::test]
async fn a_peer_that_holds_less_is_given_what_the_largest_one_holds() {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let (config, policy) = (with_memory(63 * MIB), OneAudience("all".into()));
    let server = Running::with(config, policy, None, metrics).await;
    let metrics = Scraped(registry);
    let mut held = Vec::new();
    for (host, parts, all) in [(1, vec![8, 8, 8], 24), (2, vec![8, 4], 36), (3, vec![8], 44)] {
        let client = Http2Client::connect_from([127, 0, 0, host], server.address).await;
        for mib in parts {
            let mut stream = client.open(ADS_SOTW).await.unwrap();
            stream.send_part(60 << 20, mib * MIB);
            held.push(stream);
        }
        metrics.has_at_least("chancery_memory_held_bytes", all * MIB).await;
    }
    server.publish(&[("a", "1")]);
    let small = Http2Client::connect_from([127, 0, 0, 4], server.address).await;
    let mut stream = small.open(ADS_SOTW).await.unwrap();
    let mut request = prost::Message::encode_to_vec(&SotwRequest::first(CDS, &[]));
    prost::encoding::bytes::encode(100, &bytes::Bytes::from(vec![0; 9 * MIB]), &mut request);
    stream.send_bytes(&request);
    stream.next::<SotwResponse>().await.unwrap();
    let (code, text) = first_to_end(&mut held[..3]).await;
    assert_eq!(code, 8);
    assert!(text.contains("other clients"), "{text}");
}
