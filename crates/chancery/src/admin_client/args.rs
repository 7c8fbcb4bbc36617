//! The flags by which a command finds the admin interface of a server, and says who it is.
//!
//! Not here: the interface that nobody names (`usual`).

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::AdminClient;
use crate::config::AdminAddress;
use crate::exit::Failure;

/// The admin interface of a server, for commands that show what it tells.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminArgs {
    // Earlier versions had `--server` for it, which is the discovery port of `get`.
    /// Admin interface of the server (not its discovery port): IP:PORT, or https://HOST:PORT on another
    /// machine
    #[arg(long, alias = "server", value_name = "ADDR", env = "CHANCERY_ADMIN")]
    #[arg(hide_env_values = true, default_value = "127.0.0.1:18080", help_heading = HEADING)]
    pub(crate) admin: AdminServer,

    #[command(flatten)]
    access: AdminAccess,

    // The name of `--admin-token-file` in earlier versions. Where there is a discovery port, it might be taken for
    // the token of that.
    /// File with the token
    #[arg(long, value_name = "FILE", hide = true)]
    token_file: Option<PathBuf>,
}

/// The way to an admin interface over TLS, and who asks it. Every command that asks one has these flags.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminAccess {
    /// File with the token that `admin-tokens` of the server has
    #[arg(long, value_name = "FILE", env = "CHANCERY_TOKEN_FILE", hide_env_values = true)]
    #[arg(help_heading = HEADING)]
    pub(super) admin_token_file: Option<PathBuf>,

    /// Certificate authorities of the admin interface, PEM; otherwise those of the system
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(super) admin_ca: Option<PathBuf>,

    /// Certificate chain to show to the admin interface, PEM
    #[arg(long, value_name = "FILE", requires = "admin_key", help_heading = HEADING)]
    pub(super) admin_cert: Option<PathBuf>,

    /// Private key of --admin-cert, PEM
    #[arg(long, value_name = "FILE", requires = "admin_cert", help_heading = HEADING)]
    pub(super) admin_key: Option<PathBuf>,
}

/// The heading of these flags, and of `--admin` where a command has its own.
pub(crate) const HEADING: &str = "Admin interface";

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

impl AdminArgs {
    /// The interface, asked as the flags say.
    pub(crate) fn client(&self) -> Result<AdminClient, Failure> {
        let mut access = self.access.clone();
        if let Some(file) = &self.token_file {
            access.admin_token_file = Some(file.clone());
        }
        AdminClient::at(&self.admin, &access)
    }
}

impl AdminAccess {
    /// Returns true if flags say how an interface is reached over TLS. A token may be that of the environment.
    pub(crate) fn is_given(&self) -> bool {
        self.admin_ca.is_some() || self.admin_cert.is_some()
    }

    /// Takes in that no interface is asked.
    ///
    /// # Errors
    /// If flags say how it is reached.
    pub(crate) fn unused(&self) -> Result<(), Failure> {
        match self.is_given() {
            false => Ok(()),
            true => Err(Failure::misuse(
                "`--admin-ca` and `--admin-cert` are for an admin interface, and none is asked: give \
                 `--admin https://…`",
            )),
        }
    }
}

impl AdminServer {
    /// Returns true for `off`.
    pub(crate) fn is_off(&self) -> bool {
        *self == Self::At(AdminAddress::Off)
    }
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
