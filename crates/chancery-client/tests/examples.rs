//! The examples of the crate run against a server with the files of `examples/quickstart`.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

use std::error::Error;
use std::path::Path;
use std::pin::pin;

use chancery_client::status::ResourceState;
use chancery_core::{Snapshot, TypeUrl};
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use chancery_testkit::TestServer;
use tokio::sync::mpsc::{Receiver, Sender, channel};

#[path = "../examples/resolve.rs"]
#[expect(dead_code, reason = "the test calls what `main` calls")]
mod resolve;
#[path = "../examples/status.rs"]
#[expect(dead_code, reason = "the test calls what `main` calls")]
mod status;
#[path = "../examples/watch_cluster.rs"]
#[expect(dead_code, reason = "the test calls what `main` calls")]
mod watch_cluster;

mod csds;
mod within;
use within::within;

/// The resources at the top of the quickstart.
fn quickstart() -> Snapshot {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart");
    let mut snapshot = Snapshot::new();
    for file in ["clusters", "endpoints", "listeners", "routes"] {
        let yaml = std::fs::read(directory.join(file).with_extension("yaml")).unwrap();
        let parsed = parse(&Schema::bundled(), Format::Yaml, &yaml);
        assert!(parsed.faults.is_empty(), "{:?}", parsed.faults);
        for one in parsed.resources {
            snapshot.insert(&one.type_url, (*one.resource).clone());
        }
    }
    snapshot
}

/// Prints to a test.
fn printer(lines: Sender<String>) -> impl FnMut(String) {
    move |line| lines.try_send(line).unwrap()
}

/// Runs an example until it has printed a line; no example ends by itself.
async fn line(
    example: &mut (impl Future<Output = Result<(), Box<dyn Error>>> + Unpin),
    lines: &mut Receiver<String>,
) -> String {
    tokio::select! {
        ended = example => panic!("the example ended: {ended:?}"),
        line = within(lines.recv()) => line.unwrap(),
    }
}

#[tokio::test]
async fn watch_cluster_prints_what_becomes_of_a_cluster() {
    let server = TestServer::start(quickstart()).await.unwrap();
    let (tell, mut lines) = channel(64);
    let address = server.address().to_string();
    let mut example = pin!(watch_cluster::run(&address, "chancery-admin", printer(tell)));
    let first = line(&mut example, &mut lines).await;
    assert!(first.starts_with("chancery-admin has "), "{first}");
    let mut snapshot = quickstart();
    snapshot.remove(
        &TypeUrl::new("envoy.config.cluster.v3.Cluster"),
        &"chancery-admin".parse().unwrap(),
    );
    server.publish(snapshot);
    let next = line(&mut example, &mut lines).await;
    assert!(next.contains("chancery-admin"), "{next}");
    server.stop().await;
    let last = line(&mut example, &mut lines).await;
    assert!(last.contains("cannot"), "{last}");
}

#[tokio::test]
async fn resolve_goes_from_a_target_to_its_endpoints() {
    let server = TestServer::start(quickstart()).await.unwrap();
    let (tell, mut lines) = channel(64);
    let address = server.address().to_string();
    let mut example = pin!(resolve::run(&address, "xds:///web", printer(tell)));
    assert_eq!(line(&mut example, &mut lines).await, "chancery-admin: 127.0.0.1:18080");
}

#[tokio::test]
async fn status_answers_tools_from_the_cache() {
    let server = TestServer::start(quickstart()).await.unwrap();
    let (tell, mut lines) = channel(64);
    let (address, free) = (server.address().to_string(), "127.0.0.1:0".parse().unwrap());
    let mut example = pin!(status::run(&address, free, printer(tell)));
    let command = line(&mut example, &mut lines).await;
    let at = command.split(' ').nth(1).unwrap().parse().unwrap();
    let printed = line(&mut example, &mut lines).await;
    assert!(printed.starts_with("chancery-admin is Acked "), "{printed}");
    let shown = csds::fetch_status(at).await;
    let [cluster] = &shown[0].generic_xds_configs[..] else { panic!("{shown:?}") };
    assert_eq!(
        (&*cluster.name, cluster.client_status),
        ("chancery-admin", Some(ResourceState::Acked))
    );
}
