//! The real server and a reference client over a simulated network: partition, repair, restart.
//!
//! The network is turmoil's, with virtual time and seeded delays. The server is the whole one; it
//! listens on a Unix socket, because it knows no other sockets than real ones, and what arrives
//! over the simulated network is copied there. The same seed gives the same trace.
#![allow(clippy::unwrap_used, reason = "a test fails by panics")]
#![cfg(feature = "server")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chancery_core::{Node, Snapshot, Variant};
use chancery_server::{Config, Listener, OneAudience, Server, Store};
use chancery_testkit::client::{Client, Interest, Quirks};
use common::{Ended, ReferenceStream, clusters, endpoints, holds, judge, snapshot};
use tokio::net::UnixStream;
use turmoil::Sim;
use turmoil::net::{TcpListener, TcpStream};

/// The state of both sides that the test looks at.
#[derive(Clone)]
struct World {
    /// The snapshot that a server publishes. It outlives restarts, as files would.
    published: Arc<Mutex<Arc<Snapshot>>>,
    store: Arc<Mutex<Option<Arc<Store>>>>,
    client: Arc<Mutex<Client>>,
    trace: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(variant: Variant, first: Snapshot) -> Self {
        let node = Arc::new(Node { id: "n".to_owned(), ..Node::default() });
        let mut client = Client::new(variant, node, Quirks::default(), judge);
        client.want(&clusters(), Interest::all());
        client.want(&endpoints(), Interest::names(["a", "b", "c"]));
        Self {
            published: Arc::new(Mutex::new(Arc::new(first))),
            store: Arc::default(),
            client: Arc::new(Mutex::new(client)),
            trace: Arc::default(),
        }
    }

    fn publish(&self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        *self.published.lock().unwrap() = Arc::clone(&snapshot);
        if let Some(store) = &*self.store.lock().unwrap() {
            store.publish("all", snapshot);
        }
    }

    fn note(&self, line: impl Into<String>) {
        let at = turmoil::sim_elapsed().unwrap_or_default();
        self.trace.lock().unwrap().push(format!("{:>7} {}", at.as_millis(), line.into()));
    }

    fn trace(&self) -> Vec<String> {
        self.trace.lock().unwrap().clone()
    }

    fn holds(&self) -> (Vec<String>, Vec<String>) {
        let client = self.client.lock().unwrap();
        (holds(&client, &clusters()), holds(&client, &endpoints()))
    }
}

async fn serve(world: World) -> turmoil::Result {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("socket");
    let store = Store::new();
    store.publish("all", Arc::clone(&*world.published.lock().unwrap()));
    *world.store.lock().unwrap() = Some(Arc::clone(&store));
    let server = Server::new(store, OneAudience("all".into()), Config::default());
    tokio::spawn(server.serve(vec![Listener::unix(&path)?], std::future::pending()));
    let network = TcpListener::bind(("0.0.0.0", 18_000)).await?;
    while let Ok((mut outer, _)) = network.accept().await {
        let mut inner = UnixStream::connect(&path).await?;
        tokio::spawn(async move {
            let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
        });
    }
    Ok(())
}

/// Keeps a stream open for ever, with pauses between attempts, as clients do.
async fn keep_connected(world: World) -> turmoil::Result {
    loop {
        let ended = converse(&world).await;
        world.client.lock().unwrap().lose();
        match ended {
            Err(Ended::Lost(why)) => world.note(format!("lost: {why}")),
            Err(Ended::Broken(fault)) => return Err(fault.into()),
            Ok(never) => match never {},
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn converse(world: &World) -> Result<std::convert::Infallible, Ended> {
    let lost = |error: std::io::Error| Ended::Lost(error.to_string());
    let connect = TcpStream::connect(("server", 18_000));
    let io = tokio::time::timeout(Duration::from_secs(2), connect).await;
    let io = io.map_err(|_| Ended::Lost("cannot connect".to_owned()))?.map_err(lost)?;
    let variant = world.client.lock().unwrap().variant();
    let mut stream = ReferenceStream::open(io, variant).await?;
    world.note("opened");
    let mut client = world.client.lock().unwrap().clone();
    client.open();
    loop {
        stream.flush(&mut client)?;
        *world.client.lock().unwrap() = client.clone();
        let came = stream.next(&mut client).await?;
        world.note(came);
    }
}

/// Steps the simulation until so much of its time has passed.
fn pass(sim: &mut Sim<'_>, time: Duration) {
    let end = sim.elapsed() + time;
    while sim.elapsed() < end {
        sim.step().unwrap();
    }
}

fn live(variant: Variant, seed: u64) -> World {
    let world = World::new(variant, snapshot(&[("a", 1), ("b", 1)]));
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(600))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(50))
        .tick_duration(Duration::from_millis(5))
        .enable_tokio_io()
        .build();
    let server = world.clone();
    sim.host("server", move || serve(server.clone()));
    sim.client("client", keep_connected(world.clone()));

    pass(&mut sim, Duration::from_secs(5));
    assert_eq!(world.holds().0, ["a@1", "b@1"]);
    world.publish(snapshot(&[("a", 2), ("b", 1)]));
    pass(&mut sim, Duration::from_secs(5));
    assert_eq!(world.holds().0, ["a@2", "b@1"]);

    // Nothing arrives while the network is parted; the latest state does after it is repaired.
    sim.partition("client", "server");
    world.publish(snapshot(&[("a", 3), ("b", 1)]));
    pass(&mut sim, Duration::from_secs(20));
    assert_eq!(world.holds().0, ["a@2", "b@1"]);
    world.publish(snapshot(&[("a", 3), ("c", 1)]));
    sim.repair("client", "server");
    pass(&mut sim, Duration::from_secs(30));
    let wanted = ["a@3", "c@1"].map(str::to_owned).to_vec();
    assert_eq!(world.holds().0, wanted);

    // A restarted server has the same versions for the same content.
    let before = world.trace().len();
    sim.crash("server");
    pass(&mut sim, Duration::from_secs(10));
    sim.bounce("server");
    pass(&mut sim, Duration::from_secs(20));
    let after: Vec<_> = world.trace()[before..].to_vec();
    assert!(after.iter().any(|line| line.ends_with("opened")), "{after:#?}");
    assert!(!after.iter().any(|line| line.contains(" cds ")), "sent again: {after:#?}");

    world.publish(snapshot(&[("a", 4), ("b", 4), ("c", 4)]));
    pass(&mut sim, Duration::from_secs(20));
    let wanted = ["a@4", "b@4", "c@4"].map(str::to_owned).to_vec();
    assert_eq!(world.holds(), (wanted.clone(), wanted));
    world
}

#[test]
fn a_client_converges_through_partition_and_restart() {
    // S-031, S-043, S-076, S-108, S-113
    for seed in 0..3 {
        live(Variant::Sotw, seed);
        live(Variant::Delta, seed);
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    for variant in [Variant::Sotw, Variant::Delta] {
        assert_eq!(live(variant, 7).trace(), live(variant, 7).trace());
    }
    assert_ne!(live(Variant::Sotw, 7).trace(), live(Variant::Sotw, 8).trace());
}
