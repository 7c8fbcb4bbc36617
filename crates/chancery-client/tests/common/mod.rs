//! Certificates made for a test, and a server that tells its clients whom it sees.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_client::bootstrap::XdsServer;
use chancery_client::credentials::{Alpn, ChannelCredentials, Credentials, Identity, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::within::within;

/// An authority that signs certificates for `localhost`.
pub(crate) struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key.
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl CertificateAuthority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(crate) fn sign(&self) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { cert, key: key.serialize_pem() }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.pem)).unwrap();
        Arc::new(roots)
    }
}

/// A certificate without its armour.
pub(crate) fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// A server that echoes what it is sent, on a free port of its own.
pub(crate) struct Echo {
    port: u16,
    seen: tokio::sync::mpsc::Receiver<Option<CertificateDer<'static>>>,
    _task: JoinSet<()>,
}

impl Echo {
    /// Shows a certificate of `authority`; verifies clients by `clients`, if there are any.
    pub(crate) async fn start(
        authority: &CertificateAuthority,
        clients: Option<&CertificateAuthority>,
    ) -> Self {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let pair = authority.sign();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(clients.roots(), provider)
                    .build()
                    .unwrap(),
            ),
            None => builder.with_no_client_auth(),
        };
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let mut config = builder.with_single_cert(vec![der(&pair.cert)], key).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        let listener = listen().await;
        let port = listener.local_addr().unwrap().port();
        let (tell, seen) = tokio::sync::mpsc::channel(8);
        let mut task = JoinSet::new();
        task.spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), tell));
        Self { port, seen, _task: task }
    }

    /// A connection; the error says which side refused it.
    pub(crate) async fn connect(
        &self,
        config: Arc<ClientConfig>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        within(self.connected(config)).await
    }

    async fn connected(&self, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
        let io = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut io = TlsConnector::from(config).connect(name, io).await?;
        echoed(&mut io).await?;
        Ok(io)
    }

    /// The certificate of the client on the last connection.
    pub(crate) async fn saw(&mut self) -> Option<CertificateDer<'static>> {
        within(self.seen.recv()).await.unwrap()
    }
}

/// Returns true if a connection is alive. Only after a byte has come back is it certain that a
/// server of TLS 1.3 took the client's certificate.
pub(crate) async fn echoed(io: &mut TlsStream<TcpStream>) -> std::io::Result<()> {
    io.write_all(b"x").await?;
    let mut byte = [0];
    within(io.read_exact(&mut byte)).await?;
    assert_eq!(&byte, b"x");
    Ok(())
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    tell: tokio::sync::mpsc::Sender<Option<CertificateDer<'static>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((io, _)) = listener.accept().await {
        let (acceptor, tell) = (acceptor.clone(), tell.clone());
        connections.spawn(async move {
            let Ok(mut io) = acceptor.accept(io).await else { return };
            let peer = io.get_ref().1.peer_certificates().map(|chain| chain[0].clone());
            tell.send(peer.map(CertificateDer::into_owned)).await.unwrap();
            let mut byte = [0];
            while io.read_exact(&mut byte).await.is_ok() && io.write_all(&byte).await.is_ok() {}
        });
    }
}

/// A free port below the range of outgoing connections.
async fn listen() -> TcpListener {
    let start = std::process::id() % 12_000;
    for step in 0..12_000 {
        let port = u16::try_from(20_000 + (start + step) % 12_000).unwrap();
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
            return listener;
        }
    }
    panic!("every port from 20000 on is taken");
}

/// The files of a client.
pub(crate) struct ClientFiles {
    directory: tempfile::TempDir,
}

impl ClientFiles {
    pub(crate) fn new(authority: &CertificateAuthority, pair: &Pair) -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        files.write("ca", &authority.pem);
        files.write("cert", &pair.cert);
        files.write("key", &pair.key);
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces a file as a careful writer does.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let beside = self.path("new");
        std::fs::write(&beside, content).unwrap();
        std::fs::rename(&beside, self.path(name)).unwrap();
    }

    pub(crate) fn tls(&self) -> TlsFiles {
        let identity = Identity { cert: self.path("cert"), key: self.path("key") };
        TlsFiles { ca: Some(self.path("ca")), identity: Some(identity), ..TlsFiles::default() }
    }

    pub(crate) fn credentials(&self) -> Credentials {
        credentials(ChannelCredentials::Tls(self.tls()))
    }
}

pub(crate) fn credentials(channel: ChannelCredentials) -> Credentials {
    let server = XdsServer { uri: "localhost".to_owned(), channel, ..XdsServer::default() };
    server.credentials(Alpn::Http2)
}

/// The configuration of the next connection.
pub(crate) async fn tls(credentials: &Credentials) -> Arc<ClientConfig> {
    credentials.tls().await.unwrap().unwrap()
}

/// A whole chain of errors, as printers show it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// A path as messages write it.
pub(crate) fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}
