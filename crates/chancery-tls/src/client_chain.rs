//! The bounds of the certificates that a client may show, which are checked before any signature is.
//!
//! A client shows what it likes before it is known, and all of it is kept as long as its connection is
//! open. The search for a path to an authority tries each certificate as the issuer of each other one
//! whose issuer has its name, so certificates of one name multiply the work, and nothing interrupts
//! it. Within these bounds the key of an authority checks at most five signatures. Not here: the check itself,
//! which is that of rustls.

use std::collections::HashSet;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

/// The number of certificates that a client may show beside its own.
const MAX_OTHERS: usize = 4;

/// The number of bytes of all certificates that a client shows.
const MAX_BYTES: usize = 16 * 1024;

/// The number of certificates beside its own that have the name of another one: an authority may have
/// two certificates while its key is replaced, and one that it signed may have its name.
const MAX_SAME_NAME: usize = 1;

/// A check of the certificates of clients that looks at no more than these bounds allow: 4 certificates beside
/// the client's own, 16 KiB in all, and one that has the name of another one.
#[derive(Debug)]
pub struct BoundedVerifier(
    /// The check itself.
    pub Arc<dyn ClientCertVerifier>,
);

/// A client shows more certificates than are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum UnboundedChain {
    #[error("the client shows {0} certificates beside its own; at most {MAX_OTHERS} are looked at")]
    Others(usize),
    #[error("the certificates of the client have {0} bytes; at most {MAX_BYTES} are looked at")]
    Bytes(usize),
    #[error(
        "{0} of the certificates that the client shows beside its own have the name of another one; at \
         most {MAX_SAME_NAME} is looked at"
    )]
    SameName(usize),
}

/// Checks the bounds. Certificates that cannot be read have one name.
fn check_bounds(
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
) -> Result<(), UnboundedChain> {
    if others.len() > MAX_OTHERS {
        return Err(UnboundedChain::Others(others.len()));
    }
    let bytes = others.iter().fold(own.len(), |sum, other| sum.saturating_add(other.len()));
    if bytes > MAX_BYTES {
        return Err(UnboundedChain::Bytes(bytes));
    }
    let names: HashSet<_> = others.iter().map(crate::subject).collect();
    match others.len() - names.len() {
        0..=MAX_SAME_NAME => Ok(()),
        more => Err(UnboundedChain::SameName(more)),
    }
}

impl ClientCertVerifier for BoundedVerifier {
    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        check_bounds(own, others).map_err(|unbounded| {
            let other = OtherError(Arc::new(unbounded));
            Error::InvalidCertificate(CertificateError::Other(other))
        })?;
        self.0.verify_client_cert(own, others, now)
    }

    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P384_SHA384,
    };
    use rustls::RootCertStore;
    use rustls::server::WebPkiClientVerifier;

    use super::*;

    struct Authority {
        certificate: CertificateDer<'static>,
        issuer: Issuer<'static, KeyPair>,
    }

    fn key() -> KeyPair {
        KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap()
    }

    fn named(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    impl Authority {
        fn new(name: &str, by: Option<&Self>) -> Self {
            let (key, mut params) = (key(), named(name));
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let signed = match by {
                Some(by) => params.signed_by(&key, &by.issuer),
                None => params.self_signed(&key),
            };
            let certificate = signed.unwrap().der().clone();
            Self { certificate, issuer: Issuer::new(params, key) }
        }

        fn sign(&self) -> CertificateDer<'static> {
            named("client").signed_by(&key(), &self.issuer).unwrap().der().clone()
        }

        /// The check by this authority.
        fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.clone()).unwrap();
            let provider = crate::provider();
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap()
        }
    }

    fn with_others(count: usize, bytes: usize) -> Vec<CertificateDer<'static>> {
        let named = |at| Authority::new(&format!("other {at}"), None).certificate;
        let mut others: Vec<_> = (1..count).map(named).collect();
        let sum: usize = others.iter().map(|other| other.len()).sum();
        others.push(CertificateDer::from(vec![0x30; bytes - sum]));
        others
    }

    #[test]
    fn chains_as_clients_have_them_are_accepted() {
        let root = Authority::new("root", None);
        let one = Authority::new("one", Some(&root));
        let two = Authority::new("two", Some(&one));
        // Nested authorities may have one name, and so may the old and the new one.
        let (same, new) = (Authority::new("two", Some(&two)), Authority::new("one", Some(&root)));
        let verifier = BoundedVerifier(root.verifier());
        let of = |authority: &Authority, others: &[&Authority]| {
            let others: Vec<_> = others.iter().map(|it| it.certificate.clone()).collect();
            verifier.verify_client_cert(&authority.sign(), &others, UnixTime::now())
        };
        of(&root, &[]).unwrap();
        of(&root, &[&root]).unwrap();
        of(&two, &[&two, &one, &root]).unwrap();
        of(&same, &[&same, &two, &one, &root]).unwrap();
        of(&two, &[&two, &new, &one, &root]).unwrap();
    }

    #[test]
    fn certificates_beyond_the_bounds_are_refused_before_they_are_looked_at() {
        let root = Authority::new("root", None);
        let (own, verifier) = (root.sign(), BoundedVerifier(root.verifier()));
        let left = MAX_BYTES - own.len();
        let same = |name: &str, count| vec![Authority::new(name, None).certificate; count];
        for allowed in [with_others(4, left), same("one", 2)] {
            verifier.verify_client_cert(&own, &allowed, UnixTime::now()).unwrap();
        }
        let pairs = [same("one", 2), same("other", 2)].concat();
        let unreadable = vec![CertificateDer::from(vec![0x30; 9]); 3];
        let large = [with_others(5, left), with_others(1, left + 1)];
        for refused in large.into_iter().chain([same("one", 3), pairs, unreadable]) {
            let error = verifier.verify_client_cert(&own, &refused, UnixTime::now()).unwrap_err();
            // The check of the signatures has no such error.
            let Error::InvalidCertificate(CertificateError::Other(OtherError(why))) = error else {
                panic!("{error:?}")
            };
            assert!(why.is::<UnboundedChain>(), "{why}");
        }
    }
}
