//! Certificates made for one test: an authority, and what it signs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType,
};
use tokio_rustls::rustls;

/// An authority; its files are in a directory of the test.
pub(crate) struct CertificateAuthority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

/// A certificate and its key, as text and as the bytes a client sees.
pub(crate) struct CertificateAndKey {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) der: Vec<u8>,
}

impl CertificateAuthority {
    /// Makes an authority and writes `ca.pem`.
    pub(crate) fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir).expect("the test's directory can be written");
        let mut params = CertificateParams::new(Vec::new()).expect("no names to be wrong");
        // Not the name of what it signs: that would look signed by itself.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = params.self_signed(&key).expect("the parameters are whole");
        fs::write(dir.join("ca.pem"), certificate.pem()).expect("as above");
        Self { dir: dir.to_path_buf(), issuer: Issuer::new(params, key), certificate }
    }

    /// Signs a certificate for this machine, and for `spiffe://td.example/NAME`.
    pub(crate) fn identity(&self, name: &str) -> CertificateAndKey {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("these names are well formed");
        let uri = format!("spiffe://td.example/{name}").try_into().expect("it is ASCII");
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names.push(SanType::URI(uri));
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority may sign");
        let der = certificate.der().to_vec();
        CertificateAndKey { certificate: certificate.pem(), key: key.serialize_pem(), der }
    }

    /// Signs a certificate and writes `NAME.pem` and `NAME.key`.
    pub(crate) fn issue(&self, name: &str) -> CertificateAndKey {
        let identity = self.identity(name);
        fs::write(self.file(&format!("{name}.pem")), &identity.certificate).expect("as above");
        fs::write(self.file(&format!("{name}.key")), &identity.key).expect("as above");
        identity
    }

    /// The path of one of its files.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Connects, checks the server's certificate, asks for `/` and returns what it presented.
    pub(crate) fn visit(&self, port: u16) -> Option<Vec<u8>> {
        let (reply, presented) = self.ask(port)?;
        assert_eq!(&reply, b"HTTP/1.1 200");
        Some(presented)
    }

    /// Connects, checks the server's certificate, asks for `/` and returns the beginning of the answer, and
    /// the certificate.
    pub(crate) fn ask(&self, port: u16) -> Option<([u8; 12], Vec<u8>)> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("it is an authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("it is a name");
        let mut session = rustls::ClientConnection::new(Arc::new(config), name).ok()?;
        let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut stream = rustls::Stream::new(&mut session, &mut socket);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).ok()?;
        let presented = session.peer_certificates()?.first()?.to_vec();
        Some((reply, presented))
    }
}

/// Far longer than a handshake takes.
const PATIENCE: Duration = Duration::from_secs(10);
