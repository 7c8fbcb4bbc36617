//! The open connections whose peers were verified, and the end of those whose certificates are
//! accepted no more.
//!
//! When authorities or revocation lists are replaced, each chain is checked again, on a thread of its
//! own because thousands of checks take a while. That a certificate has expired meanwhile ends no
//! connection; the age of a connection does (`max-connection-age`). Not here: how a connection
//! ends, which is as at a shutdown (`connection::lifetime`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_tls::Expiry;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{CertificateError, Error};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::policy::Peer;

/// The open connections whose peers were verified.
#[derive(Default)]
pub(super) struct VerifiedPeers(Mutex<OpenConnections>);

#[derive(Default)]
struct OpenConnections {
    last: u64,
    by_number: HashMap<u64, OpenConnection>,
}

/// One connection: its peer, and what ends it in order.
#[derive(Clone)]
struct OpenConnection {
    peer: Arc<Peer>,
    stop: CancellationToken,
}

/// A place among the verified peers, given back when it is dropped.
pub(crate) struct VerifiedPeer {
    peers: Arc<VerifiedPeers>,
    number: u64,
}

impl VerifiedPeers {
    /// Adds a connection.
    pub(super) fn add(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        stop: &CancellationToken,
    ) -> VerifiedPeer {
        let mut open = self.lock();
        open.last += 1;
        let number = open.last;
        let connection = OpenConnection { peer: Arc::clone(peer), stop: stop.clone() };
        open.by_number.insert(number, connection);
        VerifiedPeer { peers: Arc::clone(self), number }
    }

    /// Ends the connections whose peers are not accepted. Returns at once.
    pub(super) fn end_unaccepted(self: &Arc<Self>, verifier: Arc<dyn ClientCertVerifier>) {
        let open: Vec<_> = self.lock().by_number.values().cloned().collect();
        if open.is_empty() {
            return;
        }
        let thread = std::thread::Builder::new().name("verify-peers".to_owned());
        if let Err(error) = thread.spawn(move || end_unaccepted(&*verifier, &open)) {
            warn!("connections cannot be checked against the new authorities: {error}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for VerifiedPeer {
    fn drop(&mut self) {
        self.peers.lock().by_number.remove(&self.number);
    }
}

/// Ends the connections whose peers are not accepted. Each chain is checked once.
fn end_unaccepted(verifier: &dyn ClientCertVerifier, open: &[OpenConnection]) {
    let mut known: HashMap<&[Vec<u8>], bool> = HashMap::new();
    let mut ended = 0;
    for OpenConnection { peer, stop } in open {
        let chain = &*peer.certificates;
        if !*known.entry(chain).or_insert_with(|| is_accepted(verifier, peer)) {
            debug!(%peer, "its certificate is accepted no more");
            stop.cancel();
            ended += 1;
        }
    }
    if ended > 0 {
        info!(connections = ended, of = open.len(), "certificates of clients are accepted no more");
    }
}

/// Returns true if the chain of a peer is accepted, or was until it expired.
pub(super) fn is_accepted(verifier: &dyn ClientCertVerifier, peer: &Peer) -> bool {
    let chain: Vec<_> =
        peer.certificates.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
    let Some((own, others)) = chain.split_first() else { return false };
    // An expired certificate is checked as of its last moment: it may be revoked as well.
    let now = SystemTime::now();
    let then = Expiry::of(own).map_or(now, |expiry| expiry.time().min(now));
    let then =
        UnixTime::since_unix_epoch(then.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO));
    match verifier.verify_client_cert(own, others, then) {
        Ok(_) => true,
        Err(Error::InvalidCertificate(why)) => matches!(
            why,
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        ),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
        KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
    };
    use tokio_rustls::rustls::RootCertStore;
    use tokio_rustls::rustls::server::WebPkiClientVerifier;

    use super::*;

    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        roots: RootCertStore,
    }

    impl Authority {
        fn new() -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let mut roots = RootCertStore::empty();
            roots.add(params.self_signed(&key).unwrap().der().clone()).unwrap();
            Self { issuer: Issuer::new(params, key), roots }
        }

        fn expired(&self) -> Peer {
            let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
            params.serial_number = Some(SerialNumber::from(7));
            params.not_after = date_time_ymd(2020, 1, 1);
            let signed = params.signed_by(&KeyPair::generate().unwrap(), &self.issuer).unwrap();
            Peer { address: None, tls: true, certificates: vec![signed.der().to_vec()] }
        }

        fn verifier(&self, revoked: &[u64]) -> Arc<dyn ClientCertVerifier> {
            let revoked = revoked.iter().map(|number| RevokedCertParams {
                serial_number: SerialNumber::from(*number),
                revocation_time: date_time_ymd(2019, 1, 1),
                reason_code: None,
                invalidity_date: None,
            });
            let list = CertificateRevocationListParams {
                this_update: date_time_ymd(2019, 1, 1),
                next_update: date_time_ymd(2019, 2, 1),
                crl_number: SerialNumber::from(1),
                issuing_distribution_point: None,
                revoked_certs: revoked.collect(),
                key_identifier_method: KeyIdMethod::Sha256,
            };
            let list = list.signed_by(&self.issuer).unwrap().der().clone();
            let roots = Arc::new(self.roots.clone());
            WebPkiClientVerifier::builder_with_provider(roots, chancery_tls::provider())
                .with_crls([list])
                .build()
                .unwrap()
        }
    }

    #[test]
    fn a_certificate_that_only_expired_is_still_accepted() {
        let (one, other) = (Authority::new(), Authority::new());
        let peer = one.expired();
        assert!(is_accepted(&*one.verifier(&[]), &peer));
        assert!(!is_accepted(&*one.verifier(&[7]), &peer), "it is revoked as well");
        assert!(!is_accepted(&*other.verifier(&[]), &peer));
        let nothing = Peer { certificates: Vec::new(), ..peer };
        assert!(!is_accepted(&*one.verifier(&[]), &nothing));
    }
}
