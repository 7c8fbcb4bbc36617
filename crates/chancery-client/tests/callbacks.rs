//! The client can be called from inside of all code of the program that it runs (C-053).
//!
//! Everything is one conversation in one test, as a subscriber of the log is one for the process. It
//! runs on threads of its own: a client that waits for its own lock would stop the test otherwise.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chancery_client::bootstrap::{Address, Node, Value, XdsServer};
use chancery_client::credentials::{
    CallCredentials, CallPlugin, ChannelCredentials, ChannelPlugin, PluginCredentials, PluginFuture,
};
use chancery_client::dial::{Dial, DialFuture, Sockets};
use chancery_client::status::StatusServer;
use chancery_client::{Bootstrap, Client, Clients, Event, Options, ResourceType, TypeUrl};
use chancery_core::{Resource, Snapshot};
use chancery_testkit::TestServer;
use http::HeaderMap;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

mod csds;
mod within;
use csds::fetch_status;
use within::within;

/// Far more than the whole test takes.
const BOUND: Duration = Duration::from_secs(60);

/// The client that is called, once there is one.
static CLIENT: OnceLock<Client> = OnceLock::new();

/// The callbacks that have called the client.
static CALLED: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Calls the client in each way that takes its lock.
fn call_the_client(from: &'static str) {
    let Some(client) = CLIENT.get() else { return };
    drop((client.resources(), client.status(), client.metrics()));
    drop(client.watch_raw(&clusters(), "another"));
    CALLED.lock().unwrap().insert(from);
}

fn clusters() -> TypeUrl {
    TypeUrl::new(CallingCluster::TYPE_URL)
}

struct CallingCluster(Bytes);

impl ResourceType for CallingCluster {
    const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";

    fn decode(_name: &str, body: &Bytes) -> Result<Self, String> {
        call_the_client("decode");
        Ok(Self(body.clone()))
    }
}

impl Drop for CallingCluster {
    fn drop(&mut self) {
        call_the_client("drop");
    }
}

struct Plugin(Arc<ClientConfig>);

impl ChannelPlugin for Plugin {
    fn tls(&self) -> PluginFuture<'_, Arc<ClientConfig>> {
        call_the_client("tls");
        Box::pin(async { Ok(Arc::clone(&self.0)) })
    }

    fn metadata(&self, _: SystemTime) -> PluginFuture<'_, HeaderMap> {
        call_the_client("metadata of a channel");
        Box::pin(async { Ok(HeaderMap::new()) })
    }
}

impl CallPlugin for Plugin {
    fn metadata(&self, _: SystemTime) -> PluginFuture<'_, HeaderMap> {
        call_the_client("metadata of a call");
        Box::pin(async { Ok(HeaderMap::new()) })
    }
}

struct Dialer;

impl Dial for Dialer {
    fn dial<'a>(&'a self, address: &'a Address) -> DialFuture<'a> {
        call_the_client("dial");
        Sockets.dial(address)
    }
}

struct CallingLog;

impl Subscriber for CallingLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("chancery_client")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        call_the_client("log");
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Wakes a task, and calls the client when it wakes it and when nobody needs it any more.
struct Alarm(Waker);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        call_the_client("wake");
        self.0.wake_by_ref();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        call_the_client("drop of a waker");
    }
}

/// Waits with a new waker of this test's own for each poll.
async fn alarmed<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let alarm = Waker::from(Arc::new(Alarm(cx.waker().clone())));
        future.as_mut().poll(&mut Context::from_waker(&alarm))
    })
    .await
}

/// Polls once. If there is nothing yet, the next poll replaces the waker of this one.
async fn polled_once(future: impl Future) {
    let mut next = pin!(alarmed(future));
    let _ = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
}

fn snapshot(version: &str) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let body = [b"\x0a\x01a\xe2\x01\x01", version.as_bytes()].concat();
    snapshot.insert(&clusters(), Resource::new("a".parse().unwrap(), body.into()));
    snapshot
}

/// Puts TLS before a server; returns its address, and a configuration that trusts it.
async fn tls(server: SocketAddr) -> (SocketAddr, Arc<ClientConfig>) {
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = CertificateDer::from_pem_slice(pair.cert.pem().as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.signing_key.serialize_pem().as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let mut config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    config.as_mut().unwrap().alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut outer = acceptor.accept(socket).await.unwrap();
                let mut inner = TcpStream::connect(server).await.unwrap();
                copy_bidirectional(&mut outer, &mut inner).await.ok();
            });
        }
    });
    let trust = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (address, Arc::new(trust))
}

async fn conversation() {
    let server = TestServer::start(snapshot("1")).await.unwrap();
    let (address, trust) = tls(server.address()).await;
    let plugin = Arc::new(Plugin(trust));
    let (channel, call): (Arc<dyn ChannelPlugin>, Arc<dyn CallPlugin>) =
        (Arc::clone(&plugin) as _, plugin);
    let bootstrap = Bootstrap {
        servers: vec![XdsServer {
            uri: format!("localhost:{}", address.port()),
            channel: ChannelCredentials::Plugin(PluginCredentials::new(
                "test",
                Value::Null,
                channel,
            )),
            calls: vec![CallCredentials::Plugin(PluginCredentials::new("test", Value::Null, call))],
            ..XdsServer::default()
        }],
        node: Node { id: "test".to_owned(), ..Node::default() },
        ..Bootstrap::default()
    };
    let options = Options { dial: Arc::new(Dialer), ..Options::default() };
    let clients = Clients::new(bootstrap, options).unwrap();
    let client = clients.for_servers().unwrap();
    assert!(CLIENT.set(client.clone()).is_ok());
    // Values that the cache lets go of are dropped by the program's code.
    let mut watch = client.watch::<CallingCluster>("a");
    for version in ["1", "2", "3"] {
        server.publish(snapshot(version));
        loop {
            let event = within(alarmed(watch.next())).await.unwrap();
            let Event::Changed { value: Ok(cluster), .. } = event else { panic!("{version}") };
            if cluster.value.0.ends_with(version.as_bytes()) {
                break;
            }
        }
    }
    let mut other = client.watch_raw(&clusters(), "none");
    polled_once(other.next()).await;
    polled_once(other.next()).await;
    drop(other);
    let mut config = client.follow("listener".parse().unwrap());
    for _ in 0..2 {
        polled_once(config.next()).await;
    }
    let status = StatusServer::start("127.0.0.1:0".parse().unwrap(), move || {
        call_the_client("status");
        clients.status()
    });
    let status = status.await.unwrap();
    assert_eq!(fetch_status(status.address()).await.len(), 1);
    assert!(within(alarmed(client.close(BOUND))).await);
    let called: Vec<_> = CALLED.lock().unwrap().iter().copied().collect();
    let all = ["decode", "dial", "drop", "drop of a waker", "log", "metadata of a call"];
    let others = ["metadata of a channel", "status", "tls", "wake"];
    assert_eq!(called, [&all[..], &others].concat());
}

#[test]
fn the_client_can_be_called_from_inside_of_every_callback() {
    tracing::subscriber::set_global_default(CallingLog).unwrap();
    let (tell, done) = channel();
    let test = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(conversation());
        runtime.shutdown_background();
        let _ = tell.send(());
    });
    let ended = done.recv_timeout(BOUND);
    if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = ended {
        let called = CALLED.try_lock().map(|called| called.clone());
        panic!("a callback that calls the client waits for ever; these do not: {called:?}");
    }
    test.join().unwrap();
}
