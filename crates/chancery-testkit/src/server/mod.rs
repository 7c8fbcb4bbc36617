//! A real server on a free port, inside other people's tests.
//!
//! It is the same server the daemon runs, with gRPC and REST on one port. What it serves is
//! published by the test, and what clients make of it comes back as events.

mod events;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chancery_core::{Node, Snapshot, TypeUrl};
use chancery_server::{AudienceName, ByNode, Config, Listener, Server, Store};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use events::EventQueue;
pub use events::{TestEvent, TestEventKind};

/// A running server. It ends when this is dropped.
///
/// ```
/// use chancery_core::{Resource, Snapshot, TypeUrl};
/// use chancery_testkit::TestServer;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::TcpStream;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
/// let mut snapshot = Snapshot::new();
/// // A `Cluster` with the name `web`.
/// snapshot.insert(&clusters, Resource::new("web".parse()?, b"\x0a\x03web"[..].into()));
/// let server = TestServer::start(snapshot).await?;
///
/// // Your client connects to `server.address()`; this one polls once over REST.
/// let mut client = TcpStream::connect(server.address()).await?;
/// let body = r#"{"node": {"id": "test"}}"#;
/// let head = "POST /v3/discovery:clusters HTTP/1.1\r\nhost: test\r\nconnection: close";
/// let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
/// client.write_all(request.as_bytes()).await?;
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).await?;
/// assert!(answer.starts_with("HTTP/1.1 200 OK"));
/// assert!(answer.contains(r#""name":"web""#));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestServer {
    address: SocketAddr,
    store: Arc<Store>,
    events: Arc<EventQueue>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Serves one snapshot to everybody.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(snapshot: impl Into<Arc<Snapshot>>) -> io::Result<Self> {
        let server = Self::start_audiences(|_| ALL.into()).await?;
        server.publish(snapshot);
        Ok(server)
    }

    /// Serves each node the snapshot of the group it is put in; to be published with
    /// [`publish_to`](Self::publish_to).
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_audiences(
        audience: impl Fn(&Node) -> AudienceName + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start_with(Config::default(), audience).await
    }

    /// Serves groups, with settings of the test's choice.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_with(
        config: Config,
        audience: impl Fn(&Node) -> AudienceName + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = free_port().await?;
        let address = listener.address().ok_or_else(|| io::Error::other("no address"))?;
        let (store, events) = (Store::new(), Arc::new(EventQueue::default()));
        let stop = CancellationToken::new();
        let server = Server::new(Arc::clone(&store), ByNode(audience), config)
            .with_observer(Arc::clone(&events));
        let serving = server.serve(vec![listener], stop.clone().cancelled_owned());
        let task = tokio::spawn(async move {
            serving.await.expect("the bundled descriptors can be shown");
        });
        Ok(Self { address, store, events, stop, task: Some(task) })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Publishes what everybody should see from now on.
    pub fn publish(&self, snapshot: impl Into<Arc<Snapshot>>) {
        self.publish_to(ALL, snapshot);
    }

    /// Publishes what a group should see from now on.
    pub fn publish_to(
        &self,
        audience: impl Into<AudienceName>,
        snapshot: impl Into<Arc<Snapshot>>,
    ) {
        self.store.publish(audience, snapshot);
    }

    /// The next thing that happened on any stream, in order.
    ///
    /// # Panics
    /// When nothing happens for twenty seconds.
    pub async fn event(&self) -> TestEvent {
        within(self.events.next()).await
    }

    /// Waits until a client has accepted a response of that type, and says which version.
    ///
    /// # Panics
    /// When none does within twenty seconds, or a client rejects one.
    pub async fn acknowledged(&self, type_url: &TypeUrl) -> String {
        let accepted = async {
            loop {
                match self.events.next().await.kind {
                    TestEventKind::Acknowledged { type_url: of, version } if of == *type_url => {
                        return version;
                    }
                    TestEventKind::Rejected { type_url: of, error, .. } if of == *type_url => {
                        panic!("the client rejects {}: {error}", of.short());
                    }
                    _ => {}
                }
            }
        };
        within(accepted).await
    }

    /// A bootstrap for gRPC clients, as `GRPC_XDS_BOOTSTRAP_CONFIG` takes it.
    pub fn grpc_bootstrap(&self, node: &str) -> String {
        format!(
            r#"{{"xds_servers": [{{"server_uri": "{}", "channel_creds": [{{"type": "insecure"}}], "server_features": ["xds_v3"]}}], "node": {{"id": "{node}"}}}}"#,
            self.address
        )
    }

    /// Stops it in order, and waits until it has.
    ///
    /// # Panics
    /// When it does not stop.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            within(task).await.expect("the server ends without panic");
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Waits, but not for ever.
#[track_caller]
fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let place = Location::caller();
    async move {
        let waited = tokio::time::timeout(PATIENCE, future).await;
        waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain at {place}"))
    }
}

/// A listener on a port that outgoing connections do not take: those come from above 32768.
async fn free_port() -> io::Result<Listener> {
    let mut last = None;
    // Tests run in parallel, so each process begins elsewhere, and each server of it: a port that was
    // let go should stay empty for whoever tests what clients make of that.
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let from = std::process::id() % 12_000 + STARTED.fetch_add(1, Ordering::Relaxed) * 7;
    for offset in 0..12_000 {
        let port = u16::try_from(20_000 + (from + offset * 7) % 12_000).unwrap_or(20_000);
        match Listener::tcp(([127, 0, 0, 1], port).into()).await {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no port")))
}

/// The group of servers that have one.
const ALL: &str = "all";
