//! Files of TLS, good and bad.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use chancery_tls::{FileStamps, TlsError, authorities, identity, revocation_list};
use rcgen::{CertificateParams, KeyPair};

/// A directory with a certificate and its key.
struct CertificateFiles(tempfile::TempDir);

impl CertificateFiles {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("cert.pem", &files.write_key("key.pem"));
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Writes a new key, and returns its certificate.
    fn write_key(&self, name: &str) -> String {
        let key = KeyPair::generate().unwrap();
        self.write(name, &key.serialize_pem());
        CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap().pem()
    }

    fn identity(&self) -> Result<(), TlsError> {
        identity(&self.path("cert.pem"), &self.path("key.pem")).map(|_| ())
    }
}

/// Every error names its file, and has a cause that is not repeated in its text.
fn says(error: &TlsError, words: &[&str]) {
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    assert_eq!(
        error.with_cause().len(),
        text.len() + if cause.is_empty() { 0 } else { 2 } + cause.len()
    );
}

#[test]
fn a_certificate_and_its_key_make_an_identity() {
    let files = CertificateFiles::new();
    files.identity().unwrap();
    files.write_key("key.pem");
    let error = files.identity().unwrap_err();
    assert!(matches!(error, TlsError::Pair { .. }));
    says(&error, &["cert.pem", "key.pem"]);
}

#[test]
fn a_file_that_is_missing_or_has_nothing_in_it_is_named() {
    let files = CertificateFiles::new();
    files.write("cert.pem", "nothing");
    says(&files.identity().unwrap_err(), &["cert.pem", "has no certificate"]);
    fs::remove_file(files.path("cert.pem")).unwrap();
    says(&files.identity().unwrap_err(), &["cannot read", "cert.pem"]);
    fs::remove_file(files.path("key.pem")).unwrap();
    says(&files.identity().unwrap_err(), &["cannot read", "key.pem"]);
}

#[test]
fn whatever_is_no_regular_file_is_refused_by_its_kind() {
    let (device, files) = (Path::new("/dev/null"), CertificateFiles::new());
    let refused = [
        identity(device, &files.path("key.pem")).map(|_| ()),
        identity(&files.path("cert.pem"), device).map(|_| ()),
        authorities(device).map(|_| ()),
        revocation_list(device).map(|_| ()),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        says(&error, &["cannot read", "/dev/null"]);
        assert!(error.with_cause().ends_with("is a character device, not a regular file"));
    }
}

#[test]
fn one_broken_authority_fails_the_file() {
    let files = CertificateFiles::new();
    let good = fs::read_to_string(files.path("cert.pem")).unwrap();
    assert_eq!(authorities(&files.path("cert.pem")).unwrap().len(), 1);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    files.write("cert.pem", &format!("{good}{broken}"));
    says(&authorities(&files.path("cert.pem")).unwrap_err(), &["authority", "cert.pem"]);
}

#[test]
fn a_file_that_was_written_replaced_or_removed_has_changed() {
    let files = CertificateFiles::new();
    let paths = [files.path("cert.pem"), files.path("key.pem")];
    let stamps = FileStamps::new(paths.iter().map(PathBuf::as_path));
    assert!(!stamps.changed());
    fs::copy(&paths[0], files.path("new")).unwrap();
    fs::rename(files.path("new"), &paths[0]).unwrap();
    assert!(stamps.changed(), "another file of the same content");
    assert!(!stamps.changed(), "said once");
    fs::remove_file(Path::new(&paths[1])).unwrap();
    assert!(stamps.changed());
    files.write_key("key.pem");
    assert!(stamps.changed());
}
