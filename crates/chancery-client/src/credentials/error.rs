//! Errors of credentials.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chancery_core::ErrorDetail;

use super::TlsError;

/// The reason why credentials cannot be used. The fault is in the environment, not in the program.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] Arc<TlsError>),
    /// The file of a token cannot be read.
    #[error("cannot read the token in `{}`", path.display())]
    TokenUnreadable {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The file of a token holds no token.
    #[error("`{}` holds no JWT that can be used: {problem}", path.display())]
    TokenInvalid {
        /// The path of the file.
        path: PathBuf,
        /// The problem, without the content of the file.
        problem: &'static str,
    },
    /// The connection is not encrypted, and secrets are never sent over such a connection.
    #[error("`{server}` is spoken to in the clear, where `call_creds` are never sent; use `tls`")]
    Insecure {
        /// The URI of the server.
        server: String,
    },
    /// A plugin failed.
    #[error("`{kind}` credentials cannot be had")]
    Plugin {
        /// The type of the credentials.
        kind: String,
        /// The cause.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl CredentialsError {
    /// Returns the code of gRPC: `UNAVAILABLE` for an error that may pass by itself, else
    /// `UNAUTHENTICATED` (C-009).
    pub fn code(&self) -> i32 {
        match self {
            Self::Tls(_) | Self::TokenUnreadable { .. } | Self::Plugin { .. } => {
                ErrorDetail::UNAVAILABLE
            }
            Self::TokenInvalid { .. } | Self::Insecure { .. } => ErrorDetail::UNAUTHENTICATED,
        }
    }
}
