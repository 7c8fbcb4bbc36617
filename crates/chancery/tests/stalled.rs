//! `chancery get` and servers that stall: it ends, within its time, and says who did what.

use std::process::Output;

use bytes::Bytes;
use h2::server::Builder;
use http::{HeaderMap, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_blocking};

use crate::daemon::ports::Port;
use crate::daemon::{chancery, directory, finished};

/// C-065, C-067
#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_nothing_is_an_outage() {
    let mut settings = Builder::new();
    settings.initial_window_size(0);
    let server = Staged::start(settings, Manner::Silent).await;
    for subject in [&["cds"][..], &["cds", "a"], &["cds", "--protocol", "delta"]] {
        let run = server.get(&[subject, &["--timeout", "2s"]].concat()).await;
        assert_eq!(run.status.code(), Some(2), "{}", told(&run));
        assert!(told(&run).contains("window is full"), "{}", told(&run));
    }
}

/// C-042, C-067
#[tokio::test(flavor = "multi_thread")]
async fn a_type_whose_stream_is_not_allowed_for_is_told_and_the_other_is_printed() {
    let mut settings = Builder::new();
    settings.max_concurrent_streams(1);
    let server = Staged::start(settings, Manner::Answers { ends: false }).await;
    let words = ["cds,lds", "--per-type", "-o", "json", "--timeout", "2s", "-v"];
    let run = server.get(&words).await;
    assert_eq!(run.status.code(), Some(2), "{}", told(&run));
    assert_eq!(text(&run.stdout).lines().count(), 1, "{}", text(&run.stdout));
    assert!(told(&run).contains("allows for 1 at once"), "{}", told(&run));
    assert_eq!(told(&run).matches("stream opened").count(), 1, "{}", told(&run));
}

/// C-037, C-067: the streams of a server wait for one connection, and not one after the other for one
/// of their own.
#[tokio::test(flavor = "multi_thread")]
async fn all_streams_hear_that_there_is_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let types = "cds,lds,rds,eds,sds,srds,ecds,rtds";
    let run = get(&[types, "--per-type", "--server", &address, "--timeout", "1s"]).await;
    let expected = format!(
        "chancery: server {address} cannot be reached (node `chancery`): no HTTP/2 within 1s\n"
    );
    assert_eq!((run.status.code(), told(&run)), (Some(2), expected));
}

/// C-044: a poll is no stream.
#[tokio::test(flavor = "multi_thread")]
async fn no_stream_is_opened_by_a_poll() {
    let port = Port::reserve();
    let uri = format!("http://{}", port.address());
    let run = get(&["cds", "--server", &uri, "--timeout", "1s", "-v"]).await;
    assert_eq!(run.status.code(), Some(2), "{}", told(&run));
    assert!(told(&run).contains("cannot reach the server"), "{}", told(&run));
    assert!(!told(&run).contains("stream opened"), "{}", told(&run));
}

/// C-065, C-066: nobody answers, or there is no such resource; and who, to whom, and for how long.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_names_server_node_and_time() {
    let server = Staged::start(Builder::new(), Manner::Silent).await;
    let run = server.get(&["cds", "--node", "me", "--timeout", "1s"]).await;
    let address = &server.address;
    let expected =
        format!("chancery: cds: server {address} (node `me`) gave no answer within 1s\n");
    assert_eq!((run.status.code(), told(&run)), (Some(2), expected));
    let run = server.get(&["eds", "a", "--node", "me", "--timeout", "1s"]).await;
    let expected =
        format!("chancery: eds `a` from {address} (node `me`): it did not come within 1s\n");
    assert_eq!((run.status.code(), told(&run)), (Some(1), expected));
    let bootstrap = json!({"xds_servers": [{
        "server_uri": address,
        "channel_creds": [{"type": "insecure"}],
        "server_features": ["resource_timer_is_transient_error"],
    }]});
    let work = directory(&[("bootstrap.json", &bootstrap.to_string())]);
    let file = work.path().join("bootstrap.json").to_str().unwrap().to_owned();
    for subject in [&["cds"][..], &["eds", "a"]] {
        let words = [subject, &["--bootstrap", &file, "--timeout", "1s"]].concat();
        let run = get(&words).await;
        assert_eq!(run.status.code(), Some(2), "{}", told(&run));
        assert!(told(&run).contains("within 1s"), "{}", told(&run));
    }
}

/// C-044, C-067: the time of the poll and that of the resource are equal, and it is always the same
/// that counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_rest_server_that_does_not_answer_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut kept = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            kept.push(socket);
        }
    });
    for subject in [&["cds"][..], &["eds", "a"], &["cds", "a", "b"]] {
        for _ in 0..3 {
            let words = ["--server", &uri, "--timeout", "500ms"];
            let run = get(&[subject, &words].concat()).await;
            assert_eq!(run.status.code(), Some(2), "{subject:?}: {}", told(&run));
            assert!(told(&run).contains("no answer within 500ms"), "{}", told(&run));
        }
    }
}

/// C-065, C-068: each stream gives the resource its time again, so it would never be over.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_each_stream_after_an_answer_about_something_else_is_told() {
    let server = Staged::start(Builder::new(), Manner::Answers { ends: true }).await;
    let run = server.get(&["cds", "other", "--timeout", "2s", "--per-type"]).await;
    assert_eq!(run.status.code(), Some(2), "{}", told(&run));
    assert!(told(&run).contains("gave no answer within "), "{}", told(&run));
}

/// The manner in which a server treats a stream.
#[derive(Clone, Copy)]
enum Manner {
    /// It reads, and says nothing.
    Silent,
    /// It answers once, and may end the stream.
    Answers { ends: bool },
}

/// A server that is played here.
struct Staged {
    address: String,
    _tasks: JoinSet<()>,
}

impl Staged {
    async fn start(settings: Builder, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let settings = settings.clone();
                connections.spawn(async move {
                    let Ok(mut connection) = settings.handshake(socket).await else { return };
                    let mut open = Vec::new();
                    while let Some(Ok((request, mut respond))) = connection.accept().await {
                        let head = Response::builder().header("content-type", "application/grpc");
                        let mut out = respond.send_response(head.body(()).unwrap(), false).unwrap();
                        if let Manner::Answers { ends } = manner {
                            let path = request.uri().path();
                            out.send_data(answer(path), false).unwrap();
                            if ends {
                                let status = ("grpc-status".parse().unwrap(), 0.into());
                                out.send_trailers(HeaderMap::from_iter([status])).unwrap();
                            }
                        }
                        open.push((request, respond, out));
                    }
                });
            }
        });
        Self { address, _tasks: tasks }
    }

    async fn get(&self, words: &[&str]) -> Output {
        get(&[&["--server", &self.address], words].concat()).await
    }
}

async fn get(words: &[&str]) -> Output {
    let mut command = chancery(&[&["get"], words].concat());
    spawn_blocking(move || finished(&mut command)).await.unwrap()
}

/// One resource of the type of a stream, called `a`.
fn answer(path: &str) -> Bytes {
    let message =
        if path.contains("Cluster") { "cluster.v3.Cluster" } else { "listener.v3.Listener" };
    let type_url = format!("type.googleapis.com/envoy.config.{message}");
    let any = [field(1, type_url.as_bytes()), field(2, &field(1, b"a"))].concat();
    let parts = [field(1, b"7"), field(2, &any), field(4, type_url.as_bytes()), field(5, b"1")];
    let message = parts.concat();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, &message].concat().into()
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    let short = if length < 0x80 { vec![length] } else { vec![length | 0x80, 1] };
    [&[number << 3 | 2][..], &short, content].concat()
}

fn told(run: &Output) -> String {
    text(&run.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
