//! TLS with files that are replaced while a client runs (C-008).
//!
//! Files are first read for the first connection. New connections use what was read until the
//! interval is over; then the next connection reads the files again. If one part cannot be used
//! (the authorities, or the certificate with its key), the old one stays and the next connection
//! tries again. So a certificate that is replaced before its key does no harm.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task;
use tokio::time::Instant;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tracing::warn;

use super::TlsFiles;

pub use chancery_tls::TlsError;

/// The TLS of one server, from files that may be replaced.
pub(super) struct ReloadingTls {
    files: TlsFiles,
    held: Mutex<Option<Held>>,
}

/// The material for new connections, and the configuration made from it.
#[derive(Clone)]
struct Held {
    config: Arc<ClientConfig>,
    material: Material<Arc<RootCertStore>, Arc<CertifiedKey>>,
    /// The last time at which all parts could be used.
    read_at: Instant,
}

/// The authorities the client trusts, and its identity.
#[derive(Clone)]
struct Material<R, I> {
    roots: R,
    identity: Option<I>,
}

type Read = Material<Result<Arc<RootCertStore>, TlsError>, Result<Arc<CertifiedKey>, TlsError>>;

impl ReloadingTls {
    pub(super) fn new(files: TlsFiles) -> Self {
        Self { files, held: Mutex::new(None) }
    }

    /// The configuration for the next connection.
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

    /// Takes over the parts that could be read, and keeps the others as they were.
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
        // Of two connections that read the files at the same time, the later one counts.
        if held.as_ref().is_none_or(|held| held.read_at <= newer.read_at) {
            *held = Some(newer);
        }
        Ok(config)
    }
}

/// The part that was read, or the old one if it could not be read.
fn or_kept<T>(
    read: Result<T, TlsError>,
    before: Option<T>,
    late: &mut impl FnMut(),
) -> Result<T, TlsError> {
    match (read, before) {
        (Err(error), Some(before)) => {
            late();
            let error = error.with_cause();
            warn!("certificates were not replaced, the old ones stay: {error}");
            Ok(before)
        }
        (read, _) => read,
    }
}

impl TlsFiles {
    fn read(&self) -> Read {
        Material {
            roots: match &self.ca {
                Some(path) => chancery_tls::authorities(path),
                None => chancery_tls::system_authorities(),
            },
            identity: self.identity.as_ref().map(|it| chancery_tls::identity(&it.cert, &it.key)),
        }
    }
}

impl Material<Arc<RootCertStore>, Arc<CertifiedKey>> {
    /// Makes a configuration for each reading, because sessions must not outlive an identity.
    fn config(&self) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(chancery_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Config { source: error.into() })?
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

impl fmt::Debug for ReloadingTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}
