//! The load driver against the real daemon: what it counts is exact, what it promises is there,
//! and what goes wrong is told.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::thread;

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

use crate::daemon;
use crate::daemon::ports::Port;
use crate::daemon::{Running, Server, chancery, cluster, dir_write, directory, finished};

#[test]
fn fan_out_counts_one_response_for_each_stream_and_round() {
    for protocol in ["delta", "sotw"] {
        let site = Site::new(3);
        let run = site.changes("fan-out", &["--streams", "20", "--protocol", protocol]);
        let found = json(&run);
        assert_eq!(found["messages"], 60, "{found}");
        let each = if protocol == "delta" { 1 } else { 3 };
        assert_eq!(found["resources"], 60 * each, "{found}");
        assert_eq!((&found["rounds"], &found["connections"]), (&3.into(), &20.into()));
        assert!(number(&found, "payload_bytes") > number(&found, "resource_bytes"));
        for key in ["first", "median", "last"] {
            assert!(found["latency_ms"][key]["p50"].as_f64() > Some(0.0), "{found}");
        }
        assert!(found["receipt_ms"]["p99"].as_f64() > Some(0.0));
        assert_eq!(found["errors"], Value::Array(Vec::new()));
    }
}

#[test]
fn streams_share_connections_threads_and_services_as_they_are_told() {
    let site = Site::new(2);
    let flags = ["--streams", "10", "--connections", "3", "--threads", "2", "--per-type"];
    let found = json(&site.changes("fan-out", &flags));
    assert_eq!(found["messages"], 30, "{found}");
    assert_eq!((&found["connections"], &found["aggregated"]), (&3.into(), &false.into()));
}

#[test]
fn several_numbers_of_streams_make_several_runs() {
    let site = Site::new(1);
    let found = json(&site.changes("whole-state", &["--streams", "2,4"]));
    let messages: Vec<_> = found.as_array().unwrap().iter().map(|run| &run["messages"]).collect();
    assert_eq!(messages, [6, 12]);
    assert_eq!(found[0]["protocol"], "sotw");
}

#[test]
fn clients_that_reject_are_sent_the_next_change_like_the_others() {
    let site = Site::new(1);
    let found = json(&site.changes("fan-out", &["--streams", "5", "--nack", "2"]));
    assert_eq!(found["messages"], 15, "{found}");
    let rejected = site.server.admin("/metrics").1;
    let line = rejected.lines().find(|line| line.starts_with("chancery_nacks_total"));
    assert!(line.is_some_and(|line| !line.ends_with(" 0")), "{rejected}");
}

#[test]
fn clients_that_read_slowly_or_not_at_all_are_not_waited_for() {
    let site = Site::new(1);
    let flags = ["--streams", "8", "--connections", "2", "--stalled", "2", "--slow", "1@10"];
    let found = json(&site.changes("slow-readers", &flags));
    assert!(number(&found, "messages") >= 15.0, "{found}");
    assert_eq!(found["connections"], 5, "{found}");
    assert_eq!(found["errors"], Value::Array(Vec::new()));
}

#[test]
fn the_server_is_measured_and_so_is_the_driver() {
    let site = Site::new(1);
    let pid = site.server.child.id().to_string();
    let found = json(&site.changes("file-change", &["--streams", "4", "--pid", &pid]));
    let process = &found["process"];
    assert_eq!(process["pid"].to_string(), pid);
    for key in ["cpu_s", "cpu_us_per_message", "rss_before", "rss_peak", "rss_after"] {
        assert!(process[key].as_f64() > Some(0.0), "{key}: {found}");
    }
    assert!(found["driver"]["cpu_s"].as_f64() > Some(0.0));
    assert_eq!(found["driver"]["bound"], false);
}

#[test]
fn a_cold_start_ends_with_the_first_answers_of_all() {
    let site = Site::new(5);
    for flags in [&["--connect"][..], &["--types", "cds,lds", "--expect", "0"]] {
        let found = json(&site.run("cold-start", &[&["--streams", "6"], flags].concat()));
        let types = found["types"].as_array().unwrap().len();
        assert_eq!(number(&found, "messages"), 6.0 * types as f64, "{found}");
        assert_eq!(number(&found, "resources"), 30.0, "{found}");
        assert!(
            found["first_answer_ms"]["max"].as_f64() >= found["first_answer_ms"]["p50"].as_f64()
        );
    }
}

#[test]
fn clients_that_come_back_with_everything_are_sent_nothing() {
    let site = Site::new(4);
    for flags in [&[][..], &["--names", "4"]] {
        let found = json(&site.run("reconnect", &[&["--streams", "7"], flags].concat()));
        assert_eq!((&found["held"], &found["resource_bytes"]), (&4.into(), &0.into()), "{found}");
        assert_eq!(found["messages"], 7, "the probes alone are answered: {found}");
    }
}

#[test]
fn nothing_happens_on_idle_streams() {
    let site = Site::new(2);
    let pid = site.server.child.id().to_string();
    let flags = ["--streams", "3", "--duration", "100ms", "--pid", &pid, "--names", "cds=2"];
    let found = json(&site.run("idle", &flags));
    assert_eq!((&found["messages"], &found["names"]), (&0.into(), &serde_json::json!([2])));
    assert!(found["process"]["rss_per_stream"].is_number(), "{found}");
}

#[test]
fn churn_tells_how_many_changes_a_response_covers() {
    let site = Site::new(1);
    let flags = ["--streams", "3", "--rate", "20", "--duration", "300ms"];
    let found = json(&site.trigger("churn", &flags));
    let churn = &found["churn"];
    assert_eq!(churn["publishes"], 6, "{found}");
    let (deliveries, coalescing) =
        (number(churn, "deliveries_per_publish"), number(churn, "coalescing"));
    assert!((deliveries * coalescing - 3.0).abs() < 1e-6, "{found}");
}

#[test]
fn clients_report_their_calls_as_often_as_the_server_asks() {
    // G22 of docs/benchmarks.md, with few clients (S-130, S-132).
    let dir = directory(&[("chancery.yaml", "load-reports: {interval: 1s}\n")]);
    let server = Server::start(&dir, &[]);
    let (address, pid) = (format!("127.0.0.1:{}", server.port), server.child.id().to_string());
    let flags = ["--streams", "4", "--connections", "2", "--clusters", "3", "--localities", "2"];
    let flags = [&flags[..], &["--duration", "1500ms", "--pid", &pid]].concat();
    let found = json(&bench("load-reports", &address, &flags));
    let load = &found["load"];
    assert_eq!((&load["clusters"], &load["localities"]), (&3.into(), &2.into()), "{found}");
    assert!(number(load, "reports") > 0.0 && number(load, "core_share") > 0.0, "{found}");
    assert_eq!(
        (&found["types"], &found["errors"]),
        (&Value::Array(Vec::new()), &Value::Array(Vec::new()))
    );
    // Every client has reported once before reports are counted, and only its last may have been lost.
    let least = number(load, "reports") * 2.0 * number(load, "calls_per_row");
    daemon::eventually(|| {
        let page: Value = serde_json::from_str(&server.admin("/api/v1/load").1).unwrap();
        let rows = page["rows"].as_array().unwrap().iter();
        let of_first = rows.filter(|row| row["cluster"] == "bench-000000");
        let issued: Vec<_> = of_first.map(|row| number(row, "issued")).collect();
        assert!(issued.iter().all(|issued| issued % 100.0 == 0.0), "{page}");
        !issued.is_empty() && issued.iter().sum::<f64>() >= least
    });
    let manners = bench("load-reports", &address, &["--nack", "1"]);
    assert_eq!(manners.status.code(), Some(64), "{}", told(&manners));
}

#[test]
fn a_server_under_load_says_how_all_its_clients_stand() {
    // G20 of docs/benchmarks.md, with few clients.
    let site = Site::new(3);
    let mut command =
        chancery(&["bench", "idle", "--server", &site.address(), "--types", "cds,lds"]);
    command.args(["--streams", "200", "--connections", "4", "--duration", "1h", "--json", "-"]);
    let mut run = Running::start(command.stderr(std::process::Stdio::piped()));
    let ask = |path: &str| serde_json::from_str::<Value>(&site.server.admin(path).1).unwrap();
    let in_step = |summary: &Value| summary["groups"][0]["in_step"] == 200;
    daemon::eventually(|| in_step(&ask("/api/v1/status?limit=10")));
    let summary = ask("/api/v1/status?limit=10");
    assert_eq!((&summary["count"], summary["nodes"].as_array().unwrap().len()), (&200.into(), 10));
    let node = ask("/api/v1/nodes/bench-177");
    assert_eq!(node["streams"][0]["types"].as_array().unwrap().len(), 2, "{node}");
    assert_eq!(node["streams"][0]["state"], "in-step", "{node}");
    run.signal("INT");
    assert_eq!(run.ended().0, Some(1));
}

#[test]
fn readers_of_events_see_every_rejection_while_changes_go_on() {
    // G21 of docs/benchmarks.md, with few clients.
    let site = Site::new(1);
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = site.server.dial(site.server.admin);
            stream.write_all(b"GET /api/v1/events HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
            let lines = daemon::lines(stream, usize::MAX);
            while !daemon::next_line(&lines).unwrap().starts_with("retry:") {}
            lines
        })
        .collect();
    let found = json(&site.changes("fan-out", &["--streams", "40", "--nack", "40"]));
    assert_eq!(found["messages"], 120, "{found}");
    for lines in readers {
        // The first answers are rejected too, and those to the change before the measured ones.
        let mut left = 40 * 5;
        while left > 0 {
            let line = daemon::next_line(&lines).unwrap();
            assert_ne!(line, "event: missed");
            left -= i32::from(line == "event: rejected");
        }
    }
}

#[test]
fn runs_become_a_chart() {
    let site = Site::new(1);
    let file = |name: &str| site.work.path().join(name).to_str().unwrap().to_owned();
    let (run, now, later) = (file("run.json"), file("now.svg"), file("later.svg"));
    let flags = ["--types", "cds", "--streams", "2,4", "--label", "ours", "--svg", &now];
    let words = ["bench", "cold-start", "--server", &site.address(), "--json", &run];
    let started = finished(chancery(&words).args(flags));
    assert!(started.status.success(), "{}", told(&started));
    let chart = ["bench", "chart", &later, &run, "--y", "first_answer_ms.p90"];
    assert!(finished(&mut chancery(&chart)).status.success());
    for path in [&now, &later] {
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.contains("ours (exponent ") && svg.matches("<circle").count() == 2, "{svg}");
    }
    let nothing = finished(chancery(&chart).args(["--x", "moons"]));
    assert_eq!(nothing.status.code(), Some(1));
    assert!(told(&nothing).contains("`moons`"), "{}", told(&nothing));
}

#[test]
fn tls_and_mutual_tls_are_spoken() {
    let pki = tempfile::tempdir().unwrap();
    certificates(pki.path());
    let file = |name: &str| pki.path().join(name).to_str().unwrap().to_owned();
    let (ca, cert, key) = (file("ca.pem"), file("leaf.pem"), file("leaf.key"));
    let served = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca];
    let site = Site::with(2, &served);
    let flags = ["--streams", "3", "--tls", "--ca", &ca, "--server-name", "localhost"];
    let alone = site.run("cold-start", &flags);
    assert_eq!(alone.status.code(), Some(2), "the server wants to know who we are");
    let found =
        json(&site.run("cold-start", &[&flags[..], &["--cert", &cert, "--key", &key]].concat()));
    assert_eq!(number(&found, "resources"), 6.0, "{found}");

    let other = tempfile::tempdir().unwrap();
    certificates(other.path());
    let stranger = other.path().join("ca.pem").to_str().unwrap().to_owned();
    let refused =
        site.run("cold-start", &["--tls", "--ca", &stranger, "--server-name", "localhost"]);
    assert!(told(&refused).contains("certificate"), "{}", told(&refused));
    let plain = site.run("cold-start", &["--streams", "1"]);
    assert_eq!(plain.status.code(), Some(2), "{}", told(&plain));
}

#[test]
fn a_unix_socket_is_a_server_too() {
    let place = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", place.path().join("s").display());
    let site = Site::with(2, &["--listen", &socket]);
    let found = json(&bench("cold-start", &socket, &["--types", "cds", "--streams", "3"]));
    assert_eq!(number(&found, "resources"), 6.0, "{found}");
    drop(site);
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let port = Port::reserve();
    let free = port.address();
    let run = bench("cold-start", &free, &["--streams", "3"]);
    assert_eq!(run.status.code(), Some(2));
    let expected = format!("chancery: cannot use the server at `{free}`: cannot connect: ");
    assert!(told(&run).starts_with(&expected), "{}", told(&run));
}

#[test]
fn a_server_that_speaks_something_else_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0; 24]).unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        }
    });
    let run = bench("idle", &address, &["--streams", "1"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(told(&run).contains("does not speak HTTP/2 here"), "{}", told(&run));
}

#[tokio::test]
async fn streams_that_are_refused_are_told_with_the_servers_words() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            tokio::spawn(refuse(io));
        }
    });
    let run = tokio::task::spawn_blocking(move || {
        bench("cold-start", &address, &["--streams", "4", "--connections", "2"])
    });
    let run = run.await.unwrap();
    assert_eq!(run.status.code(), Some(1));
    let expected = "4 streams, the first is 0: the server ended the stream: \
                    RESOURCE_EXHAUSTED: not more than none";
    assert!(told(&run).replace("first is 1", "first is 0").contains(expected), "{}", told(&run));
}

#[test]
fn a_change_that_does_not_come_is_told_and_who_waited_for_it() {
    let site = Site::new(1);
    let flags =
        ["--types", "cds", "--streams", "2", "--trigger", "exec:true", "--timeout", "500ms"];
    let run = bench("fan-out", &site.address(), &flags);
    assert_eq!(run.status.code(), Some(1));
    let expected = "in round 1 2 of 2 streams got nothing: 0, 1 within 500ms";
    assert!(told(&run).contains(expected), "{}", told(&run));
}

#[test]
fn a_trigger_that_fails_is_told() {
    let site = Site::new(1);
    let flags = ["--types", "cds", "--streams", "2", "--trigger", "exec:exit 3"];
    let run = bench("fan-out", &site.address(), &flags);
    assert!(
        run.status.code() == Some(1) && told(&run).contains("exit status: 3"),
        "{}",
        told(&run)
    );
}

#[test]
fn a_run_that_is_interrupted_tells_what_it_has() {
    let site = Site::new(1);
    let mut command = chancery(&["bench", "idle", "--server", &site.address(), "--types", "cds"]);
    command.args(["--streams", "2", "--duration", "1h", "--json", "-"]);
    let mut run = Running::start(command.stderr(std::process::Stdio::piped()));
    daemon::eventually(|| site.server.admin("/metrics").1.contains("chancery_acks_total{"));
    run.signal("INT");
    let text = daemon::all_lines(&daemon::lines(run.stdout.take().unwrap(), usize::MAX));
    assert_eq!(run.ended().0, Some(1));
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&found["interrupted"], &found["streams"]), (&true.into(), &2.into()));
}

#[test]
fn misuse_is_told_apart() {
    for flags in [
        &["idle"][..],
        &["idle", "--server", "nowhere"],
        &["idle", "--server", "a:1", "--cert", "x"],
        &["idle", "--server", "127.0.0.1:1", "--types", "cds,cds"],
        &["idle", "--server", "127.0.0.1:1", "--per-type", "--types", "a/of.mine"],
        &["idle", "--server", "127.0.0.1:1", "--names", "2", "--name-pattern", "x"],
        &["fan-out", "--server", "127.0.0.1:1", "--trigger", "file:x"],
        &["reconnect", "--server", "127.0.0.1:1", "--protocol", "sotw"],
    ] {
        let run = finished(chancery(&["bench"]).args(flags));
        assert_eq!(run.status.code(), Some(64), "{flags:?}: {}", told(&run));
    }
}

#[test]
fn without_json_people_get_a_table() {
    let site = Site::new(1);
    let flags = ["bench", "cold-start", "--types", "cds", "--streams", "2"];
    let run = finished(chancery(&flags).args(["--server", &site.address()]));
    let text = String::from_utf8(run.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("last ms") && run.stderr.is_empty(), "{text}");
}

/// A daemon that serves some clusters, and a template for one of them.
struct Site {
    dir: TempDir,
    work: TempDir,
    server: Server,
}

impl Site {
    fn new(clusters: usize) -> Self {
        Self::with(clusters, &[])
    }

    fn with(clusters: usize, flags: &[&str]) -> Self {
        let (dir, work) = (directory(&[]), directory(&[]));
        for number in 0..clusters {
            let name = format!("bench-{number:06}");
            dir_write(&dir, &format!("{name}.yaml"), &cluster(&name, 1));
        }
        let template = cluster("bench-000000", 1).replace("1s", "100{n}s");
        dir_write(&work, "template", &template);
        let server = Server::start(&dir, flags);
        Self { dir, work, server }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }

    fn run(&self, scenario: &str, flags: &[&str]) -> Output {
        let types = if flags.contains(&"--types") { &[][..] } else { &["--types", "cds"] };
        bench(scenario, &self.address(), &[types, flags].concat())
    }

    /// With a file that is replaced.
    fn trigger(&self, scenario: &str, flags: &[&str]) -> Output {
        let file = self.dir.path().join("bench-000000.yaml");
        let (file, template) =
            (format!("file:{}", file.display()), self.work.path().join("template"));
        let change = ["--trigger", &file, "--template", template.to_str().unwrap()];
        self.run(scenario, &[&change[..], flags].concat())
    }

    fn changes(&self, scenario: &str, flags: &[&str]) -> Output {
        self.trigger(scenario, &[&["--rounds", "3", "--warmup", "1"], flags].concat())
    }
}

fn bench(scenario: &str, server: &str, flags: &[&str]) -> Output {
    let words = ["bench", scenario, "--server", server, "--json", "-"];
    finished(chancery(&words).args(flags))
}

#[track_caller]
fn json(run: &Output) -> Value {
    assert!(run.status.success(), "{}", told(run));
    serde_json::from_slice(&run.stdout).unwrap()
}

fn told(run: &Output) -> String {
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    // The table comes before what went wrong.
    text.lines().filter(|line| !line.contains("streams  ")).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn number(found: &Value, key: &str) -> f64 {
    found[key].as_f64().unwrap_or_else(|| panic!("{key}: {found}"))
}

/// Answers every request with an error.
async fn refuse(io: tokio::net::TcpStream) {
    let mut connection = h2::server::handshake(io).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let answer = http::Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "8")
            .header("grpc-message", "not more%20than none")
            .body(())
            .unwrap();
        let _: h2::SendStream<Bytes> = respond.send_response(answer, true).unwrap();
    }
}

/// Writes an authority and a certificate it signed.
fn certificates(dir: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&leaf_key, &issuer).unwrap();
    std::fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
    std::fs::write(dir.join("leaf.pem"), leaf.pem()).unwrap();
    std::fs::write(dir.join("leaf.key"), leaf_key.serialize_pem()).unwrap();
}
