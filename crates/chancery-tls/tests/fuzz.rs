//! Mutations of PEM files. None of them may panic, and no error quotes a key.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;

use chancery_tls::{TlsError, authorities, identity, revocation_list};
use rcgen::{
    CertificateParams, CertificateRevocationListParams, Issuer, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber, date_time_ymd,
};

/// The errors of a directory in which `cert.pem` and `key.pem` are these. The first is read as
/// revocation lists too.
fn errors(dir: &tempfile::TempDir, cert: &[u8], key: &[u8]) -> Vec<TlsError> {
    let paths = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    fs::write(&paths[0], cert).unwrap();
    fs::write(&paths[1], key).unwrap();
    let own = identity(&paths[0], &paths[1]).err();
    let lists = revocation_list(&paths[0]).err();
    let lists = lists.filter(|error| !matches!(error, TlsError::NoRevocationList { .. }));
    let roots = authorities(&paths[0]).err();
    own.into_iter().chain(roots).chain(lists).collect()
}

/// A list of one revoked certificate.
fn list() -> String {
    let time = date_time_ymd(2024, 1, 1);
    let revoked = RevokedCertParams {
        serial_number: SerialNumber::from(7),
        revocation_time: time,
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: time,
        next_update: date_time_ymd(2024, 2, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap());
    list.signed_by(&issuer).unwrap().pem().unwrap()
}

#[test]
fn pem() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
    let key = key.serialize_pem();
    assert!(errors(&dir, cert.as_bytes(), key.as_bytes()).is_empty());
    let secret = key.lines().nth(1).unwrap().get(..24).unwrap().to_owned();
    let corpus = [&cert, &key, &list()].map(|text| text.as_bytes().to_vec());
    chancery_testkit::fuzz::fuzz("chancery-tls", "pem", &corpus, |input| {
        let told = [errors(&dir, input, key.as_bytes()), errors(&dir, cert.as_bytes(), input)];
        for error in told.iter().flatten() {
            assert!(!error.with_cause().contains(&secret), "{}", error.with_cause());
        }
    });
}
