//! Logs: every exchange is in them, and never the body of a resource (S-138).
//!
//! Alone in its file, because there is one log for the whole process.

#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_server::Config;
use common::client::Http2Client;
use common::message::{DeltaRequest, DeltaResponse, SotwRequest, SotwResponse, Status};
use common::{ADS_DELTA, ADS_SOTW, CDS, Running};
use tracing_subscriber::fmt::MakeWriter;

const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// A log in memory.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogBuffer {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A `GenericSecret` named `s` in a `Secret`, and its secret part.
fn secret() -> (Resource, &'static str) {
    let key = "PRIVATE-KEY-MATERIAL";
    let mut source = Vec::new();
    prost::encoding::string::encode(3, &key.to_owned(), &mut source); // inline_string
    let mut generic = Vec::new();
    prost::encoding::bytes::encode(1, &source, &mut generic);
    let mut body = Vec::new();
    prost::encoding::string::encode(1, &"s".to_owned(), &mut body);
    prost::encoding::bytes::encode(5, &generic, &mut body);
    (Resource::new("s".parse().unwrap(), Bytes::from(body)), key)
}

#[tokio::test]
async fn every_exchange_is_logged_and_no_body_ever() {
    // S-138, S-140
    let log = LogBuffer::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let server = Running::start(Config::default()).await;
    let (secret, key) = secret();
    let mut snapshot = Snapshot::new();
    snapshot.insert(&TypeUrl::new(SECRET), secret);
    server.store.publish("all", snapshot);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(SECRET, &["s"]));
    let response: SotwResponse = stream.next().await.unwrap();
    assert!(String::from_utf8_lossy(&response.resources[0].value).contains(key));
    // Some clients quote what they reject.
    let error = Some(Status { code: 3, message: format!("bad key {key}") });
    stream.send(&SotwRequest { error, ..SotwRequest::ack(&response, &["s"]) });
    stream.send(&SotwRequest::first(CDS, &[]));
    let clusters: SotwResponse = stream.next().await.unwrap();
    let error = Some(Status { code: 3, message: "no such luck".to_owned() });
    stream.send(&SotwRequest { error, ..SotwRequest::ack(&clusters, &[]) });
    let mut delta = client.open(ADS_DELTA).await.unwrap();
    let subscribe = vec!["s".to_owned()];
    let node = SotwRequest::first(SECRET, &[]).node;
    let type_url = SECRET.to_owned();
    delta.send(&DeltaRequest { node, type_url, subscribe, ..DeltaRequest::default() });
    assert_eq!(delta.next::<DeltaResponse>().await.unwrap().resources.len(), 1);
    let json = [("content-type", "application/json")];
    let poll = r#"{"node": {"id": "n"}, "resource_names": ["s"]}"#;
    let answer = client.request(http::Method::POST, "/v3/discovery:secrets", &json, poll).await;
    assert!(String::from_utf8_lossy(answer.body()).contains(key));
    server.stopped().await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for expected in ["sent", "rejected", "no such luck", "answered a poll", "node=\"n\""] {
        assert!(log.contains(expected), "{expected}");
    }
    let sent = log.lines().find(|line| line.contains("sent") && line.contains("sds")).unwrap();
    assert!(sent.contains("version=") && sent.contains("nonce="), "{sent}");
    assert!(!log.contains(key), "a secret is in the log");
}
