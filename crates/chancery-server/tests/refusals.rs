//! Clients that are refused, and secrets that are withheld: each is told in the log, once, and counted.
//!
//! Alone in its file, because there is one log for the whole process.

#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use chancery_core::server::Settings;
use chancery_server::{AudienceName, Client, Config, Metrics, Refusal};
use common::client::Http2Client;
use common::message::SotwRequest;
use common::{ADS_SOTW, CDS, Running};
use prometheus_client::registry::Registry;
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

/// Everybody but the node `stranger`, and those who say no id.
struct NoStrangers;

impl chancery_server::Policy for NoStrangers {
    fn audience(&self, client: &Client<'_>) -> Result<AudienceName, Refusal> {
        match client.node.ok_or_else(Refusal::anonymous)?.id.as_str() {
            "stranger" => Err(Refusal::Denied("not one of ours".to_owned())),
            _ => Ok("all".into()),
        }
    }
}

#[tokio::test]
async fn a_refusal_is_told_once_and_counted_each_time() {
    let log = LogBuffer::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut registry = Registry::default();
    let metrics = Metrics::registered(&mut registry);
    let protocol = Settings { secrets_allowed: false, ..Settings::default() };
    let config = Config { protocol, ..Config::default() };
    let server = Running::with(config, NoStrangers, None, metrics).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    for _ in 0..2 {
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        let mut request = SotwRequest::first(CDS, &[]);
        request.node.as_mut().unwrap().id = "stranger".to_owned();
        stream.send(&request);
        assert_eq!(stream.next::<common::message::SotwResponse>().await.unwrap_err().0, 7);
        for node in ["stranger", ""] {
            let poll = format!("{{\"node\": {{\"id\": \"{node}\"}}}}");
            let json = [("content-type", "application/json")];
            let path = "/v3/discovery:clusters";
            let answer = client.request(http::Method::POST, path, &json, &poll).await;
            assert!([400, 403].contains(&answer.status().as_u16()), "{}", answer.status());
        }
        // Nothing comes for a secret, so an answer to something else shows that it was asked for.
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        stream.send(&SotwRequest::first(SECRET, &["key", "other"]));
        stream.send(&SotwRequest { node: None, ..SotwRequest::first(CDS, &[]) });
        stream.next::<common::message::SotwResponse>().await.unwrap();
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let count =
        |part: &str| text.lines().filter(|it| it.contains("WARN") && it.contains(part)).count();
    assert_eq!(count("stream closed"), 1, "{text}");
    assert_eq!(count("a poll was refused: not one of ours"), 1, "{text}");
    assert_eq!(count("a poll was refused: the first request has no `node`"), 1, "{text}");
    assert_eq!(count("secrets are withheld: they are sent only over mutual TLS"), 1, "{text}");
    assert!(text.contains("count=2") && text.contains("key, other"), "{text}");
    let mut counted = String::new();
    prometheus_client::encoding::text::encode(&mut counted, &registry).unwrap();
    for (reason, number) in [("denied", 4), ("unidentified", 2), ("secret", 2)] {
        let line = format!("chancery_clients_refused_total{{reason=\"{reason}\"}} {number}");
        assert!(counted.lines().any(|it| it == line), "{line}: {counted}");
    }
}
