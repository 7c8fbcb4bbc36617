//! TLS with files that are replaced while a client runs (C-008).
//!
//! Nothing is read before a connection needs it. From then on, what was read serves new connections
//! for as long as the interval says; the first one after it has the files read again. A part that
//! cannot be used, the authorities or the certificate with its key, stays what it was, and the next
//! connection tries again: so a certificate that is replaced before its key does no harm.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task;
use tokio::time::Instant;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tracing::warn;

use super::{Identity, TlsFiles};

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
    /// The system trusts nobody, and no file says whom to trust.
    #[error("the system has no certificates of authorities; name some in `ca_certificate_file`")]
    NoSystemAuthorities,
    /// What was read makes no configuration.
    #[error("cannot make a configuration for TLS")]
    Config {
        /// Why.
        source: rustls::Error,
    },
    /// The program ends.
    #[error("reading certificates was interrupted")]
    Interrupted,
}

/// TLS as it is at present.
pub(super) struct Tls {
    files: TlsFiles,
    held: Mutex<Option<Held>>,
}

/// What connections are made with.
#[derive(Clone)]
struct Held {
    config: Arc<ClientConfig>,
    material: Material<Arc<RootCertStore>, Arc<CertifiedKey>>,
    /// When all of it could be used for the last time.
    read_at: Instant,
}

/// Whom the client trusts, and who it is.
#[derive(Clone)]
struct Material<R, I> {
    roots: R,
    identity: Option<I>,
}

type Read = Material<Result<Arc<RootCertStore>, TlsError>, Result<Arc<CertifiedKey>, TlsError>>;

impl Tls {
    pub(super) fn new(files: TlsFiles) -> Self {
        Self { files, held: Mutex::new(None) }
    }

    /// What the next connection is made with.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let now = Instant::now();
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(held) = &held
            && now.duration_since(held.read_at) < self.files.refresh_interval
        {
            return Ok(Arc::clone(&held.config));
        }
        let files = self.files.clone();
        let read = task::spawn_blocking(move || files.read()).await;
        self.replace(now, held, read.map_err(|_| TlsError::Interrupted)?)
    }

    /// Takes over what can be used of what was read, and keeps the rest as it was.
    fn replace(
        &self,
        now: Instant,
        held: Option<Held>,
        read: Read,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let mut read_at = now;
        let (roots, identity, before) = match held {
            Some(held) => (Some(held.material.roots), held.material.identity, Some(held.read_at)),
            None => (None, None, None),
        };
        let mut late = || read_at = before.unwrap_or(now);
        let roots = or_kept(read.roots, roots, &mut late)?;
        let identity = read.identity.map(|it| or_kept(it, identity, &mut late)).transpose()?;
        let material = Material { roots, identity };
        let config = Arc::new(material.config()?);
        let newer = Held { config: Arc::clone(&config), material, read_at };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two connections that read at the same time, the later one is right.
        if held.as_ref().is_none_or(|held| held.read_at <= newer.read_at) {
            *held = Some(newer);
        }
        Ok(config)
    }
}

/// What was read, or else what was there before.
fn or_kept<T>(
    read: Result<T, TlsError>,
    before: Option<T>,
    late: &mut impl FnMut(),
) -> Result<T, TlsError> {
    match (read, before) {
        (Err(error), Some(before)) => {
            late();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.unwrap_or_default();
            warn!("certificates were not replaced, the old ones stay: {error}: {cause}");
            Ok(before)
        }
        (read, _) => read,
    }
}

impl TlsFiles {
    fn read(&self) -> Read {
        Material {
            roots: self.ca.as_deref().map_or_else(system, authorities).map(Arc::new),
            identity: self.identity.as_ref().map(|identity| identity.read().map(Arc::new)),
        }
    }
}

impl Identity {
    fn read(&self) -> Result<CertifiedKey, TlsError> {
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|source| TlsError::Read { path: self.key.clone(), source })?;
        CertifiedKey::from_der(certificates(&self.cert)?, key, &aws_lc_rs::default_provider())
            .map_err(|source| TlsError::Pair {
                cert: self.cert.clone(),
                key: self.key.clone(),
                source,
            })
    }
}

impl Material<Arc<RootCertStore>, Arc<CertifiedKey>> {
    /// A configuration of its own for each reading, because sessions must not outlive an identity.
    fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| TlsError::Config { source })?
            .with_root_certificates(Arc::clone(&self.roots));
        Ok(match &self.identity {
            Some(identity) => {
                let identity = SingleCertAndKey::from(Arc::clone(identity));
                builder.with_client_cert_resolver(Arc::new(identity))
            }
            None => builder.with_no_client_auth(),
        })
    }
}

/// The authorities in a file. One that is broken fails the file: it was put there to be trusted.
fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots
            .add(authority)
            .map_err(|source| TlsError::Authority { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// The authorities of the system, without those that are broken: nobody asked for them here.
fn system() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoSystemAuthorities) } else { Ok(roots) }
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

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}
