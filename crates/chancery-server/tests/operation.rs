//! Shutdown, health, reflection and metrics.

use std::time::Duration;

use chancery_server::{Config, Metrics, OneAudience, Times};
use prometheus_client::registry::Registry;
use prost::Message;
use tokio::net::TcpStream;

use crate::common;
use crate::common::client::Http2Client;
use crate::common::message::{SotwRequest, SotwResponse, Status};
use crate::common::{ADS_SOTW, CDS, Running, within};

fn quick() -> Config {
    let times = Times { drain: Duration::from_millis(200), ..Times::default() };
    Config { times, ..Config::default() }
}

#[tokio::test]
async fn at_shutdown_streams_end_after_their_first_answer() {
    // S-112, S-139
    let server = Running::start(quick()).await;
    server.publish(&[("a", "1")]);
    let answered = Http2Client::connect(server.address).await;
    let mut one = answered.open(ADS_SOTW).await.unwrap();
    one.send(&SotwRequest::first(CDS, &[]));
    one.next::<SotwResponse>().await.unwrap();
    server.store.withdraw("all");
    let mut waiting = Http2Client::connect(server.address).await;
    let mut two = waiting.open(ADS_SOTW).await.unwrap();
    two.send(&SotwRequest::first(CDS, &[]));
    waiting.ping().await;
    let (address, store) = (server.address, server.store.clone());
    let stopping = tokio::spawn(server.stopped());
    assert_eq!(one.next::<SotwResponse>().await.unwrap_err(), (14, "draining".to_owned()));
    within(answered.connection).await.unwrap().unwrap();
    within(async { while waiting.accepts_streams().await {} }).await;
    assert!(TcpStream::connect(address).await.is_err(), "no more connections");
    assert!(!stopping.is_finished());
    store.publish("all", common::snapshot(&[("a", "2")]));
    assert_eq!(two.next::<SotwResponse>().await.unwrap().resources.len(), 1);
    assert_eq!(two.next::<SotwResponse>().await.unwrap_err(), (14, "draining".to_owned()));
    within(stopping).await.unwrap();
}

#[tokio::test]
async fn at_shutdown_nobody_is_waited_for_longer_than_the_grace() {
    // S-139
    let times = Times {
        drain: Duration::from_millis(50),
        grace: Duration::from_millis(100),
        ..Times::default()
    };
    let server = Running::start(Config { times, ..Config::default() }).await;
    let mut client = Http2Client::connect(server.address).await;
    let mut unanswered = client.open(ADS_SOTW).await.unwrap();
    unanswered.send(&SotwRequest::first(CDS, &[]));
    client.ping().await;
    let stopping = tokio::spawn(server.stopped());
    assert_eq!(unanswered.next::<SotwResponse>().await.unwrap_err(), (14, "draining".to_owned()));
    within(stopping).await.unwrap();
}

#[tokio::test]
async fn at_shutdown_nobody_is_waited_for_who_has_nothing_to_wait_for() {
    // S-139: one stream never spoke, the client of the other has everything; the grace is long
    let times = Times {
        drain: Duration::from_millis(50),
        grace: Duration::from_secs(3600),
        ..Times::default()
    };
    let server = Running::start(Config { times, ..Config::default() }).await;
    server.publish(&[("a", "1")]);
    let mut client = Http2Client::connect(server.address).await;
    let mut first = client.open(ADS_SOTW).await.unwrap();
    first.send(&SotwRequest::first(CDS, &[]));
    let version = first.next::<SotwResponse>().await.unwrap().version;
    let mut current = client.open(ADS_SOTW).await.unwrap();
    current.send(&SotwRequest { version, ..SotwRequest::first(CDS, &[]) });
    let mut silent = client.open(ADS_SOTW).await.unwrap();
    client.ping().await;
    let stopping = tokio::spawn(server.stopped());
    for stream in [&mut first, &mut current, &mut silent] {
        assert_eq!(stream.next::<SotwResponse>().await.unwrap_err(), (14, "draining".to_owned()));
    }
    within(stopping).await.unwrap();
}

#[tokio::test]
async fn connections_end_staggered() {
    // S-139
    let times = Times { drain: Duration::from_millis(500), ..Times::default() };
    let server = Running::start(Config { times, ..Config::default() }).await;
    server.publish(&[("a", "1")]);
    let mut streams = Vec::new();
    for _ in 0..20 {
        let client = Http2Client::connect(server.address).await;
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        stream.send(&SotwRequest::first(CDS, &[]));
        stream.next::<SotwResponse>().await.unwrap();
        streams.push((client, stream));
    }
    let begun = std::time::Instant::now();
    let stopping = tokio::spawn(server.stopped());
    let ends = streams.into_iter().map(|(client, mut stream)| {
        tokio::spawn(async move {
            stream.next::<SotwResponse>().await.unwrap_err();
            drop(client);
            begun.elapsed()
        })
    });
    let mut times = Vec::new();
    for end in ends.collect::<Vec<_>>() {
        times.push(end.await.unwrap());
    }
    let spread = *times.iter().max().unwrap() - *times.iter().min().unwrap();
    assert!(spread > Duration::from_millis(100), "{times:?}");
    within(stopping).await.unwrap();
}

#[derive(Clone, PartialEq, Message)]
struct HealthRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct HealthResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[tokio::test]
async fn health_is_told_for_the_server_and_its_services() {
    let server = Running::start(quick()).await;
    let client = Http2Client::connect(server.address).await;
    let ads = "envoy.service.discovery.v3.AggregatedDiscoveryService";
    for (service, expected) in [("", Ok(1)), (ads, Ok(1)), ("nobody", Err(5))] {
        let service = service.to_owned();
        let request = HealthRequest { service };
        let told = match client.call("/grpc.health.v1.Health/Check", &request).await {
            Ok(mut check) => check.next::<HealthResponse>().await,
            Err(refusal) => Err(refusal),
        };
        assert_eq!(told.map(|told| told.status).map_err(|(code, _)| code), expected);
    }
    let path = "/grpc.health.v1.Health/Watch";
    let mut watch = client.call(path, &HealthRequest::default()).await.unwrap();
    assert_eq!(watch.next::<HealthResponse>().await.unwrap().status, 1);
    let stopping = tokio::spawn(server.stopped());
    assert_eq!(watch.next::<HealthResponse>().await.unwrap().status, 2);
    assert_eq!(watch.next::<HealthResponse>().await.unwrap_err(), (14, "draining".to_owned()));
    within(stopping).await.unwrap();
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionRequest {
    #[prost(string, tag = "4")]
    symbol: String,
    #[prost(string, tag = "7")]
    list: String,
}

#[derive(Clone, PartialEq, Message)]
struct ReflectionResponse {
    #[prost(message, optional, tag = "4")]
    files: Option<DescriptorFiles>,
    #[prost(message, optional, tag = "6")]
    services: Option<Services>,
}

#[derive(Clone, PartialEq, Message)]
struct DescriptorFiles {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<HealthRequest>,
}

#[tokio::test]
async fn reflection_shows_what_is_served() {
    let server = Running::start(Config::default()).await;
    let client = Http2Client::connect(server.address).await;
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let mut stream = client.open(&path).await.unwrap();
        stream.send(&ReflectionRequest { list: "*".to_owned(), ..Default::default() });
        let list = stream.next::<ReflectionResponse>().await.unwrap().services.unwrap();
        let names: Vec<_> = list.services.iter().map(|one| &*one.service).collect();
        assert!(names.contains(&"envoy.service.discovery.v3.AggregatedDiscoveryService"));
        assert!(names.contains(&"grpc.health.v1.Health"));
        assert!(!names.iter().any(|name| name.contains(".v2.")), "v2 is not served");
        let symbol = "envoy.service.discovery.v3.DiscoveryRequest".to_owned();
        stream.send(&ReflectionRequest { symbol, ..Default::default() });
        let found = stream.next::<ReflectionResponse>().await.unwrap().files.unwrap();
        assert!(!found.files.is_empty());
    }
}

#[tokio::test]
async fn every_metric_moves() {
    // S-140, S-065
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let server = Running::with(quick(), OneAudience("all".into()), None, metrics).await;
    server.publish(&[("a", "1")]);
    let mut client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    let one: SotwResponse = stream.next().await.unwrap();
    stream.send(&SotwRequest::ack(&one, &[]));
    server.publish(&[("a", "2")]);
    let two: SotwResponse = stream.next().await.unwrap();
    stream.send(&SotwRequest::ack(&two, &[]));
    stream.send(&SotwRequest::ack(&one, &[]));
    server.publish(&[("a", "3")]);
    let three: SotwResponse = stream.next().await.unwrap();
    let error = Some(Status { code: 3, message: "bad".to_owned() });
    stream.send(&SotwRequest { error, version: two.version, ..SotwRequest::ack(&three, &[]) });
    let json = [("content-type", "application/json")];
    client.request(http::Method::POST, "/v3/discovery:clusters", &json, "{}").await;
    let text = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    let labels = "{variant=\"sotw\",type=\"cds\"}";
    for expected in [
        "chancery_connections 1".to_owned(),
        "chancery_streams{variant=\"sotw\",service=\"ads\"} 1".to_owned(),
        "chancery_streams_opened_total{variant=\"sotw\",service=\"ads\"} 1".to_owned(),
        format!("chancery_responses_total{labels} 3"),
        format!("chancery_response_bytes_total{labels} "),
        format!("chancery_acks_total{labels} 2"),
        format!("chancery_nacks_total{labels} 1"),
        format!("chancery_stale_total{labels} 1"),
        format!("chancery_ack_latency_seconds_count{labels} 2"),
        format!("chancery_first_answer_seconds_count{labels} 1"),
        format!("chancery_commit_to_ack_seconds_count{labels} 1"),
        "chancery_polls_total{type=\"cds\",status=\"200\"} 1".to_owned(),
        "chancery_responses_total{variant=\"rest\",type=\"cds\"} 1".to_owned(),
        "chancery_resources{type=\"cds\"} ".to_owned(),
    ] {
        within(async {
            while !text().contains(&expected) {
                client.ping().await;
            }
        })
        .await;
    }
    drop(stream);
    let gone = "chancery_streams{variant=\"sotw\",service=\"ads\"} 0";
    within(async {
        while !text().contains(gone) {
            client.ping().await;
        }
    })
    .await;
}
