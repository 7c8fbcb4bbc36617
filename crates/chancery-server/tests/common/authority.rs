//! Certificates made for a test, and clients that trust them.

use std::path::Path;
use std::sync::Arc;

use chancery_server::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, SupportedProtocolVersion};

use super::within;

/// An authority that signs certificates for `localhost`.
pub(crate) struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl CertificateAuthority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate and its key.
    pub(crate) fn sign(&self) -> (String, String) {
        self.sign_with(|_| {})
    }

    /// A certificate with a number, under which it may be revoked.
    pub(crate) fn sign_numbered(&self, number: u64) -> (String, String) {
        self.sign_with(|params| params.serial_number = Some(SerialNumber::from(number)))
    }

    /// A certificate that has expired.
    pub(crate) fn sign_expired(&self) -> (String, String) {
        self.sign_with(|params| params.not_after = date_time_ymd(2020, 2, 29))
    }

    fn sign_with(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        change(&mut params);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A list of the revoked numbers.
    pub(crate) fn revoke(&self, numbers: &[u64]) -> String {
        let revoked = |number: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*number),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2024, 2, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: numbers.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// The certificate of the authority.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn write_to(&self, directory: &Path) {
        let (cert, key) = self.sign();
        replace(&directory.join("key.pem"), &key);
        replace(&directory.join("cert.pem"), &cert);
        replace(&directory.join("ca.pem"), &self.pem);
    }

    /// A client that trusts this authority, and shows a certificate if it is given one.
    pub(crate) async fn connect(
        &self,
        to: std::net::SocketAddr,
        identity: Option<(String, String)>,
        protocol: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        connect_with(&self.client(identity, protocol), to).await
    }

    /// The configuration of such a client, which keeps the sessions it may resume.
    pub(crate) fn client(
        &self,
        identity: Option<(String, String)>,
        protocol: &str,
    ) -> Arc<ClientConfig> {
        self.client_of(identity, protocol, ALL_VERSIONS)
    }

    /// The configuration of a client of these versions of TLS.
    pub(crate) fn client_of(
        &self,
        identity: Option<(String, String)>,
        protocol: &str,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        self.client_with(identity, Vec::new(), protocol, versions)
    }

    /// The same for a client that shows more certificates than its own, whatever they are.
    pub(crate) fn client_with(
        &self,
        identity: Option<(String, String)>,
        more: Vec<CertificateDer<'static>>,
        protocol: &str,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            Some((cert, key)) => builder
                .with_client_auth_cert(
                    [vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()], more].concat(),
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Arc::new(config)
    }
}

/// Connects with a configuration.
pub(crate) async fn connect_with(
    config: &Arc<ClientConfig>,
    to: std::net::SocketAddr,
) -> std::io::Result<TlsStream<TcpStream>> {
    shake_hands(config, TcpStream::connect(to).await?).await
}

/// Does a handshake on a connection.
pub(crate) async fn shake_hands(
    config: &Arc<ClientConfig>,
    io: TcpStream,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").unwrap();
    within(TlsConnector::from(Arc::clone(config)).connect(name, io)).await
}

/// Replaces a file as a careful writer does.
pub(crate) fn replace(path: &Path, content: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, content).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

pub(crate) fn files(directory: &Path, client_ca: bool) -> TlsFiles {
    TlsFiles {
        cert: directory.join("cert.pem"),
        key: directory.join("key.pem"),
        client_ca: client_ca.then(|| directory.join("ca.pem")),
        client_crl: Vec::new(),
    }
}
