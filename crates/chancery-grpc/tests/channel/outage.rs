//! An hour without a control plane, in virtual time and over real sockets.
//!
//! Time passes where the test says so, and nowhere else, so that sockets have the time that they need. The channel, the
//! client of the control plane and both of its servers are whole; all that waits in them waits in virtual time. What the
//! kernel does in an hour is not covered.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use chancery_core::client::ServerFeatures;
use chancery_testkit::TestServer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, advance};
use tonic::Code;

use super::one_route;
use super::support::ports::Port;
use super::support::{Backend, PATIENCE, Resources, call, channel_at, code, name, until};

/// The longest wait between two attempts to reach a control plane: two minutes, and a fifth more by chance.
const LONGEST: Duration = Duration::from_secs(145);
const SECOND: Duration = Duration::from_secs(1);

/// Keeps time from passing while the program waits for sockets. A test that hangs has it pass again, so that its waits
/// come to their ends.
struct StoppedTime {
    _stopped: mpsc::Sender<()>,
}

impl StoppedTime {
    fn begin() -> Self {
        let (stopped, ended) = mpsc::channel::<()>();
        // Time that nobody needs is passed over unless something blocks.
        spawn_blocking(move || ended.recv_timeout(PATIENCE * 4));
        Self { _stopped: stopped }
    }
}

/// The way to a control plane, which can be shut.
struct Gate {
    port: Port,
    server: SocketAddr,
    passing: JoinSet<()>,
}

impl Gate {
    async fn open_to(server: SocketAddr) -> Self {
        let mut gate = Self { port: Port::reserve(), server, passing: JoinSet::new() };
        gate.open().await;
        gate
    }

    fn address(&self) -> SocketAddr {
        self.port.address().parse().expect("an address")
    }

    async fn open(&mut self) {
        let listener = TcpListener::bind(self.address()).await.expect("its port");
        let server = self.server;
        self.passing.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                open.spawn(async move {
                    let mut server = TcpStream::connect(server).await.expect("the control plane");
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
    }

    /// Closes all connections, and takes no others.
    async fn shut(&mut self) {
        self.passing.shutdown().await;
    }
}

fn resources(cluster: &str, backends: &[&Backend]) -> Resources {
    let resources = Resources::default().routes(&one_route(cluster)).cluster(cluster, "");
    resources.endpoints(cluster, &[backends])
}

/// C-067, C-069, C-073: a channel goes on with what it has, also when a server of its cluster goes away
/// meanwhile, and takes what is new when the control plane is back. A channel that has nothing fails calls with the
/// reason until then.
#[tokio::test(start_paused = true)]
async fn calls_go_on_for_an_hour_without_a_control_plane() {
    let _stopped = StoppedTime::begin();
    let began = Instant::now();
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let control = TestServer::start(resources("old", &[&a, &b]).snapshot()).await;
    let control = control.expect("a server");
    let mut gate = Gate::open_to(control.address()).await;
    let channel = channel_at(gate.address(), ServerFeatures::default());
    for one in ["a", "b"] {
        until(&channel, "both servers", |result| name(result) == Some(one)).await;
    }
    gate.shut().await;
    let c = Backend::start("c").await;
    control.publish(resources("new", &[&c]).snapshot());
    let late = channel_at(gate.address(), ServerFeatures::default());
    for second in 0..1_800 {
        advance(SECOND).await;
        let result = call(&channel).await;
        assert!(matches!(name(&result), Some("a" | "b")), "after {second} seconds: {result:?}");
    }
    assert_eq!((a.connections(), b.connections()), (1, 1));
    drop(a);
    for _ in 0..10 {
        // A call may be under way to the server that has gone.
        until(&channel, "the other server", |result| name(result) == Some("b")).await;
    }
    for second in 1_800..3_600 {
        advance(SECOND).await;
        let result = call(&channel).await;
        assert_eq!(name(&result), Some("b"), "after {second} seconds: {result:?}");
    }
    assert_eq!((b.connections(), c.connections()), (1, 0));
    let failed = call(&late).await;
    assert_eq!(code(&failed), Code::Unavailable, "{failed:?}");
    assert!(failed.expect_err("it has failed").message().contains("cannot be reached"));

    gate.open().await;
    for _ in 0..LONGEST.as_secs() {
        advance(SECOND).await;
        call(&channel).await.expect("an answer by the old way, or the new one");
    }
    for channel in [channel, late] {
        until(&channel, "what is new", |result| name(result) == Some("c")).await;
    }
    assert_eq!(began.elapsed(), SECOND * 3_600 + LONGEST, "no other time has passed");
}
