//! TLS, mutual TLS and Unix sockets, and certificates that are replaced while the server runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chancery_core::Node;
use chancery_server::{
    AudienceName, ByNode, Client as Asking, Config, Limits, Listener, Metrics, OneAudience, Peer,
    Policy, Refusal, Server, Store, Times, Tls, TlsFiles,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_util::sync::CancellationToken;

use crate::common::authority::{CertificateAuthority, connect_with, files, replace, shake_hands};
use crate::common::client::{Http2Client, http1};
use crate::common::message::{SotwRequest, SotwResponse};
use crate::common::{ADS_SOTW, CDS, Running, snapshot, within};

async fn serve(tls: Arc<Tls>, policy: impl Policy, times: Times) -> Running {
    let config = Config { times, ..Config::default() };
    let server = Running::with(config, policy, Some(tls), Metrics::default()).await;
    server.publish(&[("a", "1")]);
    server
}

async fn subscribe(client: &Http2Client) -> SotwResponse {
    let mut stream = client.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    stream.next().await.unwrap()
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    let tls = Tls::load(files(directory.path(), false)).unwrap();
    let server = serve(tls, OneAudience("all".into()), Times::default()).await;
    let io = authority.connect(server.address, None, "h2").await.unwrap();
    assert_eq!(subscribe(&Http2Client::over(io).await).await.resources.len(), 1);
    let io = authority.connect(server.address, None, "http/1.1").await.unwrap();
    let head = "POST /v3/discovery:clusters HTTP/1.1\r\ncontent-type: application/json";
    assert!(http1(io, head, "{}").await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn who_stalls_in_a_handshake_keeps_no_other_from_one() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    let tls = Tls::load(files(directory.path(), false)).unwrap();
    // A handshake may take longer than this test; there is room for one.
    let times = Times { handshake_timeout: Duration::from_secs(3600), ..Times::default() };
    let limits = Limits { max_handshakes: 1, ..Limits::default() };
    let config = Config { times, limits, ..Config::default() };
    let server =
        Running::with(config, OneAudience("all".into()), Some(tls), Metrics::default()).await;
    server.publish(&[("a", "1")]);
    let mut stalled = Vec::new();
    // One after another they would have their places for a minute.
    for _ in 0..300 {
        stalled.push(TcpStream::connect(server.address).await.unwrap());
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let io = socket.connect(server.address).await.unwrap();
    let io = shake_hands(&authority.client(None, "h2"), io).await.unwrap();
    assert_eq!(subscribe(&Http2Client::over(io).await).await.resources.len(), 1);
    // They may still end their own.
    let mut late = stalled.remove(0);
    late.write_all(b"no handshake at all").await.unwrap();
    assert_eq!(within(late.read(&mut [0])).await.unwrap(), 1, "an alert");
}

/// Remembers who asked.
struct Asked(Arc<Mutex<Option<Peer>>>);

impl Policy for Asked {
    fn audience(&self, client: &Asking<'_>) -> Result<AudienceName, Refusal> {
        *self.0.lock().unwrap() = Some(client.peer.clone());
        ByNode(|_: &Node| "all".into()).audience(client)
    }
}

#[tokio::test]
async fn a_client_must_show_a_certificate_of_the_authority_if_there_is_one() {
    // S-137
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    let asked = Arc::new(Mutex::new(None));
    let tls = Tls::load(files(directory.path(), true)).unwrap();
    let server = serve(tls, Asked(Arc::clone(&asked)), Times::default()).await;
    let identity = authority.sign();
    let shown = CertificateDer::from_pem_slice(identity.0.as_bytes()).unwrap();
    let io = authority.connect(server.address, Some(identity), "h2").await.unwrap();
    subscribe(&Http2Client::over(io).await).await;
    let peer = asked.lock().unwrap().clone().unwrap();
    assert!(peer.tls && peer.is_trusted());
    assert_eq!(peer.certificates, [shown.to_vec()]);
    for identity in [None, Some(CertificateAuthority::new().sign())] {
        // In TLS 1.3 the client hears of the refusal with the first bytes.
        let Ok(io) = authority.connect(server.address, identity, "h2").await else { continue };
        assert!(http1_refused(io).await);
    }
}

#[tokio::test]
async fn a_client_may_show_no_more_certificates_than_chains_have() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    let tls = Tls::load(files(directory.path(), true)).unwrap();
    let server = serve(tls, OneAudience("all".into()), Times::default()).await;
    for version in [&TLS12, &TLS13] {
        let is_served = async |others: Vec<CertificateDer<'static>>| {
            let identity = Some(authority.sign());
            let client = authority.client_with(identity, others, "h2", &[version]);
            match connect_with(&client, server.address).await {
                Ok(io) => !http1_refused(io).await,
                Err(_) => false,
            }
        };
        let of = |bytes: usize| CertificateDer::from(vec![0x30; bytes]);
        assert!(is_served(vec![of(15_000)]).await);
        assert!(!is_served(vec![of(60_000)]).await);
        assert!(!is_served(vec![of(10); 3]).await, "they have the same name");
        let named: Vec<_> = (0..6).map(|_| CertificateAuthority::new()).collect();
        let named = named.iter().map(|it| CertificateDer::from_pem_slice(it.pem().as_bytes()));
        let named = named.collect::<Result<Vec<_>, _>>().unwrap();
        assert!(is_served(named[..2].to_vec()).await);
        assert!(!is_served(named).await);
    }
}

async fn http1_refused(io: TlsStream<TcpStream>) -> bool {
    let mut io = io;
    let written = io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    written.is_err() || within(io.read(&mut [0; 9])).await.is_err()
}

#[tokio::test]
async fn certificates_are_replaced_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (CertificateAuthority::new(), CertificateAuthority::new());
    old.write_to(directory.path());
    let tls = Tls::load(files(directory.path(), true)).unwrap();
    let times = Times { tls_reload: Duration::from_millis(10), ..Times::default() };
    let server = serve(Arc::clone(&tls), OneAudience("all".into()), times).await;
    let io = old.connect(server.address, Some(old.sign()), "h2").await.unwrap();
    let before = Http2Client::over(io).await;
    new.write_to(directory.path());
    within(async {
        while new.connect(server.address, Some(new.sign()), "h2").await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The server's certificate is read before the authority, which may be a moment later.
    tls.reload().unwrap();
    let io = new.connect(server.address, Some(new.sign()), "h2").await.unwrap();
    assert_eq!(subscribe(&Http2Client::over(io).await).await.resources.len(), 1);
    within(before.connection).await.unwrap().unwrap();
}

/// A directory with the files of an authority, and a server of it that ends connections at once.
struct MutualTls {
    directory: tempfile::TempDir,
    authority: CertificateAuthority,
    tls: Arc<Tls>,
    server: Running,
}

impl MutualTls {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::new();
        authority.write_to(directory.path());
        let crl = directory.path().join("crl.pem");
        replace(&crl, &authority.revoke(&[]));
        let files = TlsFiles { client_crl: vec![crl], ..files(directory.path(), true) };
        let tls = Tls::load(files).unwrap();
        let times = Times { drain: Duration::ZERO, ..Times::default() };
        let server = serve(Arc::clone(&tls), OneAudience("all".into()), times).await;
        Self { directory, authority, tls, server }
    }

    async fn connect(&self, identity: (String, String)) -> Http2Client {
        let io = self.authority.connect(self.server.address, Some(identity), "h2").await;
        Http2Client::over(io.unwrap()).await
    }

    fn write(&self, name: &str, content: &str) {
        replace(&self.directory.path().join(name), content);
    }
}

#[tokio::test]
async fn a_client_that_shows_a_certificate_shows_it_each_time() {
    // S-137: a resumed session would outlive the certificate
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    for with_ca in [true, false] {
        let tls = Tls::load(files(directory.path(), with_ca)).unwrap();
        let server = serve(tls, OneAudience("all".into()), Times::default()).await;
        for version in [&TLS12, &TLS13] {
            let identity = with_ca.then(|| authority.sign());
            let client = authority.client_of(identity, "h2", &[version]);
            let mut kinds = Vec::new();
            for _ in 0..3 {
                let io = connect_with(&client, server.address).await.unwrap();
                let (kind, io) = (io.get_ref().1.handshake_kind().unwrap(), io);
                kinds.push(kind);
                // A ticket comes with the first bytes of the server.
                subscribe(&Http2Client::over(io).await).await;
            }
            let resumed = kinds.contains(&HandshakeKind::Resumed);
            assert_eq!(resumed, !with_ca, "{version:?} {kinds:?}");
        }
    }
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_and_its_connections_end() {
    // S-137
    let mutual = MutualTls::start().await;
    let (one, two) = (mutual.authority.sign_numbered(1), mutual.authority.sign_numbered(2));
    let (first, second) = (mutual.connect(one.clone()).await, mutual.connect(two).await);
    let mut stream = first.open(ADS_SOTW).await.unwrap();
    stream.send(&SotwRequest::first(CDS, &[]));
    stream.next::<SotwResponse>().await.unwrap();
    mutual.write("crl.pem", &mutual.authority.revoke(&[1]));
    mutual.tls.reload().unwrap();
    let (code, text) = stream.next::<SotwResponse>().await.unwrap_err();
    assert_eq!((code, text.as_str()), (14, "draining"), "as at a shutdown");
    within(first.connection).await.unwrap().unwrap();
    assert_eq!(subscribe(&second).await.resources.len(), 1, "the other one stays");
    if let Ok(io) = mutual.authority.connect(mutual.server.address, Some(one), "h2").await {
        assert!(http1_refused(io).await);
    }
    mutual.write("crl.pem", "nothing");
    let error = mutual.tls.reload().unwrap_err().to_string();
    assert!(error.contains("crl.pem"), "{error}");
}

#[tokio::test]
async fn a_list_that_is_none_is_told_with_its_file() {
    let mutual = MutualTls::start().await;
    let list = mutual.authority.revoke(&[1]);
    let cut: String = list.lines().filter(|line| line.len() < 64).collect::<Vec<_>>().join("\n");
    mutual.write("crl.pem", &cut);
    let error = mutual.tls.reload().unwrap_err().to_string();
    assert!(error.contains("revocation list") && error.contains("crl.pem"), "{error}");
}

#[tokio::test]
async fn connections_of_an_authority_that_is_gone_end() {
    // S-137
    let mutual = MutualTls::start().await;
    let client = mutual.connect(mutual.authority.sign()).await;
    let other = CertificateAuthority::new();
    mutual.write("ca.pem", &format!("{}{}", mutual.authority.pem(), other.pem()));
    mutual.tls.reload().unwrap();
    assert_eq!(subscribe(&client).await.resources.len(), 1);
    mutual.write("ca.pem", other.pem());
    mutual.write("crl.pem", &other.revoke(&[]));
    mutual.tls.reload().unwrap();
    within(client.connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_expired_certificate_does_not_replace_a_valid_one() {
    let mutual = MutualTls::start().await;
    let (cert, key) = mutual.authority.sign_expired();
    mutual.write("key.pem", &key);
    mutual.write("cert.pem", &cert);
    mutual.tls.reload().unwrap();
    let client = mutual.connect(mutual.authority.sign()).await;
    assert_eq!(subscribe(&client).await.resources.len(), 1);
    // A server that has nothing better starts with it.
    assert!(Tls::load(files(mutual.directory.path(), true)).is_ok());
}

#[tokio::test]
async fn an_expired_certificate_keeps_out_no_revocation_list() {
    // S-137
    let mutual = MutualTls::start().await;
    let client = mutual.connect(mutual.authority.sign_numbered(1)).await;
    let (cert, key) = mutual.authority.sign_expired();
    mutual.write("key.pem", &key);
    mutual.write("cert.pem", &cert);
    mutual.write("crl.pem", &mutual.authority.revoke(&[1]));
    mutual.tls.reload().unwrap();
    within(client.connection).await.unwrap().unwrap();
    // Clients that check the certificate of the server still accept it.
    let client = mutual.connect(mutual.authority.sign_numbered(2)).await;
    assert_eq!(subscribe(&client).await.resources.len(), 1);
}

#[tokio::test]
async fn certificates_that_cannot_be_used_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    let tls = Tls::load(files(directory.path(), false)).unwrap();
    let server = serve(Arc::clone(&tls), OneAudience("all".into()), Times::default()).await;
    replace(&directory.path().join("key.pem"), &authority.sign().1);
    let error = tls.reload().unwrap_err().to_string();
    assert!(error.contains("cert.pem") && error.contains("key.pem"), "{error}");
    replace(&directory.path().join("cert.pem"), "nothing");
    let error = tls.reload().unwrap_err().to_string();
    assert!(error.contains("cert.pem"), "{error}");
    std::fs::remove_file(directory.path().join("cert.pem")).unwrap();
    assert!(tls.reload().is_err());
    let io = authority.connect(server.address, None, "h2").await.unwrap();
    assert_eq!(subscribe(&Http2Client::over(io).await).await.resources.len(), 1);
}

#[tokio::test]
async fn a_handshake_that_takes_too_long_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let authority = CertificateAuthority::new();
    authority.write_to(directory.path());
    let tls = Tls::load(files(directory.path(), false)).unwrap();
    let times = Times { handshake_timeout: Duration::from_secs(1), ..Times::default() };
    let server = serve(tls, OneAudience("all".into()), times).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(within(silent.read(&mut [0])).await.unwrap_or(0), 0);
    let io = authority.connect(server.address, None, "h2").await.unwrap();
    assert_eq!(subscribe(&Http2Client::over(io).await).await.resources.len(), 1);
}

#[tokio::test]
async fn a_unix_socket_serves_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("xds.sock");
    // The socket of a server that is gone does not stand in the way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listener = Listener::unix(&path).unwrap();
    let (store, stop) = (Store::new(), CancellationToken::new());
    store.publish("all", snapshot(&[("a", "1")]));
    let asked = Arc::new(Mutex::new(None));
    let server = Server::new(store, Asked(Arc::clone(&asked)), Config::default());
    let serving = tokio::spawn(server.serve(vec![listener], stop.clone().cancelled_owned()));
    let io = UnixStream::connect(&path).await.unwrap();
    let client = Http2Client::over(io).await;
    assert_eq!(subscribe(&client).await.resources.len(), 1);
    assert!(asked.lock().unwrap().clone().unwrap().is_trusted());
    assert!(Listener::unix(&path).is_err(), "somebody listens there");
    drop(client);
    stop.cancel();
    within(serving).await.unwrap().unwrap();
    assert!(!path.exists());
}
