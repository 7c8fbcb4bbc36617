//! A control plane with two audiences, versions of its own, and an observer that prints the events of
//! the streams.
//!
//!     cargo run -p chancery-server --example control_plane
//!
//! Nodes of the cluster `canary` receive the second version a minute before all others.
#![expect(clippy::print_stdout, reason = "it is made to be watched")]

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use chancery_server::{
    AudienceName, Client, Config, Listener, Observer, Policy, Refusal, Resource, Server, Snapshot,
    Store, StreamEvent, StreamEventKind, TypeUrl,
};

/// Clients of the cluster `canary` are an audience of their own.
struct Canaries;

/// An observer that prints the events of the streams.
struct Printer;

impl Policy for Canaries {
    fn audience(&self, client: &Client<'_>) -> Result<AudienceName, Refusal> {
        let node = client.node.ok_or_else(Refusal::anonymous)?;
        Ok(if node.cluster == "canary" { "canary" } else { "rest" }.into())
    }
}

impl Observer for Printer {
    fn observe(&self, event: &StreamEvent<'_>) {
        let node = event.node.map_or("?", |node| &node.id);
        match &event.kind {
            StreamEventKind::Acknowledged { type_url, version, .. } => {
                println!("{node} has {} {version}", type_url.short());
            }
            StreamEventKind::Rejected { error, .. } => {
                println!("{node} rejects: {}", error.message)
            }
            StreamEventKind::Gone { .. } => println!("{node} is gone"),
            other => println!("{node}: {other:?}"),
        }
    }
}

/// A snapshot with one cluster, in a version that the program states.
fn version(text: &str) -> Result<Snapshot, Box<dyn Error>> {
    let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
    // Any encoder of protobuf will do: this is a `Cluster` with the name `web`.
    let body = Bytes::from_static(b"\x0a\x03web");
    let mut snapshot = Snapshot::new();
    snapshot.insert(&clusters, Resource::new("web".parse()?, body).with_version(text));
    snapshot.set_version(&clusters, text);
    Ok(snapshot)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    store.publish("canary", version("v2")?);
    store.publish("rest", version("v1")?);
    let listener = Listener::tcp("127.0.0.1:18000".parse()?).await?;
    let server = Server::new(store.clone(), Canaries, Config::default()).with_observer(Printer);
    let serving = tokio::spawn(server.serve(vec![listener], std::future::pending()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    store.publish("rest", version("v2")?);
    Ok(serving.await??)
}
