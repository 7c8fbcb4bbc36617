//! Credentials: the proof of its identity that a client gives, and the proof that it demands of a
//! server.
//!
//! [`ChannelCredentials`] and [`CallCredentials`] are plain data, as a bootstrap has it.
//! [`Credentials`] are made of them while a client runs: files are read again, tokens are kept
//! until they expire. Secrets are in no `Debug` output.

mod error;
mod live;
mod plugin;
mod tls;
mod token;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use error::CredentialsError;
pub use live::{Alpn, Credentials};
pub use plugin::{CallPlugin, ChannelPlugin, PluginCredentials, PluginFuture, Plugins};
pub use tls::TlsError;

/// The credentials of the connection to a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChannelCredentials {
    /// `insecure`: the connection is not encrypted.
    Insecure,
    /// `tls`: the connection is encrypted and the server is verified. The client is verified too if
    /// it has an identity.
    Tls(TlsFiles),
    /// Credentials of a type that the program registers, such as `google_default`.
    Plugin(PluginCredentials<dyn ChannelPlugin>),
}

/// The files of TLS, and the interval at which they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `ca_certificate_file`: the certificate authorities of servers, as PEM. By default those of
    /// the system.
    pub ca: Option<PathBuf>,
    /// `certificate_file` and `private_key_file`: the identity of the client. By default it has
    /// none.
    pub identity: Option<Identity>,
    /// `refresh_interval`: the time for which new connections use the files as they were read last.
    /// By default ten minutes. Connections that are open keep what they were made with.
    pub refresh_interval: Duration,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and the chain that leads to its authority.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The credentials that each stream carries. They are never sent over an insecure connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallCredentials {
    /// `jwt_token_file`: a token in a file, which another program renews.
    JwtTokenFile(PathBuf),
    /// Credentials of a type that the program registers.
    Plugin(PluginCredentials<dyn CallPlugin>),
}

/// TLS, which is the safe choice.
impl Default for ChannelCredentials {
    fn default() -> Self {
        Self::Tls(TlsFiles::default())
    }
}

impl Default for TlsFiles {
    fn default() -> Self {
        Self { ca: None, identity: None, refresh_interval: Duration::from_secs(600) }
    }
}

/// The type and its configuration, by which credentials are told apart.
impl fmt::Display for ChannelCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insecure => f.write_str("insecure"),
            Self::Tls(files) => write!(f, "tls {files:?}"),
            Self::Plugin(plugged) => plugged.fmt(f),
        }
    }
}

/// The type and its configuration, by which credentials are told apart.
impl fmt::Display for CallCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JwtTokenFile(path) => write!(f, "jwt_token_file {path:?}"),
            Self::Plugin(plugged) => plugged.fmt(f),
        }
    }
}
