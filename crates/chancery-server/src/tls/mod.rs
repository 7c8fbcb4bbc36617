//! TLS with certificates that are replaced while the server runs.
//!
//! A [`Tls`] is read from files. It reads them again when they change or when it is told to; new
//! connections then use the new ones, and connections whose certificate is accepted no more are
//! ended ([`peers`]). Files that cannot be used are reported and change nothing, so a certificate
//! and a key that do not belong together yet do no harm. A certificate that has expired does not
//! replace one that is valid. Both HTTP versions are offered (ALPN).
//!
//! A client that must show a certificate shows it each time: a session that is resumed would outlive
//! the certificate and the authorities that were asked about it (S-137).

mod peers;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use chancery_tls::{Expiry, FileStamps};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{
    NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier,
};
use tokio_rustls::rustls::sign::SingleCertAndKey;
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
    peers: Arc<VerifiedPeers>,
}

/// TLS as it was read at one time.
pub(crate) struct TlsState {
    config: Arc<ServerConfig>,
    /// The check of the certificates of clients, if they must show one.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The end of the certificate of the server.
    expiry: Option<Expiry>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When a file cannot be read, or they do not fit together.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let stamps = FileStamps::new(files.paths());
        let state = files.read()?;
        if let Some(expiry) = state.expiry.filter(|expiry| expiry.is_past()) {
            warn!(cert = %files.cert.display(), "the certificate has expired at {expiry}");
        }
        let peers = Arc::default();
        Ok(Arc::new(Self { files, current: ArcSwap::from_pointee(state), stamps, peers }))
    }

    /// Reads the files again. Connections made before keep what they have, but those whose
    /// certificate is accepted no more are ended, as at a shutdown. A certificate that has expired
    /// meanwhile ends none.
    ///
    /// # Errors
    /// When they cannot be used, or when the certificate has expired and that in use has not; new
    /// connections then use what was read before.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.stamps.changed();
        self.replace(self.files.read()?)
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

    /// Takes over what was read, unless it is worse than what is in use.
    fn replace(&self, new: TlsState) -> Result<(), TlsError> {
        let is_past = |expiry: &Expiry| expiry.is_past();
        if let Some(expiry) = new.expiry.filter(is_past) {
            let path = self.files.cert.clone();
            if self.state().expiry.is_none_or(|old| !old.is_past()) {
                return Err(TlsError::Expired { path, expiry });
            }
            warn!(cert = %path.display(), "the certificate has expired at {expiry}");
        }
        let verifier = new.verifier.clone();
        self.current.store(Arc::new(new));
        if let Some(verifier) = verifier {
            self.peers.end_unaccepted(verifier);
        }
        Ok(())
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
        match self.files.read().and_then(|state| self.replace(state)) {
            Ok(()) => {
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
            .chain(&self.client_crl)
            .map(PathBuf::as_path)
    }

    fn read(&self) -> Result<TlsState, TlsError> {
        let verifier = self.client_ca.as_ref().map(|path| self.verifier(path)).transpose()?;
        let builder = ServerConfig::builder_with_provider(chancery_tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Config { source: error.into() })?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let identity = chancery_tls::identity(&self.cert, &self.key)?;
        let expiry = identity.cert.first().and_then(Expiry::of);
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if verifier.is_some() {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else if let Ok(ticketer) = aws_lc_rs::Ticketer::new() {
            // Tickets make a reconnect cost half.
            config.ticketer = ticketer;
        }
        Ok(TlsState { config: Arc::new(config), verifier, expiry })
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
            Ok(verifier) => return Ok(verifier),
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
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}
