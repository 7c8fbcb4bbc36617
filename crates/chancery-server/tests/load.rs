//! Load reports over gRPC, into the book of a server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chancery_core::server::load::{
    ClusterSelection, ClusterStats, LoadKey, LoadResponse, LocalityStats,
};
use chancery_core::{Locality, Node};
use chancery_proto::wire;
use chancery_server::{
    AudienceName, Client, Config, Limits, LoadBounds, LoadInterval, LoadReporting, LoadReports,
    Metrics, OneAudience, Policy, Refusal, Server,
};
use prometheus_client::registry::Registry;

use crate::common::client::{GrpcStream, Http2Client};
use crate::common::message::{SotwRequest, SotwResponse};
use crate::common::scraped::Scraped;
use crate::common::{ADS_SOTW, CDS, Running, within};

const LRS: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";
const FEATURE: &str = "envoy.lrs.supports_send_all_clusters";

/// A server that takes load reports.
struct LoadServer {
    running: Running,
    reports: LoadReports,
    scraped: Scraped,
}

impl LoadServer {
    async fn new(config: Config, policy: impl Policy) -> Self {
        let reports = LoadReports::new(LoadBounds::default());
        let mut registry = Registry::default();
        let metrics = Metrics::registered(&mut registry);
        let book = reports.clone();
        let make = |store| {
            Server::new(store, policy, config).with_metrics(metrics).with_load_reports(book)
        };
        let running = Running::of(make, None).await;
        Self { running, reports, scraped: Scraped(registry) }
    }

    async fn usual() -> Self {
        Self::new(Config::default(), OneAudience("all".into())).await
    }

    async fn open(&self) -> GrpcStream {
        Http2Client::connect(self.running.address).await.open(LRS).await.unwrap()
    }

    /// A stream of a client that takes all clusters, with the answer to its first message.
    async fn reporting(&self) -> GrpcStream {
        let mut stream = self.open().await;
        stream.send_bytes(&hello(&[FEATURE]));
        assert_eq!(told(&mut stream).await.clusters, ClusterSelection::All);
        stream
    }

    /// Waits until so many calls were issued, and returns the sums by cluster.
    async fn has(&self, issued: u64) -> Vec<(String, u64)> {
        let seen = async {
            loop {
                let all: Vec<_> = self.reports.series().collect();
                if all.iter().map(|series| series.totals.issued).sum::<u64>() == issued {
                    let names =
                        all.iter().map(|it| (it.key.cluster.cluster.to_string(), it.totals.issued));
                    return names.collect();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(seen).await
    }
}

fn hello(features: &[&str]) -> Vec<u8> {
    let client_features = features.iter().map(ToString::to_string).collect();
    let node = Node { id: "n".to_owned(), client_features, ..Node::default() };
    report(Some(node), Vec::new())
}

fn report(node: Option<Node>, clusters: Vec<ClusterStats>) -> Vec<u8> {
    let report = chancery_core::client::load::LoadReport { node: node.map(Arc::new), clusters };
    wire::encode_load_report(&report).to_vec()
}

fn calls(cluster: &str, issued: u64) -> ClusterStats {
    let stats = LocalityStats { issued, succeeded: issued, ..LocalityStats::default() };
    ClusterStats {
        key: LoadKey { cluster: cluster.into(), service: "".into() },
        localities: [(Locality { zone: "z".to_owned(), ..Locality::default() }, stats)].into(),
        interval: Duration::from_secs(1),
        ..ClusterStats::default()
    }
}

/// The next response, as bytes that the client's half reads.
async fn told(stream: &mut GrpcStream) -> LoadResponse {
    let response = wire::decode_load_response(&stream.next_bytes().await.unwrap()).unwrap();
    let interval = response.interval.unwrap();
    // S-131
    assert!(interval > Duration::ZERO && interval <= Duration::from_secs(3600), "{interval:?}");
    response
}

fn named(names: &[&str]) -> ClusterSelection {
    ClusterSelection::Named(names.iter().map(|name| Arc::from(*name)).collect::<BTreeSet<_>>())
}

#[tokio::test]
async fn a_client_is_told_what_to_report_as_soon_as_it_has_spoken() {
    // S-130, S-131, S-132
    let server = LoadServer::usual().await;
    server.running.publish(&[("a", "1"), ("b", "1")]);
    server.reporting().await;
    let mut stream = server.open().await;
    stream.send_bytes(&hello(&[]));
    let response = told(&mut stream).await;
    assert_eq!(response.clusters, named(&["a", "b"]));
    assert_eq!(response.interval, Some(Duration::from_secs(10)));
}

#[tokio::test]
async fn reports_are_in_the_book_call_by_call() {
    // S-133
    let server = LoadServer::usual().await;
    let mut one = server.reporting().await;
    let mut other = server.reporting().await;
    for count in 1..=100 {
        one.send_bytes(&report(None, vec![calls("a", count), calls("b", 1)]));
        other.send_bytes(&report(None, vec![calls("a", 2)]));
    }
    let found = server.has(5_050 + 100 + 200).await;
    assert_eq!(found, [("a".to_owned(), 5_250), ("b".to_owned(), 100)]);
    let issued: Vec<_> = server.reports.reporters().map(|it| it.totals.issued).collect();
    assert_eq!(issued, [5_150, 200]);
    server.scraped.has("chancery_load_calls_total{outcome=\"issued\"} 5350").await;
    server.scraped.has("chancery_load_streams 2").await;
    drop((one, other));
    server.scraped.has("chancery_load_streams 0").await;
    assert_eq!(server.reports.size(), (0, 2), "series stay for a while");
}

#[tokio::test]
async fn a_client_that_always_reports_is_told_of_changes_too() {
    // S-132
    let seconds = Arc::new(AtomicU64::new(1));
    let server = LoadServer::new(Config::default(), Every(Arc::clone(&seconds))).await;
    server.running.publish(&[("a", "1")]);
    let mut stream = server.open().await;
    stream.send_bytes(&hello(&[]));
    assert_eq!(told(&mut stream).await.clusters, named(&["a"]));
    server.running.publish(&[("a", "1"), ("b", "1")]);
    let next = report(None, vec![calls("a", 1)]);
    let reporting = async {
        loop {
            stream.send_bytes(&next);
            let answer = tokio::time::timeout(Duration::ZERO, told(&mut stream)).await;
            if let Ok(response) = answer {
                return response;
            }
        }
    };
    assert_eq!(within(reporting).await.clusters, named(&["a", "b"]));
}

#[tokio::test]
async fn a_server_without_a_book_has_no_such_method() {
    let server = Running::start(Config::default()).await;
    let refused = Http2Client::connect(server.address).await.open(LRS).await.err();
    assert_eq!(refused.unwrap().0, 12);
}

/// A policy whose interval is what a test says.
struct Every(Arc<AtomicU64>);

impl Policy for Every {
    fn audience(&self, client: &Client<'_>) -> Result<AudienceName, Refusal> {
        match client.node {
            Some(node) if node.id == "refused" => Err(Refusal::Denied("no".to_owned())),
            _ => Ok("all".into()),
        }
    }
    fn load_reporting(&self, _: &Client<'_>) -> Option<LoadReporting> {
        let time = Duration::from_secs(self.0.load(Ordering::Relaxed));
        let interval = LoadInterval::new(time).ok()?;
        Some(LoadReporting { interval, by_endpoint: false })
    }
}

#[tokio::test]
async fn another_interval_and_another_cluster_are_told_to_a_client_that_is_silent() {
    // S-132
    let seconds = Arc::new(AtomicU64::new(1));
    let server = LoadServer::new(Config::default(), Every(Arc::clone(&seconds))).await;
    server.running.publish(&[("a", "1")]);
    let mut stream = server.open().await;
    stream.send_bytes(&hello(&[]));
    assert_eq!(told(&mut stream).await.clusters, named(&["a"]));
    server.running.publish(&[("a", "1"), ("b", "1")]);
    assert_eq!(told(&mut stream).await.clusters, named(&["a", "b"]));
    seconds.store(0, Ordering::Relaxed);
    assert_eq!(told(&mut stream).await.clusters, named(&[]));
}

#[tokio::test]
async fn a_client_that_the_policy_refuses_reports_nothing() {
    let server = LoadServer::new(Config::default(), Every(Arc::default())).await;
    let mut stream = server.open().await;
    let node = Node { id: "refused".to_owned(), ..Node::default() };
    stream.send_bytes(&report(Some(node), vec![calls("a", 1)]));
    assert_eq!(stream.next_bytes().await.unwrap_err().0, 7);
    assert_eq!(server.reports.size(), (0, 0));
}

#[tokio::test]
async fn a_stream_ends_when_the_server_does() {
    // S-139
    let server = LoadServer::usual().await;
    let mut stream = server.reporting().await;
    server.running.stop.cancel();
    assert_eq!(stream.next_bytes().await.unwrap_err().0, 14);
}

/// A field with bytes.
fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::bytes::encode(number, &value.to_vec(), &mut bytes);
    bytes
}

#[tokio::test]
async fn a_report_is_as_large_as_it_may_be_and_no_larger() {
    let server = LoadServer::usual().await;
    let padded = |size: usize| {
        let report = report(None, vec![calls("a", 1)]);
        // A key of two bytes, and a length of four.
        let bytes = [field(100, &vec![0; size - report.len() - 6]), report].concat();
        assert_eq!(bytes.len(), size);
        bytes
    };
    let most = 4 * 1024 * 1024;
    let mut stream = server.reporting().await;
    stream.send_bytes(&padded(most));
    server.has(1).await;
    stream.send_bytes(&padded(most + 1));
    assert_eq!(stream.next_bytes().await.unwrap_err().0, 8);
}

#[tokio::test]
async fn hostile_reports_are_bounded_and_counted_and_the_rest_is_taken() {
    let server = LoadServer::usual().await;
    let mut innocent = server.reporting().await;
    let mut hostile = server.reporting().await;
    let long = "x".repeat(1024 * 1024);
    let empty = field(2, b"").repeat(1_000_000);
    let localities = field(2, &field(2, b"").repeat(1_000_000));
    let many = (0..12_000).map(|number| calls(&format!("h{number}"), 1)).collect();
    for bytes in [
        empty,
        localities,
        report(None, many),
        report(None, vec![calls(&long, 1)]),
        report(None, vec![calls("huge", u64::MAX), calls("fine", 5)]),
    ] {
        hostile.send_bytes(&bytes);
    }
    innocent.send_bytes(&report(None, vec![calls("a", 7)]));
    // 10,000 rows are all that one client has, so `fine` has none.
    server.has(10_000 + 7).await;
    server.scraped.has("chancery_load_left_out_total{reason=\"names\"} 1").await;
    server.scraped.has("chancery_load_left_out_total{reason=\"numbers\"} 1").await;
    server.scraped.has("chancery_load_left_out_total{reason=\"rows\"} 2003").await;
    let mut ads = Http2Client::connect(server.running.address).await.open(ADS_SOTW).await.unwrap();
    server.running.publish(&[("a", "1")]);
    ads.send(&SotwRequest::first(CDS, &[]));
    assert_eq!(ads.next::<SotwResponse>().await.unwrap().resources.len(), 1);
}

#[tokio::test]
async fn a_client_that_may_hold_no_more_has_the_rest_left_out() {
    let limits = Limits { memory: 8 * 1024 * 1024, ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let server = LoadServer::new(config, OneAudience("all".into())).await;
    let mut hostile = Http2Client::connect_from([127, 0, 0, 2], server.running.address)
        .await
        .open(LRS)
        .await
        .unwrap();
    hostile.send_bytes(&hello(&[FEATURE]));
    told(&mut hostile).await;
    // Each report waits until the one before it was taken.
    let taken = "chancery_load_reports_total";
    for number in 1..100 {
        let names = (0..100).map(|name| calls(&format!("h{number}-{name}"), 1)).collect();
        hostile.send_bytes(&report(None, names));
        server.scraped.has_at_least(taken, number + 1).await;
    }
    server.scraped.has_at_least("chancery_load_left_out_total{reason=\"memory\"}", 1_000).await;
    let mut innocent = server.reporting().await;
    innocent.send_bytes(&report(None, vec![calls("a", 7)]));
    let seen = async {
        while !server.reports.series().any(|it| &*it.key.cluster.cluster == "a") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(seen).await;
}

#[tokio::test]
async fn a_list_of_clusters_that_a_client_may_not_hold_ends_its_stream() {
    let limits = Limits { memory: 2 * 1024 * 1024, ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let server = LoadServer::new(config, OneAudience("all".into())).await;
    let names: Vec<_> = (0..4_000).map(|number| format!("{number:0300}")).collect();
    let clusters: Vec<_> = names.iter().map(|name| (&**name, "1")).collect();
    server.running.publish(&clusters);
    let mut listed = server.open().await;
    listed.send_bytes(&hello(&[]));
    assert_eq!(listed.next_bytes().await.unwrap_err().0, 8);
    server.reporting().await;
}
