//! Secrets and strangers as an operator meets them: warnings at start and at a load, refusals that
//! name the setting, and sockets and certificates that are not what they should be.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use crate::daemon;
use crate::daemon::{Server, chancery, cluster, dir_write, directory, finished};

/// A cluster with a private key in it.
const WITH_KEY: &str = "\
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: keyed
transport_socket:
  name: tls
  typed_config:
    \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificates:
      - private_key: {inline_string: hunter2}
";

/// A server with this serves keys that are none.
const UNCHECKED: (&str, &str) = ("chancery.yaml", "gate: {messages: off}\n");

#[test]
fn a_secret_outside_of_sds_is_warned_of_with_file_resource_and_field() {
    // S-137
    let dir = directory(&[("a.yaml", &cluster("a", 1)), UNCHECKED]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "keyed.yaml", WITH_KEY);
    assert!(server.log_has("keyed.yaml:"));
    let log = server.log();
    let line = log.lines().find(|line| line.contains("keyed.yaml:")).unwrap();
    for told in ["WARN", "`keyed`", "tls_certificates[0].private_key", "only over mutual TLS"] {
        assert!(line.contains(told), "{told} in {line}");
    }
    assert!(!log.contains("hunter2"), "{log}");
    // A client on this machine is no stranger.
    daemon::eventually(|| server.clusters("me").contains("hunter2"));
}

#[test]
fn of_many_secrets_the_first_are_logged_the_others_counted_and_all_listed() {
    // S-137
    let keyed = |from: u32, to: u32| {
        let all = (from..to).map(|n| WITH_KEY.replace("name: keyed", &format!("name: keyed-{n}")));
        all.collect::<Vec<_>>().join("---\n")
    };
    let dir = directory(&[("a.yaml", &keyed(0, 15)), ("b.yaml", &keyed(15, 30)), UNCHECKED]);
    let mut server = Server::start(&dir, &[]);
    assert!(server.log_has("and 10 more warnings ("));
    assert!(server.log_has("b.yaml: 10)"));
    let listed = |server: &Server| {
        let (status, text) = server.admin("/api/v1/config");
        assert!(status == 200 && !text.contains("hunter2"), "{text}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let config = listed(&server);
    assert_eq!(config["warning_count"], 30);
    let warnings = config["warnings"].as_array().unwrap();
    let named = |n: u32| {
        let (file, name) = (if n < 15 { "a.yaml" } else { "b.yaml" }, format!("`keyed-{n}`"));
        warnings.iter().any(|it| {
            it["file"].as_str().unwrap().ends_with(file)
                && it["message"].as_str().unwrap().contains(&name)
                && it["line"].is_number()
        })
    };
    assert!((0..30).all(named), "{warnings:#?}");
    dir_write(&dir, "b.yaml", "[]");
    daemon::eventually(|| listed(&server)["warning_count"] == 15);
}

#[test]
fn doors_that_are_open_to_everybody_are_told_once_at_start() {
    let dir =
        directory(&[("a.yaml", &cluster("a", 1)), ("chancery.yaml", "secrets-anywhere: true\n")]);
    let mut server = Server::start(&dir, &["--listen", "0.0.0.0:0"]);
    assert!(server.log_has("beyond loopback and without TLS"));
    assert!(server.log_has("`secrets-anywhere` is set"));
    server.signal("TERM");
    server.ends_well();
    for told in ["beyond loopback", "secrets-anywhere"] {
        assert_eq!(server.log().matches(told).count(), 1, "{told}");
    }
    let quiet = directory(&[("a.yaml", &cluster("a", 1))]);
    let mut server = Server::start(&quiet, &[]);
    server.signal("TERM");
    server.ends_well();
    assert!(!server.log().contains("WARN"), "{}", server.log());
}

#[test]
fn the_admin_interface_is_asked_by_names_that_no_stranger_owns() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let server = Server::start(&dir, &["--admin-host", "xds.example"]);
    let ask = |host: &str| {
        let mut stream = server.dial(server.admin);
        let request =
            format!("GET /api/v1/config HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for host in ["localhost", "127.0.0.1:18080", "xds.example:80", "[::1]:18080"] {
        assert!(ask(host).starts_with("HTTP/1.1 200"), "{host}");
    }
    let refused = ask("rebound.example");
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("`admin-hosts`"), "{refused}");
    assert!(!refused.contains("a.yaml"));
}

#[test]
fn a_web_page_gets_nothing() {
    // S-137
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let server = Server::start(&dir, &[]);
    let line = "POST /v3/discovery:clusters HTTP/1.1\r\norigin: http://rebound.example";
    let mut stream = server.dial(server.port);
    let request =
        format!("{line}\r\nhost: x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("web page"), "{answer}");
}

#[test]
fn a_unix_socket_takes_the_place_of_no_file_and_has_the_mode_that_was_set() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("precious");
    std::fs::write(&file, "precious").unwrap();
    let listen = format!("unix:{}", file.display());
    let ended =
        run(&["serve", dir.path().to_str().unwrap(), "--admin", "off", "--listen", &listen]);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(told.contains("precious") && told.contains("a regular file"), "{told}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");

    for (flags, mode) in [(&[][..], 0o600), (&["--unix-mode", "0666"], 0o666)] {
        let socket = place.path().join("xds.sock");
        let listen = format!("unix:{}", socket.display());
        let server = Server::start(&dir, &[&["--listen", &listen], flags].concat());
        let found = std::fs::symlink_metadata(&socket).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
        // A server that is killed leaves its file, and the next one takes its place.
        drop(server);
        assert!(socket.exists());
    }
}

#[test]
fn revocation_lists_need_authorities() {
    let dir = directory(&[
        ("a.yaml", &cluster("a", 1)),
        ("chancery.yaml", "tls: {cert: c.pem, key: k.pem, client-crl: crl.pem}\n"),
    ]);
    let ended = run(&["serve", dir.path().to_str().unwrap(), "--admin", "off"]);
    assert_ne!(ended.status.code(), Some(0));
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(told.contains("`tls.client-crl` needs `tls.client-ca`"), "{told}");
    let flags = ["--tls-cert", "c", "--tls-key", "k", "--tls-client-crl", "l"];
    let ended = run(&[&["serve", dir.path().to_str().unwrap()][..], &flags].concat());
    assert_eq!(ended.status.code(), Some(64), "{ended:?}");
}

#[test]
fn an_expired_certificate_is_told_with_its_file_and_expiry() {
    let dir = directory(&[("a.yaml", &cluster("a", 1))]);
    let place = tempfile::tempdir().unwrap();
    let write = |until: i32| {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 2, 28);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(place.path().join("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(place.path().join("cert.pem"), params.self_signed(&key).unwrap().pem())
            .unwrap();
    };
    let path = |name: &str| place.path().join(name).display().to_string();
    let flags = ["--tls-cert", &path("cert.pem"), "--tls-key", &path("key.pem")];
    write(2020);
    let mut expired = Server::start(&dir, &flags);
    assert!(expired.log_has("expired at 2020-02-28"));
    assert!(expired.log_has("cert.pem"));
    write(2090);
    let mut valid = Server::start(&dir, &flags);
    valid.signal("HUP");
    assert!(valid.log_has("the certificates were read again"));
    write(2021);
    valid.signal("HUP");
    assert!(valid.log_has("expired at 2021-02-28"));
    assert!(valid.log_has("the old one stays"));
}

/// Runs a command that ends by itself.
fn run(args: &[&str]) -> Output {
    finished(&mut chancery(args))
}
