//! The API of the admin interface for those who ask from other machines: TLS, certificates and tokens.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::daemon::{
    Running, Server, chancery, cluster, directory, eventually, exchange, finished,
};
use crate::tls::CertificateAuthority;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

/// A server whose API is read with certificates and tokens, beside the files for that.
struct Site {
    server: Server,
    files: TempDir,
    dir: TempDir,
}

fn write_tokens(at: &Path, text: &str) {
    fs::write(at, text).unwrap();
    fs::set_permissions(at, Permissions::from_mode(0o600)).unwrap();
}

impl Site {
    fn start() -> Self {
        let (dir, files) =
            (directory(&[("base.yaml", &cluster("base", 1))]), tempfile::tempdir().unwrap());
        let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        let authority = CertificateAuthority::new(files.path());
        authority.issue("server");
        authority.issue("client");
        write_tokens(Path::new(&path("tokens")), &format!("ci read {TOKEN}\n"));
        let [cert, key, ca, tokens] = ["server.pem", "server.key", "ca.pem", "tokens"].map(path);
        let flags = [
            "--admin-tls-cert",
            &cert,
            "--admin-tls-key",
            &key,
            "--admin-tls-client-ca",
            &ca,
            "--admin-tokens",
            &tokens,
        ];
        let server = Server::start(&dir, &flags);
        Self { server, files, dir }
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().unwrap().to_owned()
    }

    /// The answer over TLS, with the certificate of the client or without, to a request as of another machine:
    /// a proxy passed it on.
    fn ask(&self, is_certified: bool, headers: &str) -> (u16, String) {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let provider = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = if is_certified {
            let chain = vec![CertificateDer::from_pem_file(self.path("client.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(self.path("client.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let name = "localhost".try_into().unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(client, self.server.dial(self.server.admin));
        let head = format!("GET /api/v1/status HTTP/1.1\r\nvia: 1.1 a\r\n{headers}x-rest: x");
        let request = format!("{head}\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(head.contains("www-authenticate: Bearer"), head[9..12] == *"401", "{head}");
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// The code and the errors of a command that asks over TLS.
    fn command(&self, words: &[&str]) -> (Option<i32>, String) {
        let url = format!("https://localhost:{}", self.server.admin);
        let output = finished(&mut chancery(&[&["status", "--admin", &url], words].concat()));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn one_port_speaks_tls_to_those_from_elsewhere_and_http_to_probes() {
    // S-137
    let mut site = Site::start();
    for page in ["/ready", "/metrics", "/api/v1/status"] {
        assert_eq!(site.server.admin(page).0, 200, "{page}");
    }
    assert_eq!(site.ask(true, "").0, 200);
    let (status, body) = site.ask(false, "");
    assert!(status == 401 && body.contains("a token is needed"), "{status} {body}");
    assert_eq!(site.ask(false, &format!("authorization: Bearer {TOKEN}\r\n")).0, 200);
    for _ in 0..3 {
        assert_eq!(site.ask(false, &format!("authorization: Bearer {OTHER}\r\n")).0, 401);
    }
    assert_eq!(site.ask(true, "origin: null\r\n").0, 403);
    site.server.log_has("a token for the admin API was refused");

    // A token is known as soon as the file has it, and no longer than that.
    write_tokens(&site.files.path().join("tokens"), &format!("ci read {OTHER}\n"));
    assert_eq!(site.ask(false, &format!("authorization: Bearer {OTHER}\r\n")).0, 200);
    assert_eq!(site.ask(false, &format!("authorization: Bearer {TOKEN}\r\n")).0, 401);
    site.server.log_has("the tokens of the admin API were read again");
    let log = site.server.log();
    assert!(!log.contains(TOKEN) && !log.contains(OTHER), "{log}");
    assert_eq!(log.matches("was refused").count(), 1, "{log}");
    // Confirmations are for the same machine, whoever asks.
    let line = "POST /api/v1/confirm HTTP/1.1\r\nvia: 1.1 a\r\nx-rest:";
    let (status, told) = exchange(&mut site.server.dial(site.server.admin), line, "{}");
    assert!(status == 403 && told.contains("passed-on"), "{told}");
}

#[test]
fn commands_ask_over_tls() {
    let site = Site::start();
    let (ca, cert, key) = (site.path("ca.pem"), site.path("client.pem"), site.path("client.key"));
    assert_eq!(site.command(&["--admin-ca", &ca]), (Some(0), String::new()));
    let token = site.path("token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let all =
        ["--admin-ca", &ca, "--admin-cert", &cert, "--admin-key", &key, "--token-file", &token];
    assert_eq!(site.command(&all), (Some(0), String::new()));
    let (code, told) = site.command(&["--admin-ca", &cert]);
    assert_eq!(code, Some(2), "{told}");
    let output = |words: &[&str]| finished(&mut chancery(words));
    let open = ["status", "--admin", "http://10.1.2.3:1", "--token-file", &token];
    let refused = output(&open);
    assert_eq!(refused.status.code(), Some(64));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("over TLS alone"));
    let plain = format!("http://localhost:{}", site.server.admin);
    assert_eq!(output(&["status", "--admin", &plain]).status.code(), Some(0));
    // An earlier version had this name for it.
    assert_eq!(output(&["status", "--server", &plain]).status.code(), Some(0));
    assert_eq!(output(&["status", "--admin", &plain, "--admin-ca", &ca]).status.code(), Some(64));
}

#[test]
fn tokens_that_cannot_be_used_keep_the_server_from_starting() {
    let dir = directory(&[("base.yaml", &cluster("base", 1))]);
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("tokens");
    let serve = || {
        let words =
            ["serve", dir.path().to_str().unwrap(), "--admin-tokens", path.to_str().unwrap()];
        let output = finished(&mut chancery(&words));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, told) = serve();
    assert!(code == Some(2) && told.contains("cannot read the tokens"), "{told}");
    write_tokens(&path, "ci write 0123456789abcdef0123456789abcdef\n");
    let (code, told) = serve();
    assert!(code == Some(1) && told.contains("tokens:1: the only scope is `read`"), "{told}");
    assert!(!told.contains(TOKEN), "{told}");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let (code, told) = serve();
    assert!(code == Some(1) && told.contains("has the mode 0644"), "{told}");
}

#[test]
fn certificates_that_were_replaced_are_used() {
    let mut site = Site::start();
    let authority = CertificateAuthority::new(&site.files.path().join("other"));
    authority.issue("server");
    for name in ["server.key", "server.pem"] {
        fs::rename(authority.file(name), site.path(name)).unwrap();
    }
    site.server.log_has("the certificates of the admin interface were replaced");
    let ca = site.path("other/ca.pem");
    eventually(|| site.command(&["--admin-ca", &ca]).0 == Some(0));
}

#[test]
fn every_command_that_asks_for_nodes_reaches_the_interface_in_the_same_way() {
    let site = Site::start();
    let at = format!("127.0.0.1:{}", site.server.port);
    let connected = ["watch", "cds", "--server", &at, "--node", "edge-1", "--cluster", "edge"];
    let _node = Running::start(
        chancery(&[&connected[..], &["--admin", "off"]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    eventually(|| site.server.admin("/api/v1/nodes").1.contains("edge-1"));
    let url = format!("https://localhost:{}", site.server.admin);
    let (ca, cert, key) = (site.path("ca.pem"), site.path("client.pem"), site.path("client.key"));
    let token = site.path("token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let dir = site.dir.path().to_str().unwrap();
    let ways: [&[&str]; 2] =
        [&["--admin-token-file", &token], &["--admin-cert", &cert, "--admin-key", &key]];
    let commands: [&[&str]; 5] = [
        &["get", "cds", "--server", &at, "--node", "edge-1"],
        &["watch", "cds", "--server", &at, "--node", "edge-1", "--count", "1"],
        &["diff", dir, "--server", &at],
        &["explain-node", "edge-1", dir],
        &["status", "edge-1"],
    ];
    for command in commands {
        for way in ways {
            let reach = [&["--admin", &url, "--admin-ca", &ca], way].concat();
            let done = finished(&mut chancery(&[command, &reach].concat()));
            let told = String::from_utf8(done.stderr).unwrap();
            assert_eq!(done.status.code(), Some(0), "{command:?} {way:?}: {told}");
        }
        // The authorities of the system did not sign this server.
        let done = finished(&mut chancery(&[command, &["--admin", &url]].concat()));
        assert_eq!(done.status.code(), Some(2), "{command:?}");
        let plain = format!("http://localhost:{}", site.server.admin);
        let odd =
            finished(&mut chancery(&[command, &["--admin", &plain, "--admin-ca", &ca]].concat()));
        assert_eq!(odd.status.code(), Some(64), "{command:?}");
    }
    // A token of discovery is another one.
    let done = finished(&mut chancery(&["get", "cds", "--server", &at, "--token-file", &token]));
    assert_eq!(done.status.code(), Some(64));
    // Nobody is asked, so what says how is a mistake.
    for words in [
        &["get", "cds", "--server", &at, "--admin-ca", &ca][..],
        &["diff", dir, dir, "--admin-ca", &ca],
        &["explain-node", "edge-1", dir, "--admin-cert", &cert, "--admin-key", &key],
    ] {
        let done = finished(&mut chancery(words));
        let told = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(64) && told.contains("--admin"), "{words:?}: {told}");
    }
}

#[test]
fn the_interface_that_the_environment_names_may_be_a_url() {
    let site = Site::start();
    let at = format!("127.0.0.1:{}", site.server.port);
    let connected = ["watch", "cds", "--server", &at, "--node", "edge-1", "--cluster", "edge"];
    let _node = Running::start(
        chancery(&[&connected[..], &["--admin", "off"]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    eventually(|| site.server.admin("/api/v1/nodes").1.contains("edge-1"));
    let url = format!("https://localhost:{}", site.server.admin);
    let ca = site.path("ca.pem");
    let get = |server: &str, admin: &str| {
        let words = ["get", "cds", "--server", server, "--node", "edge-1", "--admin-ca", &ca];
        let output = finished(chancery(&words).env("CHANCERY_ADMIN", admin));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, told) = get(&at, &url);
    assert!(code == Some(0) && told.contains("knows it, of cluster `edge`"), "{code:?} {told}");
    let (code, told) = get(&at, "nonsense");
    assert!(code == Some(64) && told.contains("`CHANCERY_ADMIN`"), "{code:?} {told}");
}

#[test]
fn the_address_of_discovery_and_that_of_the_interface_are_told_apart() {
    let help = |command: &str| {
        let output = finished(&mut chancery(&[command, "--help"]));
        String::from_utf8(output.stdout).unwrap()
    };
    for command in ["status", "wait", "load", "confirm", "get", "watch", "diff", "explain-node"] {
        let text = help(command);
        for flag in [
            "--admin <ADDR>",
            "--admin-ca ",
            "--admin-cert ",
            "--admin-key ",
            "--admin-token-file ",
        ] {
            assert!(text.contains(flag), "{command} {flag}: {text}");
        }
        assert!(text.contains("Admin interface:\n"), "{command}: {text}");
    }
    for command in ["get", "watch", "diff"] {
        assert!(help(command).contains("discovery port"), "{command}");
    }
    for command in ["status", "wait", "load", "confirm"] {
        assert!(!help(command).contains("--server"), "{command}");
    }
}
