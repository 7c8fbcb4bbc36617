//! The address of a server: the forms of gRPC names that need no resolver but DNS.

use std::fmt;
use std::path::PathBuf;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// `HOST:PORT`, `dns:HOST:PORT`, `dns:///HOST:PORT`, `ipv4:…`, `ipv6:…`, `http://HOST:PORT`.
    Tcp {
        /// A name or an address, IPv6 without brackets.
        host: String,
        /// The port; by default 443.
        port: u16,
    },
    /// `unix:PATH` or `unix:///PATH`.
    Unix(PathBuf),
}

/// A URI that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("server `{uri}` is at no address: {why}")]
pub struct InvalidAddress {
    uri: Box<str>,
    why: &'static str,
}

impl Address {
    /// Reads a `server_uri`.
    ///
    /// # Errors
    /// If it is of another form.
    pub fn parse(uri: &str) -> Result<Self, InvalidAddress> {
        let invalid = |why| InvalidAddress { uri: uri.into(), why };
        if let Some(path) = uri.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(invalid("there is no path"));
            }
            return Ok(Self::Unix(path.into()));
        }
        let place = Self::place(uri).ok_or_else(|| invalid("an authority in the URI of DNS"))?;
        Self::tcp(place, DEFAULT_PORT).map_err(invalid)
    }

    /// Reads `HOST:PORT`. The port may be missing.
    pub(crate) fn tcp(place: &str, default: u16) -> Result<Self, &'static str> {
        let (host, port) = split(place).ok_or("write `HOST:PORT`")?;
        if host.is_empty() {
            return Err("there is no host; write `HOST:PORT`");
        }
        let port = match port {
            None => default,
            Some(port) => port.parse().map_err(|_| "the port is no number below 65536")?,
        };
        Ok(Self::Tcp { host: host.to_owned(), port })
    }

    /// Returns the name that TLS verifies.
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Unix(_) => "localhost",
        }
    }

    /// Returns the `HOST:PORT` of a URI, which may have a scheme.
    fn place(uri: &str) -> Option<&str> {
        for scheme in ["http://", "https://"] {
            if let Some(rest) = uri.strip_prefix(scheme) {
                return Some(rest.split('/').next().unwrap_or(rest));
            }
        }
        for scheme in ["dns:", "ipv4:", "ipv6:", "passthrough:"] {
            let Some(rest) = uri.strip_prefix(scheme) else { continue };
            // The part before the third slash names a resolver; there is one resolver here.
            return match rest.strip_prefix("//") {
                Some(rest) => rest.strip_prefix('/'),
                None => Some(rest),
            };
        }
        Some(uri)
    }
}

/// Splits host and port. An IPv6 address has brackets, or many colons and no port.
fn split(place: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest {
            "" => Some((host, None)),
            rest => Some((host, Some(rest.strip_prefix(':')?))),
        };
    }
    match place.split_once(':') {
        None => Some((place, None)),
        Some((_, rest)) if rest.contains(':') => Some((place, None)),
        Some((host, port)) => Some((host, Some(port))),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

const DEFAULT_PORT: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str) -> String {
        Address::parse(uri).map_or_else(|fault| fault.to_string(), |address| address.to_string())
    }

    #[test]
    fn the_usual_forms_are_read() {
        for (uri, address) in [
            ("xds.example.com:18000", "xds.example.com:18000"),
            ("xds.example.com", "xds.example.com:443"),
            ("dns:xds.example.com:80", "xds.example.com:80"),
            ("dns:///xds.example.com:80", "xds.example.com:80"),
            ("ipv4:127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("::1", "[::1]:443"),
            ("ipv6:[::1]:80", "[::1]:80"),
            ("http://127.0.0.1:80/path", "127.0.0.1:80"),
            ("unix:///run/xds.sock", "unix:/run/xds.sock"),
            ("unix:run/xds.sock", "unix:run/xds.sock"),
        ] {
            assert_eq!(read(uri), address, "{uri}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for uri in [
            "",
            ":80",
            "host:none",
            "host:70000",
            "[::1",
            "[::1]x",
            "unix:",
            "dns://8.8.8.8/host:80",
        ] {
            assert!(read(uri).starts_with(&format!("server `{uri}` is at no address")), "{uri}");
        }
    }
}
