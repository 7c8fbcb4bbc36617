//! The cost of frames and streams of HTTP/2 beside their bytes, which is charged to the client.

use std::time::Duration;

use chancery_proto::frames::framed;
use chancery_server::{Config, Limits, Metrics, OneAudience};
use prometheus_client::registry::Registry;
use prost::Message;

use crate::common::client::Http2Client;
use crate::common::message::SotwRequest;
use crate::common::raw::{RawPeer, data, frame};
use crate::common::scraped::Scraped;
use crate::common::{ADS_SOTW, CDS, Running, within};

/// A server, and its metrics.
async fn measured() -> (Running, Scraped) {
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let limits = Limits { memory: 90 << 20, ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let policy = OneAudience("all".into());
    let server = Running::with(config, policy, None, metrics).await;
    server.publish(&[("a", "1")]);
    (server, Scraped(registry))
}

#[tokio::test]
async fn frames_of_a_byte_that_wait_count_as_much_as_they_cost() {
    let (server, metrics) = measured().await;
    let mut peer = RawPeer::stall(&server).await;
    peer.write(&data(b"x").repeat(1_000)).await;
    metrics.has_at_least("chancery_memory_held_bytes", 1_000 * 256).await;
}

#[tokio::test]
async fn bytes_between_frames_that_wait_count_because_they_are_kept_with_them() {
    let (server, metrics) = measured().await;
    let mut peer = RawPeer::stall(&server).await;
    // Nobody knows this type, and h2 ignores it.
    let unknown = frame(0xee, 0, 1, &[0; 8_000]);
    peer.write(&[unknown, data(b"x")].concat().repeat(20)).await;
    metrics.has_at_least("chancery_memory_held_bytes", 20 * 8_000).await;
}

#[tokio::test]
async fn a_request_in_thousands_of_frames_is_taken_as_they_come() {
    let (server, _) = measured().await;
    let names: Vec<_> = (0..500).map(|at| format!("name-{at}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).chain(["a"]).collect();
    let mut peer = RawPeer::open(&server, 1 << 20).await;
    let message = framed(&SotwRequest::first(CDS, &names).encode_to_vec());
    assert!(message.len() > 4_000);
    let frames: Vec<_> = message.iter().flat_map(|byte| data(&[*byte])).collect();
    peer.write(&frames).await;
    assert_eq!(peer.message().await.clusters().len(), 1);
}

#[tokio::test]
async fn the_places_of_streams_that_have_ended_count() {
    let (server, metrics) = measured().await;
    let client = Http2Client::connect(server.address).await;
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(client.begin(ADS_SOTW).await);
    }
    metrics.has_at_least("chancery_memory_held_bytes", 100 * 4 * 1024).await;
    drop(open);
    let held = || metrics.value("chancery_memory_held_bytes").unwrap();
    within(async {
        while held() > 180 * 1024 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(held() >= 100 * 1024, "{}", held());
}
