//! A control plane that reads clusters from its standard input, and commits them to a catalog.
//!
//!     cargo run -p chancery-server --example catalog_plane
//!
//! The line `web` adds a cluster for every node, and `canary/web` a cluster for the group `canary`:
//! the nodes whose cluster has this name. `-web` and `-canary/web` remove them.
#![expect(clippy::print_stdout, reason = "it is made to be watched")]

use std::error::Error;
use std::io::stdin;
use std::thread;

use bytes::Bytes;
use chancery_catalog::{Catalog, ChangeSet, Entry, Key, Layer, Origin, OverlayNames, Revision};
use chancery_core::{Resource, TypeUrl};
use chancery_proto::resource::{Wrapper, resource_from_bytes};
use chancery_proto::schema::Schema;
use chancery_server::{Audiences, Client, Config, Listener, Refusal, Server};

/// A client belongs to the group that has the name of its cluster, if there is one.
fn by_cluster(client: &Client<'_>, groups: &OverlayNames) -> Result<Option<String>, Refusal> {
    let node = client.node.ok_or_else(Refusal::anonymous)?;
    Ok(groups.contains(&node.cluster).then(|| node.cluster.clone()))
}

/// The change that one line asks for.
fn changes(schema: &Schema, line: &str) -> Result<ChangeSet, Box<dyn Error>> {
    let (line, is_there) = match line.strip_prefix('-') {
        Some(line) => (line, false),
        None => (line, true),
    };
    let (layer, name) = match line.split_once('/') {
        Some((group, name)) => (Layer::Group(group.into()), name),
        None => (Layer::Base, line),
    };
    let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
    let mut changes = ChangeSet::new("standard input");
    if is_there {
        let entry =
            Entry::new(cluster(schema, &clusters, name)?, Origin::program("standard input"));
        changes.put(&layer, &clusters, entry);
    } else {
        changes.remove(&layer, Key { type_url: clusters, name: name.parse()? });
    }
    Ok(changes)
}

/// A cluster with a short name. Its bytes are canonical, and its facts are read from them: without
/// facts the server knows no references, so it could not order a change by them, nor make the empty
/// assignment that a cluster waits for.
fn cluster(schema: &Schema, clusters: &TypeUrl, name: &str) -> Result<Resource, Box<dyn Error>> {
    // Any encoder of protobuf will do: the first field of a `Cluster` is its name.
    let body = [&[0x0a, u8::try_from(name.len())?], name.as_bytes()].concat();
    Ok(resource_from_bytes(schema, clusters, &Bytes::from(body), Wrapper::default())?)
}

fn print(revision: &Revision) {
    let Revision { number, content, changed, .. } = revision;
    let changed: Vec<_> = changed.iter().map(ToString::to_string).collect();
    println!("revision {number}, content {content}, seen by: {}", changed.join(", "));
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let audiences = Audiences::new(Catalog::new(), by_cluster);
    let (source, schema) = (audiences.clone(), Schema::bundled());
    thread::spawn(move || {
        for line in stdin().lines().map_while(Result::ok) {
            match changes(&schema, line.trim()) {
                Ok(changes) => match source.commit(changes) {
                    Some(revision) => print(&revision),
                    None => println!("nothing new"),
                },
                Err(error) => println!("{line}: {error}"),
            }
        }
    });
    let listener = Listener::tcp("127.0.0.1:18000".parse()?).await?;
    let server = Server::new(audiences.store(), audiences, Config::default());
    Ok(server.serve(vec![listener], std::future::pending()).await?)
}
