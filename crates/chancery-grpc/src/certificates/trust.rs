//! The authorities that a certificate of a peer has to be signed by.

use std::sync::Arc;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::spiffe::Bundles;

/// Authorities that are trusted.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// These, for every peer.
    Authorities(Arc<RootCertStore>),
    /// Those of the trust domain that the peer says it is in (gRFC A87).
    Bundles(Arc<Bundles>),
}

/// The reason why a peer has no authority that is trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TrustError(String);

impl Trust {
    /// Returns the authorities, one of which has to have signed this certificate of a peer.
    ///
    /// # Errors
    /// If the certificate is in no trust domain that is known.
    pub(crate) fn of(
        &self,
        certificate: &CertificateDer<'_>,
    ) -> Result<&Arc<RootCertStore>, TrustError> {
        match self {
            Self::Authorities(authorities) => Ok(authorities),
            Self::Bundles(bundles) => bundles.of(certificate).map_err(TrustError),
        }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Authorities(one), Self::Authorities(other)) => one.roots == other.roots,
            (Self::Bundles(one), Self::Bundles(other)) => one.is_same(other),
            _ => false,
        }
    }
}
