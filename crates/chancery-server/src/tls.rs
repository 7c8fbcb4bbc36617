//! TLS with certificates that are replaced while the server runs.
//!
//! A [`Tls`] is read from files. When they change, or when it is told to, it reads them again: new
//! connections then use the new ones. Files that cannot be used are reported and change nothing, so
//! a certificate and a key that do not belong together yet do no harm. Both HTTP versions are
//! offered (ALPN).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use tracing::{info, warn};

/// Where certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server and those that lead to its authority, as PEM.
    pub cert: PathBuf,
    /// The private key of the certificate, as PEM.
    pub key: PathBuf,
    /// The authorities of clients, as PEM. With them, a client must show a certificate.
    pub client_ca: Option<PathBuf>,
}

/// TLS as it is at present.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<ServerConfig>,
    /// What the files looked like when they were read last, whether they could be used or not.
    seen: Mutex<Vec<FileStamp>>,
}

/// What tells that a file was replaced. Links are followed, so swapped ones are noticed.
type FileStamp = Option<(SystemTime, u64)>;

/// Why certificates cannot be used: the environment's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is not there or is no PEM.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A file has nothing that is needed.
    #[error("`{}` has no certificate", path.display())]
    NoCertificate {
        /// Which file.
        path: PathBuf,
    },
    /// The certificate is unusable, or the key is not its key.
    #[error("cannot use certificate `{}` with key `{}`", cert.display(), key.display())]
    Pair {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// A certificate of an authority is unusable.
    #[error("cannot use an authority in `{}`", path.display())]
    Authority {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The authorities together are unusable.
    #[error("cannot verify clients by `{}`", path.display())]
    Verifier {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: VerifierBuilderError,
    },
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file cannot be read, or they do not fit together.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let seen = Mutex::new(files.seen());
        let current = ArcSwap::from_pointee(files.read()?);
        Ok(Arc::new(Self { files, current, seen }))
    }

    /// Reads the files again. Connections made before keep what they have.
    ///
    /// # Errors
    /// When they cannot be used; what was used before is used on.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.remember();
        self.current.store(Arc::new(self.files.read()?));
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// Looks every so often whether the files changed. Never ends.
    pub(crate) async fn follow(&self, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            self.reload_if_changed();
        }
    }

    /// Failures are reported once for each change, and tried again with the next.
    fn reload_if_changed(&self) {
        if !self.remember() {
            return;
        }
        match self.files.read() {
            Ok(config) => {
                self.current.store(Arc::new(config));
                info!(cert = %self.files.cert.display(), "certificates were replaced");
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                let cause = cause.unwrap_or_default();
                warn!("certificates were not replaced, the old ones stay: {error}: {cause}");
            }
        }
    }

    /// Whether the files look different from the last time.
    fn remember(&self) -> bool {
        let now = self.files.seen();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *seen, now.clone()) != now
    }
}

impl TlsFiles {
    fn read(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|source| self.unusable_pair(source))?;
        let builder = match &self.client_ca {
            Some(path) => builder.with_client_cert_verifier(verifier(path, provider)?),
            None => builder.with_no_client_auth(),
        };
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|source| TlsError::Read { path: self.key.clone(), source })?;
        let mut config = builder
            .with_single_cert(certificates(&self.cert)?, key)
            .map_err(|source| self.unusable_pair(source))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Tickets make a reconnect cost half.
        if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
            config.ticketer = ticketer;
        }
        Ok(config)
    }

    fn unusable_pair(&self, source: rustls::Error) -> TlsError {
        TlsError::Pair { cert: self.cert.clone(), key: self.key.clone(), source }
    }

    fn seen(&self) -> Vec<FileStamp> {
        let files = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        let look = |path: &PathBuf| {
            let file = std::fs::metadata(path).ok()?;
            Some((file.modified().ok()?, identity(&file)))
        };
        files.into_iter().flatten().map(look).collect()
    }
}

/// The inode, where there is one: a file that is moved into place may have any age.
#[cfg(unix)]
fn identity(file: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(file)
}

#[cfg(not(unix))]
fn identity(file: &std::fs::Metadata) -> u64 {
    file.len()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |source| TlsError::Read { path: path.to_owned(), source };
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect();
    let found = found.map_err(unreadable)?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(found)
}

fn verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots
            .add(authority)
            .map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|source| TlsError::Verifier { path: path.to_owned(), source })
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}
