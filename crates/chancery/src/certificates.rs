//! The state of the certificates in resources: expired, about to expire, or with the key of another one.
//!
//! Nothing of a certificate or a key is told but the time at which it expires, and the names that clients ask for. Not here: who looks when
//! (`serve`, `gate`), and the certificates with which this server itself speaks TLS.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, SystemTime};

use chancery_core::{Resource, TypeUrl};
use chancery_proto::Schema;
use chancery_proto::certificates::{Certificates, certificates};
use chancery_tls::Expiry;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys};

/// The time before its end at which a certificate is warned of.
const SOON: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The codes of warnings about certificates.
pub(crate) const EXPIRED: &str = "certificate/expired";
pub(crate) const EXPIRES_SOON: &str = "certificate/expires-soon";
pub(crate) const OTHER_KEY: &str = "certificate/key";
pub(crate) const CUT: &str = "certificate/cut";

/// The state of a certificate, whatever time it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The path of its field.
    path: String,
    expiry: Option<Expiry>,
    has_other_key: bool,
    is_cut: bool,
    are_authorities: bool,
}

/// A fault of a certificate at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    path: String,
    expiry: Option<Expiry>,
    are_authorities: bool,
}

/// The states of all certificates in a resource.
pub(crate) fn states(schema: &Schema, type_url: &TypeUrl, resource: &Resource) -> Vec<State> {
    let all = certificates(schema, type_url, resource.body());
    all.into_iter().map(State::of).collect()
}

/// The DNS names of the certificates that a resource shows, so many of each at most.
pub(crate) fn dns_names(
    schema: &Schema,
    type_url: &TypeUrl,
    resource: &Resource,
    most: usize,
) -> BTreeSet<String> {
    let all = certificates(schema, type_url, resource.body());
    let shown = all.into_iter().filter_map(|it| match it {
        Certificates::Shown { chain, .. } => CertificateDer::from_pem_slice(&chain).ok(),
        Certificates::Authorities { .. } => None,
    });
    shown.flat_map(|own| chancery_tls::dns_names(&own, most)).collect()
}

/// Returns true if a name is one of these, or below a `*.` of them.
pub(crate) fn covers(names: &BTreeSet<String>, name: &str) -> bool {
    let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
    names.contains(name) || wildcard.is_some_and(|wildcard| names.contains(&wildcard))
}

/// Returns true if there may be certificates in these bytes.
pub(crate) fn are_in(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|part| part == BEGIN)
}

/// The beginning of certificates, and of keys, which come with them.
const BEGIN: &[u8] = b"-----BEGIN ";

impl State {
    fn of(certificates: Certificates) -> Self {
        match certificates {
            Certificates::Shown { path, chain, key } => {
                let own = CertificateDer::from_pem_slice(&chain).ok();
                let expiry = own.as_ref().and_then(Expiry::of);
                let key = key.and_then(|key| PrivateKeyDer::from_pem_slice(&key).ok());
                let has_other_key = own.zip(key).is_some_and(|(own, key)| {
                    let pair = CertifiedKey::from_der(vec![own], key, &chancery_tls::provider());
                    matches!(pair, Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)))
                });
                let is_cut = any_is_cut(&chain);
                Self { path, expiry, has_other_key, is_cut, are_authorities: false }
            }
            // Old authorities beside newer ones are usual, and do no harm.
            Certificates::Authorities { path, authorities } => {
                let all = CertificateDer::pem_slice_iter(&authorities).filter_map(Result::ok);
                let expiry = all.filter_map(|it| Expiry::of(&it)).max();
                let is_cut = any_is_cut(&authorities);
                Self { path, expiry, has_other_key: false, is_cut, are_authorities: true }
            }
        }
    }

    /// The fault of the certificate at this time.
    pub(crate) fn fault(&self, now: SystemTime) -> Option<Fault> {
        let code = match self.expiry.map(Expiry::time) {
            _ if self.is_cut => CUT,
            _ if self.has_other_key => OTHER_KEY,
            Some(end) if end < now => EXPIRED,
            Some(end) if end < now + SOON => EXPIRES_SOON,
            _ => return None,
        };
        let Self { path, expiry, are_authorities, .. } = self.clone();
        Some(Fault { code, path, expiry, are_authorities })
    }
}

/// Returns true if a certificate in this PEM has fewer bytes than it says.
fn any_is_cut(pem: &[u8]) -> bool {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).any(|it| is_cut(&it))
}

/// Returns true if the outermost element of this DER is longer than what is there.
fn is_cut(der: &[u8]) -> bool {
    let Some((&length, rest)) = der.get(1..).and_then(<[u8]>::split_first) else { return true };
    let digits = usize::from(length & 0x7f);
    if length < 0x80 {
        return rest.len() < digits;
    }
    let Some((length, rest)) = rest.split_at_checked(digits).filter(|_| digits <= 4) else {
        return true;
    };
    let length = length.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    rest.len() < length
}

impl Fault {
    /// Returns true if clients cannot use the certificate any more.
    pub(crate) fn is_fatal(&self) -> bool {
        self.code != EXPIRES_SOON
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let what = match self.are_authorities {
            true if self.code == CUT => "one of the authorities",
            true => "the last of the authorities",
            false => "the certificate",
        };
        let path = &self.path;
        match (self.code, self.expiry) {
            (EXPIRED, Some(expiry)) => write!(f, "{path}: {what} has expired at {expiry}"),
            (EXPIRES_SOON, Some(expiry)) => write!(f, "{path}: {what} expires at {expiry}"),
            (CUT, _) => write!(f, "{path}: {what} is not whole: lines of it are missing"),
            _ => write!(f, "{path}: the private key is not that of the certificate"),
        }
    }
}
