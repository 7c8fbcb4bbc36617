//! Certificates that are made for an attack, and clients that show them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{ATTACKER, dial};

/// An authority that signs certificates for `localhost`.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, as PEM.
pub(crate) type Identity = (String, String);

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// A certificate that is good for this time from now on, and its key.
    pub(crate) fn sign(&self, life: Duration) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.not_after = (SystemTime::now() + life).into();
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }

    /// The files that the server needs, by name.
    pub(crate) fn files(&self) -> Result<Vec<(&'static str, String)>> {
        let (cert, key) = self.sign(Duration::from_secs(3600))?;
        Ok(vec![("cert.pem", cert), ("key.pem", key), ("ca.pem", self.pem.clone())])
    }

    /// The settings of a client that trusts this authority and keeps the tickets it is given.
    pub(crate) fn client(&self, identity: Option<&Identity>) -> Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes())?)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match identity {
            Some((cert, key)) => builder.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(cert.as_bytes())?],
                PrivateKeyDer::from_pem_slice(key.as_bytes())?,
            )?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// Connects over TLS.
pub(crate) async fn connect(
    connector: &TlsConnector,
    to: SocketAddr,
) -> Result<TlsStream<TcpStream>> {
    let io = dial(ATTACKER, to, true).await?;
    Ok(connector.connect(ServerName::try_from("localhost")?, io).await?)
}
