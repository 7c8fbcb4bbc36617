//! Why a server cannot be spoken to for want of credentials.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use chancery_core::ErrorDetail;

use super::TlsError;

/// Why no connection can be made, or nothing can be asked on it: the environment's fault.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] Arc<TlsError>),
    /// The file of a token is not there.
    #[error("cannot read the token in `{}`", path.display())]
    TokenUnreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The file of a token holds something else.
    #[error("`{}` holds no JWT that can be used: {problem}", path.display())]
    TokenInvalid {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it; never what is in it.
        problem: &'static str,
    },
    /// Nothing secret is sent where everybody can read it.
    #[error("`{server}` is spoken to in the clear, where `call_creds` are never sent; use `tls`")]
    Insecure {
        /// Which server.
        server: String,
    },
    /// The program's own credentials fail.
    #[error("`{kind}` credentials cannot be had")]
    Plugin {
        /// Their type.
        kind: String,
        /// Why.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl CredentialsError {
    /// What gRPC calls this: `UNAVAILABLE` if it may pass by itself, else `UNAUTHENTICATED` (C-009).
    pub fn code(&self) -> i32 {
        match self {
            Self::Tls(_) | Self::TokenUnreadable { .. } | Self::Plugin { .. } => {
                ErrorDetail::UNAVAILABLE
            }
            Self::TokenInvalid { .. } | Self::Insecure { .. } => ErrorDetail::UNAUTHENTICATED,
        }
    }
}
