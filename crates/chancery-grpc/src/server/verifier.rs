//! The check of the certificate of a client: an authority that is trusted has signed it, and it is valid now. Not
//! here: who may make which call, which RBAC says (C-129).

use std::fmt;
use std::sync::Arc;

use chancery_tls::BoundedVerifier;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::certificates::{Trust, refused};

/// Checks the certificates of clients. The authorities may depend on the certificate (gRFC A87), so they are
/// found when it is known.
pub(super) struct ClientVerifier {
    trust: Trust,
    is_mandatory: bool,
    crypto: Arc<CryptoProvider>,
}

impl ClientVerifier {
    pub(super) fn new(trust: Trust, is_mandatory: bool, crypto: &Arc<CryptoProvider>) -> Self {
        Self { trust, is_mandatory, crypto: Arc::clone(crypto) }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    /// None is named: a client has one certificate for its mesh, and the list would be as long as the file.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let roots = self.trust.of(end_entity).map_err(|error| refused(error.to_string()))?;
        let crypto = Arc::clone(&self.crypto);
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), crypto);
        let verifier = verifier.build().map_err(|error| refused(error.to_string()))?;
        BoundedVerifier(verifier).verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for ClientVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientVerifier").finish_non_exhaustive()
    }
}
