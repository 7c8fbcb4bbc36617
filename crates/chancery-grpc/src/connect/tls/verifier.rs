//! The check of the certificate of a peer: an authority that is trusted has signed it, it is valid now, and it is
//! for a name that is accepted. The check of names that the library has by itself is replaced (C-123).

use std::fmt;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::names::PeerNames;
use crate::certificates::{Trust, refused};

/// Checks the certificates of servers.
pub(super) struct Verifier {
    trust: Trust,
    names: PeerNames,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(trust: Trust, names: PeerNames, crypto: &CryptoProvider) -> Self {
        Self { trust, names, algorithms: crypto.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let roots = self.trust.of(end_entity).map_err(|error| refused(error.to_string()))?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            roots,
            intermediates,
            now,
            algorithms,
        )?;
        // Names of a certificate mean nothing before it is known who has signed them.
        self.names.check(end_entity, &certificate).map_err(refused)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("names", &self.names).finish_non_exhaustive()
    }
}
