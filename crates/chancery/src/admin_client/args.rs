//! The flags by which a command finds the admin interface of a server, and says who it is.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::config::AdminAddress;

/// The admin interface of a server, and who asks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct AdminArgs {
    /// Admin interface of the server: IP:PORT, or https://HOST:PORT on another machine
    #[arg(long, visible_alias = "server", value_name = "ADDR", env = "CHANCERY_ADMIN")]
    #[arg(hide_env_values = true, default_value = "127.0.0.1:18080")]
    pub(crate) admin: AdminServer,

    /// File with the token that `admin-tokens` of the server has
    #[arg(long, value_name = "FILE", env = "CHANCERY_TOKEN_FILE", hide_env_values = true)]
    pub(crate) token_file: Option<PathBuf>,

    /// Certificate authorities of the server, PEM; otherwise those of the system
    #[arg(long = "admin-ca", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Certificate chain of the client, PEM
    #[arg(long = "admin-cert", value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// Private key of the client, PEM
    #[arg(long = "admin-key", value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

/// The address of an admin interface, as it stands on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminServer {
    /// HTTP at an address, mostly of this machine.
    At(AdminAddress),
    /// A host with its port.
    Url {
        /// True if it is asked over TLS.
        tls: bool,
        /// `HOST:PORT`.
        authority: String,
    },
}

impl FromStr for AdminServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let odd = || format!("`{text}` is no `IP:PORT` and no `https://HOST:PORT`");
        let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return text.parse().map(Self::At).map_err(|_| odd()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = authority.rsplit_once(':').ok_or_else(odd)?;
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) || port.parse::<u16>().is_err() {
            return Err(odd());
        }
        Ok(Self::Url { tls, authority: authority.to_owned() })
    }
}

impl Display for AdminServer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Url { tls: true, authority } => write!(f, "https://{authority}"),
            Self::Url { tls: false, authority } => write!(f, "http://{authority}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_or_a_url_with_a_port() {
        for text in ["127.0.0.1:1", "[::1]:1", "https://a.example:1", "http://[::1]:1", "off"] {
            assert_eq!(text.parse::<AdminServer>().unwrap().to_string(), text);
        }
        for odd in ["a:1", "https://a", "https://a/b:1", "ftp://a:1", "https://:1", "https://a b:1"]
        {
            assert!(odd.parse::<AdminServer>().is_err(), "{odd}");
        }
    }
}
