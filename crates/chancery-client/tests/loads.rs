//! Load reports on the wire, heard by a server that the test plays.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_client::bootstrap::{Authority, Locality, Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::dial::Dial;
use chancery_client::load::{Load, LoadError, OrcaReport, ReportedMetrics};
use chancery_client::{Bootstrap, Client, Event, Options, ResourceType};
use chancery_core::client::load::{ClusterSelection, ClusterStats, LoadReport, LoadResponse};
use chancery_proto::wire::{decode_load_report, encode_load_response};

use crate::stage;
use crate::stage::{Call, Door, Peer, door, field, response, within};

const PATH: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

fn server(uri: &str) -> XdsServer {
    let channel = ChannelCredentials::Insecure;
    XdsServer { uri: uri.to_owned(), channel, ..XdsServer::default() }
}

fn bootstrap(uri: &str) -> Bootstrap {
    let node = Node { id: "test".to_owned(), ..Node::default() };
    Bootstrap { servers: vec![server(uri)], node, ..Bootstrap::default() }
}

fn options(dial: Arc<dyn Dial>) -> Options {
    let mut options = Options { dial, ..Options::default() };
    options.settings.jitter = 0.0;
    options
}

fn client(dial: Arc<dyn Dial>) -> Client {
    Client::new(&bootstrap("xds.test:1"), options(dial)).unwrap()
}

fn load(client: &Client, cluster: &str) -> Load {
    client.load(&server("xds.test:1"), cluster, "").unwrap()
}

fn zone(zone: &str) -> Locality {
    Locality { zone: zone.to_owned(), ..Locality::default() }
}

fn all(interval: Duration) -> Vec<u8> {
    encode_load_response(&LoadResponse {
        clusters: ClusterSelection::All,
        interval: Some(interval),
        by_endpoint: false,
    })
    .to_vec()
}

async fn heard(call: &mut Call) -> Option<LoadReport> {
    let message = call.heard().await?;
    Some(decode_load_report(&message).unwrap())
}

/// The only cluster of the next report.
async fn told(call: &mut Call) -> ClusterStats {
    let mut clusters = heard(call).await.unwrap().clusters;
    assert_eq!(clusters.len(), 1, "{clusters:?}");
    clusters.remove(0)
}

/// The next stream of load reports, after its first message.
async fn stream(peer: &mut Peer) -> Call {
    let mut call = peer.call().await.unwrap();
    assert_eq!(call.path, PATH);
    let first = heard(&mut call).await.unwrap();
    assert_eq!(first.node.unwrap().id, "test");
    call
}

async fn peer_of(door: &mut Door, uri: &str) -> Peer {
    let (address, io) = door.next().await;
    assert_eq!(address, uri);
    Peer::over(io)
}

/// C-130, C-007
#[tokio::test(start_paused = true)]
async fn one_stream_is_there_while_a_cluster_reports_whatever_becomes_of_discovery() {
    let (mut door, dial) = door();
    let client = client(dial);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(door.waiting().is_empty(), "nobody reports, and nobody is dialled");
    let (one, two) = (load(&client, "one"), load(&client, "two"));
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    assert_eq!(call.path, PATH);
    assert_eq!(call.headers["content-type"], "application/grpc");
    // Before the server has said anything.
    let first = heard(&mut call).await.unwrap();
    assert_eq!(first.clusters, []);
    let node = first.node.unwrap();
    assert_eq!((node.id.as_str(), node.user_agent_name.as_str()), ("test", "chancery"));
    assert_eq!(*node.client_features, ["envoy.lrs.supports_send_all_clusters"]);
    // Discovery comes and goes on a connection of its own.
    let clusters = chancery_client::TypeUrl::new("envoy.config.cluster.v3.Cluster");
    let watch = client.watch_raw(&clusters, "a");
    let mut discovery = door.peer().await;
    assert!(discovery.call().await.unwrap().path.contains("AggregatedDiscovery"));
    drop((discovery, watch));
    call.say(&all(Duration::from_secs(10)));
    one.dropped(None);
    assert_eq!(told(&mut call).await.dropped, 1);
    let no_node = heard(&mut call).await.unwrap();
    assert_eq!(no_node, LoadReport::default());
    drop(one);
    two.dropped(None);
    assert_eq!(told(&mut call).await.dropped, 1);
    drop(two);
    assert_eq!(heard(&mut call).await, None, "it ends after the last cluster");
    call.end(0);
    assert!(peer.call().await.is_none(), "and the connection with it");
}

/// C-131
#[tokio::test(start_paused = true)]
async fn a_server_may_change_what_it_wants() {
    let (mut door, dial) = door();
    let client = client(dial);
    let (a, b) = (load(&client, "a"), load(&client, "b"));
    let mut peer = door.peer().await;
    let mut call = stream(&mut peer).await;
    let began = tokio::time::Instant::now();
    let named = ClusterSelection::Named(BTreeSet::from(["a".into()]));
    let interval = Some(Duration::from_secs(10));
    call.say(&encode_load_response(&LoadResponse {
        clusters: named,
        interval,
        by_endpoint: false,
    }));
    a.dropped(None);
    b.dropped(None);
    assert_eq!(&*told(&mut call).await.key.cluster, "a");
    assert_eq!(began.elapsed().as_secs(), 10);
    call.say(&all(Duration::from_secs(2)));
    let stats = told(&mut call).await;
    assert_eq!((&*stats.key.cluster, stats.dropped), ("b", 1));
    assert_eq!(began.elapsed().as_secs(), 12);
}

/// C-132, C-135
#[tokio::test(start_paused = true)]
async fn what_is_told_is_what_happened() {
    let (mut door, dial) = door();
    let client = client(dial);
    let metrics = ReportedMetrics::new(["named_metrics.*"]);
    let load = client.load(&server("xds.test:1"), "a", "a.eds").unwrap().with_metrics(metrics);
    let (east, west) = (load.locality(&zone("east")), load.locality(&zone("west")));
    let mut peer = door.peer().await;
    let mut call = stream(&mut peer).await;
    call.say(&all(Duration::from_secs(10)));
    for _ in 0..5 {
        east.started().succeeded();
    }
    east.started().failed();
    drop(west.started());
    let said =
        OrcaReport { named_metrics: [("queue".to_owned(), 3.0)].into(), ..OrcaReport::default() };
    west.started().ended(true, &said);
    let waits = west.started();
    load.dropped(Some("lb"));
    load.dropped(None);
    let stats = told(&mut call).await;
    assert_eq!((&*stats.key.cluster, &*stats.key.service), ("a", "a.eds"));
    let counts = |of: &str| {
        let stats = &stats.localities[&zone(of)];
        [stats.issued, stats.succeeded, stats.errored, stats.in_progress]
    };
    assert_eq!((counts("east"), counts("west")), ([6, 5, 1, 0], [3, 1, 1, 1]));
    let queue = stats.localities[&zone("west")].named["named_metrics.queue"];
    assert_eq!((queue.requests, queue.total), (1, 3.0));
    assert_eq!((stats.dropped, stats.drops["lb"]), (2, 1));
    assert_eq!(stats.interval, Duration::from_secs(10));
    // A call in progress holds the cluster, and so the stream.
    drop((load, east, west));
    let still = told(&mut call).await;
    assert_eq!(still.localities[&zone("west")].in_progress, 1);
    waits.succeeded();
    let last = told(&mut call).await;
    assert_eq!(last.localities[&zone("west")].succeeded, 1);
    assert_eq!(heard(&mut call).await, None);
}

/// C-133: the connection is lost between two reports, and nobody listens for a while.
#[tokio::test(start_paused = true)]
async fn nothing_is_lost_with_a_stream_that_breaks_between_reports() {
    let (mut door, dial) = door();
    let client = client(dial);
    let load = load(&client, "a");
    let east = load.locality(&zone("east"));
    let mut sum = 0;
    let mut counted = 0;
    for round in 1..20 {
        let mut peer = door.peer().await;
        let mut call = stream(&mut peer).await;
        call.say(&all(Duration::from_secs(10)));
        for _ in 0..round {
            for _ in 0..7 {
                east.started().succeeded();
                counted += 1;
            }
            sum += told(&mut call).await.localities[&zone("east")].succeeded;
        }
        // This much is not told on this stream.
        east.started().succeeded();
        counted += 1;
        drop((call, peer));
        // Some that try to report are not let in.
        for _ in 0..round % 3 {
            drop(door.next().await);
        }
    }
    let mut peer = door.peer().await;
    let mut call = stream(&mut peer).await;
    call.say(&all(Duration::from_secs(10)));
    sum += told(&mut call).await.localities[&zone("east")].succeeded;
    assert_eq!(sum, counted);
}

/// C-133: on a real socket, under load. Each drop has a category of its own, so that each is seen
/// to arrive once, or not at all if its report was on its way when the server died.
#[tokio::test]
async fn a_server_that_is_killed_under_load_hears_nothing_twice() {
    const LIVES: usize = 5;
    let listener = stage::listen().await;
    let address = listener.local_addr().unwrap();
    let mut options = options(Arc::new(chancery_client::dial::Sockets));
    options.settings.backoff = Duration::from_millis(20);
    options.settings.backoff_max = Duration::from_millis(100);
    let uri = address.to_string();
    let client = Client::new(&bootstrap(&uri), options).unwrap();
    let load = client.load(&server(&uri), "a", "").unwrap();
    let enough = Arc::new(AtomicBool::new(false));
    let counting = tokio::spawn(count(load.clone(), Arc::clone(&enough)));
    let mut told = Vec::new();
    let mut listener = Some(listener);
    for _ in 1..LIVES {
        let open = match listener.take() {
            Some(open) => open,
            None => tokio::net::TcpListener::bind(address).await.unwrap(),
        };
        let (peer, mut call) = life(&open).await;
        for _ in 0..3 {
            told.extend(categories(&mut call).await);
        }
        drop((open, peer, call));
    }
    let open = tokio::net::TcpListener::bind(address).await.unwrap();
    let (_peer, mut call) = life(&open).await;
    told.extend(categories(&mut call).await);
    enough.store(true, Ordering::Relaxed);
    let counted = within(counting).await.unwrap();
    drop(load);
    // The last word.
    while let Some(report) = within(heard(&mut call)).await {
        told.extend(numbers(report));
    }
    let once: BTreeSet<_> = told.iter().copied().collect();
    assert_eq!(once.len(), told.len(), "something was told twice");
    assert!(counted > 0 && once.last() == Some(&(counted - 1)), "{counted} {:?}", once.last());
    // The numbers that are missing lie together, once for each death.
    let is_missing = |number: &u64| !once.contains(number);
    let gaps = (0..counted)
        .filter(|number| is_missing(number) && !(*number > 0 && is_missing(&(number - 1))));
    assert!(gaps.count() < LIVES);
}

async fn life(listener: &tokio::net::TcpListener) -> (Peer, Call) {
    let (io, _) = within(listener.accept()).await.unwrap();
    let mut peer = Peer::over(io);
    let mut call = within(stream(&mut peer)).await;
    call.say(&all(Duration::from_millis(20)));
    (peer, call)
}

/// Drops calls until it is enough: how many.
async fn count(load: Load, enough: Arc<AtomicBool>) -> u64 {
    let mut pace = tokio::time::interval(Duration::from_millis(1));
    let mut number = 0;
    while !enough.load(Ordering::Relaxed) {
        load.dropped(Some(&number.to_string()));
        number += 1;
        pace.tick().await;
    }
    number
}

/// Of the next report that tells something.
async fn categories(call: &mut Call) -> Vec<u64> {
    loop {
        let numbers = numbers(within(heard(call)).await.unwrap());
        if !numbers.is_empty() {
            return numbers;
        }
    }
}

fn numbers(report: LoadReport) -> Vec<u64> {
    let drops = report.clusters.into_iter().flat_map(|stats| stats.drops);
    let number = |(category, count): (Arc<str>, u64)| {
        assert_eq!(count, 1, "{category}");
        category.parse().unwrap()
    };
    drops.map(number).collect()
}

/// C-133
#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_tells_what_is_left() {
    let (mut door, dial) = door();
    let client = client(dial);
    let load = load(&client, "a");
    let mut peer = door.peer().await;
    let mut call = stream(&mut peer).await;
    call.say(&all(Duration::from_secs(1000)));
    let began = tokio::time::Instant::now();
    load.dropped(None);
    // The test sees that the answer was heard by what follows from it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let closing = tokio::spawn(client.close(Duration::from_secs(60)));
    assert_eq!(told(&mut call).await.dropped, 1);
    assert_eq!(heard(&mut call).await, None);
    call.end(0);
    assert!(within(closing).await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(5));
}

/// C-133: a server that does not end what the client has ended holds nobody up for long.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_end_the_stream_is_left() {
    let (mut door, dial) = door();
    let client = client(dial);
    let load = load(&client, "a");
    let mut peer = door.peer().await;
    let mut call = stream(&mut peer).await;
    drop(load);
    assert_eq!(heard(&mut call).await, None);
    assert!(peer.call().await.is_none());
    let load = self::load(&client, "b");
    let mut peer = door.peer().await;
    stream(&mut peer).await;
    drop(load);
}

/// C-133, C-069
#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_there_is_tried_at_longer_and_longer_waits() {
    let (mut door, dial) = door();
    let client = client(dial);
    let _load = load(&client, "a");
    let mut waits = Vec::new();
    let mut last = tokio::time::Instant::now();
    for _ in 0..30 {
        drop(door.next().await);
        waits.push(last.elapsed());
        last = tokio::time::Instant::now();
    }
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!(waits[29].as_secs(), 120);
    // An answer makes the next failure the first again.
    let mut peer = door.peer().await;
    let mut call = stream(&mut peer).await;
    call.say(&all(Duration::from_secs(10)));
    heard(&mut call).await.unwrap();
    drop((call, peer));
    drop(door.next().await);
    let last = tokio::time::Instant::now();
    let _peer = door.peer().await;
    assert_eq!(last.elapsed().as_secs(), 1);
}

/// C-131: what a server says has to be such an answer.
#[tokio::test(start_paused = true)]
async fn a_server_that_says_something_else_is_asked_again_later() {
    let (mut door, dial) = door();
    let client = client(dial);
    let load = load(&client, "a");
    load.dropped(None);
    let no_interval =
        LoadResponse { clusters: ClusterSelection::All, interval: None, by_endpoint: false };
    for bad in [b"garbage".to_vec(), encode_load_response(&no_interval).to_vec()] {
        let mut peer = door.peer().await;
        let mut call = stream(&mut peer).await;
        call.say(&bad);
        assert_eq!(call.heard().await, None, "nothing is told");
    }
    let mut peer = door.peer().await;
    let mut call = stream(&mut peer).await;
    call.say(&all(Duration::from_secs(10)));
    assert_eq!(told(&mut call).await.dropped, 1);
}

struct UnreadCluster;

impl ResourceType for UnreadCluster {
    const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";
    fn decode(_: &str, _: &bytes::Bytes) -> Result<Self, String> {
        Ok(Self)
    }
}

/// C-134, and `self` of C-081: each authority's clusters report to the server that gave them.
#[tokio::test(start_paused = true)]
async fn clusters_of_two_authorities_report_to_two_servers() {
    let (mut door, dial) = door();
    let mut bootstrap = bootstrap("one.test:1");
    let other = Authority { servers: vec![server("two.test:2")], ..Authority::default() };
    bootstrap.authorities.insert("two".into(), other);
    let client = Client::new(&bootstrap, options(dial)).unwrap();
    let (mut loads, mut kept) = (Vec::new(), Vec::new());
    for (name, uri) in
        [("a", "one.test:1"), ("xdstp://two/envoy.config.cluster.v3.Cluster/a", "two.test:2")]
    {
        let mut watch = client.watch::<UnreadCluster>(name);
        let mut discovery = peer_of(&mut door, uri).await;
        let mut ads = discovery.call().await.unwrap();
        ads.heard().await.unwrap();
        ads.say(&response("1", &[field(1, name.as_bytes())]));
        let Some(Event::Changed { value: Ok(cluster), .. }) = within(watch.next()).await else {
            panic!()
        };
        let server = client.server(cluster.server_id).unwrap();
        assert_eq!(server.uri, uri);
        loads.push(client.load(server, name, "").unwrap());
        let mut peer = peer_of(&mut door, uri).await;
        let mut call = stream(&mut peer).await;
        call.say(&all(Duration::from_secs(10)));
        loads.last().unwrap().dropped(None);
        let stats = told(&mut call).await;
        assert_eq!((&*stats.key.cluster, stats.dropped), (name, 1));
        kept.push((watch, discovery, ads, peer, call));
    }
}

/// C-083, K9: a configuration names a server that the bootstrap does not have.
#[tokio::test(start_paused = true)]
async fn loads_are_reported_to_servers_of_the_bootstrap_alone() {
    let (mut door, dial) = door();
    let client = client(dial);
    let same_place = XdsServer { uri: "xds.test:1".to_owned(), ..XdsServer::default() };
    for forged in [server("evil.test:1"), same_place] {
        let error = client.load(&forged, "a", "").unwrap_err();
        assert_eq!(error, LoadError::Unknown { uri: forged.uri });
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(door.waiting(), [""; 0]);
    let mut rest = bootstrap("http://rest.test:80");
    rest.servers.push(server("file:///nowhere"));
    let client = Client::new(&rest, Options::default()).unwrap();
    for server in &rest.servers {
        let error = client.load(server, "a", "").unwrap_err();
        assert_eq!(error, LoadError::NoStreams { uri: server.uri.clone() });
    }
}
