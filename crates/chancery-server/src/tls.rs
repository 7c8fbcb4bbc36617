//! TLS with certificates that are replaced while the server runs.
//!
//! A [`Tls`] is read from files. It reads them again when they change or when it is told to; new
//! connections then use the new ones. Files that cannot be used are reported and change nothing, so
//! a certificate and a key that do not belong together yet do no harm. Both HTTP versions are
//! offered (ALPN).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use chancery_tls::FileStamps;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tracing::{info, warn};

pub use chancery_tls::TlsError;

/// The files of a listener's certificates.
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
    /// The files as they were read last, whether they could be used or not.
    stamps: FileStamps,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file cannot be read, or they do not fit together.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let stamps = FileStamps::new(files.paths());
        let current = ArcSwap::from_pointee(files.read()?);
        Ok(Arc::new(Self { files, current, stamps }))
    }

    /// Reads the files again. Connections made before keep what they have.
    ///
    /// # Errors
    /// When they cannot be used; new connections then use what was read before.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.stamps.changed();
        self.current.store(Arc::new(self.files.read()?));
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// Reads the files again when they change, and looks for changes that often. Never ends.
    /// Files that do not answer, as those of another machine, hold up this alone.
    pub(crate) async fn reload_on_change(self: &Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let tls = Arc::clone(self);
            // A panic has been printed, and the next look is taken all the same.
            let _ = tokio::task::spawn_blocking(move || tls.reload_if_changed()).await;
        }
    }

    /// A failure is reported once for each change, and tried again with the next change.
    fn reload_if_changed(&self) {
        if !self.stamps.changed() {
            return;
        }
        match self.files.read() {
            Ok(config) => {
                self.current.store(Arc::new(config));
                info!(cert = %self.files.cert.display(), "certificates were replaced");
            }
            Err(error) => {
                let error = error.with_cause();
                warn!("certificates were not replaced, the old ones stay: {error}");
            }
        }
    }
}

impl TlsFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }

    fn read(&self) -> Result<ServerConfig, TlsError> {
        let builder = ServerConfig::builder_with_provider(chancery_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Config { source: error.into() })?;
        let builder = match &self.client_ca {
            Some(path) => builder.with_client_cert_verifier(verifier(path)?),
            None => builder.with_no_client_auth(),
        };
        let identity = SingleCertAndKey::from(chancery_tls::identity(&self.cert, &self.key)?);
        let mut config = builder.with_cert_resolver(Arc::new(identity));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Tickets make a reconnect cost half.
        if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
            config.ticketer = ticketer;
        }
        Ok(config)
    }
}

fn verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = chancery_tls::authorities(path)?;
    WebPkiClientVerifier::builder_with_provider(roots, chancery_tls::provider())
        .build()
        .map_err(|error| TlsError::Verifier { path: path.to_owned(), source: error.into() })
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}
