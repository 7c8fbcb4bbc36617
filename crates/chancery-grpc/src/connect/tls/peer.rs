//! The certificate of a peer that has to be for the authority of each call (C-127, gRFC A81). It was verified in the
//! handshake.

use std::sync::Arc;

use http::uri::Authority;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;

/// The certificate that a peer has shown.
#[derive(Clone, Debug)]
pub(in crate::connect) struct PeerCertificate(Arc<CertificateDer<'static>>);

impl PeerCertificate {
    pub(super) fn new(certificate: &CertificateDer<'_>) -> Self {
        Self(Arc::new(certificate.clone().into_owned()))
    }

    /// Returns true if the certificate is for the host of this authority.
    pub(in crate::connect) fn is_for(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let Ok(name) = ServerName::try_from(host) else { return false };
        let certificate = ParsedCertificate::try_from(&*self.0);
        certificate.is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
    }
}
