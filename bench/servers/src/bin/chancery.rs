//! Chancery under test, as a user of the library has it: one group, published anew on each change.
//!
//! Nothing is set that is not a default, but for the runtime, which is as `docs/library.md` has it.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use chancery_bench_servers::content::{self, Changes, Kind};
use chancery_bench_servers::control::Control;
use chancery_bench_servers::flags::Flags;
use chancery_core::{Facts, InvalidName, Link, Resource, Snapshot, TypeUrl};
use chancery_server::{AudienceName, Config, Listener, OneAudience, Server, Store};
use tokio::runtime::Builder;

const GROUP: &str = "bench";

fn main() -> Result<()> {
    let flags = Flags::read()?;
    let store = Store::new();
    let mut snapshot = everything(&flags)?;
    store.publish(GROUP, snapshot.clone());
    let runtime = Builder::new_multi_thread().event_interval(1024).enable_all().build();
    let runtime = runtime.context("cannot start the threads of the server")?;
    let listener = runtime.block_on(Listener::tcp(flags.listen)).context("cannot listen")?;
    let xds = listener.address().context("no address")?;
    let server =
        Server::new(Arc::clone(&store), OneAudience(AudienceName::from(GROUP)), Config::default());
    runtime.spawn(server.serve(vec![listener], std::future::pending()));
    let control = Control::new()?;
    control.ready(xds, None)?;
    let (kind, mut changes) = (flags.first(), Changes::new(flags.resources));
    let type_url = TypeUrl::new(kind.type_url());
    control.obey(|| {
        let (index, generation) = changes.next().unwrap_or_default();
        let changed = resource(kind, index, generation, flags.bytes);
        snapshot.insert(&type_url, changed.map_err(std::io::Error::other)?);
        store.publish(GROUP, snapshot.clone());
        Ok(())
    })?;
    runtime.shutdown_background();
    Ok(())
}

fn everything(flags: &Flags) -> Result<Snapshot> {
    let mut all = Vec::with_capacity(flags.types.len() * flags.resources);
    for kind in &flags.types {
        let type_url = TypeUrl::new(kind.type_url());
        for index in 0..flags.resources {
            all.push((type_url.clone(), Arc::new(resource(*kind, index, 0, flags.bytes)?)));
        }
    }
    let mut snapshot = Snapshot::new();
    snapshot.replace(all);
    Ok(snapshot)
}

/// The body, and what the server must know of it: which resource it refers to.
fn resource(
    kind: Kind,
    index: usize,
    generation: u32,
    bytes: usize,
) -> Result<Resource, InvalidName> {
    let name: chancery_core::ResourceName = content::name(index).parse()?;
    let link = |kind: Kind| Link {
        type_url: TypeUrl::new(kind.type_url()),
        name: name.clone(),
        aggregated: true,
    };
    let facts =
        Facts { links: kind.refers_to().map(link).into_iter().collect(), ..Facts::default() };
    let body = Bytes::from(content::body(kind, index, generation, bytes));
    Ok(Resource::new(name.clone(), body).with_facts(facts))
}
