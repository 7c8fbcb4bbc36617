//! `chancery status` before clients that tell what they run, and before those that tell nonsense.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use chancery_client::bootstrap::{Node, XdsServer};
use chancery_client::credentials::ChannelCredentials;
use chancery_client::status::StatusServer;
use chancery_client::{Bootstrap, Client, Options, RawWatch, TypeUrl};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::daemon::{
    Running, Server, chancery, cluster, directory, eventually, exchange, finished,
};
use crate::tls::CertificateAuthority;

/// The exit code, the output, and the text on stderr.
fn status(words: &[&str]) -> (Option<i32>, String, String) {
    let admin: &[&str] = if words.contains(&"--admin") { &[] } else { &["--admin", "off"] };
    let done = finished(chancery(&["status"]).args(words).args(admin));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

/// A program that watches clusters, and tells by CSDS what it has.
struct Watcher {
    at: String,
    _watches: Vec<RawWatch>,
    _status: StatusServer,
    _runtime: Runtime,
}

impl Watcher {
    fn new(server: &Server, names: &[&str], reject: Option<&str>) -> Self {
        let channel = ChannelCredentials::Insecure;
        let uri = format!("127.0.0.1:{}", server.port);
        let servers = vec![XdsServer { uri, channel, ..XdsServer::default() }];
        let node = Node { id: "billing-7".to_owned(), ..Node::default() };
        let bootstrap = Bootstrap { servers, node, ..Bootstrap::default() };
        let options = Options { reject: reject.map(str::to_owned), ..Options::default() };
        let runtime = Runtime::new().unwrap();
        let (client, status) = runtime.block_on(async {
            let client = Client::new(&bootstrap, options).unwrap();
            let shown = client.clone();
            let told = move || vec![shown.status()];
            let status = StatusServer::start("127.0.0.1:0".parse().unwrap(), told).await.unwrap();
            (client, status)
        });
        let of = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        let entered = runtime.enter();
        let watches = names.iter().map(|name| client.watch_raw(&of, name)).collect();
        drop(entered);
        let at = status.address().to_string();
        Self { at, _watches: watches, _status: status, _runtime: runtime }
    }
}

#[test]
fn a_program_tells_what_it_runs() {
    let dir = directory(&[("base.yaml", &cluster("orders", 1))]);
    let server = Server::start(&dir, &[]);
    let watcher = Watcher::new(&server, &["orders", "usres"], None);
    let asked = || status(&["--csds", &watcher.at]);
    eventually(|| asked().1.contains("running") && asked().1.contains("server-error"));
    let (code, out, told) = asked();
    assert_eq!((code, told.as_str()), (Some(1), ""));
    let page = include_str!("../../../docs/csds.md");
    let shown: String = out.lines().map(|line| format!("    {line}\n")).collect();
    let version = out.split_whitespace().find(|word| word.len() == 32).unwrap();
    let shown = shown.replace(version, "5e1dd24a8e9ae1b6d9e7b2a7bb1e0d3c");
    let shown = shown.replace(&format!(":{}", server.port), ":18000");
    assert!(page.contains(&shown), "not in docs/csds.md:\n{shown}");
    let (code, out, told) = status(&["--csds", &watcher.at, "-o", "json"]);
    assert_eq!((code, told.as_str()), (Some(1), ""));
    let mut found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["resources"][0]["version"].take(), version);
    let why = found["resources"][1]["error"]["details"].take();
    assert!(why.as_str().unwrap().contains("there is no `usres`"), "{why}");
    let expected = json!({"node": "billing-7", "resources": [
        {"type": "cds", "name": "orders", "version": null, "state": "running"},
        {"type": "cds", "name": "usres", "version": "", "state": "server-error",
         "error": {"details": null}},
    ]});
    assert_eq!(found, expected);
}

#[test]
fn a_program_tells_what_it_rejected() {
    let dir = directory(&[("base.yaml", &cluster("orders", 1))]);
    let server = Server::start(&dir, &[]);
    let watcher = Watcher::new(&server, &["orders"], Some("it has\x1b[31m no weight"));
    let asked = || status(&["--csds", &watcher.at]);
    eventually(|| asked().1.contains("rejected"));
    let (code, out, _) = asked();
    let (before, after) = out.split_once("rejected  ").unwrap();
    let (version, why) = after.split_once(": ").unwrap();
    assert_eq!(version.len(), 32, "{out}");
    assert!(why.contains(r"it has\u{1b}[31m no weight"), "{out}");
    let expected = "\
node: billing-7
TYPE  NAME    VERSION  STATE     ERROR
cds   orders  -        ";
    assert_eq!((code, before), (Some(1), expected), "{out}");
}

#[test]
fn what_runs_is_shown_beside_what_was_sent() {
    let dir = directory(&[("base.yaml", &cluster("orders", 1))]);
    let server = Server::start(&dir, &[]);
    let admin = format!("127.0.0.1:{}", server.admin);
    let good = Watcher::new(&server, &["orders"], None);
    let asked = |at: &str| status(&["--csds", at, "--admin", &admin]);
    eventually(|| asked(&good.at).1.contains("same"));
    let (code, out, told) = asked(&good.at);
    assert_eq!((code, told.as_str()), (Some(0), ""));
    let version = out.split_whitespace().find(|word| word.len() == 32).unwrap();
    let page = include_str!("../../../docs/csds.md");
    let shown: String = out.lines().map(|line| format!("    {line}\n")).collect();
    let shown = shown.replace(version, "5e1dd24a8e9ae1b6d9e7b2a7bb1e0d3c");
    assert!(page.contains(&shown), "not in docs/csds.md:\n{shown}");
    // S-134: the same on both ports, over REST.
    let line = "POST /v3/discovery:client_status";
    let question = r#"{"node_matchers": [{"node_id": {"exact": "billing-7"}}]}"#;
    for port in [server.port, server.admin] {
        let (code, answer) = exchange(&mut server.dial(port), line, question);
        assert_eq!(code, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let resource = &answer["config"][0]["genericXdsConfigs"][0];
        assert_eq!(
            (&resource["name"], &resource["configStatus"]),
            (&json!("orders"), &json!("SYNCED"))
        );
        assert_eq!(resource["xdsConfig"]["name"], "orders");
    }
    drop(good);
    let bad = Watcher::new(&server, &["orders"], Some("no weight"));
    eventually(|| asked(&bad.at).1.contains("rejected"));
    let (code, out, _) = status(&["--csds", &bad.at, "--admin", &admin, "-o", "json"]);
    let found: Value = serde_json::from_str(&out).unwrap();
    let resource = &found["resources"][0];
    assert_eq!((code, &resource["verdict"]), (Some(1), &json!("rejected")), "{out}");
    drop(server);
    let (_, out, told) = asked(&bad.at);
    assert!(
        out.contains("orders") && told.starts_with("not compared with what was sent:"),
        "{told}"
    );
}

#[test]
fn a_server_of_csds_is_asked_over_tls_with_a_certificate() {
    // S-134
    let files = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new(files.path());
    authority.issue("server");
    authority.issue("client");
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(path);
    let flags = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca];
    let dir =
        directory(&[("base.yaml", &cluster("orders", 1)), ("chancery.yaml", "csds: certified\n")]);
    let server = Server::start(&dir, &flags);
    let (cert, key) = (path("client.pem"), path("client.key"));
    let at = format!("localhost:{}", server.port);
    let identity = ["--ca", &ca, "--cert", &cert, "--key", &key];
    let words = ["watch", "cds", "--server", &at, "--node", "billing-7", "--admin", "off"];
    let client = &mut chancery(&[&words[..], &identity].concat());
    let _client = Running::start(client.stdout(Stdio::null()).stderr(Stdio::null()));
    let asked = |flags: &[&str]| status(&[&["--csds", &at], flags].concat());
    eventually(|| asked(&identity).1.contains("running"));
    let (code, out, told) = asked(&identity);
    assert_eq!((code, told.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("node: billing-7\n") && out.contains("cds   orders"), "{out}");
    let (code, _, told) = asked(&["--tls", "--ca", &ca]);
    assert_eq!(code, Some(2), "it wants to know who asks: {told}");
    let (code, _, told) = asked(&[]);
    assert!(code == Some(2) && told.contains("hint: if the server speaks TLS, `--tls`"), "{told}");
    let (code, _, told) = asked(&["--token", &key]);
    assert!(code == Some(64) && told.contains("`--token` needs TLS"), "{told}");
    // The flags are for CSDS: an Envoy has no TLS on its admin port.
    assert_eq!(status(&["--envoy", &at, "--ca", &ca]).0, Some(64));
    assert_eq!(status(&["--ca", &ca]).0, Some(64));
}

/// The address of a server that answers each connection with this text, and ends it; or never answers.
fn answering(text: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; 1024];
            if text.is_empty() {
                // The client ends the connection.
                while stream.read(&mut request).is_ok_and(|read| read > 0) {}
            } else if stream.read(&mut request).is_ok() {
                stream.write_all(text.as_bytes()).ok();
            }
        }
    });
    address
}

/// The answer of an HTTP server.
fn page(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn an_answer_is_bounded_in_bytes_and_in_time() {
    let dump = page(r#"{"configs": []}"#);
    let (code, out, told) = status(&["--envoy", &answering(dump.clone())]);
    assert_eq!((code, told.as_str()), (Some(0), ""), "{out}");
    let (code, out, told) = status(&["--envoy", &answering(dump), "--running-max", "10"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(told.contains("more than 10 bytes (`--running-max`)"), "{told}");
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned();
    let (code, _, told) = status(&["--envoy", &answering(cut)]);
    assert_eq!(code, Some(2), "{told}");
    for flag in ["--envoy", "--csds"] {
        let silent = answering(String::new());
        let (code, out, told) = status(&[flag, &silent, "--running-timeout", "300ms"]);
        assert_eq!((code, out.as_str()), (Some(2), ""));
        assert!(told.contains("within 300ms"), "{told}");
    }
}

#[test]
fn what_an_answer_says_is_printed_as_text() {
    let body = json!({"configs": [{"dynamic_active_clusters": [
        {"version_info": "1\u{1b}[2J", "cluster": {"name": "a\nb"}}]}]});
    let (code, out, _) = status(&["--envoy", &answering(page(&body.to_string()))]);
    let expected = "\
node: not stated
TYPE  NAME  VERSION     STATE    ERROR
cds   a\\nb  1\\u{1b}[2J  running
";
    assert_eq!((code, out.as_str()), (Some(0), expected));
    let nonsense = answering(page("<html>\u{1b}[2J"));
    let (code, _, told) = status(&["--envoy", &nonsense]);
    assert_eq!(code, Some(2));
    assert!(told.contains(r"shows no configuration of an Envoy, but `<html>\u{1b}[2J`"), "{told}");
    let (code, _, told) = status(&["--csds", &answering(page("no gRPC"))]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("for its CSDS"), "{told}");
}

#[test]
fn an_address_that_is_none_is_misuse() {
    for words in
        [&["--envoy", "http://a:1"][..], &["--csds", "a"], &["--envoy", "a:1", "--group", "b"]]
    {
        let (code, _, told) = status(words);
        assert_eq!(code, Some(64), "{told}");
    }
}
