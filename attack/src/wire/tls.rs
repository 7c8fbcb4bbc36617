//! Certificates that are made for an attack, and clients that show them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::dial;

/// An authority that signs certificates for `localhost`.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, as PEM.
pub(crate) type Identity = (String, String);

/// The life of certificates that are not to expire meanwhile.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);

/// The authority of the certificates of this run.
pub(crate) fn authority() -> Result<&'static Authority> {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    if AUTHORITY.get().is_none() {
        // Another thread may have been faster, and then both use its authority.
        AUTHORITY.set(Authority::new()?).ok();
    }
    AUTHORITY.get().context("it was set")
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// A certificate that is good for this time from now on, and its key.
    pub(crate) fn sign(&self, life: Duration) -> Result<Identity> {
        self.sign_as(1, life)
    }

    /// A certificate with a serial number, by which it can be revoked, and its key.
    pub(crate) fn sign_as(&self, serial: u64, life: Duration) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_after = (SystemTime::now() + life).into();
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }

    /// The list of the certificates with these serial numbers as revoked ones.
    pub(crate) fn revokes(&self, serials: &[u64]) -> Result<String> {
        let (now, tomorrow) = (SystemTime::now(), SystemTime::now() + LONG);
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: tomorrow.into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }

    /// The files that the server needs, by name.
    pub(crate) fn files(&self) -> Result<Vec<(&'static str, String)>> {
        let (cert, key) = self.sign(LONG)?;
        Ok(vec![("cert.pem", cert), ("key.pem", key), ("ca.pem", self.pem.clone())])
    }

    /// The settings of a client that trusts this authority and keeps the tickets it is given.
    pub(crate) fn client(&self, identity: Option<&Identity>) -> Result<TlsConnector> {
        self.connector(identity, Vec::new())
    }

    /// The same for a client that shows more certificates than its own, whatever they are.
    pub(crate) fn client_with(
        &self,
        identity: &Identity,
        more: Vec<Vec<u8>>,
    ) -> Result<TlsConnector> {
        self.connector(Some(identity), more)
    }

    fn connector(&self, identity: Option<&Identity>, more: Vec<Vec<u8>>) -> Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes())?)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match identity {
            Some((cert, key)) => {
                let own = CertificateDer::from_pem_slice(cert.as_bytes())?;
                let chain = [own].into_iter().chain(more.into_iter().map(CertificateDer::from));
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
                builder.with_client_auth_cert(chain.collect(), key)?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// Connects over TLS.
pub(crate) async fn connect(
    connector: &TlsConnector,
    from: Ipv4Addr,
    to: SocketAddr,
) -> Result<TlsStream<TcpStream>> {
    let io = dial(from, to, true).await?;
    Ok(connector.connect(ServerName::try_from("localhost")?, io).await?)
}
