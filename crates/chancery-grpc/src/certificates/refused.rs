//! The error of a certificate that this project refuses, for the TLS library. Not here: why one is refused.

use std::sync::Arc;

use tokio_rustls::rustls::{CertificateError, Error, OtherError};

/// A reason of this project, for the library.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Reason(String);

/// Returns the error of a certificate that is refused for this reason.
pub(crate) fn refused(why: String) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Reason(why)))))
}
