//! The conduct of a client on the wire, seen by a server that the test plays.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::dial::Dial;
use chancery_client::watch::ErrorKind;
use chancery_client::{Bootstrap, Client, Event, Options, RawWatch, TypeUrl};
use chancery_proto::wire::decode_sotw;

use crate::stage::{Door, door, field, response, within};

fn clusters() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

/// A client of one server that is in memory.
fn client(dial: Arc<dyn Dial>, change: impl FnOnce(&mut Options)) -> Client {
    let channel = ChannelCredentials::Insecure;
    let server = XdsServer { uri: "xds.test:1".to_owned(), channel, ..XdsServer::default() };
    let node = Node { id: "test".to_owned(), ..Node::default() };
    let bootstrap = Bootstrap { servers: vec![server], node, ..Bootstrap::default() };
    let mut options = Options { dial, ..Options::default() };
    options.settings.jitter = 0.0;
    change(&mut options);
    Client::new(&bootstrap, options).unwrap()
}

/// The body that a watch is told of next.
async fn body(watch: &mut RawWatch) -> Bytes {
    match within(watch.next()).await.unwrap() {
        Event::Changed { value: Ok(value), .. } => value.resource.body().clone(),
        other => panic!("{other:?}"),
    }
}

/// The kind of trouble a watch is told of next.
async fn trouble(watch: &mut RawWatch) -> ErrorKind {
    match within(watch.next()).await.unwrap() {
        Event::Changed { value: Err(error), .. } | Event::Ambient { error: Some(error), .. } => {
            error.kind
        }
        other => panic!("{other:?}"),
    }
}

/// C-030: a server that says nothing, not even headers, before it was asked something.
#[tokio::test(start_paused = true)]
async fn the_first_request_waits_for_nothing_and_says_who_asks() {
    let (mut door, dial) = door();
    let client = client(dial, |_| {});
    let mut watch = client.watch_raw(&clusters(), "a");
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    assert!(call.path.ends_with("AggregatedDiscoveryService/StreamAggregatedResources"));
    let request = decode_sotw(&call.heard().await.unwrap()).unwrap();
    let node = request.node.unwrap();
    assert_eq!((node.id.as_str(), node.user_agent_name.as_str()), ("test", "chancery"));
    // C-007
    let features = ["envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw"];
    assert_eq!(*node.client_features, features);
    let cluster = field(1, b"a");
    call.say(&response("1", std::slice::from_ref(&cluster)));
    assert_eq!(body(&mut watch).await, cluster);
    let answer = decode_sotw(&call.heard().await.unwrap()).unwrap();
    assert_eq!((&*answer.nonce, &*answer.version, answer.node), ("1", "7", None));
}

/// C-039: nobody is dialled without a watch, and again after the connection was let go.
#[tokio::test(start_paused = true)]
async fn connections_are_there_while_something_is_watched() {
    let (mut door, dial) = door();
    let client = client(dial, |options| options.settings.idle = Duration::from_secs(300));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(door.waiting(), [""; 0]);
    let watch = client.watch_raw(&clusters(), "a");
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    assert!(call.heard().await.is_some());
    drop(watch);
    let empty = decode_sotw(&call.heard().await.unwrap()).unwrap();
    assert!(empty.names.is_empty());
    let began = tokio::time::Instant::now();
    assert_eq!(call.heard().await, None);
    assert_eq!(began.elapsed().as_secs(), 300);
    assert!(peer.call().await.is_none(), "the connection goes with its last stream");
    let _watch = client.watch_raw(&clusters(), "a");
    assert!(door.peer().await.call().await.is_some());
}

/// C-037: the peer is there, takes what it is sent, and is never heard of again.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_dead_is_noticed() {
    let (mut door, dial) = door();
    let client = client(dial, |options| {
        options.keepalive_interval = Duration::from_secs(60);
        options.keepalive_timeout = Duration::from_secs(7);
    });
    let mut watch = client.watch_raw(&clusters(), "a");
    // The server sends this to begin with, and no more: an empty SETTINGS and the answer to the
    // client's.
    let (_, mut io) = door.next().await;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0];
    tokio::io::AsyncWriteExt::write_all(&mut io, &settings).await.unwrap();
    let began = tokio::time::Instant::now();
    // C-065: nobody heard from the server, and still the resource has its time.
    assert_eq!(trouble(&mut watch).await, ErrorKind::Missing);
    assert_eq!(began.elapsed().as_secs(), 15);
    tokio::time::sleep_until(began + Duration::from_secs(60)).await;
    let mut late = client.watch_raw(&clusters(), "late");
    assert_eq!(trouble(&mut late).await, ErrorKind::Unreachable);
    assert_eq!(began.elapsed().as_secs(), 67);
    assert_eq!(trouble(&mut watch).await, ErrorKind::Unreachable); // C-067
    drop(io);
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    assert!(call.heard().await.is_some());
    call.say(&response("1", &[field(1, b"a")]));
    assert_eq!(body(&mut watch).await, field(1, b"a"));
}

/// C-037: a peer that takes the connection and does not speak HTTP/2.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_made_in_time_is_none() {
    let (mut door, dial) = door();
    let client = client(dial, |options| options.connect_timeout = Duration::from_secs(20));
    let mut watch = client.watch_raw(&clusters(), "a");
    let began = tokio::time::Instant::now();
    let (_, _silent) = door.next().await;
    let error = trouble(&mut watch).await;
    assert_eq!(error, ErrorKind::Unreachable);
    assert!(began.elapsed() >= Duration::from_secs(20));
    assert_eq!(door.next().await.0, "xds.test:1", "it is tried again");
}

/// C-037: far more than the 4 MiB that gRPC reads by default; and a limit that is one's own.
#[tokio::test]
async fn a_large_response_is_read_up_to_the_limit() {
    let large = [field(1, b"a"), field(28, &vec![b'x'; 20 << 20])].concat();
    let (mut door, dial) = door();
    let serve = async |door: &mut Door| {
        let mut peer = door.peer().await;
        let mut call = peer.call().await.unwrap();
        call.heard().await.unwrap();
        call.say(&response("1", std::slice::from_ref(&large)));
        (peer, call)
    };
    let patient = client(Arc::clone(&dial), |_| {});
    let mut watch = patient.watch_raw(&clusters(), "a");
    let _served = serve(&mut door).await;
    assert_eq!(body(&mut watch).await, large);
    let strict = client(dial, |options| options.max_response_bytes = 1 << 20);
    let mut watch = strict.watch_raw(&clusters(), "a");
    let _served = serve(&mut door).await;
    assert_eq!(trouble(&mut watch).await, ErrorKind::Unreachable);
}

/// C-084: whatever a resource names, only servers of the bootstrap are dialled.
#[tokio::test(start_paused = true)]
async fn no_resource_adds_a_server() {
    let (mut door, dial) = door();
    let client = client(dial, |_| {});
    let mut watch = client.watch_raw(&clusters(), "a");
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    call.heard().await.unwrap();
    // A `ConfigSource` of an API that is at another server, by `google_grpc`.
    let google = field(1, b"evil.test:1");
    let service = field(2, &google);
    let api = [vec![0x08, 0x02], field(4, &service)].concat();
    let source = field(2, &api);
    // Everywhere a cluster can name one: for its endpoints, and for the reports of its load.
    let cluster = [field(1, b"a"), field(3, &field(1, &source)), field(42, &source)].concat();
    call.say(&response("1", std::slice::from_ref(&cluster)));
    assert_eq!(body(&mut watch).await, cluster);
    let watches = ["xdstp://evil.test/envoy.config.cluster.v3.Cluster/x", "a", "xdstp:///x/y", "*"]
        .map(|name| client.watch_raw(&clusters(), name));
    assert!(call.heard().await.is_some());
    // The connection is lost and found again, at the same place.
    drop((peer, call));
    assert_eq!(door.next().await.0, "xds.test:1");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(door.waiting().iter().all(|address| address == "xds.test:1"));
    drop(watches);
}
