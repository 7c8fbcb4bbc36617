//! A server on a free port, and raw clients that see every byte of its answers.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its part, and fails by panics")]

pub(crate) mod authority;
pub(crate) mod client;
pub(crate) mod message;
pub(crate) mod raw;
pub(crate) mod scraped;

use std::net::SocketAddr;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_server::{Config, Listener, Metrics, OneAudience, Policy, Server, Store, Tls};
use prost::Message;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
pub(crate) const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
pub(crate) const ADS_SOTW: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
pub(crate) const ADS_DELTA: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
pub(crate) const CLUSTERS_SOTW: &str =
    "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";

/// The time that anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<Store>,
    pub(crate) stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// One audience for all, on plain TCP.
    pub(crate) async fn start(config: Config) -> Self {
        Self::with(config, OneAudience("all".into()), None, Metrics::default()).await
    }

    pub(crate) async fn with(
        config: Config,
        policy: impl Policy,
        tls: Option<Arc<Tls>>,
        metrics: Metrics,
    ) -> Self {
        Self::of(|store| Server::new(store, policy, config).with_metrics(metrics), tls).await
    }

    /// The server that `make` makes of a new store.
    pub(crate) async fn of(make: impl FnOnce(Arc<Store>) -> Server, tls: Option<Arc<Tls>>) -> Self {
        let store = Store::new();
        let server = make(Arc::clone(&store));
        Self::serve(store, server, tls).await
    }

    /// A server of a store that somebody else fills.
    pub(crate) async fn serve(store: Arc<Store>, server: Server, tls: Option<Arc<Tls>>) -> Self {
        let mut listener = free_port().await;
        let address = listener.address().unwrap();
        if let Some(tls) = tls {
            listener = listener.with_tls(tls);
        }
        let stop = CancellationToken::new();
        let serving = server.serve(vec![listener], stop.clone().cancelled_owned());
        let task = tokio::spawn(async move { serving.await.unwrap() });
        Self { address, store, stop, task }
    }

    /// Publishes clusters for the one audience.
    pub(crate) fn publish(&self, clusters: &[(&str, &str)]) {
        self.store.publish("all", snapshot(clusters));
    }

    /// Stops it, and waits until it has ended in order.
    pub(crate) async fn stopped(self) {
        self.stop.cancel();
        within(self.task).await.unwrap();
    }
}

/// Waits, but not for ever.
#[track_caller]
pub(crate) fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = Location::caller();
    async move {
        let waited = tokio::time::timeout(PATIENCE, future).await;
        waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain at {place}"))
    }
}

/// A listener on a port that outgoing connections do not take.
async fn free_port() -> Listener {
    // No port is tried twice: a test may look whether its server has left its own.
    static TRIED: AtomicU32 = AtomicU32::new(0);
    const PORTS: u32 = 12_000;
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        assert!(tried < PORTS, "no free port");
        let port = 20_000 + (std::process::id() % PORTS + tried * 31) % PORTS;
        let address = ([127, 0, 0, 1], u16::try_from(port).unwrap()).into();
        if let Ok(listener) = Listener::tcp(address).await {
            return listener;
        }
    }
}

/// A snapshot of clusters, by name and the name of their statistics, with stated versions.
pub(crate) fn snapshot(clusters: &[(&str, &str)]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for (name, content) in clusters {
        snapshot.insert(&TypeUrl::new(CDS), cluster(name, content));
    }
    snapshot
}

pub(crate) fn cluster(name: &str, content: &str) -> Resource {
    let body = message::Cluster { name: name.to_owned(), alt_stat_name: content.to_owned() };
    Resource::new(name.parse().unwrap(), Bytes::from(body.encode_to_vec()))
}
