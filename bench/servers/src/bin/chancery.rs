//! Chancery under test, as a user of the library has it: one audience, published anew on each change;
//! or, with `--own`, a catalog of which each node sees base and a resource of its own.
//!
//! Nothing is set that is not a default, but for the runtime, which is as `docs/library.md` has it.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use chancery_bench_servers::content::{self, Changes, ResourceKind};
use chancery_bench_servers::control::Control;
use chancery_bench_servers::flags::ServerFlags;
use chancery_catalog::{Catalog, ChangeSet, Entry, Layer, Origin, OverlayNames};
use chancery_core::{Facts, InvalidName, Link, Resource, Snapshot, TypeUrl};
use chancery_server::{
    AudienceName, Audiences, Client, Config, Listener, OneAudience, Refusal, Server, Store,
};
use tokio::runtime::Builder;

const AUDIENCE: &str = "bench";

fn main() -> Result<()> {
    let flags = ServerFlags::read()?;
    let runtime = Builder::new_multi_thread().event_interval(1024).enable_all().build();
    let runtime = runtime.context("cannot start the threads of the server")?;
    let listener = runtime.block_on(Listener::tcp(flags.listen)).context("cannot listen")?;
    let xds = listener.address().context("no address")?;
    let (server, mut publish) = if flags.own > 0 { own(&flags)? } else { alike(&flags)? };
    runtime.spawn(server.serve(vec![listener], std::future::pending()));
    let control = Control::new()?;
    control.ready(xds, None)?;
    let (kind, mut changes) = (flags.first(), Changes::new(flags.resources));
    control.execute(|| {
        let (index, generation) = changes.next().unwrap_or_default();
        let changed = resource(kind, index, generation, flags.bytes);
        publish(changed.map_err(std::io::Error::other)?);
        Ok(())
    })?;
    runtime.shutdown_background();
    Ok(())
}

/// Publishes a changed resource of the first type.
type Publish = Box<dyn FnMut(Resource)>;

/// A server that shows the same to all nodes.
fn alike(flags: &ServerFlags) -> Result<(Server, Publish)> {
    let store = Store::new();
    let mut snapshot = Snapshot::new();
    let all = everything(flags)?.into_iter();
    snapshot.replace(all.map(|(type_url, resource)| (type_url, Arc::new(resource))));
    store.publish(AUDIENCE, snapshot.clone());
    let policy = OneAudience(AudienceName::from(AUDIENCE));
    let server = Server::new(Arc::clone(&store), policy, Config::default());
    let type_url = TypeUrl::new(flags.first().type_url());
    let publish = move |changed: Resource| {
        snapshot.insert(&type_url, changed);
        store.publish(AUDIENCE, snapshot.clone());
    };
    Ok((server, Box::new(publish)))
}

/// A server that shows each node base and a resource of its own.
fn own(flags: &ServerFlags) -> Result<(Server, Publish)> {
    let audiences = Audiences::new(Catalog::new(), no_group as NoGroup);
    let mut changes = ChangeSet::new(AUDIENCE);
    let entry = |resource| Entry::new(resource, Origin::program(AUDIENCE));
    for (type_url, resource) in everything(flags)? {
        changes.put(&Layer::Base, &type_url, entry(resource));
    }
    let type_url = TypeUrl::new(flags.first().type_url());
    for number in 0..flags.own {
        let own = resource(flags.first(), flags.resources + number, 0, flags.bytes)?;
        changes.put(&Layer::Node(format!("bench-{number}").into()), &type_url, entry(own));
    }
    audiences.commit(changes);
    let server = Server::new(audiences.store(), audiences.clone(), Config::default());
    let publish = move |changed: Resource| {
        let mut changes = ChangeSet::new(AUDIENCE);
        changes.put(&Layer::Base, &type_url, entry(changed));
        audiences.commit(changes);
    };
    Ok((server, Box::new(publish)))
}

/// An assignment of clients to groups.
type NoGroup = fn(&Client<'_>, &OverlayNames) -> Result<Option<String>, Refusal>;

/// Assigns nobody to a group.
fn no_group(_: &Client<'_>, _: &OverlayNames) -> Result<Option<String>, Refusal> {
    Ok(None)
}

/// All resources that every node sees.
fn everything(flags: &ServerFlags) -> Result<Vec<(TypeUrl, Resource)>> {
    let mut all = Vec::with_capacity(flags.types.len() * flags.resources);
    for kind in &flags.types {
        let type_url = TypeUrl::new(kind.type_url());
        for index in 0..flags.resources {
            all.push((type_url.clone(), resource(*kind, index, 0, flags.bytes)?));
        }
    }
    Ok(all)
}

/// The body, and what the server must know of it: which resource it refers to.
fn resource(
    kind: ResourceKind,
    index: usize,
    generation: u32,
    bytes: usize,
) -> Result<Resource, InvalidName> {
    let name: chancery_core::ResourceName = content::name(index).parse()?;
    let link = |kind: ResourceKind| Link {
        type_url: TypeUrl::new(kind.type_url()),
        name: name.clone(),
        aggregated: true,
    };
    let facts =
        Facts { links: kind.refers_to().map(link).into_iter().collect(), ..Facts::default() };
    let body = Bytes::from(content::body(kind, index, generation, bytes));
    Ok(Resource::new(name.clone(), body).with_facts(facts))
}
