//! The log of the daemon: nobody waits for its reader, and no peer fills it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use bytes::Bytes;
use chancery_proto::frames::{Messages, framed};
use h2::{RecvStream, SendStream};
use tempfile::TempDir;

use crate::daemon;
use crate::daemon::ports::Port;
use crate::daemon::{
    PATIENCE, Pipe, Running, Server, chancery, cluster, directory, eventually, exchange,
};

/// More than a pipe takes that nobody reads, several times over.
const MUCH: usize = 400 * 1024;

/// A daemon whose log nobody reads, until the test does.
struct Unread {
    child: Running,
    log: Option<Pipe>,
    port: Port,
    admin: Port,
}

impl Unread {
    fn start(dir: &TempDir, flags: &[&str]) -> Self {
        let (port, admin) = (Port::reserve(), Port::reserve());
        let mut command = chancery(&["serve", dir.path().to_str().unwrap()]);
        command.args(["--listen", &port.address(), "--admin", &admin.address()]);
        let mut child = Running::start(command.args(flags).stderr(Stdio::piped()));
        let log = child.stderr.take();
        let unread = Self { child, log, port, admin };
        eventually(|| dial(&unread.admin).is_some_and(|mut io| get(&mut io, "/ready").0 == 200));
        unread
    }

    /// Polls until more has been logged than this, a line of at least a hundred bytes for each.
    fn logs(&self, bytes: usize) {
        for number in 0..bytes / 100 {
            let mut io = dial(&self.port).unwrap();
            // The same client would be held when it asks again.
            let body = format!("{{\"node\": {{\"id\": \"{number}\"}}}}");
            let (status, answer) = exchange(&mut io, "POST /v3/discovery:clusters", &body);
            assert!(status == 200 && answer.contains("\"a\""), "{status} {answer}");
        }
    }

    fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = get(&mut dial(&self.admin).unwrap(), "/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }
}

fn dial(port: &Port) -> Option<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port.number())).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Some(stream)
}

fn get(io: &mut TcpStream, page: &str) -> (u16, String) {
    exchange(io, &format!("GET {page}"), "")
}

#[test]
fn a_log_that_nobody_reads_stops_neither_answers_nor_the_end() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let mut daemon = Unread::start(&dir, &["--log-level", "debug"]);
    daemon.logs(MUCH);
    daemon.child.signal("TERM");
    assert!(daemon.child.wait().unwrap().success());
}

#[test]
fn what_the_protocol_below_warns_of_is_not_logged() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let mut server = Server::start(&dir, &[]);
    let mut io = server.dial(server.port);
    // Answers to pings that were never sent, of which HTTP/2 warns, and then a ping.
    let frame = |kind: u8, flags: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, 0], payload].concat()
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, &[]));
    for _ in 0..1000 {
        bytes.extend(frame(6, 1, b"unwanted"));
    }
    bytes.extend(frame(6, 0, b"the last"));
    io.write_all(&bytes).unwrap();
    io.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut read, mut part) = (Vec::<u8>::new(), [0; 1024]);
    while !read.windows(8).any(|part| part == b"the last") {
        let length = io.read(&mut part).unwrap();
        assert!(length > 0, "it answers");
        read.extend(&part[..length]);
    }
    drop(io);
    server.signal("TERM");
    server.ends_well();
    assert!(!server.log().contains("WARN"), "{}", server.log());
}

#[test]
fn a_log_whose_reader_has_gone_stops_nothing_either() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let mut daemon = Unread::start(&dir, &["--log-level", "debug"]);
    daemon.log = None;
    daemon.logs(10_000);
    eventually(|| daemon.metric("chancery_log_lines_dropped_total") > 50);
    daemon.child.signal("TERM");
    assert!(daemon.child.wait().unwrap().success());
}

#[test]
fn lines_without_room_are_counted_and_the_log_says_how_many() {
    let files =
        [("a.yaml", cluster("a", 1)), ("chancery.yaml", "log: {buffer: 64KiB}\n".to_owned())];
    let dir = directory(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let mut daemon = Unread::start(&dir, &["--log-level", "debug", "--log-format", "json"]);
    daemon.logs(MUCH);
    let dropped = daemon.metric("chancery_log_lines_dropped_total");
    assert!(dropped > 100, "{dropped}");
    daemon.child.signal("TERM");
    let mut log = String::new();
    daemon.log.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(daemon.child.wait().unwrap().success());
    let told: u64 = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["level"] == "WARN")
        .map(|line| line["dropped"].as_u64().unwrap())
        .sum();
    assert!(told >= dropped, "{told} of {dropped} in {log}");
}

#[test]
fn a_failure_is_told_after_the_log() {
    let dir = directory(&[("a.yaml", "nonsense: 1\n")]);
    let mut command = chancery(&["serve", dir.path().to_str().unwrap(), "--log-level", "debug"]);
    let ended = command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).output();
    let told = String::from_utf8(ended.unwrap().stderr).unwrap();
    let logged = told.find("admin interface on").unwrap();
    assert!(logged < told.find("chancery: the configuration has 1 fault").unwrap(), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_rejects_in_a_loop_writes_a_line_and_hides_nobody() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let mut server = Server::start(&dir, &[]);
    let mut noisy = Rejecting::open(&server, "noisy").await;
    let why = "\u{202e}no\n".repeat(100_000);
    noisy.reject(&why).await;
    noisy.is_heard().await;
    for _ in 0..50 {
        let mut again = Rejecting::open(&server, "noisy").await;
        again.reject("no again").await;
        again.is_heard().await;
    }
    let mut honest = Rejecting::open(&server, "honest").await;
    honest.reject("an honest reason: cluster(s) a: wrong").await;
    assert!(server.log_has("an honest reason"));
    server.signal("TERM");
    server.ends_well();
    let log = server.log();
    let of_noisy: Vec<_> = log.lines().filter(|line| line.contains("noisy")).collect();
    let rejected: Vec<_> = of_noisy.iter().filter(|line| line.contains(" rejected ")).collect();
    assert_eq!(rejected.len(), 1, "{of_noisy:#?}");
    assert!(rejected[0].len() < 10_000 && rejected[0].contains("600000 bytes)"), "{rejected:?}");
    assert!(!log.contains('\u{202e}'), "{rejected:?}");
    let place = format!("a ({}:1)", dir.path().join("a.yaml").display());
    let honest = log.lines().find(|line| line.contains("an honest reason")).unwrap();
    assert!(honest.contains(&format!("resources=\"{place}\"")), "{honest}");
    let summary = of_noisy.iter().find(|line| line.contains("more=")).unwrap();
    assert!(summary.contains("more=50"), "{summary}");
}

/// S-138: a client quotes the cluster that it rejects, and the key in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_a_rejected_cluster_is_in_no_line() {
    let unchecked = ("chancery.yaml", "gate: {messages: off}\n");
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("key.yaml", &with_key()), unchecked]);
    let mut server = Server::start(&dir, &["-vv"]);
    let json = serde_json::to_string(KEY).unwrap();
    let octal: String = KEY.bytes().map(|byte| format!("\\{byte:03o}")).collect();
    let reasons = [
        format!("cluster `key` has {KEY} in it"),
        format!("cluster `key` has {json} in it"),
        format!("cluster `key` has {} in it", serde_json::to_string(&json).unwrap()),
        format!("cluster `key` has {octal} in it"),
        format!("{}{KEY} in it", "cluster `key` has ".repeat(50)),
    ];
    for (number, reason) in reasons.iter().enumerate() {
        let mut client = Rejecting::open(&server, &format!("node-{number}")).await;
        client.reject(reason).await;
        client.is_heard().await;
    }
    // The cluster is in the whole state, and was accepted before.
    let mut later = Rejecting::open(&server, "later").await;
    later.acknowledge();
    daemon::dir_write(&dir, "a.yaml", &cluster("a", 2));
    later.response().await;
    later.reject(&reasons[0]).await;
    later.is_heard().await;
    server.signal("TERM");
    server.ends_well();
    let log = server.log();
    let rejected: Vec<_> = log.lines().filter(|line| line.contains(" rejected ")).collect();
    assert_eq!(rejected.len(), reasons.len() + 1, "{log}");
    for line in rejected {
        assert!(line.contains("[redacted]") || line.contains("bytes)"), "{line}");
    }
    for part in ["BEGIN EC PRIVATE", "MHcCAQEEIIrYSSNQ", "FnrZ", &octal[..48]] {
        assert!(!log.contains(part), "{part} in {log}");
    }
}

/// No key of anybody: random digits in the form of one.
const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\n\
                   MHcCAQEEIIrYSSNQFaA2HwfFnrZ5nQv2xkYH6Q0mB4Jb1uYzVd3oAoGCCqGSM49\n\
                   -----END EC PRIVATE KEY-----\n";

/// The cluster `key`, with a private key in it.
fn with_key() -> String {
    let context =
        "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    let key = serde_json::to_string(KEY).unwrap();
    cluster("key", 1)
        + &format!(
            "transport_socket:\n  name: tls\n  typed_config:\n    \"@type\": {context}\n    \
             common_tls_context:\n      tls_certificates:\n      - private_key: \
             {{inline_string: {key}}}\n"
        )
}

/// A stream of a client that rejects the clusters it is sent.
struct Rejecting {
    send: SendStream<Bytes>,
    receive: RecvStream,
    messages: Messages,
    answer: Vec<u8>,
}

impl Rejecting {
    async fn open(server: &Server, node: &str) -> Self {
        let io = tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let (send, connection) = h2::client::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(METHOD).header("content-type", "application/grpc");
        let mut send = send.ready().await.unwrap();
        let (response, mut send) = send.send_request(request.body(()).unwrap(), false).unwrap();
        let node = field(2, &field(1, node.as_bytes()));
        let first = [node, field(4, CLUSTER.as_bytes())].concat();
        send.send_data(framed(&first), false).unwrap();
        let receive = response.await.unwrap().into_body();
        let mut stream =
            Self { send, receive, messages: Messages::new(usize::MAX), answer: Vec::new() };
        stream.response().await;
        stream
    }

    /// Waits for a response, which is answered from now on.
    async fn response(&mut self) {
        let response = self.next().await;
        // The nonce, which is short, follows its tag.
        let at = response.windows(2).position(|two| two[0] == 5 << 3 | 2).unwrap();
        let nonce = &response[at + 2..][..usize::from(response[at + 1])];
        self.answer = [field(4, CLUSTER.as_bytes()), field(5, nonce)].concat();
    }

    fn acknowledge(&mut self) {
        self.send.send_data(framed(&self.answer), false).unwrap();
    }

    async fn reject(&mut self, why: &str) {
        let error = field(6, &[&[1 << 3, 3][..], &field(2, why.as_bytes())].concat());
        let mut rest = framed(&[&*self.answer, &error].concat());
        while !rest.is_empty() {
            self.send.reserve_capacity(rest.len());
            let more = std::future::poll_fn(|cx| self.send.poll_capacity(cx));
            let room = within("a window", more).await.unwrap().unwrap();
            let part = rest.split_to(room.min(rest.len()));
            self.send.send_data(part, false).unwrap();
        }
    }

    /// Waits until the server has read all so far: the answer to a request of another type.
    async fn is_heard(&mut self) {
        self.send.send_data(framed(&field(4, LISTENER.as_bytes())), false).unwrap();
        self.next().await;
    }

    async fn next(&mut self) -> Bytes {
        loop {
            if let Some(message) = self.messages.next().unwrap() {
                return message;
            }
            let chunk = within("a response", self.receive.data()).await.unwrap().unwrap();
            self.receive.flow_control().release_capacity(chunk.len()).unwrap();
            self.messages.push(chunk);
        }
    }
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("no {what}"))
}

/// A length-delimited field.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = value.len();
    while length >= 0x80 {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    [&field, value].concat()
}

const METHOD: &str = "http://test/envoy.service.discovery.v3.AggregatedDiscoveryService/\
                      StreamAggregatedResources";
const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
