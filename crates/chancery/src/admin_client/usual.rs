//! The admin interface that a command asks although nobody named it: the one beside the discovery port that
//! the command asks.
//!
//! A command for any xDS server must not ask an interface that has nothing to do with that server, so the two
//! have to be on one machine.

use std::env::{self, VarError};
use std::net::IpAddr;

use super::{AdminAccess, AdminClient, AdminServer};
use crate::config::AdminAddress;
use crate::exit::Failure;

impl AdminClient {
    /// The interface that belongs to one of these addresses of discovery, as far as anybody can tell: the one
    /// of the environment, or that of a server that was started without flags. `None` if there is none.
    ///
    /// # Errors
    /// If the environment names none, or flags say how to reach one and there is none.
    pub(crate) fn beside(
        discovery: &[String],
        access: &AdminAccess,
    ) -> Result<Option<Self>, Failure> {
        let usual = usual()?;
        if !discovery.iter().any(|uri| usual.is_beside(uri)) {
            return access.unused().map(|()| None);
        }
        match Self::at(&usual, access) {
            // Nobody has asked for it.
            Err(_) if !access.is_given() => Ok(None),
            found => found.map(Some),
        }
    }
}

/// The interface that the environment names, or that of a server that was started without flags.
fn usual() -> Result<AdminServer, Failure> {
    match env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => {
            text.parse().map_err(|why| Failure::misuse(format!("`{VARIABLE}`: {why}")))
        }
        Ok(_) | Err(VarError::NotPresent) => Ok(AdminServer::At(AdminAddress::default())),
        Err(error) => Err(Failure::misuse(format!("`{VARIABLE}`: {error}"))),
    }
}

impl AdminServer {
    /// Returns true if it may be of the server at this address of discovery.
    fn is_beside(&self, discovery: &str) -> bool {
        let (host, is_here) = (host_of(discovery), is_on_this_machine(discovery));
        match self {
            Self::At(AdminAddress::Off) => false,
            // An address is mostly one of this machine.
            Self::At(AdminAddress::On(at)) => is_here || at.ip().to_string() == host,
            Self::Url { authority, .. } if is_on_this_machine(authority) => is_here,
            Self::Url { authority, .. } => host_of(authority).eq_ignore_ascii_case(host),
        }
    }
}

/// Returns true for an address of a server on this machine.
fn is_on_this_machine(uri: &str) -> bool {
    let host = host_of(uri);
    uri.starts_with("unix:")
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// The host in a URI or in `HOST:PORT`.
fn host_of(uri: &str) -> &str {
    let authority = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

const VARIABLE: &str = "CHANCERY_ADMIN";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_loopback_or_a_socket_is_on_this_machine() {
        for uri in ["127.0.0.1:1", "localhost:1", "[::1]:1", "http://127.1.2.3:1/x", "unix:/a"] {
            assert!(is_on_this_machine(uri), "{uri}");
        }
        for uri in ["10.0.0.1:1", "example:1", "https://example/127.0.0.1", "file:/a", "[::2]:1"] {
            assert!(!is_on_this_machine(uri), "{uri}");
        }
    }

    #[test]
    fn an_interface_on_another_machine_is_not_beside_a_server_on_this_one() {
        let is_beside =
            |admin: &str, uri: &str| admin.parse::<AdminServer>().unwrap().is_beside(uri);
        for (admin, uri) in [
            ("127.0.0.1:1", "localhost:2"),
            ("10.0.0.1:1", "unix:/a"),
            ("10.0.0.1:1", "10.0.0.1:2"),
            ("https://localhost:1", "127.0.0.1:2"),
            ("https://xds.example:1", "https://XDS.example:2/a"),
        ] {
            assert!(is_beside(admin, uri), "{admin} {uri}");
        }
        for (admin, uri) in [
            ("off", "localhost:2"),
            ("127.0.0.1:1", "xds.example:2"),
            ("https://xds.example:1", "localhost:2"),
            ("https://localhost:1", "xds.example:2"),
            ("https://xds.example:1", "file:/a"),
        ] {
            assert!(!is_beside(admin, uri), "{admin} {uri}");
        }
    }
}
