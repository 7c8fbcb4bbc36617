//! The open connections whose peers were verified, and the end of those whose certificates are
//! accepted no more.
//!
//! When authorities or revocation lists are replaced, each chain is checked again as of the moment
//! of its handshake, so that time alone ends no connection: the age of a connection does
//! (`max-connection-age`). Thousands of checks take a while, so one thread does them. It begins anew
//! when the files are replaced meanwhile, because the newest files alone may end a connection. Not
//! here: how a connection ends, which is as at a shutdown (`connection::lifetime`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
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
    /// The check that is to be made next.
    wanted: Option<Arc<dyn ClientCertVerifier>>,
    /// The thread that makes them, if there is one.
    checking: Option<JoinHandle<()>>,
}

/// One connection: its peer, the moment of its handshake, and what ends it in order.
#[derive(Clone)]
struct OpenConnection {
    peer: Arc<Peer>,
    verified_at: UnixTime,
    stop: CancellationToken,
}

/// A place among the verified peers, given back when it is dropped.
pub(crate) struct VerifiedPeer {
    peers: Arc<VerifiedPeers>,
    number: u64,
}

impl VerifiedPeers {
    /// Adds a connection whose handshake is done.
    pub(super) fn add(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        verified_at: UnixTime,
        stop: &CancellationToken,
    ) -> VerifiedPeer {
        let mut open = self.lock();
        open.last += 1;
        let number = open.last;
        let connection = OpenConnection { peer: Arc::clone(peer), verified_at, stop: stop.clone() };
        open.by_number.insert(number, connection);
        VerifiedPeer { peers: Arc::clone(self), number }
    }

    /// Ends the connections whose peers are not accepted. Returns at once, unless no thread can be had.
    pub(super) fn end_unaccepted(self: &Arc<Self>, verifier: Arc<dyn ClientCertVerifier>) {
        let mut open = self.lock();
        if open.by_number.is_empty() {
            open.wanted = None;
            return;
        }
        open.wanted = Some(verifier);
        // A thread that goes on takes it before it ends. One that panicked has ended.
        if open.checking.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let peers = Arc::clone(self);
        let thread = thread::Builder::new().name("verify-peers".to_owned());
        match thread.spawn(move || while peers.check_wanted() {}) {
            Ok(thread) => open.checking = Some(thread),
            Err(error) => {
                drop(open);
                warn!("connections are checked by a thread that has other work too: {error}");
                while self.check_wanted() {}
            }
        }
    }

    /// Makes the check that is wanted. Returns false if there is none.
    fn check_wanted(&self) -> bool {
        let (verifier, connections) = {
            let mut open = self.lock();
            let Some(verifier) = open.wanted.take() else {
                open.checking = None;
                return false;
            };
            (verifier, open.by_number.values().cloned().collect::<Vec<_>>())
        };
        self.check(&*verifier, &connections);
        true
    }

    /// Ends those of the connections whose peers are not accepted, unless another check is wanted
    /// meanwhile. Each chain is checked once for each moment.
    fn check(&self, verifier: &dyn ClientCertVerifier, connections: &[OpenConnection]) {
        let mut known: HashMap<(&[Vec<u8>], u64), bool> = HashMap::new();
        let mut ended = 0;
        for OpenConnection { peer, verified_at, stop } in connections {
            let of = (&*peer.certificates, verified_at.as_secs());
            let is_accepted =
                *known.entry(of).or_insert_with(|| is_accepted(verifier, peer, *verified_at));
            if self.lock().wanted.is_some() {
                break;
            }
            if !is_accepted {
                debug!(%peer, "its certificate is accepted no more");
                stop.cancel();
                ended += 1;
            }
        }
        if ended > 0 {
            let of = connections.len();
            info!(connections = ended, of, "certificates of clients are accepted no more");
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

/// Returns true if the chain of a peer is accepted as of the moment at which it was shown. Nothing
/// but acceptance counts: among several errors, the library for TLS tells of a certificate that has
/// expired rather than of one that is revoked, and a client may add expired ones to its chain.
pub(super) fn is_accepted(
    verifier: &dyn ClientCertVerifier,
    peer: &Peer,
    verified_at: UnixTime,
) -> bool {
    let chain: Vec<_> =
        peer.certificates.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
    chain
        .split_first()
        .is_some_and(|(own, others)| verifier.verify_client_cert(own, others, verified_at).is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

        /// A peer with certificate 7, which is valid in 2019 alone.
        fn peer(&self) -> Peer {
            let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
            params.serial_number = Some(SerialNumber::from(7));
            params.not_before = date_time_ymd(2019, 1, 1);
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

    /// A certificate that anybody can make: it has the name of the authority, and has expired.
    fn fake_intermediate() -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2018, 1, 1);
        params.not_after = date_time_ymd(2018, 2, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    /// The middle of 2019.
    fn then() -> UnixTime {
        let then = date_time_ymd(2019, 7, 1).unix_timestamp();
        UnixTime::since_unix_epoch(Duration::from_secs(then.unsigned_abs()))
    }

    #[test]
    fn a_certificate_that_only_expired_is_still_accepted() {
        let (one, other) = (Authority::new(), Authority::new());
        let peer = one.peer();
        assert!(is_accepted(&*one.verifier(&[]), &peer, then()), "the list is out of date too");
        assert!(!is_accepted(&*one.verifier(&[7]), &peer, then()), "it is revoked as well");
        assert!(!is_accepted(&*other.verifier(&[]), &peer, then()));
        let nothing = Peer { certificates: Vec::new(), ..peer };
        assert!(!is_accepted(&*one.verifier(&[]), &nothing, then()));
    }

    #[test]
    fn an_expired_certificate_beside_its_own_keeps_no_client() {
        // S-137
        let (one, other) = (Authority::new(), Authority::new());
        let mut peer = one.peer();
        peer.certificates.push(fake_intermediate());
        assert!(is_accepted(&*one.verifier(&[]), &peer, then()));
        assert!(!is_accepted(&*one.verifier(&[7]), &peer, then()), "it is revoked");
        assert!(!is_accepted(&*other.verifier(&[]), &peer, then()), "its authority is gone");
    }

    #[test]
    fn a_check_ends_nothing_when_another_one_is_wanted() {
        let authority = Authority::new();
        let (peers, stop) = (Arc::<VerifiedPeers>::default(), CancellationToken::new());
        let _open = peers.add(&Arc::new(authority.peer()), then(), &stop);
        let connections: Vec<_> = peers.lock().by_number.values().cloned().collect();
        peers.lock().wanted = Some(authority.verifier(&[]));
        peers.check(&*authority.verifier(&[7]), &connections);
        assert!(!stop.is_cancelled(), "the newer files accept it");
        assert!(peers.check_wanted() && !peers.check_wanted());
        assert!(!stop.is_cancelled());
        peers.lock().wanted = Some(authority.verifier(&[7]));
        assert!(peers.check_wanted() && stop.is_cancelled());
    }

    #[test]
    fn one_thread_makes_all_checks() {
        let authority = Authority::new();
        let (peers, stop) = (Arc::<VerifiedPeers>::default(), CancellationToken::new());
        let open = peers.add(&Arc::new(authority.peer()), then(), &stop);
        // It stands for a thread that is still at the check before.
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let busy = thread::spawn(move || assert!(gone.recv().is_err()));
        let id = busy.thread().id();
        peers.lock().checking = Some(busy);
        peers.end_unaccepted(authority.verifier(&[]));
        peers.end_unaccepted(authority.verifier(&[7]));
        let thread = peers.lock().checking.take().unwrap();
        assert_eq!(thread.thread().id(), id);
        drop(go);
        thread.join().unwrap();
        assert!(peers.check_wanted() && stop.is_cancelled(), "the newest was wanted");
        drop(open);
        peers.end_unaccepted(authority.verifier(&[7]));
        assert!(!peers.check_wanted(), "there is nobody to check");
    }
}
