//! The log of a client: each change, with what it concerns, a bounded number of lines, and no
//! secret.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

mod stage;
mod within;

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::{Bootstrap, Client, Options, ResourceType, TypeUrl};
use stage::{door, field, response, response_of, within};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Clusters whose names begin with `bad` cannot be used.
struct CheckedCluster;

impl ResourceType for CheckedCluster {
    const TYPE_URL: &'static str = "envoy.config.cluster.v3.Cluster";
    fn decode(name: &str, _: &Bytes) -> Result<Self, String> {
        if name.starts_with("bad") { Err("it is bad".to_owned()) } else { Ok(Self) }
    }
}

/// The lines of this crate, as text.
#[derive(Clone, Default)]
struct LogLines(Arc<Mutex<Vec<String>>>);

impl LogLines {
    fn lines(&self, with: &[&str]) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        let has = |line: &&String| with.iter().all(|part| line.contains(part));
        lines.iter().filter(has).cloned().collect()
    }
}

impl Subscriber for LogLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("chancery")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

fn client(dial: Arc<dyn chancery_client::dial::Dial>) -> Client {
    let channel = ChannelCredentials::Insecure;
    let server = XdsServer { uri: "xds.test:1".to_owned(), channel, ..XdsServer::default() };
    let node = Node { id: "me".to_owned(), ..Node::default() };
    let bootstrap = Bootstrap { servers: vec![server], node, ..Bootstrap::default() };
    Client::new(&bootstrap, Options { dial, ..Options::default() }).unwrap()
}

/// C-139
#[tokio::test(start_paused = true)]
async fn each_change_is_a_line_that_says_what_it_concerns() {
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (mut door, dial) = door();
    let client = client(dial);
    let secret = "envoy.extensions.transport_sockets.tls.v3.Secret";
    let _secret = client.watch_raw(&TypeUrl::new(secret), "s");
    let watches = ["good", "bad", "gone"].map(|name| client.watch::<CheckedCluster>(name));
    drop(door.next().await);
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    call.heard().await.unwrap();
    let key = field(5, &field(1, &field(3, b"KEY-MATERIAL")));
    call.say(&response_of(secret, "n1", &[[field(1, b"s"), key].concat()]));
    call.say(&response("n2", &[field(1, b"good"), field(1, b"bad")]));
    tokio::time::sleep(Duration::from_secs(30)).await;
    call.say(&response("n3", &[]));
    tokio::time::sleep(Duration::from_secs(30)).await;
    drop((call, peer));
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(watches);
    let all = ["node=\"me\"", "server=\"xds.test:1\""];
    let one = |parts: &[&str]| {
        let found = log.lines(&[&all[..], parts].concat());
        assert_eq!(found.len(), 1, "{parts:?} in {:#?}", log.lines(&[]));
    };
    one(&["WARN", "cannot reach the server", "; next attempt in 0."]);
    one(&["INFO", "stream opened"]);
    one(&[
        "DEBUG",
        "type_url=\"cds\"",
        "name=\"good\"",
        "version=\"7\"",
        "nonce=\"n2\"",
        "is Acked",
    ]);
    one(&[
        "WARN",
        "type_url=\"cds\"",
        "version=\"7\"",
        "nonce=\"n2\"",
        "rejected",
        "`bad`",
        "it is bad",
    ]);
    one(&["WARN", "type_url=\"cds\"", "name=gone", "did not come in time"]);
    one(&["WARN", "name=\"good\"", "version=\"7\"", "nonce=\"n3\"", "a resource does not exist"]);
    one(&["DEBUG", "type_url=\"sds\"", "name=\"s\"", "nonce=\"n1\"", "is Acked"]);
    one(&["INFO", "stream ended"]);
    assert_eq!(log.lines(&["KEY"]), [""; 0]);
}

/// C-139: a server that says something new all the time does not fill a disk.
#[tokio::test(start_paused = true)]
async fn so_many_lines_are_written_and_the_rest_is_counted() {
    let log = LogLines::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let (mut door, dial) = door();
    let client = client(dial);
    let mut watch = client.watch::<CheckedCluster>("good");
    let mut peer = door.peer().await;
    let mut call = peer.call().await.unwrap();
    call.heard().await.unwrap();
    for number in 0..1000 {
        let other = field(28, number.to_string().as_bytes());
        call.say(&response("n", &[[field(1, b"good"), other].concat()]));
        call.heard().await.unwrap();
        within(watch.next()).await.unwrap();
    }
    assert!(log.lines(&[]).len() <= 200, "{}", log.lines(&[]).len());
    assert!(log.lines(&["is Acked"]).len() > 10);
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop((call, peer));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!log.lines(&["left_out=", "lines were left out"]).is_empty());
}
