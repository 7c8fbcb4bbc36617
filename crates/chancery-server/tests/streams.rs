//! Discovery streams over real connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chancery_core::{Node, TypeUrl};
use chancery_server::{
    AudienceName, ByNode, Client as Asking, Config, Metrics, Observer, Policy, Refusal, Server,
    StreamEvent, StreamEventKind,
};

use crate::common::client::Http2Client;
use crate::common::message::{DeltaRequest, DeltaResponse, SotwRequest, SotwResponse, Status};
use crate::common::{
    ADS_DELTA, ADS_SOTW, CDS, CLUSTERS_SOTW, EDS, Running, cluster, snapshot, within,
};

fn pairs(clusters: &[(&str, &str)]) -> Vec<(String, String)> {
    clusters.iter().map(|(name, content)| (name.to_string(), content.to_string())).collect()
}

#[tokio::test]
async fn a_client_follows_the_state_of_the_world() {
    // S-002, S-027, S-040, S-041
    let config = Config { control_plane: "server-1".to_owned(), ..Config::default() };
    let server = Running::start(config).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    let one: SotwResponse = stream.next().await.unwrap();
    assert_eq!(one.clusters(), pairs(&[("a", "1")]));
    assert_eq!(one.type_url, CDS);
    assert_eq!(one.control_plane.as_ref().unwrap().identifier, "server-1");
    stream.send(&SotwRequest::ack(&one, &[]));
    server.publish(&[("a", "1"), ("b", "2")]);
    let two: SotwResponse = stream.next().await.unwrap();
    assert_eq!(two.clusters(), pairs(&[("a", "1"), ("b", "2")]));
    assert_ne!(one.nonce, two.nonce);
    server.stopped().await;
}

#[tokio::test]
async fn a_client_follows_changes() {
    // S-003
    let server = Running::start(Config::default()).await;
    server.publish(&[("a", "1"), ("b", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_DELTA).await.unwrap();
    let node = SotwRequest::first(CDS, &[]).node;
    stream.send(&DeltaRequest { node, type_url: CDS.to_owned(), ..DeltaRequest::default() });
    let one: DeltaResponse = stream.next().await.unwrap();
    assert_eq!(one.resources.len(), 2);
    assert!(one.control_plane.is_some());
    let nonce = one.nonce.clone();
    stream.send(&DeltaRequest { type_url: CDS.to_owned(), nonce, ..DeltaRequest::default() });
    server.publish(&[("a", "1"), ("c", "1")]);
    let mut added = Vec::new();
    let mut removed = Vec::new();
    while added.is_empty() || removed.is_empty() {
        let next: DeltaResponse = stream.next().await.unwrap();
        added.extend(next.resources.iter().map(|wrapper| wrapper.name.clone()));
        removed.extend(next.removed.clone());
        let nonce = next.nonce;
        stream.send(&DeltaRequest { type_url: CDS.to_owned(), nonce, ..DeltaRequest::default() });
    }
    assert_eq!((added, removed), (vec!["c".to_owned()], vec!["b".to_owned()]));
}

#[tokio::test]
async fn a_stream_of_one_type_knows_its_type() {
    // S-001, S-006
    let server = Running::start(Config::default()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(CLUSTERS_SOTW).await.unwrap();
    stream.send(&SotwRequest { type_url: String::new(), ..SotwRequest::first(CDS, &[]) });
    assert_eq!(stream.next::<SotwResponse>().await.unwrap().type_url, CDS);
    let mut wrong = client.open(CLUSTERS_SOTW).await.unwrap();
    wrong.send(&SotwRequest::first(EDS, &[]));
    assert_eq!(wrong.next::<SotwResponse>().await.unwrap_err().0, 3);
    let mut untyped = client.open(ADS_SOTW).await.unwrap();
    untyped.send(&SotwRequest::first("", &[]));
    assert_eq!(untyped.next::<SotwResponse>().await.unwrap_err().0, 3);
    let mut garbage = client.open(ADS_SOTW).await.unwrap();
    garbage.send_bytes(b"\xff\xff");
    assert_eq!(garbage.next::<SotwResponse>().await.unwrap_err().0, 3);
}

#[tokio::test]
async fn what_does_not_exist_is_unimplemented() {
    // S-004, S-010
    let server = Running::start(Config::default()).await;
    let client = Http2Client::connect(server.address).await;
    for path in [
        "/envoy.service.route.v3.VirtualHostDiscoveryService/StreamVirtualHosts",
        "/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources",
        "/no.such.Service/Method",
    ] {
        assert_eq!(client.open(path).await.err().unwrap().0, 12, "{path}");
    }
}

#[tokio::test]
async fn v2_is_served_under_its_own_names_if_enabled() {
    // S-010
    let server = Running::start(Config { v2: true, ..Config::default() }).await;
    let v2 = TypeUrl::new("envoy.api.v2.Cluster");
    let mut snapshot = snapshot(&[]);
    snapshot.insert(&v2, cluster("a", "1"));
    server.store.publish("all", snapshot);
    let client = Http2Client::connect(server.address).await;
    let path = "/envoy.service.discovery.v2.AggregatedDiscoveryService/StreamAggregatedResources";
    let mut stream = client.open(path).await.unwrap();
    stream.send(&SotwRequest::first(v2.as_str(), &[]));
    let response: SotwResponse = stream.next().await.unwrap();
    assert_eq!(response.type_url, v2.as_str());
    assert_eq!(response.resources[0].type_url, v2.as_str());
}

#[tokio::test]
async fn a_client_of_an_audience_without_snapshot_waits_for_it() {
    // S-047, S-057
    let server = Running::start(Config::default()).await;
    let mut client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    // The server has answered a ping, so it has read what was sent before.
    client.ping().await;
    server.publish(&[("a", "1")]);
    let first: SotwResponse = stream.next().await.unwrap();
    assert_eq!(first.clusters(), pairs(&[("a", "1")]), "nothing came before");
}

#[tokio::test]
async fn a_client_that_closes_its_half_gets_what_there_is() {
    let server = Running::start(Config::default()).await;
    server.publish(&[("a", "1")]);
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    stream.close();
    assert_eq!(stream.next::<SotwResponse>().await.unwrap().clusters().len(), 1);
    assert_eq!(stream.next::<SotwResponse>().await.unwrap_err().0, 0);
}

/// The audience is the cluster of the node.
fn by_cluster() -> ByNode<impl Fn(&Node) -> AudienceName> {
    ByNode(|node: &Node| node.cluster.as_str().into())
}

/// Remembers what it hears.
#[derive(Default)]
struct Heard {
    events: Mutex<Vec<String>>,
}

impl Observer for Heard {
    fn observe(&self, event: &StreamEvent<'_>) {
        let audience = event.audience.map_or("-", AudienceName::as_str);
        let what = match &event.kind {
            StreamEventKind::Connected { .. } => "connected".to_owned(),
            StreamEventKind::Assigned => "assigned".to_owned(),
            StreamEventKind::Subscribed { wildcard, .. } => format!("subscribed {wildcard}"),
            StreamEventKind::Sent { version, .. } => format!("sent {version}"),
            StreamEventKind::Acknowledged { version, .. } => format!("acknowledged {version}"),
            StreamEventKind::Rejected { error, .. } => format!("rejected {}", error.message),
            StreamEventKind::Stale { .. } => "stale".to_owned(),
            StreamEventKind::Gone { code, .. } => format!("gone {code:?}"),
            // A publication may come before it.
            StreamEventKind::Landed => return,
            _ => "?".to_owned(),
        };
        self.events.lock().unwrap().push(format!("{audience}: {what}"));
    }
}

#[tokio::test]
async fn observers_hear_what_happens_on_a_stream() {
    // S-034
    let heard = [0, 1].map(|_| Arc::new(Heard::default()));
    let [first, second] = heard.clone();
    let server = |store| {
        let server = Server::new(store, by_cluster(), Config::default());
        server.with_observer(first).with_observer(second)
    };
    let server = Running::of(server, None).await;
    let versioned = |content: &str, version: &str| {
        let mut snapshot = snapshot(&[("a", content)]);
        snapshot.set_version(&TypeUrl::new(CDS), version);
        snapshot
    };
    server.store.publish("edge", versioned("1", "v1"));
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    let one: SotwResponse = stream.next().await.unwrap();
    assert_eq!(one.version, "v1", "stated versions come back verbatim");
    stream.send(&SotwRequest::ack(&one, &[]));
    server.store.publish("edge", versioned("2", "v2"));
    let two: SotwResponse = stream.next().await.unwrap();
    let error = Some(Status { code: 3, message: "bad".to_owned() });
    stream.send(&SotwRequest { error, version: one.version, ..SotwRequest::ack(&two, &[]) });
    stream.close();
    assert_eq!(stream.next::<SotwResponse>().await.unwrap_err().0, 0);
    server.stopped().await;
    let expected = [
        "-: connected",
        "edge: assigned",
        "edge: subscribed true",
        "edge: sent v1",
        "edge: acknowledged v1",
        "edge: sent v2",
        "edge: rejected bad",
        "edge: gone Some(0)",
    ];
    for heard in heard {
        assert_eq!(*heard.events.lock().unwrap(), expected);
    }
}

#[tokio::test]
async fn a_client_that_does_not_say_who_it_is_is_told_so() {
    // S-024
    let server = Running::with(Config::default(), by_cluster(), None, Metrics::default()).await;
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest { node: None, ..SotwRequest::first(CDS, &[]) });
    let (code, text) = stream.next::<SotwResponse>().await.unwrap_err();
    assert_eq!(code, 3);
    assert!(text.contains("node"), "{text}");
}

/// Audiences as it is told.
struct Changing(Arc<Mutex<&'static str>>);

impl Policy for Changing {
    fn audience(&self, _: &Asking<'_>) -> Result<AudienceName, Refusal> {
        match *self.0.lock().unwrap() {
            "" => Err(Refusal::Denied("not any more".to_owned())),
            audience => Ok(audience.into()),
        }
    }
}

#[tokio::test]
async fn clients_move_when_the_policy_changes_its_mind() {
    let audience = Arc::new(Mutex::new("one"));
    let policy = Changing(Arc::clone(&audience));
    let server = Running::with(Config::default(), policy, None, Metrics::default()).await;
    server.store.publish("one", snapshot(&[("a", "1")]));
    server.store.publish("two", snapshot(&[("b", "2")]));
    let client = Http2Client::connect(server.address).await;
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    let mut last: SotwResponse = stream.next().await.unwrap();
    assert_eq!(last.clusters(), pairs(&[("a", "1")]));
    stream.send(&SotwRequest::ack(&last, &[]));
    *audience.lock().unwrap() = "two";
    server.store.reassign();
    while last.clusters() != pairs(&[("b", "2")]) {
        last = stream.next().await.unwrap();
        stream.send(&SotwRequest::ack(&last, &[]));
    }
    *audience.lock().unwrap() = "";
    server.store.reassign();
    let end = loop {
        match stream.next::<SotwResponse>().await {
            Ok(_) => {}
            Err(end) => break end,
        }
    };
    assert_eq!(end, (7, "not any more".to_owned()));
}

/// One audience for all, and the number of times that it was asked for.
struct Counting {
    asked: Arc<AtomicUsize>,
    reads_dynamic_parameters: bool,
}

impl Policy for Counting {
    fn audience(&self, _: &Asking<'_>) -> Result<AudienceName, Refusal> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok("all".into())
    }

    fn reads_dynamic_parameters(&self) -> bool {
        self.reads_dynamic_parameters
    }
}

#[tokio::test]
async fn a_policy_is_asked_again_only_if_it_reads_what_has_changed() {
    // S-025
    for (reads_dynamic_parameters, expected) in [(true, 2), (false, 1)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let policy = Counting { asked: Arc::clone(&asked), reads_dynamic_parameters };
        let server = Running::with(Config::default(), policy, None, Metrics::default()).await;
        server.store.publish("all", snapshot(&[("a", "1"), ("b", "1")]));
        let client = Http2Client::connect(server.address).await;
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        let first = SotwRequest::first(CDS, &["a"]);
        stream.send(&first);
        let response: SotwResponse = stream.next().await.unwrap();
        let again = SotwRequest { node: first.node, ..SotwRequest::ack(&response, &["b"]) };
        let mut again = prost::Message::encode_to_vec(&again);
        // The rest of the node is the key of one dynamic parameter. Both parts are put together.
        again.extend(b"\x12\x05\x62\x03\x0a\x01k");
        stream.send_bytes(&again);
        stream.next::<SotwResponse>().await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), expected);
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_delays_only_itself_and_resumes_at_the_newest() {
    // S-107, S-108
    let server = Running::start(Config::default()).await;
    let big = "x".repeat(200_000);
    server.publish(&[("a", &big)]);
    let slow = Http2Client::connect(server.address).await;
    let mut stalled = slow.open(ADS_SOTW).await.unwrap();
    stalled.send(&SotwRequest::first(CDS, &[]));
    let quick = Http2Client::connect(server.address).await;
    let mut stream = quick.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    let mut last: SotwResponse = stream.next().await.unwrap();
    for round in 0..30 {
        stream.send(&SotwRequest::ack(&last, &[]));
        server.publish(&[("a", &format!("{round}{big}"))]);
        last = stream.next().await.unwrap();
    }
    let mut messages = 0;
    let mut seen: SotwResponse = stalled.next().await.unwrap();
    while seen.version != last.version {
        stalled.send(&SotwRequest::ack(&seen, &[]));
        seen = stalled.next().await.unwrap();
        messages += 1;
    }
    assert!(messages <= 2, "{messages} responses were kept for a client that did not read");
}

#[tokio::test]
async fn nothing_of_a_stream_is_left_when_its_client_goes() {
    // S-011
    let heard = Arc::new(Heard::default());
    let observer = Arc::clone(&heard);
    let server =
        |store| Server::new(store, by_cluster(), Config::default()).with_observer(observer);
    let server = Running::of(server, None).await;
    server.store.publish("edge", snapshot(&[("a", "1")]));
    let mut client = Http2Client::connect(server.address).await;
    for _ in 0..50 {
        let mut stream = client.open(ADS_SOTW).await.unwrap();
        stream.send(&SotwRequest::first(CDS, &[]));
        stream.next::<SotwResponse>().await.unwrap();
    }
    let count = || {
        let events = heard.events.lock().unwrap();
        events.iter().filter(|event| event.contains("gone None")).count()
    };
    within(async {
        while count() < 50 {
            client.ping().await;
        }
    })
    .await;
    drop(client);
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_client_ends_at_the_newest_whenever_it_was_woken() {
    // S-107
    let server = Running::start(Config::default()).await;
    server.publish(&[("a", "first")]);
    let mut following = Vec::new();
    for _ in 0..4 {
        let client = Http2Client::connect(server.address).await;
        for _ in 0..25 {
            let mut stream = client.open(ADS_SOTW).await.unwrap();
            following.push(tokio::spawn(async move {
                stream.send(&SotwRequest::first(CDS, &[]));
                loop {
                    let response: SotwResponse = stream.next().await.unwrap();
                    if response.clusters() == pairs(&[("a", "last")]) {
                        return;
                    }
                    stream.send(&SotwRequest::ack(&response, &[]));
                }
            }));
        }
    }
    for round in 0..500 {
        server.publish(&[("a", &round.to_string())]);
        tokio::task::yield_now().await;
    }
    server.publish(&[("a", "last")]);
    for one in following {
        one.await.unwrap();
    }
}
