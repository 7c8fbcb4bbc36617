//! Mutations of PEM files. None of them may panic, and no error quotes a key.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;

use chancery_tls::{TlsError, authorities, identity};
use rcgen::{CertificateParams, KeyPair};

/// The errors of a directory in which `cert.pem` and `key.pem` are these.
fn errors(dir: &tempfile::TempDir, cert: &[u8], key: &[u8]) -> Vec<TlsError> {
    let paths = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
    fs::write(&paths[0], cert).unwrap();
    fs::write(&paths[1], key).unwrap();
    let own = identity(&paths[0], &paths[1]).err();
    own.into_iter().chain(authorities(&paths[0]).err()).collect()
}

#[test]
fn pem() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let cert = CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
    let key = key.serialize_pem();
    assert!(errors(&dir, cert.as_bytes(), key.as_bytes()).is_empty());
    let secret = key.lines().nth(1).unwrap().get(..24).unwrap().to_owned();
    let corpus = [&cert, &key].map(|text| text.as_bytes().to_vec());
    chancery_testkit::fuzz::fuzz("chancery-tls", "pem", &corpus, |input| {
        let told = [errors(&dir, input, key.as_bytes()), errors(&dir, cert.as_bytes(), input)];
        for error in told.iter().flatten() {
            assert!(!error.with_cause().contains(&secret), "{}", error.with_cause());
        }
    });
}
