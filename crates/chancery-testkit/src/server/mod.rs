//! A real server on a free port, inside other people's tests.
//!
//! It is the server that the daemon runs, with gRPC and REST on one port. The test publishes
//! snapshots, and gets events that say what happens on the streams of the clients.

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
    /// Starts a server that serves one snapshot to every client.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn start(snapshot: impl Into<Arc<Snapshot>>) -> io::Result<Self> {
        let server = Self::start_audiences(|_| ALL.into()).await?;
        server.publish(snapshot);
        Ok(server)
    }

    /// Starts a server that serves each node the snapshot of its audience, which `audience` chooses.
    /// The snapshots are published with [`publish_to`](Self::publish_to).
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub async fn start_audiences(
        audience: impl Fn(&Node) -> AudienceName + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start_with(Config::default(), audience).await
    }

    /// Does the same as [`start_audiences`](Self::start_audiences), with settings of the test's
    /// choice.
    ///
    /// # Errors
    /// Returns an error if no port is free.
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

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Publishes the snapshot for all clients of a server that [`start`](Self::start) started.
    pub fn publish(&self, snapshot: impl Into<Arc<Snapshot>>) {
        self.publish_to(ALL, snapshot);
    }

    /// Publishes the snapshot of one audience.
    pub fn publish_to(
        &self,
        audience: impl Into<AudienceName>,
        snapshot: impl Into<Arc<Snapshot>>,
    ) {
        self.store.publish(audience, snapshot);
    }

    /// Takes the next event of any stream, in the order in which they happened.
    ///
    /// # Panics
    /// Panics if there is no event for twenty seconds.
    pub async fn event(&self) -> TestEvent {
        within(self.events.next()).await
    }

    /// Waits until a client acknowledges a response of that type, and returns its version. The
    /// events before it are dropped.
    ///
    /// # Panics
    /// Panics if no client acknowledges one within twenty seconds, or a client rejects one.
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

    /// A bootstrap for gRPC clients, for the variable `GRPC_XDS_BOOTSTRAP_CONFIG`.
    pub fn grpc_bootstrap(&self, node: &str) -> String {
        format!(
            r#"{{"xds_servers": [{{"server_uri": "{}", "channel_creds": [{{"type": "insecure"}}], "server_features": ["xds_v3"]}}], "node": {{"id": "{node}"}}}}"#,
            self.address
        )
    }

    /// Stops the server in good order, and waits for its end.
    ///
    /// # Panics
    /// Panics if the server does not stop within twenty seconds.
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

/// Waits for the future, at most for twenty seconds.
#[track_caller]
fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let place = Location::caller();
    async move {
        let waited = tokio::time::timeout(PATIENCE, future).await;
        waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain at {place}"))
    }
}

/// A listener on a port below 32768, because outgoing connections take ports above.
async fn free_port() -> io::Result<Listener> {
    let mut last = None;
    // Tests run in parallel, so each process, and each server of a process, begins its search at
    // another port. A port that a server gave up then stays free for a while, as tests of clients
    // that lose their server need it.
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

/// The audience of a server that has only one.
const ALL: &str = "all";
