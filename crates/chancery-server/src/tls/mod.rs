//! TLS with certificates that are replaced while the server runs.
//!
//! A [`Tls`] is read from files. It reads them again when they change or when it is told to; new
//! connections then use the new ones, and connections whose certificate is accepted no more are
//! ended ([`peers`]). Files that cannot be used are reported and change nothing, so a certificate
//! and a key that do not belong together yet do no harm; they are read again until they can be used.
//! A certificate that has expired does not replace one that is valid, and keeps out no authorities
//! and no revocation lists. Both HTTP versions are offered (ALPN).
//!
//! A client that must show a certificate shows it each time: a session that is resumed would outlive
//! the certificate and the authorities that were asked about it (S-137). The certificates that it may
//! show are bounded ([`BoundedVerifier`]).

mod peers;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use chancery_tls::{BoundedVerifier, Expiry, FileStamps};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{
    NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier,
};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use chancery_tls::TlsError;

use self::peers::{VerifiedPeer, VerifiedPeers};
use crate::policy::Peer;

/// The files of a listener's certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server and those that lead to its authority, as PEM.
    pub cert: PathBuf,
    /// The private key of the certificate, as PEM.
    pub key: PathBuf,
    /// The authorities of clients, as PEM. With them, a client must show a certificate.
    pub client_ca: Option<PathBuf>,
    /// The certificates that these authorities revoked, as PEM. An authority without a list revoked
    /// none, and a list counts also when it is out of date. Without authorities they are not read.
    pub client_crl: Vec<PathBuf>,
}

/// TLS as it is at present.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<TlsState>,
    /// The files as they were read last, whether they could be used or not.
    stamps: FileStamps,
    /// The reason why they could not be used. It is locked while they are read and taken over, so
    /// that what was read last stays.
    failed: Mutex<Option<String>>,
    peers: Arc<VerifiedPeers>,
}

/// TLS as it was read at one time.
pub(crate) struct TlsState {
    config: Arc<ServerConfig>,
    /// The certificate of the server and its key.
    identity: Arc<CertifiedKey>,
    /// The check of the certificates of clients, if they must show one.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file cannot be read, or they do not fit together.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let stamps = FileStamps::new(files.paths());
        let state = files.read()?;
        if let Some(expiry) = state.expired() {
            warn!(cert = %files.cert.display(), "the certificate has expired at {expiry}");
        }
        let current = ArcSwap::from_pointee(state);
        let (failed, peers) = (Mutex::default(), Arc::default());
        Ok(Arc::new(Self { files, current, stamps, failed, peers }))
    }

    /// Reads the files again. Connections made before keep what they have, but those whose
    /// certificate is accepted no more are ended, as at a shutdown. A certificate that has expired
    /// meanwhile ends none. If the certificate of the server has expired and that in use has not,
    /// the one in use stays, and authorities and revocation lists are replaced.
    ///
    /// # Errors
    /// When the files cannot be used; new connections then use what was read before.
    pub fn reload(&self) -> Result<(), TlsError> {
        let mut failed = self.lock();
        self.stamps.changed();
        self.read_again(&mut failed).map(|_| ())
    }

    /// The certificates as they are now.
    pub(crate) fn state(&self) -> Arc<TlsState> {
        self.current.load_full()
    }

    /// Keeps in mind a peer that was verified with this state, until the result is dropped: `stop`
    /// is cancelled when its certificate is accepted no more. `None` where clients show none.
    pub(crate) fn verified(
        &self,
        state: &Arc<TlsState>,
        peer: &Arc<Peer>,
        stop: &CancellationToken,
    ) -> Option<VerifiedPeer> {
        state.verifier.as_ref()?;
        let now = UnixTime::now();
        let verified = self.peers.add(peer, now, stop);
        // The files may have been replaced during the handshake, before the peer was in mind.
        let current = self.state();
        if !Arc::ptr_eq(&current, state)
            && let Some(verifier) = &current.verifier
            && !peers::is_accepted(&**verifier, peer, now)
        {
            stop.cancel();
        }
        Some(verified)
    }

    /// Reads the files and takes them over. Returns the certificate that is in use then.
    fn read_again(&self, failed: &mut Option<String>) -> Result<TlsCertificate, TlsError> {
        let replaced = self.files.read().and_then(|state| self.replace(state));
        *failed = replaced.as_ref().err().map(TlsError::with_cause);
        replaced
    }

    /// Takes over what was read, and of a certificate that is worse than that in use all the rest.
    fn replace(&self, new: TlsState) -> Result<TlsCertificate, TlsError> {
        let path = self.files.cert.display();
        let old = self.state();
        let (new, certificate) = match new.expired() {
            Some(expiry) if old.expired().is_none() => {
                warn!(cert = %path, "the certificate has expired at {expiry}, the old one stays");
                let kept = TlsState::new(Arc::clone(&old.identity), new.verifier)?;
                (kept, TlsCertificate::Kept)
            }
            expired => {
                if let Some(expiry) = expired {
                    warn!(cert = %path, "the certificate has expired at {expiry}");
                }
                (new, TlsCertificate::Read)
            }
        };
        let verifier = new.verifier.clone();
        self.current.store(Arc::new(new));
        if let Some(verifier) = verifier {
            self.peers.end_unaccepted(verifier);
        }
        Ok(certificate)
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

    /// Files that could not be used are read again each time, because a read may fail without a
    /// fault of the file. A failure is reported once for each change and each reason.
    fn reload_if_changed(&self) {
        let mut failed = self.lock();
        let changed = self.stamps.changed();
        if !changed && failed.is_none() {
            return;
        }
        let before = failed.take();
        match self.read_again(&mut failed) {
            Ok(TlsCertificate::Read) => {
                info!(cert = %self.files.cert.display(), "certificates were replaced");
            }
            Ok(TlsCertificate::Kept) => {}
            Err(error) if changed || *failed != before => {
                let error = error.with_cause();
                warn!("certificates were not replaced, the old ones stay: {error}");
            }
            Err(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The certificate of the server after a reload.
enum TlsCertificate {
    /// The one that was read.
    Read,
    /// The one that was in use, because the other has expired.
    Kept,
}

impl TlsFiles {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .chain(&self.client_crl)
            .map(PathBuf::as_path)
    }

    fn read(&self) -> Result<TlsState, TlsError> {
        let verifier = self.client_ca.as_ref().map(|path| self.verifier(path)).transpose()?;
        TlsState::new(chancery_tls::identity(&self.cert, &self.key)?, verifier)
    }

    /// The check of the certificates of clients, by the authorities in a file.
    fn verifier(&self, path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let roots = chancery_tls::authorities(path)?;
        let build = |lists: &[PathBuf]| {
            let lists = lists.iter().map(|path| chancery_tls::revocation_list(path));
            let lists: Vec<_> = lists.collect::<Result<_, _>>()?;
            let verifier = WebPkiClientVerifier::builder_with_provider(
                Arc::clone(&roots),
                chancery_tls::provider(),
            );
            Ok(verifier.with_crls(lists.concat()).allow_unknown_revocation_status().build())
        };
        let unusable = match build(&self.client_crl)? {
            Ok(verifier) => return Ok(Arc::new(BoundedVerifier(verifier))),
            Err(error) => error,
        };
        if let VerifierBuilderError::InvalidCrl(_) = unusable {
            for list in &self.client_crl {
                if let Err(error) = build(std::slice::from_ref(list))? {
                    let path = list.clone();
                    return Err(TlsError::RevocationList { path, source: error.into() });
                }
            }
        }
        Err(TlsError::Verifier { path: path.to_owned(), source: unusable.into() })
    }
}

impl TlsState {
    fn new(
        identity: Arc<CertifiedKey>,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<Self, TlsError> {
        let builder = ServerConfig::builder_with_provider(chancery_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Config { source: error.into() })?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let resolver = SingleCertAndKey::from(Arc::clone(&identity));
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if verifier.is_some() {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
            // Tickets make a reconnect cost half.
            config.ticketer = ticketer;
        }
        Ok(Self { config: Arc::new(config), identity, verifier })
    }

    /// The end of the certificate of the server, if that is over.
    fn expired(&self) -> Option<Expiry> {
        self.identity.cert.first().and_then(Expiry::of).filter(|expiry| expiry.is_past())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// Writes a file, as long before anybody looks at its stamp as the storage needs to show nothing.
    fn write_unseen(tls: &Tls, text: &str) {
        File::create(&tls.files.cert).unwrap().write_all(text.as_bytes()).unwrap();
        tls.stamps.changed();
    }

    #[test]
    fn files_that_could_not_be_read_are_read_again_without_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            cert: dir.path().join("cert.pem"),
            key: dir.path().join("key.pem"),
            client_ca: None,
            client_crl: Vec::new(),
        };
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap();
        let broken = cert.pem().replace("END", "eND");
        for (path, text) in [(&files.cert, cert.pem()), (&files.key, key.serialize_pem())] {
            File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
        }
        let tls = Tls::load(files).unwrap();
        let first = tls.state();
        write_unseen(&tls, &broken);
        tls.reload_if_changed();
        assert!(tls.lock().is_none(), "nothing seems to have changed");
        tls.reload().unwrap_err();
        let told = tls.lock().clone();
        tls.reload_if_changed();
        assert!(told.is_some() && *tls.lock() == told, "it was read again");
        write_unseen(&tls, &cert.pem());
        tls.reload_if_changed();
        assert!(tls.lock().is_none() && !Arc::ptr_eq(&first, &tls.state()));
    }
}
