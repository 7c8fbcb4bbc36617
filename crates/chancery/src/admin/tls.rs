//! TLS of the admin interface, for those who ask from other machines.
//!
//! One port speaks both: what begins as a TLS handshake is one, and all else is HTTP, so that probes and commands
//! on the same machine need no certificate. A client may show a certificate, and need not: it may have a
//! token. Files are read again when they change; those that cannot be used are told, and change nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chancery_tls::{FileStamps, TlsError};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tracing::{info, warn};

use crate::config::TlsTable;

/// TLS as it is at present.
pub(crate) struct AdminTls {
    files: TlsTable,
    stamps: FileStamps,
    current: Mutex<Arc<ServerConfig>>,
}

impl AdminTls {
    /// Reads the files.
    pub(crate) fn load(files: TlsTable) -> Result<Arc<Self>, TlsError> {
        let paths = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
        let paths = paths.into_iter().flatten().chain(&files.client_crl).map(PathBuf::as_path);
        let (stamps, current) = (FileStamps::new(paths), Mutex::new(read(&files)?));
        Ok(Arc::new(Self { files, stamps, current }))
    }

    /// The acceptor of connections.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current))
    }

    /// Reads the files again when they change. Never ends.
    pub(super) async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep(EVERY).await;
            let tls = Arc::clone(&self);
            // Files that do not answer hold up this alone.
            tokio::task::spawn_blocking(move || tls.read_if_changed()).await.ok();
        }
    }

    fn read_if_changed(&self) {
        if !self.stamps.changed() {
            return;
        }
        match read(&self.files) {
            Ok(config) => {
                info!("the certificates of the admin interface were replaced");
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = config;
            }
            Err(error) => {
                let error = error.with_cause();
                warn!("certificates of the admin interface were not replaced: {error}");
            }
        }
    }
}

fn read(files: &TlsTable) -> Result<Arc<ServerConfig>, TlsError> {
    let TlsTable { cert, key, client_ca, client_crl } = files;
    let identity = chancery_tls::identity(cert, key)?;
    let builder = ServerConfig::builder_with_provider(chancery_tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Config { source: error.into() })?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = chancery_tls::authorities(path)?;
            let lists = client_crl.iter().map(|path| chancery_tls::revocation_list(path));
            let lists: Vec<_> = lists.collect::<Result<_, _>>()?;
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots, chancery_tls::provider())
                    .with_crls(lists.concat())
                    .allow_unknown_revocation_status()
                    .allow_unauthenticated()
                    .build();
            let verifier = verifier
                .map_err(|error| TlsError::Verifier { path: path.clone(), source: error.into() })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session that is resumed would outlive the authorities that were asked about its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The time between two looks at the files.
const EVERY: Duration = Duration::from_secs(5);
