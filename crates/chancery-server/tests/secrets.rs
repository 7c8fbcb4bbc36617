//! Secrets in resources of any type, over gRPC and REST: a stranger is refused in plain words
//! (S-137). And requests of web pages, which reach a server that listens on loopback.

use chancery_core::server::Settings;
use chancery_core::{Facts, Snapshot, TypeUrl};
use chancery_server::Config;
use http::Method;
use tokio::net::TcpStream;

use crate::common::client::{Http2Client, http1};
use crate::common::message::{DeltaRequest, DeltaResponse, SotwRequest, SotwResponse};
use crate::common::{ADS_DELTA, ADS_SOTW, CDS, Running, cluster};

const CLUSTERS: &str = "/v3/discovery:clusters";
const JSON: (&str, &str) = ("content-type", "application/json");
const ORIGIN: (&str, &str) = ("origin", "http://rebound.example");

/// A server that takes all peers for strangers: peers of a test are local.
async fn for_strangers() -> Running {
    let protocol = Settings { secrets_allowed: false, ..Settings::default() };
    let server = Running::start(Config { protocol, ..Config::default() }).await;
    server.store.publish("all", clusters(true));
    server
}

/// The clusters `a` and `s`, of which `s` may hold a secret.
fn clusters(sensitive: bool) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let facts = Facts { sensitive, ..Facts::default() };
    snapshot.insert(&TypeUrl::new(CDS), cluster("a", "1"));
    snapshot.insert(&TypeUrl::new(CDS), cluster("s", "KEY").with_facts(facts));
    snapshot
}

fn tells_why(text: &str) {
    for word in ["`s`", "secrets-anywhere", "mutual TLS"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert!(!text.contains("KEY"), "{text}");
}

#[tokio::test]
async fn a_stranger_that_is_to_be_sent_a_secret_is_refused() {
    // S-137
    let server = for_strangers().await;
    let client = Http2Client::connect(server.address).await;
    let mut all = client.open(ADS_SOTW).await.unwrap();
    all.send(&SotwRequest::first(CDS, &[]));
    let (code, text) = all.next::<SotwResponse>().await.unwrap_err();
    assert_eq!(code, 7, "PERMISSION_DENIED");
    tells_why(&text);
    let mut one = client.open(ADS_SOTW).await.unwrap();
    one.send(&SotwRequest::first(CDS, &["a"]));
    assert_eq!(one.next::<SotwResponse>().await.unwrap().clusters().len(), 1);
    let mut delta = client.open(ADS_DELTA).await.unwrap();
    let node = SotwRequest::first(CDS, &[]).node;
    delta.send(&DeltaRequest { node, type_url: CDS.to_owned(), ..DeltaRequest::default() });
    let (code, text) = delta.next::<DeltaResponse>().await.unwrap_err();
    assert_eq!(code, 7);
    tells_why(&text);
}

#[tokio::test]
async fn an_edit_that_brings_a_secret_ends_the_stream() {
    // S-137
    let server = for_strangers().await;
    server.store.publish("all", clusters(false));
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    let first: SotwResponse = stream.next().await.unwrap();
    assert_eq!(first.clusters().len(), 2);
    stream.send(&SotwRequest::ack(&first, &[]));
    let mut with_secret = Snapshot::new();
    let facts = Facts { sensitive: true, ..Facts::default() };
    with_secret.insert(&TypeUrl::new(CDS), cluster("s", "OTHER").with_facts(facts));
    server.store.publish("all", with_secret);
    assert_eq!(stream.next::<SotwResponse>().await.unwrap_err().0, 7);
}

#[tokio::test]
async fn a_poll_for_a_secret_is_forbidden() {
    // S-137
    let server = for_strangers().await;
    let client = Http2Client::connect(server.address).await;
    for names in ["[]", r#"["s"]"#, r#"["a", "s"]"#] {
        let poll = format!(r#"{{"node": {{"id": "n"}}, "resource_names": {names}}}"#);
        let answer = client.request(Method::POST, CLUSTERS, &[JSON], &poll).await;
        assert_eq!(answer.status(), 403, "{names}");
        tells_why(&String::from_utf8_lossy(answer.body()));
    }
    let poll = r#"{"node": {"id": "n"}, "resource_names": ["a"]}"#;
    let answer = client.request(Method::POST, CLUSTERS, &[JSON], poll).await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn a_request_of_a_web_page_is_refused_and_the_host_does_not_matter() {
    // S-137: a page whose name is bound to this address sends `Origin` with each POST
    let server = Running::start(Config::default()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    for path in [CLUSTERS, "/nothing"] {
        let answer = client.request(Method::POST, path, &[JSON, ORIGIN], "{}").await;
        assert_eq!(answer.status(), 403, "{path}");
        assert!(String::from_utf8_lossy(answer.body()).contains("Origin"));
    }
    let grpc = ("content-type", "application/grpc");
    let answer = client.request(Method::POST, ADS_SOTW, &[grpc, ORIGIN], "").await;
    assert_eq!(answer.headers()["grpc-status"], "7");
    let head = |origin: &str| {
        format!("POST {CLUSTERS} HTTP/1.1\r\n{origin}content-type: application/json")
    };
    let io = TcpStream::connect(server.address).await.unwrap();
    let refused = http1(io, &head("origin: null\r\n"), "{}").await;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    // Envoy sends the name of its cluster as `Host`; the helper sends `x`.
    let io = TcpStream::connect(server.address).await.unwrap();
    assert!(http1(io, &head(""), "{}").await.starts_with("HTTP/1.1 200"));
    let read = client.request(Method::GET, CLUSTERS, &[], "").await;
    assert_eq!(read.status(), 405, "a page could read it without an origin");
}
