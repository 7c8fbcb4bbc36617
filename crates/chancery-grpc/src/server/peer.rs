//! The proof of who the peer of a connection is.

use bytes::Bytes;
use chancery_calls::filters::rbac::{PeerCertificate, PeerIdentity};
use chancery_tls::AlternativeName;
use tokio_rustls::rustls::ServerConnection;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// The peer of a connection, as far as it has proved who it is.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    /// The connection is not TLS.
    Plain,
    /// The connection is TLS, with a certificate of the peer if it has shown one that was verified.
    Tls(Option<Shown>),
}

/// A certificate of a peer, and its names.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    der: Bytes,
    uris: Vec<String>,
    dns_names: Vec<String>,
    subject: String,
}

impl Peer {
    /// Returns the peer of a connection after its handshake.
    pub(super) fn of(connection: &ServerConnection) -> Self {
        let certificates = connection.peer_certificates().unwrap_or_default();
        Self::Tls(certificates.first().map(Shown::new))
    }

    /// Returns the proof, as RBAC asks for it.
    pub(super) fn identity(&self) -> PeerIdentity<'_> {
        match self {
            Self::Plain => PeerIdentity::Plain,
            Self::Tls(None) => PeerIdentity::Tls(None),
            Self::Tls(Some(Shown { uris, dns_names, subject, .. })) => {
                PeerIdentity::Tls(Some(PeerCertificate { uris, dns_names, subject }))
            }
        }
    }

    /// Returns the certificate, if there is one.
    pub(super) fn certificate(&self) -> Option<&Bytes> {
        match self {
            Self::Plain | Self::Tls(None) => None,
            Self::Tls(Some(shown)) => Some(&shown.der),
        }
    }
}

impl Shown {
    /// Reads the names of a certificate. TLS bounds the length of it.
    fn new(certificate: &CertificateDer<'_>) -> Self {
        let (mut uris, mut dns_names) = (Vec::new(), Vec::new());
        for name in chancery_tls::alternative_names(certificate, usize::MAX) {
            match name {
                AlternativeName::Uri(uri) => uris.push(uri.to_owned()),
                AlternativeName::Dns(name) => dns_names.push(name.to_owned()),
                _ => {}
            }
        }
        let subject = chancery_tls::subject_text(certificate).unwrap_or_default();
        Self { der: Bytes::copy_from_slice(certificate), uris, dns_names, subject }
    }
}
