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
use chancery_server::{Audiences, Client, Config, Listener, Refusal, Server};

/// A client belongs to the group that has the name of its cluster, if there is one.
fn by_cluster(client: &Client<'_>, groups: &OverlayNames) -> Result<Option<String>, Refusal> {
    let node = client.node.ok_or_else(Refusal::anonymous)?;
    Ok(groups.contains(&node.cluster).then(|| node.cluster.clone()))
}

/// The change that one line asks for.
fn changes(line: &str) -> Result<ChangeSet, Box<dyn Error>> {
    let (line, is_there) = match line.strip_prefix('-') {
        Some(line) => (line, false),
        None => (line, true),
    };
    let (layer, name) = match line.split_once('/') {
        Some((group, name)) => (Layer::Group(group.into()), name),
        None => (Layer::Base, line),
    };
    let key =
        Key { type_url: TypeUrl::new("envoy.config.cluster.v3.Cluster"), name: name.parse()? };
    // Any encoder of protobuf will do: this is a `Cluster` with a short name.
    let body = [&[0x0a, u8::try_from(name.len())?], name.as_bytes()].concat();
    let resource = Resource::new(key.name.clone(), Bytes::from(body));
    let entry = is_there.then(|| Entry::new(resource, Origin::program("standard input")));
    let mut changes = ChangeSet::new("standard input");
    changes.set(&layer, key, entry);
    Ok(changes)
}

fn print(revision: &Revision) {
    let Revision { number, content, changed, .. } = revision;
    let changed: Vec<_> = changed.iter().map(ToString::to_string).collect();
    println!("revision {number}, content {content}, seen by: {}", changed.join(", "));
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let audiences = Audiences::new(Catalog::new(), by_cluster);
    let source = audiences.clone();
    thread::spawn(move || {
        for line in stdin().lines().map_while(Result::ok) {
            match changes(line.trim()) {
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
