//! Servers that leave no room, in ways that HTTP/2 allows: what cannot be said to them is an outage,
//! and not a wait without an end.

use std::sync::Arc;
use std::time::Duration;

use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::dial::Dial;
use chancery_client::watch::ErrorKind;
use chancery_client::{Bootstrap, Client, Event, Options, RawWatch, TypeUrl, WatchError};
use h2::server::Builder;
use tokio::time::{Instant, timeout};

use crate::stage::message::{CDS, LDS, cluster};
use crate::stage::{Peer, door, response};

/// A client of one server that is in memory. A server has ten seconds to be connected to.
fn client(dial: Arc<dyn Dial>, aggregated: bool) -> Client {
    let channel = ChannelCredentials::Insecure;
    let server = XdsServer { uri: "xds.test:1".to_owned(), channel, ..XdsServer::default() };
    let node = Node { id: "test".to_owned(), ..Node::default() };
    let bootstrap = Bootstrap { servers: vec![server], node, ..Bootstrap::default() };
    let mut options = Options { dial, aggregated, ..Options::default() };
    options.connect_timeout = LIMIT;
    options.settings.missing_after = LIMIT;
    Client::new(&bootstrap, options).unwrap()
}

/// Returns the next event of a watch, with the name left out.
async fn next(watch: &mut RawWatch) -> Result<(), Arc<WatchError>> {
    match timeout(PATIENCE, watch.next()).await.expect("it is told something").unwrap() {
        Event::Changed { value, .. } => value.map(|_| ()),
        other => panic!("{other:?}"),
    }
}

/// C-065, C-067: nothing can be asked, so nothing is missing.
#[tokio::test(start_paused = true)]
async fn a_server_with_no_window_is_one_that_cannot_be_reached() {
    let (mut door, dial) = door();
    let client = client(dial, true);
    let began = Instant::now();
    let mut watch = client.watch_raw(&TypeUrl::new(CDS), "a");
    let mut none = Builder::new();
    none.initial_window_size(0);
    let peer = Peer::with(none, door.next().await.1);
    let error = next(&mut watch).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.text.contains("window"), "{error}");
    assert!(began.elapsed() <= LIMIT, "{:?}", began.elapsed());
    drop(peer);
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    call.heard().await.unwrap();
    call.say(&response("1", &[cluster("a", "x")]));
    next(&mut watch).await.unwrap();
}

/// C-065, C-067: half a request is none.
#[tokio::test(start_paused = true)]
async fn a_server_that_reads_half_of_a_request_is_one_that_cannot_be_reached() {
    let (mut door, dial) = door();
    let client = client(dial, true);
    let mut watch = client.watch_raw(&TypeUrl::new(CDS), "a");
    let mut little = Builder::new();
    little.initial_window_size(20);
    let mut peer = Peer::with(little, door.next().await.1);
    let _unread = peer.call().await.unwrap();
    let error = next(&mut watch).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
}

/// A window is small and moves on: a request goes through it piece by piece.
#[tokio::test(start_paused = true)]
async fn a_small_window_is_no_outage() {
    let (mut door, dial) = door();
    let client = client(dial, true);
    let mut watch = client.watch_raw(&TypeUrl::new(CDS), &"a".repeat(1000));
    let mut little = Builder::new();
    little.initial_window_size(20);
    let mut peer = Peer::with(little, door.next().await.1);
    let mut call = peer.call().await.unwrap();
    timeout(PATIENCE, call.heard()).await.unwrap().unwrap();
    call.say(&response("1", &[cluster(&"a".repeat(1000), "x")]));
    next(&mut watch).await.unwrap();
}

/// C-042, C-067: the stream of the second type is never there.
#[tokio::test(start_paused = true)]
async fn a_stream_that_the_server_does_not_allow_for_is_one_that_cannot_be_opened() {
    let (mut door, dial) = door();
    let client = client(dial, false);
    let mut one = Builder::new();
    one.max_concurrent_streams(1);
    let mut clusters = client.watch_raw(&TypeUrl::new(CDS), "a");
    let mut peer = Peer::with(one, door.next().await.1);
    let mut call = peer.call().await.unwrap();
    call.heard().await.unwrap();
    call.say(&response("1", &[cluster("a", "x")]));
    next(&mut clusters).await.unwrap();
    let mut listeners = client.watch_raw(&TypeUrl::new(LDS), "b");
    let error = next(&mut listeners).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert!(error.text.contains("allows for 1 at once"), "{error}");
    // A server that allows for it is asked.
    drop((clusters, call, peer));
    let mut peer = timeout(PATIENCE, door.peer()).await.unwrap();
    let mut call = timeout(PATIENCE, peer.call()).await.unwrap().unwrap();
    assert!(call.path.ends_with("StreamListeners"), "{}", call.path);
    timeout(PATIENCE, call.heard()).await.unwrap().unwrap();
}

/// The time that a connection may take, and an answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Far more than anything here takes, of a time that stands still.
const PATIENCE: Duration = Duration::from_secs(600);
