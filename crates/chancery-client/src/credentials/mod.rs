//! How a client proves who it is, and makes sure of who it talks to.
//!
//! [`ChannelCredentials`] and [`CallCredentials`] are plain data, as a bootstrap says it.
//! [`Credentials`] are what they come to while a client runs: files that are read again, tokens that
//! are kept until they expire. What is secret is in no `Debug` output.

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

/// How the connection to a server is made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChannelCredentials {
    /// `insecure`: in the clear.
    Insecure,
    /// `tls`: encrypted, the server verified, and the client too if it has an identity.
    Tls(TlsFiles),
    /// Of a type that the program brings with it, as `google_default`.
    Plugin(PluginCredentials<dyn ChannelPlugin>),
}

/// What a client of TLS reads, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `ca_certificate_file`: the authorities of servers, as PEM. By default those of the system.
    pub ca: Option<PathBuf>,
    /// `certificate_file` and `private_key_file`: who the client is. By default it does not say.
    pub identity: Option<Identity>,
    /// `refresh_interval`: for how long new connections use what was read before. By default ten
    /// minutes. Connections that are open keep what they were made with.
    pub refresh_interval: Duration,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, and those that lead to its authority.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// What each stream carries to prove who asks. Never sent over an insecure connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallCredentials {
    /// `jwt_token_file`: a token that something else keeps fresh in a file.
    JwtTokenFile(PathBuf),
    /// Of a type that the program brings with it.
    Plugin(PluginCredentials<dyn CallPlugin>),
}

/// The safe one.
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

/// What tells it from others: the type and its configuration.
impl fmt::Display for ChannelCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insecure => f.write_str("insecure"),
            Self::Tls(files) => write!(f, "tls {files:?}"),
            Self::Plugin(plugged) => plugged.fmt(f),
        }
    }
}

/// What tells it from others: the type and its configuration.
impl fmt::Display for CallCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::JwtTokenFile(path) => write!(f, "jwt_token_file {path:?}"),
            Self::Plugin(plugged) => plugged.fmt(f),
        }
    }
}
