//! Certificates, keys, authorities and revocation lists, read and checked.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::TlsError;

/// The cryptography of server and client.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A certificate, those that lead to its authority, and its private key.
///
/// # Errors
/// When a file cannot be read, or the key is not that of the certificate.
pub fn identity(cert: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(unreadable(key))?;
    let pair = CertifiedKey::from_der(certificates(cert)?, private, &provider());
    pair.map(Arc::new).map_err(|error| TlsError::Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        source: error.into(),
    })
}

/// The authorities in a file. One that is broken fails the file: it was put there to be trusted.
///
/// # Errors
/// When the file cannot be read, or an authority in it cannot be used.
pub fn authorities(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        let unusable = |error: rustls::Error| TlsError::Authority {
            path: path.to_owned(),
            source: error.into(),
        };
        roots.add(authority).map_err(unusable)?;
    }
    Ok(Arc::new(roots))
}

/// The revocation lists in a file, which may be of several authorities.
///
/// # Errors
/// When the file cannot be read, or has no list.
pub fn revocation_list(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> =
        CertificateRevocationListDer::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(unreadable(path))?;
    if found.is_empty() {
        return Err(TlsError::NoRevocationList { path: path.to_owned() });
    }
    Ok(found)
}

/// The authorities of the system, without those that are broken: nobody asked for them here.
///
/// # Errors
/// When there are none.
pub fn system_authorities() -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoSystemAuthorities) } else { Ok(Arc::new(roots)) }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(unreadable(path))?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(found)
}

/// Reads a file of PEM, which is a regular file or refused by its kind.
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    chancery_files::read(path, MAX_PEM_BYTES)
        .map_err(|error| TlsError::Read { path: path.to_owned(), source: error.into() })
}

fn unreadable(path: &Path) -> impl FnOnce(pem::Error) -> TlsError {
    |error| TlsError::Read { path: path.to_owned(), source: error.into() }
}

/// The limit for a file of PEM. All authorities of the web are a quarter of a megabyte.
const MAX_PEM_BYTES: u64 = 16 << 20;
