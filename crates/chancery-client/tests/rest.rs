//! Watches over REST, against the server of this project and against servers that do their worst.

mod http;

use std::sync::Arc;
use std::time::Duration;

use chancery_client::bootstrap::XdsServer;
use chancery_client::credentials::{ChannelCredentials, TlsFiles};
use chancery_client::{Options, TypeUrl};
use chancery_testkit::TestServer;
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use http::{Does, Http, listen, response, said};

use crate::watching::{Cluster, client, clusters, heard, quick, server, snapshot, within};

fn eager() -> Options {
    Options {
        rest_refresh: Duration::from_millis(20),
        rest_timeout: Duration::from_millis(500),
        ..quick()
    }
}

/// Polls so seldom that no test sees it twice.
fn patient() -> Options {
    Options { rest_refresh: Duration::from_secs(3600), ..eager() }
}

/// C-044: a program does not see the difference.
#[tokio::test]
async fn a_watch_follows_its_resource_over_rest() {
    let server = TestServer::start(snapshot(&[("a", "1"), ("b", "1")])).await.unwrap();
    let uri = format!("http://{}", server.address());
    let client = client(vec![self::server(uri)], eager());
    let mut one = client.watch_raw(&clusters(), "a");
    let mut all = client.watch_raw(&clusters(), "*");
    assert_eq!(heard(&mut one).await, "a=1");
    let mut news = vec![heard(&mut all).await, heard(&mut all).await, heard(&mut all).await];
    news.sort();
    assert_eq!(news, ["a=1", "b=1", "settled"]);
    server.publish(snapshot(&[("a", "2"), ("c", "1")]));
    assert_eq!(heard(&mut one).await, "a=2");
    let mut news = vec![heard(&mut all).await, heard(&mut all).await, heard(&mut all).await];
    news.sort();
    assert_eq!(news, ["a=2", "b none Missing", "c=1"]);
}

/// C-044: what is asked, and that the answer to a poll is in the next one.
#[tokio::test]
async fn a_poll_says_what_became_of_the_one_before() {
    let mut server = Http::start(|number, _| {
        Does::Says(match number {
            0 => response("1", &[("a", "1")]),
            1 => response("2", &[("bad", "1")]),
            _ => said("304 Not Modified", ""),
        })
    })
    .await;
    let mut options = eager();
    options.settings.patience = Duration::ZERO; // Nobody reads the watches.
    let client = client(vec![self::server(format!("{}/xds", server.uri()))], options);
    let _one = client.watch::<Cluster>("a");
    let _two = client.watch::<Cluster>("bad");
    let asked = server.asked().await;
    assert!(asked.head.starts_with("post /xds/v3/discovery:clusters http/1.1\r\n"), "{asked:?}");
    assert!(asked.head.contains("content-type: application/json\r\n"), "{asked:?}");
    assert!(asked.head.contains("x-envoy-expected-rq-timeout-ms: 500\r\n"), "{asked:?}");
    assert_eq!(asked.body["node"]["id"], "test");
    assert_eq!(asked.body["resource_names"], json!(["a", "bad"]));
    assert_eq!(asked.body.get("version_info"), None);
    let asked = server.asked().await;
    assert_eq!(asked.body["version_info"], "1");
    assert_eq!(asked.body["node"]["id"], "test");
    let asked = server.asked().await;
    assert_eq!(asked.body["version_info"], "1");
    let error = &asked.body["error_detail"];
    assert_eq!(error["message"], "`bad`: it is bad");
    let asked = server.asked().await;
    assert_eq!((&asked.body["version_info"], asked.body.get("error_detail")), (&json!("1"), None));
}

/// C-044: a new name does not wait for the next poll, and there is one poll at a time.
#[tokio::test]
async fn new_names_are_asked_for_at_once() {
    let mut server = Http::start(|_, _| Does::Says(response("1", &[("a", "1"), ("b", "1")]))).await;
    let client = client(vec![self::server(server.uri())], patient());
    let mut one = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut one).await, "a=1");
    let mut two = client.watch_raw(&clusters(), "b");
    assert_eq!(heard(&mut two).await, "b=1");
    assert_eq!(server.asked().await.body["resource_names"], json!(["a"]));
    let asked = server.asked().await;
    assert_eq!(asked.body["resource_names"], json!(["a", "b"]));
    assert_eq!(asked.body.get("version_info"), None);
}

/// C-044, C-056, C-065: some servers have a status for having nothing. What was there is gone then, as
/// by any answer without it, and the next poll asks for everything, whatever the version.
#[tokio::test]
async fn nothing_is_found_is_an_answer_too() {
    let mut server = Http::start(|number, _| {
        Does::Says(match number {
            0 | 3 => response("1", &[("a", "1")]),
            1 => said("304 Not Modified", ""),
            _ => said("404 Not Found", ""),
        })
    })
    .await;
    let mut options = eager();
    options.settings.missing_after = Duration::from_millis(200);
    let mut xds = self::server(server.uri());
    xds.features.fail_on_data_errors = true;
    let client = client(vec![xds], options);
    let mut all = client.watch_raw(&clusters(), "*");
    let mut news = vec![heard(&mut all).await, heard(&mut all).await];
    news.sort();
    assert_eq!(news, ["a=1", "settled"]);
    for heard_next in ["a none Missing", "a=1", "a none Missing"] {
        assert_eq!(heard(&mut all).await, heard_next);
    }
    let versions = [server.asked().await, server.asked().await, server.asked().await];
    let versions = versions.map(|asked| asked.body.get("version_info").cloned());
    assert_eq!(versions, [None, Some(json!("1")), Some(json!("1"))]);
    assert_eq!(server.asked().await.body.get("version_info"), None);
    let mut gone = client.watch_raw(&clusters(), "gone");
    assert_eq!(heard(&mut gone).await, "gone none Missing");
}

/// C-044, C-067, C-073: whatever a server does that is no answer, the client lives on.
#[tokio::test]
async fn what_is_no_answer_is_a_server_that_cannot_be_reached() {
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    type Worst = fn(&str) -> Does;
    let worst: Vec<(&str, Worst)> = vec![
        ("no answer within", |_| Does::Hangs),
        ("500", |_| Does::Says(said("500 Internal Server Error", ""))),
        ("404", |_| Does::Says(said("404 Not Found", "<h1>no such page</h1>"))),
        ("302", |_| {
            Does::Says("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".into())
        }),
        ("no `DiscoveryResponse`", |_| Does::Says(said("200 OK", "<html>"))),
        ("no `DiscoveryResponse`", |_| Does::Says(said("200 OK", ""))),
        ("ends in its middle", |_| {
            Does::Leaves("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".into())
        }),
        ("", |_| Does::Leaves(String::new())),
        ("", |_| Does::Leaves("SSH-2.0-OpenSSH\r\n".into())),
        ("", |endless| Does::Says(endless.into())),
        ("more than 1000 bytes", |_| Does::Says(said("200 OK", &" ".repeat(1001)))),
    ];
    for (text, does) in worst {
        let endless = endless.clone();
        let server = Http::start(move |number, _| match number {
            0 => does(&endless),
            _ => Does::Says(response("1", &[("a", "1")])),
        })
        .await;
        let options = Options { max_response_bytes: 1000, ..eager() };
        let client = client(vec![self::server(server.uri())], options);
        let mut watch = client.watch_raw(&clusters(), "a");
        match within(watch.next()).await.unwrap() {
            chancery_client::Event::Changed { value: Err(error), .. } => {
                assert_eq!(error.kind, chancery_client::watch::ErrorKind::Unreachable);
                let told = error.to_string();
                assert!(told.contains(text) && told.contains(&server.uri()), "{text}: {told}");
            }
            event => panic!("{text}: {event:?}"),
        }
        assert_eq!(heard(&mut watch).await, "a=1", "{text}");
    }
}

/// C-044: a connection that the server closes between two polls is nobody's fault.
#[tokio::test]
async fn connections_may_be_closed_between_polls() {
    let server = Http::start(|number, _| {
        Does::Leaves(response(&number.to_string(), &[("a", &number.to_string())]))
    })
    .await;
    let client = client(vec![self::server(server.uri())], eager());
    let mut watch = client.watch_raw(&clusters(), "a");
    let mut last = 0;
    for _ in 0..5 {
        let told = heard(&mut watch).await;
        let now: usize = told.strip_prefix("a=").expect(&told).parse().unwrap();
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
}

/// C-044: the next address is asked, and asked from then on.
#[tokio::test]
async fn another_address_is_asked_when_one_fails() {
    let (nobody, port) = listen().await;
    drop(nobody);
    let mut broken = Http::start(|_, _| Does::Says(said("503 Service Unavailable", ""))).await;
    let mut good = Http::start(|_, _| Does::Says(response("1", &[("a", "1")]))).await;
    let uri = format!("http://127.0.0.1:{port},127.0.0.1:{},127.0.0.1:{}", broken.port, good.port);
    let client = client(vec![server(uri)], eager());
    let mut watch = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a=1");
    broken.asked().await;
    for _ in 0..5 {
        good.asked().await;
    }
    assert_eq!(heard(&mut client.watch_raw(&clusters(), "a")).await, "a=1");
}

/// C-087, C-089: servers of both kinds stand in for each other.
#[tokio::test]
async fn rest_and_grpc_are_fallbacks_of_each_other() {
    let first = TestServer::start(snapshot(&[("a", "1")])).await.unwrap();
    let second = TestServer::start(snapshot(&[("a", "2"), ("b", "2")])).await.unwrap();
    let servers = vec![server(format!("http://{}", first.address())), server(second.address())];
    let client = client(servers, eager());
    let mut one = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut one).await, "a=1");
    first.stop().await;
    assert_eq!(heard(&mut one).await, "a but Unreachable");
    let mut other = client.watch_raw(&clusters(), "b");
    assert_eq!(heard(&mut other).await, "b=2");
    while heard(&mut one).await != "a=2" {}
}

/// C-042, C-044
#[tokio::test]
async fn a_type_that_rest_does_not_know_is_missing() {
    let server = Http::start(|_, _| Does::Hangs).await;
    let client = client(vec![self::server(server.uri())], eager());
    let mut watch = client.watch_raw(&TypeUrl::new("my.own.Type"), "a");
    assert_eq!(heard(&mut watch).await, "a none Missing");
}

/// C-008, C-044
#[tokio::test]
async fn https_is_rest_over_tls() {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    // A server that would rather speak HTTP/2.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let tls = TlsAcceptor::from(Arc::new(config));
    let server = Http::start_tls(Some(tls), |_, _| Does::Says(response("1", &[("a", "1")]))).await;
    let ca = Some(file.path().to_owned());
    let channel = ChannelCredentials::Tls(TlsFiles { ca, ..TlsFiles::default() });
    let uri = format!("https://localhost:{}", server.port);
    let client = client(vec![XdsServer { uri, channel, ..XdsServer::default() }], eager());
    let mut watch = client.watch_raw(&clusters(), "a");
    assert_eq!(heard(&mut watch).await, "a=1");
}

/// C-044, C-064: who asked for it or for all there is hears that it was rejected.
#[tokio::test]
async fn a_resource_that_cannot_be_named_is_told_of() {
    let listener = "type.googleapis.com/envoy.config.listener.v3.Listener";
    let body = serde_json::json!({"versionInfo": "1", "resources": [{"@type": listener}]});
    let body = body.to_string();
    let server = Http::start(move |number, _| match number {
        0..2 => Does::Says(said("200 OK", &body)),
        _ => Does::Says(response("2", &[("a", "1")])),
    })
    .await;
    let client = client(vec![self::server(server.uri())], eager());
    let mut one = client.watch_raw(&clusters(), "a");
    let mut all = client.watch_raw(&clusters(), "*");
    assert_eq!(heard(&mut one).await, "a none Rejected");
    assert_eq!(heard(&mut all).await, "* but Rejected");
    assert_eq!(heard(&mut one).await, "a=1");
    while heard(&mut all).await != "settled" {}
}
