//! Watches of Envoy's own types, and what a client for gRPC refuses of them.

use chancery_client::{Event, Options};
use chancery_core::Snapshot;
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use chancery_testkit::{TestEventKind, TestServer};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;

use crate::watching::{client, quick, server, within};

/// Clusters in YAML.
fn snapshot(clusters: &[&str]) -> Snapshot {
    let text: String = clusters
        .iter()
        .map(|cluster| {
            format!(
                "- {{\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster, {cluster}}}\n"
            )
        })
        .collect();
    let parsed = parse(&Schema::bundled(), Format::Yaml, text.as_bytes());
    assert!(parsed.faults.is_empty(), "{:?}", parsed.faults);
    let mut snapshot = Snapshot::new();
    for one in parsed.resources {
        snapshot.insert(&one.type_url, (*one.resource).clone());
    }
    snapshot
}

#[tokio::test]
async fn a_program_watches_what_envoy_calls_a_cluster() {
    let clusters = snapshot(&["name: a, type: LOGICAL_DNS, connect_timeout: 3s"]);
    let server = TestServer::start(clusters).await.unwrap();
    let client = client(vec![self::server(server.address())], quick());
    let cluster = within(client.get::<Cluster>("a")).await.unwrap();
    assert_eq!(cluster.value.name, "a");
    assert_eq!(cluster.value.connect_timeout.as_ref().unwrap().seconds, 3);
    let mut watch = client.watch::<Cluster>("a");
    within(watch.next()).await.unwrap();
    server.publish(snapshot(&["name: a, type: LOGICAL_DNS, connect_timeout: 4s"]));
    let Some(Event::Changed { value: Ok(next), .. }) = within(watch.next()).await else { panic!() };
    assert_eq!(next.value.connect_timeout.as_ref().unwrap().seconds, 4);
}

/// C-028, C-080, C-081
#[tokio::test]
async fn a_client_for_grpc_refuses_what_grpc_does_not_have() {
    let clusters = [
        "name: file, type: EDS, eds_cluster_config: {eds_config: {path_config_source: {path: /a}}}",
        "name: fine, type: EDS, eds_cluster_config: {eds_config: {self: {}}}",
        "name: loads, type: LOGICAL_DNS, lrs_server: {ads: {}}",
    ];
    let server = TestServer::start(snapshot(&clusters)).await.unwrap();
    let address = vec![self::server(server.address())];
    let usual = client(address.clone(), quick());
    for name in ["file", "fine", "loads"] {
        within(usual.get::<Cluster>(name)).await.unwrap();
    }
    let client = client(address, Options { grpc_validation: true, ..quick() });
    let mut all = client.watch::<Cluster>("*");
    let mut told = Vec::new();
    while told.len() < 3 {
        match within(all.next()).await {
            Some(Event::Changed { name, value }) => told.push((name, value.err())),
            Some(_) => {}
            None => panic!("the client has come to an end"),
        }
    }
    told.sort_by(|(one, _), (other, _)| one.cmp(other));
    let why = |at: usize| told[at].1.as_ref().unwrap().to_string();
    assert!(why(0).contains("`eds_cluster_config.eds_config` must be `ads` or `self`"), "{told:?}");
    assert!(told[1].1.is_none(), "{told:?}");
    assert!(why(2).contains("`lrs_server` must be `self`, or be left out"), "{told:?}");
    loop {
        if let TestEventKind::Rejected { error, .. } = server.event().await.kind {
            assert!(error.contains("`file`") && error.contains("`loads`"), "{error}");
            break;
        }
    }
}
