//! Addresses to listen on, as flags and `chancery.yaml` have them: TCP addresses and Unix sockets.
//!
//! A text is checked when it is read, and an address is written in the form in which it is read.
//! Not here: the sockets (`serve::listeners`), and the addresses of servers to ask (`ask`).

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An address of gRPC and REST.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum ListenAddress {
    /// `127.0.0.1:18000`, `[::1]:18000`; port 0 takes a free one.
    Tcp(SocketAddr),
    /// `unix:/run/chancery.sock`.
    Unix(PathBuf),
}

/// The address of the admin interface, if it is served.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum AdminAddress {
    /// `127.0.0.1:18080`; port 0 takes a free one.
    On(SocketAddr),
    /// `off`.
    Off,
}

/// The error for a text that is no address to listen on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidAddress {
    /// The text is neither a TCP address nor a Unix socket.
    #[error("`{0}` is no address; write `127.0.0.1:18000`, `[::1]:18000` or `unix:/PATH`")]
    Listen(String),
    /// The text is `unix:` without a path.
    #[error("`unix:` lacks the path of the socket, as in `unix:/run/chancery.sock`")]
    NoPath,
    /// The address is listed twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// The text is neither a TCP address nor `off`.
    #[error("`{0}` is no address; write `127.0.0.1:18080`, `[::1]:18080` or `off`")]
    Admin(String),
}

impl Default for AdminAddress {
    fn default() -> Self {
        Self::On(([127, 0, 0, 1], 18080).into())
    }
}

impl ListenAddress {
    /// Checks that each address is listed once.
    ///
    /// # Errors
    /// If one is listed twice.
    pub(crate) fn check_distinct(all: &[Self]) -> Result<(), InvalidAddress> {
        let is_repeated = |(at, one): &(usize, &Self)| one.is_fixed() && all[..*at].contains(one);
        match all.iter().enumerate().find(is_repeated) {
            Some((_, repeated)) => Err(InvalidAddress::Twice(repeated.to_string())),
            None => Ok(()),
        }
    }

    /// Returns false for port 0, which stands for another port each time.
    fn is_fixed(&self) -> bool {
        !matches!(self, Self::Tcp(address) if address.port() == 0)
    }
}

impl FromStr for ListenAddress {
    type Err = InvalidAddress;
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Err(InvalidAddress::NoPath),
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => {
                text.parse().map(Self::Tcp).map_err(|_| InvalidAddress::Listen(text.to_owned()))
            }
        }
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = InvalidAddress;
    fn try_from(text: String) -> Result<Self, InvalidAddress> {
        text.parse()
    }
}

impl Display for ListenAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<ListenAddress> for String {
    fn from(listen: ListenAddress) -> Self {
        listen.to_string()
    }
}

impl FromStr for AdminAddress {
    type Err = InvalidAddress;
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        match text {
            "off" => Ok(Self::Off),
            _ => text.parse().map(Self::On).map_err(|_| InvalidAddress::Admin(text.to_owned())),
        }
    }
}

impl TryFrom<String> for AdminAddress {
    type Error = InvalidAddress;
    fn try_from(text: String) -> Result<Self, InvalidAddress> {
        text.parse()
    }
}

impl Display for AdminAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(address) => address.fmt(f),
            Self::Off => f.write_str("off"),
        }
    }
}

impl From<AdminAddress> for String {
    fn from(admin: AdminAddress) -> Self {
        admin.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_printed_the_same() {
        for text in ["127.0.0.1:18000", "[::1]:18000", "unix:/run/chancery.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["127.0.0.1:18080", "off"] {
            assert_eq!(text.parse::<AdminAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_address_is_given_once_and_port_0_as_often_as_wanted() {
        let check = |all: &[&str]| {
            let all: Vec<ListenAddress> = all.iter().map(|text| text.parse().unwrap()).collect();
            ListenAddress::check_distinct(&all)
        };
        for twice in ["127.0.0.1:1", "unix:/s"] {
            let found = check(&["[::1]:1", twice, "127.0.0.1:2", twice]);
            assert_eq!(found, Err(InvalidAddress::Twice(twice.to_owned())));
        }
        assert_eq!(check(&["127.0.0.1:0", "127.0.0.1:0", "[::1]:1", "127.0.0.1:1"]), Ok(()));
    }

    #[test]
    fn a_host_name_a_lone_port_and_an_empty_path_are_refused() {
        for text in ["localhost:18000", "18000", "", "unix:"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
        assert!("unix:/run/admin.sock".parse::<AdminAddress>().is_err());
    }
}
