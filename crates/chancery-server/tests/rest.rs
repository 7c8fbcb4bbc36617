//! Polls over REST, over HTTP/1.1 and HTTP/2 on the port of gRPC.

use std::time::Duration;

use chancery_core::{Node, Pending, TypeUrl};
use chancery_server::{ByNode, Config, Limits, Metrics, Times};
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::client::{Http2Client, http1};
use crate::common::{CDS, Running, snapshot, within};

const CLUSTERS: &str = "/v3/discovery:clusters";
const JSON: (&str, &str) = ("content-type", "application/json");

/// A server that holds polls only briefly.
fn brief() -> Config {
    let times = Times { rest_hold: Duration::from_millis(50), ..Times::default() };
    Config { times, control_plane: "server-1".to_owned(), ..Config::default() }
}

fn version_in(body: &[u8]) -> String {
    let response: serde_json::Value = serde_json::from_slice(body).unwrap();
    response["versionInfo"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_poll_is_answered_once_and_is_current_then() {
    // S-018, S-019, S-020
    let server = Running::start(brief()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let poll = r#"{"node": {"id": "n"}, "typeUrl": "something/else", "later": 1}"#;
    let response = client.request(Method::POST, CLUSTERS, &[JSON], poll).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(body["typeUrl"], CDS, "the path decides");
    assert_eq!(body["resources"][0]["@type"], CDS);
    assert_eq!(body["resources"][0]["altStatName"], "1");
    assert_eq!(body["controlPlane"]["identifier"], "server-1");
    let version = version_in(response.body());
    for spelling in ["versionInfo", "version_info"] {
        let poll = format!(r#"{{"node": {{"id": "n"}}, "{spelling}": "{version}"}}"#);
        let response = client.request(Method::POST, CLUSTERS, &[JSON], &poll).await;
        assert_eq!(response.status(), 304);
        assert!(response.body().is_empty());
    }
}

#[tokio::test]
async fn a_poll_that_is_held_hears_of_a_change_at_once() {
    // S-021
    let times = Times { rest_hold: Duration::from_secs(3600), ..Times::default() };
    let server = Running::start(Config { times, ..Config::default() }).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let first = client.request(Method::POST, CLUSTERS, &[JSON], "{}").await;
    let poll = format!(r#"{{"version_info": "{}"}}"#, version_in(first.body()));
    let waiting = client.request(Method::POST, CLUSTERS, &[JSON], &poll);
    let (second, ()) = tokio::join!(waiting, async {
        // The other future has sent its request when this one is polled.
        tokio::task::yield_now().await;
        server.publish(&[("a", "2")]);
    });
    assert_eq!(second.status(), 200);
    assert_ne!(version_in(first.body()), version_in(second.body()));
}

#[tokio::test]
async fn a_client_is_held_for_less_than_it_waits() {
    // S-021
    let times = Times { rest_hold: Duration::from_secs(3600), ..Times::default() };
    let server = Running::start(Config { times, ..Config::default() }).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let first = client.request(Method::POST, CLUSTERS, &[JSON], "{}").await;
    let poll = format!(r#"{{"version_info": "{}"}}"#, version_in(first.body()));
    let headers = [JSON, ("x-envoy-expected-rq-timeout-ms", "100")];
    let before = std::time::Instant::now();
    let second = client.request(Method::POST, CLUSTERS, &headers, &poll).await;
    assert_eq!(second.status(), 304);
    assert!(before.elapsed() >= Duration::from_millis(80));
}

#[tokio::test]
async fn a_poll_for_what_is_pending_is_answered_when_the_source_can_tell_or_time_is_over() {
    // S-021
    let server = Running::start(Config::default()).await;
    let pending = || {
        let mut snapshot = snapshot(&[("a", "1")]);
        snapshot.set_pending(&TypeUrl::new(CDS), Pending::Everything);
        snapshot
    };
    server.store.publish("all", pending());
    let client = Http2Client::connect(server.address).await;
    let asked = client.request(Method::POST, CLUSTERS, &[JSON], "{}");
    let (told, ()) = tokio::join!(asked, async {
        // The other future has sent its request when this one is polled.
        tokio::task::yield_now().await;
        server.publish(&[("a", "1"), ("b", "1")]);
    });
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    assert!(text(told.body()).contains("\"b\""), "{told:?}");
    server.store.publish("all", pending());
    let headers = [JSON, ("x-envoy-expected-rq-timeout-ms", "100")];
    let late = client.request(Method::POST, CLUSTERS, &headers, "{}").await;
    assert_eq!(late.status(), 200);
    assert!(!text(late.body()).contains("\"b\""), "{late:?}");
}

#[tokio::test]
async fn what_is_no_poll_is_refused_by_its_status() {
    // S-004, S-010, S-018
    let server = Running::start(brief()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let charset = ("content-type", "application/json; charset=utf-8");
    let text = ("content-type", "text/plain");
    for (method, path, header, body, expected) in [
        (Method::GET, CLUSTERS, JSON, "{}", 405),
        (Method::PUT, CLUSTERS, JSON, "{}", 405),
        (Method::POST, CLUSTERS, JSON, "{", 400),
        (Method::POST, CLUSTERS, JSON, "", 400),
        (Method::POST, CLUSTERS, JSON, "[]", 400),
        (Method::POST, CLUSTERS, text, "{}", 200),
        (Method::POST, CLUSTERS, charset, "{}", 200),
        (Method::POST, "/v3/discovery:virtual_hosts", JSON, "{}", 404),
        (Method::POST, "/v3/discovery:ads", JSON, "{}", 404),
        (Method::POST, "/v2/discovery:clusters", JSON, "{}", 404),
        (Method::GET, "/", JSON, "", 404),
    ] {
        let response = client.request(method.clone(), path, &[header], body).await;
        assert_eq!(response.status(), expected, "{method} {path} {header:?} {body}");
    }
    let v2 = Running::start(Config { v2: true, ..brief() }).await;
    v2.publish(&[]);
    let client = Http2Client::connect(v2.address).await;
    let response = client.request(Method::POST, "/v2/discovery:clusters", &[JSON], "{}").await;
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn an_answer_over_http2_says_its_date_and_length_and_has_no_body_where_none_is_asked_for() {
    let server = Running::start(brief()).await;
    let client = Http2Client::connect(server.address).await;
    for (method, has_body) in [(Method::GET, true), (Method::HEAD, false)] {
        let response = client.request(method, "/", &[], "").await;
        let (head, body) = response.into_parts();
        assert_eq!(head.status, 404);
        assert_eq!(head.headers["content-length"], "22");
        assert_eq!(head.headers["date"].len(), 29);
        assert_eq!(body.len(), if has_body { 22 } else { 0 });
    }
}

#[tokio::test]
async fn nobody_gets_a_tunnel() {
    let server = Running::start(brief()).await;
    let client = Http2Client::connect(server.address).await;
    let response = client.request(Method::CONNECT, "elsewhere:80", &[], "").await;
    assert_eq!(response.status(), 404);
}

#[tokio::test]
async fn http1_is_served_on_the_same_port() {
    // S-018
    let server = Running::start(brief()).await;
    server.publish(&[("a", "1")]);
    let io = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v3/discovery:clusters HTTP/1.1\r\ncontent-type: application/json";
    let answer = http1(io, head, r#"{"node": {"id": "n"}}"#).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains(r#""altStatName":"1""#));
}

#[tokio::test]
async fn a_body_at_the_limit_is_read_and_one_past_it_is_refused() {
    let limits = Limits { max_request_bytes: 100, ..Limits::default() };
    let server = Running::start(Config { limits, ..brief() }).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    for (size, expected) in [(100, 200), (101, 413)] {
        let body = format!("{{}}{}", " ".repeat(size - 2));
        let response = client.request(Method::POST, CLUSTERS, &[JSON], &body).await;
        assert_eq!(response.status(), expected, "{size}");
    }
}

#[tokio::test]
async fn the_limits_of_names_and_nodes_are_in_force_over_rest() {
    // S-110: at each limit, and one past it
    let mut config = brief();
    config.protocol.max_names = 2;
    config.protocol.max_name_length = 5;
    config.protocol.max_name_bytes = 8;
    config.protocol.max_node_bytes = 100;
    let server = Running::start(config).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let node = |bytes: usize| format!(r#"{{"node": {{"id": "n"{:1$}}}}}"#, "", bytes - 11);
    let (largest, larger) = (node(100), node(101));
    for (body, expected) in [
        (r#"{"resource_names": ["a", "b"]}"#, 200),
        (r#"{"resource_names": ["a", "b", "c"]}"#, 413),
        (r#"{"resource_names": ["a", "bcdef"]}"#, 200),
        (r#"{"resource_names": ["a", "bcdefg"]}"#, 413),
        (r#"{"resource_names": ["aaaa", "bbbb", "a"]}"#, 413),
        (&largest, 200),
        (&larger, 413),
    ] {
        let response = client.request(Method::POST, CLUSTERS, &[JSON], body).await;
        assert_eq!(response.status(), expected, "{body}");
    }
}

#[tokio::test]
async fn a_node_that_is_large_in_memory_alone_is_refused_over_rest() {
    // S-110: refused while it is read, and when it is there
    let mut config = brief();
    config.protocol.max_node_bytes = 50_000;
    let server = Running::start(config).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let poll = |maps: usize| {
        let maps = vec!["{\"\":0}"; maps].join(",");
        format!("{{\"node\": {{\"id\": \"n\", \"metadata\": {{\"k\": [{maps}]}}}}}}")
    };
    for (maps, expected) in [(300, 200), (1_000, 413), (5_000, 413)] {
        let response = client.request(Method::POST, CLUSTERS, &[JSON], &poll(maps)).await;
        assert_eq!(response.status(), expected, "{maps}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let times = Times { handshake_timeout: Duration::from_millis(100), ..Times::default() };
    let server = Running::start(Config { times, ..Config::default() }).await;
    let mut io = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v3/discovery:clusters HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{";
    io.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    within(io.read_exact(&mut answer)).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 408");
}

#[tokio::test]
async fn a_poll_is_for_the_audience_of_its_node() {
    // S-022, S-024
    let policy = ByNode(|node: &Node| node.cluster.as_str().into());
    let server = Running::with(brief(), policy, None, Metrics::default()).await;
    server.store.publish("one", snapshot(&[("a", "1")]));
    let client = Http2Client::connect(server.address).await;
    let poll = |cluster: &str| format!(r#"{{"node": {{"id": "n", "cluster": "{cluster}"}}}}"#);
    let one = client.request(Method::POST, CLUSTERS, &[JSON], &poll("one")).await;
    assert_eq!(one.status(), 200);
    let other = client.request(Method::POST, CLUSTERS, &[JSON], &poll("other")).await;
    assert_eq!(other.status(), 304, "nothing is known for it yet");
    let anonymous = client.request(Method::POST, CLUSTERS, &[JSON], "{}").await;
    assert_eq!(anonymous.status(), 400);
}

#[tokio::test]
async fn a_client_that_accepts_nothing_does_not_loop_at_full_speed() {
    // S-022
    let server = Running::start(brief()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let before = std::time::Instant::now();
    for _ in 0..5 {
        let response = client.request(Method::POST, CLUSTERS, &[JSON], "{}").await;
        assert_eq!(response.status(), 200, "an answer that was lost is given again");
    }
    assert!(before.elapsed() >= Duration::from_millis(100), "the last two were held");
}
