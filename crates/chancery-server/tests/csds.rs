//! CSDS: the server tells how the resources of its clients stand, over gRPC and REST.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_proto::wire::{
    ClientConfig, ConfigStatus, GenericXdsConfig, decode_client_status,
    encode_client_status_request,
};
use chancery_server::{Config, Csds, CsdsReaders, OneAudience, Schema, Server, Store};
use http::Method;
use prost::Message;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::common;
use crate::common::client::{GrpcStream, Http2Client, http1};
use crate::common::message::{
    DeltaRequest, DeltaResponse, Node, SotwRequest, SotwResponse, Status,
};
use crate::common::{ADS_DELTA, ADS_SOTW, CDS, Running, within};

const FETCH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
const STREAM: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";
const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// A server that tells these of its clients.
async fn telling(readers: CsdsReaders) -> Running {
    let make = |store: Arc<Store>| {
        let csds = Csds::new(store.status(), &Schema::bundled(), readers);
        Server::new(store, OneAudience("all".into()), Config::default()).with_csds(csds)
    };
    Running::of(make, None).await
}

/// A client with one stream.
struct Client {
    stream: GrpcStream,
    names: &'static [&'static str],
    last: Option<SotwResponse>,
}

impl Client {
    async fn open(server: &Running, id: &str, type_url: &str) -> Self {
        Self::open_from([127, 0, 0, 1], server, (id, &[]), type_url).await
    }

    /// A client that connects from an address, and says more of its node.
    async fn open_from(
        from: [u8; 4],
        server: &Running,
        (id, more): (&str, &[u8]),
        type_url: &str,
    ) -> Self {
        let client = Http2Client::connect_from(from, server.address).await;
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        // Secrets have to be named.
        let names: &[&str] = if type_url == SECRET { &["s"] } else { &[] };
        let mut first = SotwRequest::first(type_url, names);
        first.node.as_mut().unwrap().id = id.to_owned();
        // Two parts of one message are merged.
        let first = [first.encode_to_vec(), field(2, more)].concat();
        stream.send_bytes(&first);
        Self { stream, names, last: None }
    }

    async fn receive(&mut self) {
        self.last = Some(within(self.stream.next()).await.unwrap());
    }

    fn answer(&mut self, error: Option<&str>) {
        let mut request = SotwRequest::ack(self.last.as_ref().unwrap(), self.names);
        request.error = error.map(|why| Status { code: 13, message: why.to_owned() });
        self.stream.send(&request);
    }

    async fn take(&mut self) {
        self.receive().await;
        self.answer(None);
    }

    fn version(&self) -> &str {
        &self.last.as_ref().unwrap().version
    }
}

fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap();
    assert!(length < 128);
    [&[number << 3 | 2, length][..], value].concat()
}

/// Metadata of one text, as a part of a node.
fn metadata(key: &str, text: &str) -> Vec<u8> {
    let value = field(3, text.as_bytes());
    let entry = [field(1, key.as_bytes()), field(2, &value)].concat();
    field(3, &field(1, &entry))
}

/// The answer to one question.
async fn asked(server: &Running, question: &[u8]) -> Result<Vec<ClientConfig>, (i32, String)> {
    let client = Http2Client::connect(server.address).await;
    let mut call = client.open(FETCH).await?;
    call.send_bytes(question);
    let answer = within(call.next_bytes()).await?;
    let end = within(call.next_bytes()).await.unwrap_err();
    assert_eq!(end.0, 0, "{end:?}");
    Ok(decode_client_status(&answer).unwrap())
}

/// The clients about which a question with these matchers is answered, by id.
async fn ids(server: &Running, matchers: Value) -> Vec<String> {
    let (status, answer) = posted(server, &json!({"nodeMatchers": matchers}).to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let clients = answer["config"].as_array().unwrap().iter();
    clients.map(|client| client["node"]["id"].as_str().unwrap().to_owned()).collect()
}

/// The answer to a question over REST.
async fn posted(server: &Running, question: &str) -> (u16, Value) {
    let client = Http2Client::connect(server.address).await;
    let path = "/v3/discovery:client_status";
    let response = client.request(Method::POST, path, &[], question).await;
    let text = String::from_utf8(response.body().to_vec()).unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (response.status().as_u16(), body)
}

/// Asks until all resources of the only client are as they should be.
async fn until(server: &Running, what: &[(&str, ConfigStatus)]) -> Vec<GenericXdsConfig> {
    let question = encode_client_status_request(None, false);
    let mut last = Vec::new();
    for _ in 0..2000 {
        let mut clients = asked(server, &question).await.unwrap();
        last = clients.pop().map(|client| client.generic_xds_configs).unwrap_or_default();
        let found: Vec<_> =
            last.iter().filter_map(|it| Some((&*it.name, it.config_status?))).collect();
        if found == what {
            return last;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never is {what:?}: {last:?}");
}

/// S-134, S-135
#[tokio::test]
async fn a_client_goes_through_the_four_states() {
    use ConfigStatus::{Error, NotSent, Stale, Synced};
    let server = telling(CsdsReaders::Local).await;
    server.publish(&[("a", "1")]);
    let mut client = Client::open(&server, "n", CDS).await;
    client.receive().await;
    let first = client.version().to_owned();
    let told = until(&server, &[("a", Stale)]).await;
    assert_eq!((&*told[0].version_info, told[0].type_url.as_str()), (&*first, CDS));
    assert_eq!(told[0].last_updated, None, "it has said nothing of it");
    assert_eq!(told[0].xds_config.as_ref(), Some(common::cluster("a", "1").body()));
    // There is no room for the next response until this one is answered.
    server.publish(&[("a", "1"), ("b", "1")]);
    let told = until(&server, &[("a", Stale), ("b", NotSent)]).await;
    assert_eq!(&*told[1].version_info, "");
    client.answer(None);
    let before = SystemTime::now() - Duration::from_millis(1);
    client.take().await;
    let told = until(&server, &[("a", Synced), ("b", Synced)]).await;
    assert_eq!((&*told[0].version_info, &told[0].error_state), (client.version(), &None));
    let acknowledged = told[0].last_updated;
    assert!(acknowledged.is_some_and(|at| before <= at && at <= SystemTime::now()));
    assert_eq!(told[1].last_updated, acknowledged, "of the version in one response");
    let accepted = client.version().to_owned();
    server.publish(&[("a", "1"), ("b", "2")]);
    client.receive().await;
    client.answer(Some("b has no weight"));
    let told = until(&server, &[("a", Synced), ("b", Error)]).await;
    // It is what was refused, and not what the client goes on with.
    let refused = common::cluster("b", "2");
    assert_eq!(told[1].xds_config.as_ref(), Some(refused.body()));
    assert_eq!((&*told[0].version_info, &*told[1].version_info), (&*accepted, client.version()));
    let error = told[1].error_state.as_ref().unwrap();
    assert_eq!(
        (error.details.as_str(), error.version_info.as_str()),
        ("b has no weight", client.version())
    );
    assert_eq!(error.failed_configuration.as_ref(), Some(refused.body()));
    assert!(told[0].last_updated >= Some(before) && told[1].last_updated >= Some(before));
    assert_eq!(told[1].last_updated, error.last_update_attempt);
    server.publish(&[("a", "1"), ("b", "3")]);
    client.take().await;
    let told = until(&server, &[("a", Synced), ("b", Synced)]).await;
    assert_eq!(told[1].error_state, None);
}

/// S-134
#[tokio::test]
async fn of_a_resource_on_a_delta_stream_the_time_of_its_rejection_is_known_alone() {
    let server = telling(CsdsReaders::Local).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_DELTA).await.unwrap();
    let node = Some(Node { id: "n".to_owned(), ..Node::default() });
    let first = DeltaRequest { node, type_url: CDS.to_owned(), ..DeltaRequest::default() };
    stream.send(&first);
    let answer = |nonce: String, error| DeltaRequest {
        type_url: CDS.to_owned(),
        nonce,
        error,
        ..DeltaRequest::default()
    };
    let first: DeltaResponse = within(stream.next()).await.unwrap();
    stream.send(&answer(first.nonce, None));
    let told = until(&server, &[("a", ConfigStatus::Synced)]).await;
    assert_eq!(told[0].last_updated, None);
    server.publish(&[("a", "2")]);
    let second: DeltaResponse = within(stream.next()).await.unwrap();
    let error = Status { code: 13, message: "a has no weight".to_owned() };
    stream.send(&answer(second.nonce, Some(error)));
    let told = until(&server, &[("a", ConfigStatus::Error)]).await;
    assert!(told[0].last_updated.is_some());
}

/// S-134
#[tokio::test]
async fn clients_are_chosen_by_id_and_by_metadata() {
    let server = telling(CsdsReaders::Local).await;
    server.publish(&[("a", "1")]);
    let role = |role: &str| metadata("role", role);
    let mut clients = Vec::new();
    for (id, role) in
        [("edge-1", role("front")), ("edge-2", role("back")), ("mesh-1", role("back"))]
    {
        let mut client = Client::open_from([127, 0, 0, 1], &server, (id, &role), CDS).await;
        client.take().await;
        clients.push(client);
    }
    assert_eq!(ids(&server, json!([])).await, ["edge-1", "edge-2", "mesh-1"]);
    assert_eq!(ids(&server, json!([{"nodeId": {"exact": "edge-2"}}])).await, ["edge-2"]);
    assert_eq!(ids(&server, json!([{"node_id": {"prefix": "edge"}}])).await, ["edge-1", "edge-2"]);
    let back = json!({"path": [{"key": "role"}], "value": {"stringMatch": {"exact": "back"}}});
    let by_role = json!([{"nodeMetadatas": [back]}]);
    assert_eq!(ids(&server, by_role).await, ["edge-2", "mesh-1"]);
    let both = json!([{"nodeId": {"safeRegex": {"regex": "edge-.*"}}, "nodeMetadatas": [back]}]);
    assert_eq!(ids(&server, both).await, ["edge-2"]);
    assert!(ids(&server, json!([{"nodeId": {"exact": "edge"}}])).await.is_empty());
    // Two nodes with one id are two.
    let mut other = Client::open_from([127, 0, 0, 2], &server, ("edge-1", &[]), CDS).await;
    other.take().await;
    let found = ids(&server, json!([{"nodeId": {"prefix": "edge-1"}}])).await;
    assert_eq!(found, ["edge-1", "edge-1"]);
}

/// S-135
#[tokio::test]
async fn a_stream_has_an_answer_for_each_question_and_nothing_else() {
    let server = telling(CsdsReaders::Local).await;
    server.publish(&[("a", "1")]);
    let mut client = Client::open(&server, "n", CDS).await;
    client.take().await;
    until(&server, &[("a", ConfigStatus::Synced)]).await;
    let asking = Http2Client::connect(server.address).await;
    let mut call = asking.open(STREAM).await.unwrap();
    call.send_bytes(&encode_client_status_request(None, false));
    let first = decode_client_status(&within(call.next_bytes()).await.unwrap()).unwrap();
    assert!(first[0].generic_xds_configs[0].xds_config.is_some());
    server.publish(&[("a", "2")]);
    client.take().await;
    // The change is told to who asks.
    call.send_bytes(&encode_client_status_request(Some("n"), true));
    let second = decode_client_status(&within(call.next_bytes()).await.unwrap()).unwrap();
    assert_eq!(second[0].node.as_ref().unwrap().id, "n");
    let resource = &second[0].generic_xds_configs[0];
    assert_eq!((&*resource.name, &resource.xds_config), ("a", &None));
    call.close();
    assert_eq!(within(call.next_bytes()).await.unwrap_err().0, 0);
}

/// S-138
#[tokio::test]
async fn secrets_are_told_to_nobody() {
    let server = telling(CsdsReaders::Local).await;
    let generic = field(5, &field(1, &field(3, b"HUSH-INLINE")));
    let body = [field(1, b"s"), generic].concat();
    let mut snapshot = Snapshot::new();
    snapshot.insert(&TypeUrl::new(SECRET), Resource::new("s".parse().unwrap(), Bytes::from(body)));
    server.store.publish("all", snapshot);
    let token = metadata("auth_token", "HUSH-TOKEN");
    let mut client = Client::open_from([127, 0, 0, 1], &server, ("n", &token), SECRET).await;
    client.receive().await;
    client.answer(Some("cannot use HUSH-INLINE"));
    let told = until(&server, &[("s", ConfigStatus::Error)]).await;
    assert!(told[0].xds_config.is_some() && told[0].error_state.is_some());
    let (status, answer) = posted(&server, "{}").await;
    assert_eq!((status, &answer["config"][0]["node"]["id"]), (200, &json!("n")));
    for text in [format!("{told:?}"), answer.to_string()] {
        assert!(!text.contains("HUSH"), "{text}");
    }
}

/// S-137
#[tokio::test]
async fn who_may_not_know_is_told_nothing() {
    let denied = 7;
    let unimplemented = 12;
    let off = telling(CsdsReaders::Nobody).await;
    assert_eq!(asked(&off, b"").await.unwrap_err().0, unimplemented);
    assert_eq!(posted(&off, "{}").await.0, 404);
    let server = telling(CsdsReaders::Certified).await;
    assert_eq!(asked(&server, b"").await.unwrap(), []);
    let client = Http2Client::connect(server.address).await;
    let passed_on = [("x-forwarded-for", "192.0.2.1")];
    let path = "/v3/discovery:client_status";
    let refused = client.request(Method::POST, path, &passed_on, "{}").await;
    assert_eq!(refused.status(), 403);
    let grpc = [("x-forwarded-for", "192.0.2.1"), ("content-type", "application/grpc")];
    let refused = client.request(Method::POST, FETCH, &grpc, "").await;
    assert_eq!(refused.headers()["grpc-status"], denied.to_string());
    assert_eq!(client.request(Method::GET, path, &[], "").await.status(), 405);
}

/// S-134
#[tokio::test]
async fn a_question_that_is_none_is_refused() {
    let server = telling(CsdsReaders::Local).await;
    let (invalid, exhausted) = (3, 8);
    for question in [&[0xff][..], &[0x0a, 2, 0x0a, 0], &[0x0a, 0].repeat(65)] {
        let (code, text) = asked(&server, question).await.unwrap_err();
        assert_eq!(code, invalid, "{text}");
    }
    let large = vec![0x0a; Csds::MAX_QUESTION + 1];
    assert_eq!(asked(&server, &large).await.unwrap_err().0, exhausted);
    let client = Http2Client::connect(server.address).await;
    let mut call = client.open(FETCH).await.unwrap();
    call.close();
    assert_eq!(within(call.next_bytes()).await.unwrap_err().0, invalid);
    for (question, status) in
        [("", 400), ("[]", 400), (r#"{"nodeMatchers": [{"nodeId": {}}]}"#, 400)]
    {
        assert_eq!(posted(&server, question).await.0, status, "{question}");
    }
    let large = " ".repeat(Csds::MAX_QUESTION + 1);
    assert_eq!(posted(&server, &large).await.0, 413);
    let io = TcpStream::connect(server.address).await.unwrap();
    let answer = http1(io, "POST /v3/discovery:client_status HTTP/1.1", "{}").await;
    assert!(answer.ends_with("{\"config\":[]}\n"), "{answer}");
}

/// S-134
#[tokio::test]
async fn an_answer_has_a_bound_and_says_how_to_keep_to_it() {
    let server = telling(CsdsReaders::Local).await;
    let large = "x".repeat(1 << 20);
    server.publish(&[("large", &large)]);
    let mut clients = Vec::new();
    for number in 0..17 {
        let mut client = Client::open(&server, &format!("n-{number}"), CDS).await;
        client.take().await;
        clients.push(client);
    }
    let (code, text) = asked(&server, b"").await.unwrap_err();
    assert_eq!(code, 8, "{text}");
    assert!(
        text.contains("`node_matchers`") && text.contains("`exclude_resource_contents`"),
        "{text}"
    );
    assert_eq!(posted(&server, "{}").await.0, 413);
    let bare = asked(&server, &encode_client_status_request(None, true)).await.unwrap();
    assert_eq!(bare.len(), 17);
    let one = asked(&server, &encode_client_status_request(Some("n-7"), false)).await.unwrap();
    let resource = &one[0].generic_xds_configs[0];
    assert_eq!(
        resource.xds_config.as_ref().map(Bytes::len),
        Some(common::cluster("large", &large).body().len())
    );
}

/// S-134
#[tokio::test]
async fn streams_that_take_nothing_keep_nobody_from_an_answer() {
    let server = telling(CsdsReaders::Local).await;
    let large = "x".repeat(1 << 17);
    server.publish(&[("large", &large)]);
    let deaf = Http2Client::connect(server.address).await;
    let mut streams = Vec::new();
    // At a second for each 32 of them, they would take longer than an answer may.
    for number in 0..DEAF {
        let mut stream = deaf.open(ADS_SOTW).await.unwrap();
        let mut first = SotwRequest::first(CDS, &[]);
        first.node.as_mut().unwrap().id = format!("deaf-{number}");
        stream.send(&first);
        streams.push(stream);
    }
    let mut client = Client::open(&server, "z", CDS).await;
    client.take().await;
    let question = encode_client_status_request(None, true);
    let told = loop {
        let told = asked(&server, &question).await.unwrap();
        if told.len() == DEAF + 1 {
            break told;
        }
    };
    let states = |client: &ClientConfig| client.generic_xds_configs.len();
    assert_eq!(told.iter().map(states).sum::<usize>(), 1);
    assert_eq!(told.last().map(states), Some(1));
}

/// The streams of a client that takes nothing.
const DEAF: usize = 1000;
