//! `chancery get` against servers of this project: what it prints is exact, and what does not come
//! is told.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Output, Stdio};

use chancery_core::{Resource, Snapshot, TypeUrl};
use chancery_testkit::{TestEventKind, TestServer};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon;
use crate::daemon::ports::Port;
use crate::daemon::{Running, Server, chancery, cluster, dir_write, directory, finished};

/// A server with this serves what Envoy would reject.
const UNCHECKED: &str = "gate: {messages: off}\n";

#[test]
fn rest_servers_and_files_are_asked_too() {
    let site = Site::new(&[("a", 1), ("b", 2)]);
    let expected = out(&site.get(&["cds", "-o", "json"]));
    let expected: Vec<_> = expected.lines().map(|line| object(line)["resource"].clone()).collect();
    let rest = format!("http://{}", site.address());
    let file = format!("file:{}", site.dir.path().join("cds.yaml").display());
    for uri in [rest, file] {
        for names in [&[][..], &["a", "b"]] {
            let words = ["cds", "--server", &uri, "-o", "json"];
            let found = out(&get(&[&words, names].concat()));
            let found: Vec<_> =
                found.lines().map(|line| object(line)["resource"].clone()).collect();
            assert_eq!(found, expected, "{uri}");
        }
        let gone = get(&["cds", "gone", "--server", &uri, "--timeout", "300ms"]);
        assert_eq!(gone.status.code(), Some(1), "{uri}: {}", err(&gone));
    }
    let file = format!("file:{}", site.dir.path().display());
    let no_file = get(&["lds", "--server", &file]);
    assert_eq!(no_file.status.code(), Some(1), "{}", err(&no_file));
    assert!(err(&no_file).contains("there is no file `lds`"), "{}", err(&no_file));
    let away = get(&["cds", "--server", "http://127.0.0.1:1"]);
    assert_eq!(away.status.code(), Some(2), "{}", err(&away));
}

/// All ways to ask over gRPC.
const WAYS: [&[&str]; 4] = [
    &["--protocol", "sotw"],
    &["--protocol", "delta"],
    &["--protocol", "sotw", "--per-type"],
    &["--protocol", "delta", "--per-type"],
];

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

#[test]
fn resources_are_listed_in_every_way_to_ask() {
    let site = Site::new(&[("a", 1), ("bb", 2)]);
    for way in WAYS {
        let run = site.get(&[&["cds"], way].concat());
        let text = out(&run);
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[0], ["TYPE", "NAME", "VERSION", "BYTES", "SERVER"], "{text}");
        assert_eq!(lines[1][..2], ["cds", "a"], "{text}");
        assert_eq!((lines[2][1], lines[2][4]), ("bb", site.address().as_str()), "{text}");
        assert_eq!((lines.len(), err(&run).as_str()), (3, ""));
    }
}

#[test]
fn json_has_one_object_in_each_line() {
    let site = Site::new(&[("a", 1), ("b", 2)]);
    for way in WAYS {
        let run = site.get(&[&["cds", "b", "-o", "json"], way].concat());
        let line = out(&run);
        let version = object(&line)["version"].as_str().unwrap().to_owned();
        assert!(!version.is_empty());
        let expected = format!(
            "{{\"type\":\"{CLUSTER}\",\"name\":\"b\",\"version\":\"{version}\",\"resource\":\
             {{\"@type\":\"{CLUSTER}\",\"name\":\"b\",\"connect_timeout\":\"2s\"}}}}\n"
        );
        assert_eq!(line, expected);
    }
}

#[test]
fn what_is_printed_can_be_served() {
    let site = Site::new(&[("a", 1), ("b", 2)]);
    let expected = out(&site.get(&["cds", "-o", "json"]));
    for (format, file) in [("yaml", "a.yaml"), ("text", "a.pb_text"), ("binary", "a.pb")] {
        let printed = site.get(&["cds", "-o", format]).stdout;
        let dir = directory(&[]);
        std::fs::write(dir.path().join(file), printed).unwrap();
        let other = Site { server: Server::start(&dir, &[]), dir };
        assert_eq!(out(&other.get(&["cds", "-o", "json"])), expected, "{format}");
    }
}

#[test]
fn yaml_is_a_document_for_each() {
    let site = Site::new(&[("a", 1), ("b", 2)]);
    let text = out(&site.get(&["cds", "-o", "yaml"]));
    let documents: Vec<_> = text.split("---\n").collect();
    let (comment, body) = documents[1].split_once('\n').unwrap();
    assert!(comment.starts_with("# cds b, version "), "{text}");
    assert!(comment.ends_with(&format!(", from {}", site.address())), "{text}");
    assert_eq!(body, format!("\"@type\": {CLUSTER}\nname: b\nconnect_timeout: 2s\n"));
    assert_eq!(documents.len(), 2);
}

#[test]
fn types_are_named_short_or_in_full_and_several_at_once() {
    let site = Site::new(&[("a", 1)]);
    for kind in ["cds", CLUSTER, "envoy.config.cluster.v3.Cluster", "lds,cds", "cds,eds"] {
        let found = out(&site.get(&[kind, "-o", "json"]));
        assert_eq!(object(&found)["name"], "a", "{kind}");
    }
    let nothing = site.get(&["lds"]);
    assert_eq!((out(&nothing).as_str(), err(&nothing).as_str()), ("", "no resources\n"));
}

#[test]
fn a_resource_that_does_not_exist_is_told_by_its_name() {
    let site = Site::new(&[("a", 1)]);
    for way in WAYS {
        let run =
            site.get(&[&["cds", "a", "gone", "-o", "json", "--timeout", "300ms"], way].concat());
        assert_eq!(object(&text(&run.stdout))["name"], "a", "what is there is printed");
        assert_eq!(run.status.code(), Some(1));
        assert!(err(&run).starts_with("chancery: cds `gone` "), "{}", err(&run));
        let run = site.get(&[&["cds", "x", "y", "--timeout", "300ms"], way].concat());
        assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(1), ""));
        let told = err(&run);
        assert!(told.contains("cds `x` ") && told.contains("cds `y` "), "{told}");
        assert!(told.ends_with("chancery: 2 of 2 did not come\n"), "{told}");
    }
}

#[test]
fn nobody_there_is_a_failure() {
    let port = Port::reserve();
    let free = port.address();
    for subject in [&["cds"][..], &["cds", "a", "b"], &["eds", "a", "--per-type"]] {
        let run = get(&[&["--server", &free], subject].concat());
        assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(2), ""));
        let told = err(&run);
        assert!(told.starts_with(&format!("chancery: server {free} cannot be reached")), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn a_server_that_says_nothing_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let run = get(&["cds", "--server", &address, "--timeout", "200ms"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(err(&run).contains("200ms"), "{}", err(&run));
}

#[test]
fn another_server_is_asked_when_the_first_is_away() {
    let port = Port::reserve();
    let free = port.address();
    let site = Site::new(&[("a", 1)]);
    let run = get(&["cds", "--server", &free, "--server", &site.address(), "-o", "json"]);
    assert_eq!(object(&out(&run))["name"], "a");
}

#[test]
fn groups_are_found_by_what_the_node_says() {
    let dir = directory(&[
        ("base.yaml", &cluster("base", 1)),
        ("groups/one/c.yaml", &cluster("one", 1)),
        (
            "chancery.yaml",
            "groups:\n- name: one\n  match:\n    cluster: web\n    region: r\n    zone: z\n\
             \x20   metadata: {tier.name: gold}\n",
        ),
    ]);
    let site = Site { server: Server::start(&dir, &[]), dir };
    let node = [
        "--node",
        "me",
        "--cluster",
        "web",
        "--locality",
        "r/z",
        "--metadata",
        r#"tier={"name":"gold"}"#,
    ];
    let run = site.get(&[&["cds", "one", "-o", "json"], &node[..]].concat());
    assert_eq!(object(&out(&run))["name"], "one");
    assert!(site.server.admin("/metrics").0 == 200);
}

#[test]
fn secrets_are_left_out_unless_they_are_asked_for() {
    // S-138
    let secret = format!(
        "\"@type\": {SECRET}\nname: s\ntls_certificate:\n  private_key: {{inline_string: hush}}\n"
    );
    let dir = directory(&[("s.yaml", &secret), ("chancery.yaml", UNCHECKED)]);
    let site = Site { server: Server::start(&dir, &[]), dir };
    for format in ["yaml", "json", "text"] {
        let text = out(&site.get(&["sds", "s", "-o", format]));
        assert!(text.contains("[redacted]") && !text.contains("hush"), "{text}");
        let text = out(&site.get(&["sds", "s", "-o", format, "--show-secrets"]));
        assert!(text.contains("hush"), "{text}");
    }
    let refused = site.get(&["sds", "s", "-o", "binary"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0));
    let expected = "chancery: sds `s` has secrets, and its bytes cannot do without\n\
                    hint: `--show-secrets` writes them too\n";
    assert_eq!(err(&refused), expected);
    let bytes = site.get(&["sds", "s", "-o", "binary", "--show-secrets"]).stdout;
    assert!(bytes.windows(4).any(|window| window == b"hush"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_hears_of_a_rejection() {
    for way in WAYS {
        let server = TestServer::start(snapshot("a")).await.unwrap();
        let address = server.address().to_string();
        let words = [&["cds", "--server", &address, "--nack", "a test"], way].concat();
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let asking = tokio::task::spawn_blocking(move || {
            get(&words.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let mut rejected = None;
        while rejected.is_none() {
            if let TestEventKind::Rejected { error, .. } = server.event().await.kind {
                rejected = Some(error);
            }
        }
        assert_eq!(rejected.as_deref(), Some("`a`: a test"));
        let run = asking.await.unwrap();
        assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(1), ""));
        assert!(err(&run).contains("a test"), "{}", err(&run));
    }
}

/// C-080
#[test]
fn what_grpc_clients_refuse_is_refused_if_asked_for() {
    let dir = directory(&[(
        "c.yaml",
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\ntype: EDS\n\
         eds_cluster_config: {eds_config: {path_config_source: {path: /etc/a.yaml}}}\n",
    )]);
    let site = Site { server: Server::start(&dir, &[]), dir };
    assert_eq!(site.get(&["cds", "a"]).status.code(), Some(0));
    let refused = site.get(&["cds", "a", "--as-grpc"]);
    assert_eq!((refused.status.code(), text(&refused.stdout).as_str()), (Some(1), ""));
    let why = err(&refused);
    assert!(why.contains("`eds_cluster_config.eds_config` must be `ads` or `self`"), "{why}");
}

#[test]
fn a_bootstrap_names_servers_authorities_and_targets() {
    let listener = "type.googleapis.com/envoy.config.listener.v3.Listener";
    let name = "xdstp://team-b/envoy.config.listener.v3.Listener/billing:8080";
    let kept = "xdstp://team-b/envoy.config.cluster.v3.Cluster/edge/one";
    let ours = Site::new(&[("a", 1)]);
    let dir = directory(&[
        ("l.yaml", &format!("\"@type\": {listener}\nname: {name}\n")),
        ("c.yaml", &cluster(kept, 1)),
        ("chancery.yaml", UNCHECKED),
    ]);
    let theirs = Site { server: Server::start(&dir, &[]), dir };
    let server = |site: &Site| json!([{"server_uri": site.address(), "channel_creds": [{"type": "insecure"}]}]);
    let bootstrap = json!({
        "xds_servers": server(&ours),
        "node": {"id": "me"},
        "authorities": {"team-b": {"xds_servers": server(&theirs)}},
    })
    .to_string();
    let work = directory(&[("bootstrap.json", &bootstrap)]);
    let file = work.path().join("bootstrap.json");
    let file = file.to_str().unwrap();

    let found = out(&get(&["cds", "--bootstrap", file, "-o", "json"]));
    assert_eq!((object(&found)["name"].as_str(), found.lines().count()), (Some("a"), 1));
    let glob = "xdstp://team-b/envoy.config.cluster.v3.Cluster/edge/*";
    for way in [&[][..], WAYS[1], WAYS[3]] {
        let run = get(&[&[glob, "--bootstrap", file, "-o", "json"], way].concat());
        let found = out(&run);
        assert!(!found.is_empty(), "{way:?}: {}", err(&run));
        assert_eq!((object(&found)["name"].as_str(), found.lines().count()), (Some(kept), 1));
    }

    let target = ["get", "lds", "--target", "xds://team-b/billing:8080", "-o", "json"];
    for (variable, value) in
        [("GRPC_XDS_BOOTSTRAP", file), ("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.as_str())]
    {
        let run = finished(chancery(&target).env(variable, value));
        assert_eq!(object(&out(&run))["name"], name);
    }
    for target in ["xds://nobody/x", "dns:///x", "xds:///"] {
        let run = get(&["--target", target, "--bootstrap", file]);
        assert_eq!(run.status.code(), Some(2), "{target}");
    }
    let unknown = get(&["xdstp://nobody/envoy.config.cluster.v3.Cluster/x", "--bootstrap", file]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains("no authority `nobody`"), "{}", err(&unknown));

    // A server that is given is asked for all names.
    let found = get(&[kept, "--server", &theirs.address(), "-o", "json"]);
    assert_eq!(object(&out(&found))["name"], kept);
    let found = get(&["--target", "xds:///web", "--server", &ours.address(), "--timeout", "300ms"]);
    assert!(err(&found).contains("lds `web`"), "{}", err(&found));
}

/// The commands of `docs/get.md` for the federation among the examples, on ports of our own.
#[test]
fn the_federation_of_the_examples_goes_as_it_is_told() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/federation");
    let [one, two] = ["team-a", "team-b"].map(|team| Server::start_at(&example.join(team), &[]));
    let bootstrap = std::fs::read_to_string(example.join("bootstrap.json")).unwrap();
    let ours = [("18000", &one), ("18001", &two)].iter().fold(bootstrap, |text, (theirs, ours)| {
        assert!(text.contains(theirs), "{text}");
        text.replace(theirs, &ours.port.to_string())
    });
    let work = directory(&[("bootstrap.json", &ours)]);
    let file = work.path().join("bootstrap.json");
    let names = |words: &[&str]| {
        let words = [words, &["--bootstrap", file.to_str().unwrap(), "-o", "json"]].concat();
        let found = out(&get(&words));
        let name = |line| object(line)["name"].as_str().unwrap().to_owned();
        found.lines().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&["cds"]), ["web"]);
    let team = "xdstp://team-b/envoy.config.cluster.v3.Cluster/edge";
    let expected = ["billing", "orders"].map(|name| format!("{team}/{name}"));
    assert_eq!(names(&[&format!("{team}/*")]), expected);
    assert_eq!(names(&[&expected[1]]), expected[1..]);
}

#[test]
fn tls_and_mutual_tls_are_spoken() {
    let pki = tempfile::tempdir().unwrap();
    certificates(pki.path());
    let file = |name: &str| pki.path().join(name).to_str().unwrap().to_owned();
    let (ca, cert, key) = (file("ca.pem"), file("leaf.pem"), file("leaf.key"));
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let flags = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca];
    let site = Site { server: Server::start(&dir, &flags), dir };
    let server = format!("localhost:{}", site.server.port);
    let ask = |flags: &[&str]| get(&[&["cds", "--server", &server, "-o", "json"], flags].concat());
    let run = ask(&["--ca", &ca, "--cert", &cert, "--key", &key]);
    assert_eq!(object(&out(&run))["name"], "a");
    assert_eq!(ask(&["--tls", "--ca", &ca]).status.code(), Some(2), "it wants to know who we are");
    let plain = ask(&[]);
    assert_eq!(plain.status.code(), Some(2));
    assert!(err(&plain).contains("hint: if the server speaks TLS, `--tls`"), "{}", err(&plain));
    let open = Site::new(&[("a", 1)]);
    let server = format!("localhost:{}", open.server.port);
    let encrypted = get(&["cds", "--server", &server, "--ca", &ca]);
    assert_eq!(encrypted.status.code(), Some(2));
    let told = err(&encrypted);
    assert!(told.contains("hint: if the server speaks no TLS, leave out"), "{told}");
}

#[test]
fn a_client_with_which_there_is_no_tls_is_told_of_once_with_what_to_do() {
    let (pki, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificates(pki.path());
    certificates(others.path());
    let file = |dir: &TempDir, name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let [ca, cert, key] = ["ca.pem", "leaf.pem", "leaf.key"].map(|name| file(&pki, name));
    let [stranger, its_key] = ["leaf.pem", "leaf.key"].map(|name| file(&others, name));
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let flags = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca];
    let mut server = Server::start(&dir, &flags);
    let address = format!("localhost:{}", server.port);
    let ask = |flags: &[&str]| {
        let run = get(&[&["cds", "--timeout", "5s", "--server", &address], flags].concat());
        assert_eq!(run.status.code(), Some(2), "{flags:?}");
    };
    ask(&[]);
    server.log_has("no TLS with a client: the client does not speak TLS, and this port speaks");
    ask(&["--ca", &ca]);
    server
        .log_has("no TLS with a client: the client shows no certificate, which `--tls-client-ca`");
    ask(&["--ca", &ca, "--cert", &stranger, "--key", &its_key]);
    server.log_has("the certificate of the client is of none of the authorities");
    ask(&["--ca", &file(&others, "ca.pem")]);
    server.log_has("the client refuses the certificate of this server (");
    // The same again, and an address that looks if the port is open, write no line.
    ask(&[]);
    drop(std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap());
    let failed = |reason: &str| {
        let line = format!("chancery_handshakes_failed_total{{reason=\"{reason}\"}}");
        server.admin("/metrics").1.lines().any(|it| it.starts_with(&line))
    };
    for reason in ["no-tls", "no-certificate", "certificate", "refused-by-client", "left"] {
        daemon::eventually(|| failed(reason));
    }
    assert_eq!(server.log().matches("the client does not speak TLS").count(), 1);
    assert!(!server.log().contains("the client left"), "{}", server.log());

    let mut open = Site::new(&[("a", 1)]);
    let address = format!("localhost:{}", open.server.port);
    let encrypted = get(&["cds", "--server", &address, "--ca", &ca]);
    assert_eq!(encrypted.status.code(), Some(2));
    open.server.log_has("no TLS with a client: the client speaks TLS, and this port has no");
}

#[test]
fn nobody_who_stops_reading_is_told_of_it() {
    let all: Vec<_> = (0..2000).map(|number| format!("cluster-{number}")).collect();
    let all: Vec<_> = all.iter().map(|name| (name.as_str(), 1)).collect();
    let site = Site::new(&all);
    let mut command = chancery(&["get", "cds", "-o", "yaml", "--server", &site.address()]);
    let mut run = Running::start(command.stderr(Stdio::piped()));
    let first = daemon::lines(run.stdout.take().unwrap(), 1);
    assert!(daemon::next_line(&first).is_some());
    assert_eq!(run.ended(), (Some(0), String::new()));
}

#[test]
fn an_answer_in_several_responses_is_printed_whole() {
    // S-110: what does not fit into one response of 64 KiB comes in many.
    let all: Vec<_> = (0..3000).map(|number| format!("cluster-{number:040}")).collect();
    let all: Vec<_> = all.iter().map(|name| (name.as_str(), 1)).collect();
    let dir = site_dir(&all);
    dir_write(&dir, "chancery.yaml", "limits: {max-response-bytes: 64KiB}\n");
    let site = Site { server: Server::start(&dir, &[]), dir };
    for way in WAYS {
        let found = out(&site.get(&[&["cds", "-o", "json"], way].concat()));
        assert_eq!(found.lines().count(), 3000, "{way:?}");
    }
}

#[test]
fn what_happens_on_the_way_is_told_if_asked_for() {
    let site = Site::new(&[("a", 1)]);
    let run = site.get(&["cds", "-v"]);
    assert!(err(&run).contains("stream opened"), "{}", err(&run));
    assert_eq!(out(&run).lines().count(), 2);
}

#[test]
fn misuse_is_told_apart() {
    for words in [
        &["cdx", "--server", "a:1"][..],
        &["cds/nope", "--server", "a:1"],
        &["cds"],
        &["cds", "--server", "a:1", "--bootstrap", "b"],
        &["cds", "--server", "a:1", "--cert", "c"],
        &["cds", "--server", "a:1", "--token", "t"],
        &["cds", "--ca", "c"],
        &["cds", "--server", "a:1", "--metadata", "x"],
        &["cds", "--server", "a:1", "--metadata", "x={"],
        &["cds", "--server", "a:1", "--timeout", "soon"],
        &["cds", "--server", "a:1", "-o", "xml"],
        &["cds,lds", "--server", "a:1", "-o", "binary"],
        &["cds", "--server", "a:1", "--target", "xds:///x"],
        &["lds", "x", "--server", "a:1", "--target", "xds:///x"],
    ] {
        let run = get(words);
        assert_eq!(run.status.code(), Some(64), "{words:?}: {}", err(&run));
    }
    for words in [&["cds", "--bootstrap", "/nowhere"][..], &["cds", "--server", "::::"]] {
        let run = get(words);
        assert_eq!(run.status.code(), Some(2), "{words:?}: {}", err(&run));
    }
}

#[test]
fn who_refuses_the_stream_has_not_answered() {
    let rules = "unmatched: refuse\nanonymous: refuse\n";
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("chancery.yaml", rules)]);
    let site = Site { server: Server::start(&dir, &[]), dir };
    let rest = format!("http://{}", site.address());
    for server in [site.address(), rest] {
        for words in [&["cds"][..], &["cds", "a"]] {
            let run = get(&[&["--server", &server, "--timeout", "2s"], words].concat());
            assert_eq!(run.status.code(), Some(2), "{server}: {}", err(&run));
        }
    }
}

/// A daemon that serves a directory.
struct Site {
    server: Server,
    dir: TempDir,
}

impl Site {
    /// With clusters.
    fn new(clusters: &[(&str, u32)]) -> Self {
        let dir = site_dir(clusters);
        Self { server: Server::start(&dir, &[]), dir }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }

    fn get(&self, words: &[&str]) -> Output {
        get(&[&["--server", &self.address()], words].concat())
    }
}

fn site_dir(clusters: &[(&str, u32)]) -> TempDir {
    let all: Vec<_> = clusters.iter().map(|(name, seconds)| cluster(name, *seconds)).collect();
    directory(&[("cds.yaml", &all.join("---\n"))])
}

fn snapshot(name: &str) -> Snapshot {
    let mut snapshot = Snapshot::new();
    let body = [&[0x0a, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
    let resource = Resource::new(name.parse().unwrap(), body.into());
    snapshot.insert(&TypeUrl::new(CLUSTER), resource);
    snapshot
}

fn get(words: &[&str]) -> Output {
    finished(&mut chancery(&[&["get"], words].concat()))
}

/// The standard output of a command that succeeded.
#[track_caller]
fn out(run: &Output) -> String {
    assert!(run.status.success(), "{:?} {}", run.status, err(run));
    text(&run.stdout)
}

fn err(run: &Output) -> String {
    text(&run.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn object(line: &str) -> Value {
    serde_json::from_str(line.lines().next().unwrap_or_default()).unwrap()
}

/// An authority and one certificate of it, for `localhost`.
fn certificates(dir: &Path) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(dir.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap();
    std::fs::write(dir.join("leaf.pem"), leaf.pem()).unwrap();
    std::fs::write(dir.join("leaf.key"), key.serialize_pem()).unwrap();
}
