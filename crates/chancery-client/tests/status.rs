//! The state of a client: in the program, over CSDS, and in numbers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::dial::Dial;
use chancery_client::status::{ClientConfig, GenericXdsConfig, ResourceState, StatusServer};
use chancery_client::{
    Bootstrap, Client, Clients, Event, Options, RawWatch, ResourceType, TypeUrl,
};
use chancery_proto::frames::{Messages, framed};
use chancery_proto::wire::decode_client_status;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::stage::{Call, Door, Peer, door, field, response, response_of, within};

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const ENDPOINTS: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";
const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";
const SERVICE: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService";

/// Clusters whose names begin with `bad` cannot be used.
struct CheckedCluster;

impl ResourceType for CheckedCluster {
    const TYPE_URL: &'static str = CLUSTER;
    fn decode(name: &str, body: &Bytes) -> Result<Self, String> {
        if name.starts_with("bad") || body.len() > 55 {
            Err("it is bad".to_owned())
        } else {
            Ok(Self)
        }
    }
}

fn server(uri: &str) -> XdsServer {
    let channel = ChannelCredentials::Insecure;
    XdsServer { uri: uri.to_owned(), channel, ..XdsServer::default() }
}

fn bootstrap(server: XdsServer) -> Bootstrap {
    let node = Node { id: "test".to_owned(), ..Node::default() };
    Bootstrap { servers: vec![server], node, ..Bootstrap::default() }
}

fn options(dial: Arc<dyn Dial>) -> Options {
    let mut options = Options { dial, ..Options::default() };
    options.settings.jitter = 0.0;
    options
}

fn cluster(name: &str) -> Vec<u8> {
    field(1, name.as_bytes())
}

/// The next stream of discovery, after its first request.
async fn stream(door: &mut Door) -> (Peer, Call) {
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    call.heard().await.unwrap();
    (peer, call)
}

#[track_caller]
fn find<'a>(status: &'a ClientConfig, name: &str) -> &'a GenericXdsConfig {
    let mut all = status.generic_xds_configs.iter();
    all.find(|resource| &*resource.name == name).unwrap_or_else(|| panic!("no {name}: {status:?}"))
}

/// The state of a resource, as text: state, version, whether there is a body, and the error.
fn shown(resource: &GenericXdsConfig) -> String {
    let state = resource.client_status.map_or_else(String::new, |state| format!("{state:?}"));
    let body = if resource.xds_config.is_some() { "held" } else { "none" };
    let error = resource.error_state.as_ref().map_or("", |error| &error.details);
    format!("{state} {}/{body} {error}", resource.version_info)
}

/// C-136, C-139, C-061
#[tokio::test(start_paused = true)]
async fn every_state_of_a_resource_is_shown() {
    let (mut door, dial) = door();
    let client = Client::new(&bootstrap(server("xds.test:1")), options(dial)).unwrap();
    let mut watches: Vec<_> = ["a", "bad", "gone", "refused", "worse"]
        .map(|name| client.watch::<CheckedCluster>(name))
        .into();
    let empty = client.status();
    assert_eq!(shown(find(&empty, "a")), "Requested /none ");
    assert_eq!(find(&empty, "a").last_updated, None);
    let node = empty.node.as_ref().unwrap();
    assert_eq!((node.id.as_str(), node.user_agent_name.as_str()), ("test", "chancery"));
    assert!(node.client_features.iter().any(|it| it == "xds.config.resource-in-sotw"));
    assert_eq!(empty.client_scope, "");
    let (_peer, mut call) = stream(&mut door).await;
    // The resource that the server refuses is named in `resource_errors`.
    let why = [vec![0x08, 7], field(2, b"not yours")].concat();
    let error = [field(1, &field(1, b"refused")), field(2, &why)].concat();
    let good = [cluster("a"), cluster("worse"), cluster("bad")];
    call.say(&[response("1", &good), field(7, &error)].concat());
    for at in [0, 1, 3, 4] {
        within(watches[at].next()).await.unwrap();
    }
    call.heard().await.unwrap();
    // A good value stays when the next one is bad.
    let long = [cluster("worse"), field(28, &[b'x'; 60])].concat();
    let mut second = response("2", &[cluster("a"), long]);
    second.splice(2..3, *b"8");
    call.say(&[second, field(7, &error)].concat());
    call.heard().await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let status = client.status();
    assert_eq!(shown(find(&status, "a")), "Acked 8/held ");
    assert_eq!(find(&status, "a").xds_config.as_deref(), Some(&cluster("a")[..]));
    assert_eq!(find(&status, "a").type_url, TypeUrl::new(CLUSTER));
    assert!(shown(find(&status, "bad")).starts_with("Nacked /none"), "{status:?}");
    assert!(shown(find(&status, "worse")).starts_with("Nacked 7/held"), "{status:?}");
    assert!(shown(find(&status, "gone")).starts_with("DoesNotExist /none"), "{status:?}");
    assert!(shown(find(&status, "refused")).starts_with("ReceivedError /none"), "{status:?}");
    assert!(shown(find(&status, "refused")).contains("not yours"), "{status:?}");
    let failure = find(&status, "worse").error_state.as_ref().unwrap();
    assert_eq!(failure.version_info, "8");
    assert!(failure.details.contains("it is bad"), "{}", failure.details);
    // Twenty seconds ago, and a little more.
    for at in [failure.last_update_attempt, find(&status, "a").last_updated] {
        let ago = SystemTime::now().duration_since(at.unwrap()).unwrap();
        assert!((20..60).contains(&ago.as_secs()), "{ago:?}");
    }
    // The same as in the program.
    let all = client.resources();
    assert_eq!(all.len(), status.generic_xds_configs.len());
    for resource in all {
        let shown = find(&status, resource.name.as_str());
        assert_eq!(shown.client_status, Some(resource.state));
        let cached = resource.cached.as_ref();
        assert_eq!(shown.xds_config.as_ref(), cached.map(|cached| cached.resource.body()));
    }
}

/// C-136: a server whose silence means nothing.
#[tokio::test(start_paused = true)]
async fn a_resource_that_did_not_come_in_time_is_shown_so() {
    let (mut door, dial) = door();
    let mut server = server("xds.test:1");
    server.features.resource_timer_is_transient_error = true;
    let client = Client::new(&bootstrap(server), options(dial)).unwrap();
    let mut watch = client.watch::<CheckedCluster>("late");
    let (_peer, _call) = stream(&mut door).await;
    within(watch.next()).await.unwrap();
    assert_eq!(find(&client.status(), "late").client_status, Some(ResourceState::Timeout));
}

/// S-138: what is secret stays with the client, and everything else is as it came.
#[tokio::test(start_paused = true)]
async fn secrets_are_not_shown() {
    let (mut door, dial) = door();
    let client = Client::new(&bootstrap(server("xds.test:1")), options(dial)).unwrap();
    let mut secret = client.watch_raw(&TypeUrl::new(SECRET), "s");
    let (_peer, mut call) = stream(&mut door).await;
    // A `GenericSecret` with an inline text.
    let generic = field(5, &field(1, &field(3, b"KEY")));
    let body = [field(1, b"s"), generic].concat();
    call.say(&response_of(SECRET, "1", std::slice::from_ref(&body)));
    secret.next().await.unwrap();
    let status = client.status();
    let shown = find(&status, "s").xds_config.as_deref().unwrap();
    assert!(!shown.windows(3).any(|part| part == b"KEY"), "{shown:?}");
    assert!(shown.starts_with(&field(1, b"s")), "{shown:?}");
}

/// One connection to a server of CSDS.
struct Asker {
    sender: SendRequest<Bytes>,
    _connection: JoinSet<()>,
}

/// The end of a call, and its messages.
struct CallAnswer {
    messages: Vec<Bytes>,
    status: String,
}

impl Asker {
    async fn connect(address: SocketAddr) -> Self {
        let io = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = within(h2::client::handshake(io)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ = connection.await;
        });
        Self { sender, _connection: tasks }
    }

    /// Asks all of it, and hears all of the answer.
    async fn ask(&self, method: &str, questions: &[&[u8]]) -> CallAnswer {
        let request = Request::post(format!("http://localhost{SERVICE}/{method}"))
            .header("content-type", "application/grpc");
        let mut sender = within(self.sender.clone().ready()).await.unwrap();
        let (response, mut out) = sender.send_request(request.body(()).unwrap(), false).unwrap();
        for question in questions {
            out.send_data(framed(question), false).unwrap();
        }
        out.send_data(Bytes::new(), true).unwrap();
        let (head, mut body) = within(response).await.unwrap().into_parts();
        let mut messages = Messages::new(usize::MAX);
        let mut all = Vec::new();
        while let Some(chunk) = within(body.data()).await {
            let chunk = chunk.unwrap();
            body.flow_control().release_capacity(chunk.len()).unwrap();
            messages.push(chunk);
            all.extend(std::iter::from_fn(|| messages.next().unwrap()));
        }
        assert!(messages.is_between());
        let trailers = within(body.trailers()).await.unwrap();
        CallAnswer { messages: all, status: status(trailers.as_ref().unwrap_or(&head.headers)) }
    }

    async fn status(&self, method: &str, questions: &[&[u8]]) -> Vec<Vec<ClientConfig>> {
        let answer = self.ask(method, questions).await;
        assert_eq!(answer.status, "0");
        answer.messages.iter().map(|message| decode_client_status(message).unwrap()).collect()
    }
}

fn status(headers: &HeaderMap) -> String {
    headers["grpc-status"].to_str().unwrap().to_owned()
}

/// C-136: over a socket.
#[tokio::test]
async fn whoever_asks_is_told_once_or_as_often() {
    let (mut door, dial) = door();
    let client = Client::new(&bootstrap(server("xds.test:1")), options(dial)).unwrap();
    let mut watch = client.watch::<CheckedCluster>("a");
    let shown = client.clone();
    let csds = StatusServer::start(free(), move || vec![shown.status()]).await.unwrap();
    let asker = Asker::connect(csds.address()).await;
    let [before] = &asker.status("FetchClientStatus", &[b""]).await[..] else { panic!() };
    assert_eq!(find(&before[0], "a").client_status, Some(ResourceState::Requested));
    let (_peer, mut call) = within(stream(&mut door)).await;
    // Far more than fits into a window of HTTP/2.
    let many: Vec<_> = (0..4000).map(|number| format!("{number:0>30}")).collect();
    let mut watches: Vec<RawWatch> =
        many.iter().map(|name| client.watch_raw(&TypeUrl::new(CLUSTER), name)).collect();
    let mut bodies = vec![cluster("a")];
    bodies.extend(many.iter().map(|name| cluster(name)));
    call.say(&response("1", &bodies));
    let Some(Event::Changed { value: Ok(_), .. }) = within(watch.next()).await else { panic!() };
    for watch in &mut watches {
        within(watch.next()).await.unwrap();
    }
    // The second question is for less.
    let answers = asker.status("StreamClientStatus", &[b"", &[0x18, 1], b""]).await;
    let [first, second, third] = &answers[..] else { panic!("{} answers", answers.len()) };
    assert!(states(first) == states(third), "the same again");
    assert_eq!(first[0].generic_xds_configs.len(), 4001);
    assert_eq!(find(&first[0], "a").xds_config.as_deref(), Some(&cluster("a")[..]));
    let less = find(&second[0], "a");
    assert_eq!((less.client_status, &less.xds_config), (Some(ResourceState::Acked), &None));
    assert_eq!(asker.status("StreamClientStatus", &[]).await.len(), 0);
    drop(csds);
}

/// All of it but the times, which are told by another clock than they are kept by.
fn states(clients: &[ClientConfig]) -> Vec<(String, String, Option<Bytes>)> {
    let all = clients.iter().flat_map(|client| &client.generic_xds_configs);
    all.map(|it| (it.name.to_string(), shown(it), it.xds_config.clone())).collect()
}

/// C-136
#[tokio::test]
async fn a_question_that_cannot_be_answered_is_told_why() {
    let csds = StatusServer::start(free(), Vec::new).await.unwrap();
    let asker = Asker::connect(csds.address()).await;
    let cases: [(&str, &[&[u8]], &str); 6] = [
        ("FetchClientStatus", &[&[0x0a, 0]], "3"),
        ("StreamClientStatus", &[&[0x0a, 0]], "3"),
        ("FetchClientStatus", &[], "13"),
        ("FetchClientStatus", &[b"garbage"], "13"),
        ("StreamClientStatus", &[&[0; 70_000]], "13"),
        ("Other", &[b""], "12"),
    ];
    for (method, questions, status) in cases {
        let answer = asker.ask(method, questions).await;
        assert_eq!((answer.status.as_str(), answer.messages.len()), (status, 0), "{method}");
    }
    // And the connection serves on.
    assert_eq!(asker.status("FetchClientStatus", &[b""]).await, [vec![]]);
}

/// C-136, C-058: the clients of a process, each with what it is for.
#[tokio::test(start_paused = true)]
async fn each_client_of_a_process_says_what_it_is_for() {
    let (_door, dial) = door();
    let clients = Clients::new(bootstrap(server("xds.test:1")), options(dial)).unwrap();
    let targets = ["xds:///one", "xds:///two"].map(|target| target.parse().unwrap());
    let [one, two] = targets.map(|target| clients.for_target(&target).unwrap());
    let servers = clients.for_servers().unwrap();
    let watches = [&one, &two, &servers].map(|client| client.watch::<CheckedCluster>("a"));
    let scopes = |all: &[ClientConfig]| -> Vec<String> {
        all.iter().map(|client| client.client_scope.clone()).collect()
    };
    assert_eq!(scopes(&clients.status()), ["xds:///one", "xds:///two", "#server"]);
    let same = ClientConfig { client_scope: String::new(), ..clients.status()[2].clone() };
    assert_eq!(same, servers.status());
    assert!(clients.status().iter().all(|client| client.generic_xds_configs.len() == 1));
    drop((two, watches));
    assert_eq!(scopes(&clients.status()), ["xds:///one", "#server"]);
}

/// C-137, C-086: the numbers of a scripted outage and a rejection.
#[tokio::test(start_paused = true)]
async fn failures_updates_and_states_are_counted() {
    let (mut door, dial) = door();
    let mut bootstrap = bootstrap(server("xds.test:1"));
    bootstrap.authorities.insert("b".into(), chancery_client::bootstrap::Authority::default());
    let client = Client::new(&bootstrap, options(dial)).unwrap();
    let connected = || client.metrics().connected.get("xds.test:1").copied();
    let failures = || client.metrics().server_failure["xds.test:1"];
    assert_eq!((connected(), failures()), (None, 0));
    let named = "xdstp://b/envoy.config.cluster.v3.Cluster/c";
    let mut watches = ["a", "bad", named]
        .map(|name| client.watch::<CheckedCluster>(name))
        .into_iter()
        .collect::<Vec<_>>();
    let mut raw = client.watch_raw(&TypeUrl::new(ENDPOINTS), "e");
    assert_eq!(connected(), Some(true), "nothing speaks against it yet");
    // Two failures in a row are one: it was not healthy between them.
    drop(door.next().await);
    within(watches[0].next()).await.unwrap();
    assert_eq!((connected(), failures()), (Some(false), 1));
    drop(door.next().await);
    let (peer, mut call) = stream(&mut door).await;
    assert_eq!((connected(), failures()), (Some(false), 1), "it has not said anything");
    call.say(&response("1", &[cluster("a"), cluster("bad"), cluster(named)]));
    while !matches!(within(watches[2].next()).await, Some(Event::Changed { value: Ok(_), .. })) {}
    assert_eq!(connected(), Some(true));
    call.say(&response("2", &[cluster("a"), cluster("bad"), cluster(named)]));
    while !within(call.heard()).await.unwrap().windows(3).any(|part| part == [0x2a, 1, b'2']) {}
    let metrics = client.metrics();
    let updates =
        |all: &std::collections::BTreeMap<chancery_client::metrics::UpdateLabels, u64>| {
            let text = |(labels, count): (&chancery_client::metrics::UpdateLabels, &u64)| {
                format!("{} {} {count}", labels.server, labels.resource_type)
            };
            all.iter().map(text).collect::<Vec<_>>()
        };
    assert_eq!(updates(&metrics.resource_updates_valid), [format!("xds.test:1 {CLUSTER} 4")]);
    assert_eq!(updates(&metrics.resource_updates_invalid), [format!("xds.test:1 {CLUSTER} 2")]);
    let resources = metrics.resources.iter().map(|(labels, count)| {
        format!("{} {} {} {count}", labels.authority, labels.cache_state, labels.resource_type)
    });
    let expected = [
        format!("#old acked {CLUSTER} 1"),
        format!("#old nacked {CLUSTER} 1"),
        format!("#old requested {ENDPOINTS} 1"),
        format!("b acked {CLUSTER} 1"),
    ];
    assert_eq!(resources.collect::<Vec<_>>(), expected);
    // A stream that ends after a response is no failure.
    drop((peer, call));
    let again = stream(&mut door).await;
    assert_eq!((connected(), failures()), (Some(true), 1));
    // One that ends without any is.
    drop(again);
    drop(door.next().await);
    while connected() == Some(true) {
        within(raw.next()).await.unwrap();
    }
    assert_eq!((connected(), failures()), (Some(false), 2));
}

/// A free port, below those of outgoing connections.
fn free() -> SocketAddr {
    let start = std::process::id() % 12_000;
    let mut ports =
        (0..12_000).map(|step| ([127, 0, 0, 1], 20_000 + ((start + step) % 12_000) as u16).into());
    let is_free = |address: &SocketAddr| std::net::TcpListener::bind(address).is_ok();
    ports.find(is_free).expect("a port is free")
}
