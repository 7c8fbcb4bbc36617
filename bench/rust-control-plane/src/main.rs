//! rust-control-plane under test: its cache with a snapshot for each node, SotW only.
//!
//! The clients' nodes must be named `bench-0` to `bench-N`, with N from `--nodes`: streams that
//! share a node lose updates. A change sets the snapshot of every node, as there is no other way.

#[expect(dead_code, reason = "it is shared, and links are nothing this library asks for")]
#[path = "../../servers/src/content.rs"]
mod content;
#[path = "../../servers/src/control.rs"]
mod control;
#[path = "../../servers/src/protobuf.rs"]
mod protobuf;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use data_plane_api::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryServiceServer;
use prost::Message;
use rust_control_plane::cache::Cache;
use rust_control_plane::service::common::Service;
use rust_control_plane::snapshot::{Resource, Resources, Snapshot};
use tokio::runtime::Runtime;
use tonic::transport::Server;

use content::{Changes, ResourceKind};
use control::Control;

struct Flags {
    listen: SocketAddr,
    kinds: Vec<ResourceKind>,
    resources: usize,
    bytes: usize,
    nodes: usize,
}

fn main() -> Result<()> {
    let flags = flags()?;
    // With `true` it answers no request without names.
    let cache = Arc::new(Cache::new(false));
    let mut snapshot = Snapshot::new();
    for kind in &flags.kinds {
        let mut resources = Resources::new("0".to_owned());
        for index in 0..flags.resources {
            let resource = resource(*kind, index, 0, flags.bytes)?;
            resources.items.insert(content::name(index), resource);
        }
        snapshot.insert(kind.type_url().to_owned(), resources);
    }
    let runtime = Runtime::new()?;
    runtime.block_on(publish(&cache, &snapshot, flags.nodes));
    // The transport of this version takes an address and not a listener.
    let xds = TcpListener::bind(flags.listen)?.local_addr()?;
    let service = AggregatedDiscoveryServiceServer::new(Service::new(Arc::clone(&cache)));
    runtime.spawn(Server::builder().add_service(service).serve(xds));
    while std::net::TcpStream::connect(xds).is_err() {
        std::thread::yield_now();
    }
    let control = Control::new()?;
    control.ready(xds, None)?;
    let (kind, mut changes) = (flags.kinds[0], Changes::new(flags.resources));
    control.execute(|| {
        let (index, generation) = changes.next().unwrap_or_default();
        let changed = resource(kind, index, generation, flags.bytes);
        if let Some(resources) = snapshot.resources.get_mut(kind.type_url()) {
            resources.version = generation.to_string();
            let changed = changed.map_err(std::io::Error::other)?;
            resources.items.insert(content::name(index), changed);
        }
        runtime.block_on(publish(&cache, &snapshot, flags.nodes));
        Ok(())
    })?;
    runtime.shutdown_background();
    Ok(())
}

async fn publish(cache: &Cache, snapshot: &Snapshot, nodes: usize) {
    for node in 0..=nodes {
        cache.set_snapshot(&format!("bench-{node}"), snapshot.clone()).await;
    }
}

fn resource(kind: ResourceKind, index: usize, generation: u32, bytes: usize) -> Result<Resource> {
    let body = content::body(kind, index, generation, bytes);
    let body = body.as_slice();
    Ok(match kind {
        ResourceKind::Cds => Resource::Cluster(Message::decode(body)?),
        ResourceKind::Eds => Resource::Endpoint(Message::decode(body)?),
        ResourceKind::Lds => Resource::Listener(Message::decode(body)?),
        ResourceKind::Rds => Resource::Route(Message::decode(body)?),
    })
}

fn flags() -> Result<Flags> {
    let mut flags = Flags {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        kinds: vec![ResourceKind::Eds],
        resources: 100,
        bytes: 1_100,
        nodes: 1,
    };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words.next().with_context(|| format!("`{flag}` needs a value"))?;
        match flag.as_str() {
            "--listen" => flags.listen = value.parse()?,
            "--types" => flags.kinds = value.split(',').map(str::parse).collect::<Result<_>>()?,
            "--resources" => flags.resources = value.parse()?,
            "--bytes" => flags.bytes = value.parse()?,
            "--nodes" => flags.nodes = value.parse()?,
            "--protocol" if value == "sotw" => {}
            "--protocol" => bail!("rust-control-plane has no `{value}`; there is `sotw`"),
            _ => bail!("unknown flag `{flag}`"),
        }
    }
    Ok(flags)
}
