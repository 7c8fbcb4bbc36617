//! Why TLS material cannot be used.

use std::error::Error;
use std::path::PathBuf;

/// The reason of a [`TlsError`], from the library that found it.
type Cause = Box<dyn Error + Send + Sync>;

/// Why certificates cannot be used: the environment's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is not there or is no PEM.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Cause,
    },
    /// A file has no certificate in it.
    #[error("`{}` has no certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The certificate is unusable, or the key is not its key.
    #[error("cannot use certificate `{}` with key `{}`", cert.display(), key.display())]
    Pair {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The reason.
        source: Cause,
    },
    /// The certificate of an authority is unusable.
    #[error("cannot use an authority in `{}`", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Cause,
    },
    /// The authorities are unusable for verifying clients.
    #[error("cannot verify clients by `{}`", path.display())]
    Verifier {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Cause,
    },
    /// A file has no revocation list in it.
    #[error("`{}` has no revocation list", path.display())]
    NoRevocationList {
        /// The file.
        path: PathBuf,
    },
    /// A revocation list is unusable.
    #[error("cannot use a revocation list in `{}`", path.display())]
    RevocationList {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Cause,
    },
    /// The system trusts no authority, and no file names one.
    #[error("the system has no certificates of authorities; name some in `ca_certificate_file`")]
    NoSystemAuthorities,
    /// The material makes no configuration.
    #[error("cannot make a configuration for TLS")]
    Config {
        /// The reason.
        source: Cause,
    },
    /// The program ended while the files were read.
    #[error("reading certificates was interrupted")]
    Interrupted,
}

impl TlsError {
    /// The error and its cause on one line, for logs.
    pub fn with_cause(&self) -> String {
        match self.source() {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}
