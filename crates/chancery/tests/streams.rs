//! The daemon as a streaming client meets it: what moves a stream, and what ends it.
//!
//! The tests of `chancery-server` prove what streams get in general; those here need what only the
//! daemon has: a directory, groups, signals.

use bytes::{Buf, Bytes, BytesMut};
use chancery_proto::frames::framed;
use h2::{RecvStream, SendStream};
use tokio::net::TcpStream;

use crate::daemon::{PATIENCE, Server, cluster, dir_write, directory, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_moves_with_its_group_and_is_not_sent_what_it_has() {
    let dir = directory(&[
        ("base.yaml", &cluster("base", 1)),
        ("groups/canary/c.yaml", &cluster("canary", 1)),
    ]);
    let mut server = Server::start(&dir, &[]);
    let (mut one, mut other) =
        (ClusterStream::open(&server, "one").await, ClusterStream::open(&server, "two").await);
    assert!(!one.response().await.has("canary"));
    assert!(!other.response().await.has("canary"));

    dir_write(&dir, "chancery.yaml", "groups:\n- name: canary\n  match: {id: one}\n");
    assert!(one.response().await.has("canary"));
    assert!(server.log_has("stream moved"));
    // The other one was asked for its group too; the first thing it hears is the next change.
    dir_write(&dir, "base.yaml", &cluster("changed", 1));
    assert!(other.response().await.has("changed"));
    assert!(one.response().await.has("changed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_moves_into_an_overlay_is_never_missing() {
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("b.yaml", &cluster("b", 1))]);
    let server = Server::start(&dir, &[]);
    let mut stream = ClusterStream::open(&server, "n").await;
    assert!(stream.response().await.has("a"));
    for round in 0..5 {
        let own = dir.path().join("nodes/n");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::rename(dir.path().join("a.yaml"), own.join("a.yaml")).unwrap();
        dir_write(&dir, "b.yaml", &cluster(&format!("b{round}"), 1));
        let response = stream.response().await;
        assert!(response.has("a") && response.has(&format!("b{round}")), "round {round}");

        std::fs::rename(own.join("a.yaml"), dir.path().join("a.yaml")).unwrap();
        std::fs::remove_dir_all(&own).unwrap();
        dir_write(&dir, "b.yaml", &cluster(&format!("c{round}"), 1));
        let response = stream.response().await;
        assert!(response.has("a") && response.has(&format!("c{round}")), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_the_server_ends_its_streams_and_itself() {
    // S-139
    let dir =
        directory(&[("a.yaml", &cluster("a", 1)), ("chancery.yaml", "limits: {drain: 0s}\n")]);
    let mut server = Server::start(&dir, &[]);
    let mut stream = ClusterStream::open(&server, "n").await;
    stream.response().await;
    server.signal("TERM");
    stream.end().await;
    assert!(server.log_has("stream closed"));
    server.ends_well();
}

#[tokio::test(flavor = "multi_thread")]
async fn told_twice_the_server_waits_for_nobody() {
    // S-139
    let dir = directory(&[
        ("a.yaml", &cluster("a", 1)),
        ("chancery.yaml", "limits: {drain: 1h, grace: 1h}\n"),
    ]);
    let mut server = Server::start(&dir, &[]);
    let mut stream = ClusterStream::open(&server, "n").await;
    stream.response().await;
    server.signal("TERM");
    eventually(|| {
        server.admin("/ready") == (503, "not ready: the server is stopping\n".to_owned())
    });
    assert!(server.child.try_wait().unwrap().is_none());
    server.signal("TERM");
    assert!(server.log_has("told to stop again"));
    server.ends_well();
}

/// An aggregated stream that asks for all clusters and accepts whatever comes.
struct ClusterStream {
    send: SendStream<Bytes>,
    receive: RecvStream,
    read: BytesMut,
}

/// A response that the client got.
struct Response(Bytes);

impl ClusterStream {
    async fn open(server: &Server, node: &str) -> Self {
        within("a stream to open", Self::opened(server, node)).await
    }

    async fn opened(server: &Server, node: &str) -> Self {
        let io = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        let (send, connection) = h2::client::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(METHOD).header("content-type", "application/grpc");
        let mut send = send.ready().await.unwrap();
        let (response, mut send) = send.send_request(request.body(()).unwrap(), false).unwrap();
        let node = field(2, &field(1, node.as_bytes()));
        send.send_data(framed(&[node, field(4, CLUSTER.as_bytes())].concat()), false).unwrap();
        let receive = response.await.unwrap().into_body();
        Self { send, receive, read: BytesMut::new() }
    }

    /// The next response, which is accepted.
    async fn response(&mut self) -> Response {
        let response = within("a response", self.next()).await.unwrap();
        let accepted = [
            field(1, response.field(1)),
            field(4, CLUSTER.as_bytes()),
            field(5, response.field(5)),
        ];
        self.send.send_data(framed(&accepted.concat()), false).unwrap();
        response
    }

    /// Waits for the end.
    async fn end(&mut self) {
        assert!(within("the end of the stream", self.next()).await.is_none());
    }

    async fn next(&mut self) -> Option<Response> {
        loop {
            if let Some(mut head) = self.read.get(1..5) {
                let length = head.get_u32() as usize;
                if self.read.len() >= 5 + length {
                    self.read.advance(5);
                    return Some(Response(self.read.split_to(length).freeze()));
                }
            }
            let data = self.receive.data().await?.ok()?;
            self.receive.flow_control().release_capacity(data.len()).unwrap();
            self.read.extend_from_slice(&data);
        }
    }
}

async fn within<F: Future>(what: &str, future: F) -> F::Output {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
}

impl Response {
    /// Returns true if a cluster of this name is in it.
    fn has(&self, name: &str) -> bool {
        let named = field(1, name.as_bytes());
        self.0.windows(named.len()).any(|window| window == named)
    }

    /// The first field of this number; all fields of the message are texts or messages.
    fn field(&self, wanted: u64) -> &[u8] {
        let mut rest = &*self.0;
        while !rest.is_empty() {
            let tag = varint(&mut rest);
            let length = varint(&mut rest) as usize;
            let (value, after) = rest.split_at(length);
            if tag >> 3 == wanted {
                return value;
            }
            rest = after;
        }
        &[]
    }
}

/// A length-delimited field of a message.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).ok().filter(|length| *length < 128);
    let mut field = vec![number << 3 | 2, length.expect("the tests send short texts")];
    field.extend_from_slice(value);
    field
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = rest.get_u8();
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

const METHOD: &str = "http://test/envoy.service.discovery.v3.AggregatedDiscoveryService/\
                      StreamAggregatedResources";
const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
