//! Targets that no control plane is asked for: names of DNS, addresses, and URLs (gRPC name resolution).
//!
//! ```text
//!   dns:///host:port   dns:host   host:port   ipv4:1.2.3.4:80,5.6.7.8   ipv6:[::1]:80   http://host   https://host
//!   unix:path   unix:///path   unix-abstract:name
//! ```
//!
//! Not here: `xds:`, how a name is resolved, and proxies (`ways`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use crate::read::quoted;

/// A target, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OrdinaryTarget {
    /// The target, for messages.
    pub(super) name: Arc<str>,
    /// The target with its scheme, for metrics (gRFC A66).
    pub(super) canonical: String,
    /// The name of the service for servers, and for the check of their certificates.
    pub(super) authority: String,
    pub(super) place: Place,
    /// `None` if the target leaves the security to the credentials.
    pub(super) demand: Option<Demand>,
}

/// The place of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The addresses of a name of DNS.
    Name { host: String, port: u16 },
    /// These addresses.
    Addresses(Vec<SocketAddr>),
    /// The socket of Unix at this path. An abstract one has a name that begins with a zero byte.
    Socket(PathBuf),
}

/// The security that the scheme of a URL asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// `http`: in the clear.
    Plain,
    /// `https`: TLS.
    Tls,
}

impl OrdinaryTarget {
    /// Reads a target, or returns the reason why it is none.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
        let mut canonical = text.to_owned();
        let (host, place, demand) = match scheme.to_ascii_lowercase().as_str() {
            "dns" => {
                let host = without_server(rest)?;
                (host, place(host, DEFAULT_PORT)?, None)
            }
            "ipv4" => with_first(addresses(without_server(rest)?, v4)?),
            "ipv6" => with_first(addresses(without_server(rest)?, v6)?),
            "http" => {
                let host = host_of_url(rest)?;
                (host, place(host, 80)?, Some(Demand::Plain))
            }
            "https" => {
                let host = host_of_url(rest)?;
                (host, place(host, DEFAULT_PORT)?, Some(Demand::Tls))
            }
            "unix" => (SOCKET_AUTHORITY, socket(rest)?, None),
            "unix-abstract" => (SOCKET_AUTHORITY, abstract_socket(rest)?, None),
            "vsock" => return Err("sockets of `vsock:` are not supported".to_owned()),
            _ if rest.starts_with("//") => {
                let known =
                    "`xds`, `dns`, `ipv4`, `ipv6`, `unix`, `unix-abstract`, `http` and `https`";
                return Err(format!("its scheme is not one of {known}"));
            }
            // A target without a scheme is a name of DNS.
            _ => {
                canonical.insert_str(0, "dns:///");
                (text, place(text, DEFAULT_PORT)?, None)
            }
        };
        Ok(Self { name: quoted(text).into(), canonical, authority: host.to_owned(), place, demand })
    }
}

/// Returns the list with the text of its first address, which is the authority.
fn with_first((first, list): (&str, Vec<SocketAddr>)) -> (&str, Place, Option<Demand>) {
    (first, Place::Addresses(list), None)
}

/// Returns what is after the scheme, and the empty authority of a URI.
fn without_server(rest: &str) -> Result<&str, String> {
    match rest.strip_prefix("//") {
        None => Ok(rest.strip_prefix('/').unwrap_or(rest)),
        Some(rest) => rest.strip_prefix('/').ok_or_else(|| {
            "a server to ask is not supported; write the scheme, `:///` and the name".to_owned()
        }),
    }
}

/// Reads the path of a socket of Unix, which is absolute after `//`.
fn socket(rest: &str) -> Result<Place, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if rest.starts_with("//") && !path.starts_with('/') {
        return Err("the path after `unix://` must begin with `/`".to_owned());
    }
    let is_usable = !path.is_empty() && std::os::unix::net::SocketAddr::from_pathname(path).is_ok();
    match is_usable {
        true => Ok(Place::Socket(path.into())),
        false => Err(format!("`{}` is no path of a socket, or too long for one", quoted(path))),
    }
}

/// Reads the name of an abstract socket.
fn abstract_socket(name: &str) -> Result<Place, String> {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return Err("this system has no abstract sockets".to_owned());
    }
    match (1..=MAX_ABSTRACT_BYTES).contains(&name.len()) {
        true => Ok(Place::Socket(format!("\0{name}").into())),
        false => Err(format!("an abstract socket has a name of 1 to {MAX_ABSTRACT_BYTES} bytes")),
    }
}

/// Returns the host and port of a URL that has nothing else.
fn host_of_url(rest: &str) -> Result<&str, String> {
    let rest = rest.strip_prefix("//").ok_or("`//` is missing after the scheme")?;
    let host = rest.strip_suffix('/').unwrap_or(rest);
    match host.contains(['/', '?', '#', '@']) {
        true => Err("a URL must have a host and a port, and nothing else".to_owned()),
        false => Ok(host),
    }
}

/// Reads a host with or without a port.
pub(super) fn place(text: &str, default: u16) -> Result<Place, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, digits)) if !host.contains(':') || host.ends_with(']') => (host, port(digits)?),
        _ => (text, default),
    };
    if let Some(address) = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        let address: Ipv6Addr = address.parse().map_err(|_| no_address(address))?;
        return Ok(Place::Addresses(vec![SocketAddr::new(address.into(), port)]));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        let is_v6 = address.is_ipv6();
        return match is_v6 {
            true => Err("an address of IPv6 must be in brackets".to_owned()),
            false => Ok(Place::Addresses(vec![SocketAddr::new(address, port)])),
        };
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    match (1..=MAX_HOST_BYTES).contains(&host.len()) && host.bytes().all(is_allowed) {
        true => Ok(Place::Name { host: host.to_owned(), port }),
        false => Err(format!("`{}` is no name of a host", quoted(host))),
    }
}

/// Reads a list of addresses of one family. Returns the first one as it is written, too.
fn addresses(
    text: &str,
    read: impl Fn(&str) -> Result<SocketAddr, String>,
) -> Result<(&str, Vec<SocketAddr>), String> {
    let list = text.split(',').map(read).collect::<Result<Vec<_>, _>>()?;
    let first = text.split(',').next().unwrap_or_default();
    Ok((first, list))
}

fn v4(text: &str) -> Result<SocketAddr, String> {
    let (address, port) = match text.split_once(':') {
        Some((address, digits)) => (address, port(digits)?),
        None => (text, DEFAULT_PORT),
    };
    let address: Ipv4Addr = address.parse().map_err(|_| no_address(address))?;
    Ok(SocketAddr::new(address.into(), port))
}

fn v6(text: &str) -> Result<SocketAddr, String> {
    let (address, port) = match text.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((address, "")) => (address, DEFAULT_PORT),
        Some((address, digits)) => (address, port(digits.strip_prefix(':').unwrap_or_default())?),
        None => return Err("an address of IPv6 must be in brackets".to_owned()),
    };
    let address: Ipv6Addr = address.parse().map_err(|_| no_address(address))?;
    Ok(SocketAddr::new(address.into(), port))
}

fn port(digits: &str) -> Result<u16, String> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse().ok().filter(|port| is_number && *port > 0);
    port.ok_or_else(|| format!("`{}` is no port", quoted(digits)))
}

fn no_address(text: &str) -> String {
    format!("`{}` is no address", quoted(text))
}

/// The port of a name or an address that has none, as in other implementations of gRPC.
const DEFAULT_PORT: u16 = 443;
/// The authority of calls to a socket of Unix, as in other implementations of gRPC.
const SOCKET_AUTHORITY: &str = "localhost";
/// The length of the longest name of an abstract socket: that of an address, without the byte that marks it.
const MAX_ABSTRACT_BYTES: usize = 107;
/// The length of the longest name of DNS.
const MAX_HOST_BYTES: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str, port: u16) -> Place {
        Place::Name { host: host.to_owned(), port }
    }

    fn list(addresses: &[&str]) -> Place {
        Place::Addresses(addresses.iter().map(|it| it.parse().unwrap()).collect())
    }

    #[test]
    fn targets_are_names_addresses_and_urls() {
        for (text, authority, place, demand) in [
            ("dns:///a.example:80", "a.example:80", name("a.example", 80), None),
            ("dns:a.example", "a.example", name("a.example", 443), None),
            ("DNS:/a_b", "a_b", name("a_b", 443), None),
            ("dns:///10.0.0.1", "10.0.0.1", list(&["10.0.0.1:443"]), None),
            ("localhost:50051", "localhost:50051", name("localhost", 50051), None),
            ("localhost", "localhost", name("localhost", 443), None),
            ("10.0.0.1:80", "10.0.0.1:80", list(&["10.0.0.1:80"]), None),
            ("[::1]:80", "[::1]:80", list(&["[::1]:80"]), None),
            ("[::1]", "[::1]", list(&["[::1]:443"]), None),
            ("ipv4:10.0.0.1:80", "10.0.0.1:80", list(&["10.0.0.1:80"]), None),
            (
                "ipv4:10.0.0.1:80,10.0.0.2",
                "10.0.0.1:80",
                list(&["10.0.0.1:80", "10.0.0.2:443"]),
                None,
            ),
            ("ipv6:[::1]:80,[::2]", "[::1]:80", list(&["[::1]:80", "[::2]:443"]), None),
            ("http://a:81/", "a:81", name("a", 81), Some(Demand::Plain)),
            ("http://a", "a", name("a", 80), Some(Demand::Plain)),
            ("https://[::1]", "[::1]", list(&["[::1]:443"]), Some(Demand::Tls)),
            ("unix:a/b.sock", "localhost", Place::Socket("a/b.sock".into()), None),
            ("unix:/a", "localhost", Place::Socket("/a".into()), None),
            ("unix:///a", "localhost", Place::Socket("/a".into()), None),
            ("UNIX-abstract:a b", "localhost", Place::Socket("\0a b".into()), None),
        ] {
            let target = OrdinaryTarget::read(text).unwrap();
            let name = text.into();
            let has_scheme = ["dns:", "ipv", "http", "unix"]
                .iter()
                .any(|it| text.get(..it.len()).is_some_and(|start| start.eq_ignore_ascii_case(it)));
            let canonical = if has_scheme { text.to_owned() } else { format!("dns:///{text}") };
            let authority = authority.to_owned();
            assert_eq!(target, OrdinaryTarget { name, canonical, authority, place, demand });
        }
    }

    #[test]
    fn other_texts_are_no_targets() {
        for (text, why) in [
            ("", "`` is no name of a host"),
            ("dns://8.8.8.8/a", "a server to ask is not supported"),
            ("a:", "`` is no port"),
            ("a:0", "`0` is no port"),
            ("a:+1", "`+1` is no port"),
            ("a:65536", "`65536` is no port"),
            ("a b", "`a b` is no name of a host"),
            ("::1", "an address of IPv6 must be in brackets"),
            ("[a]:1", "`a` is no address"),
            ("ipv4:a", "`a` is no address"),
            ("ipv4:10.0.0.1,", "`` is no address"),
            ("ipv6:::1", "an address of IPv6 must be in brackets"),
            ("ipv6:[::1]x", "`` is no port"),
            ("http:a", "`//` is missing after the scheme"),
            ("https://a/b", "a URL must have a host and a port"),
            ("https://a?b", "a URL must have a host and a port"),
            ("https://u@a", "a URL must have a host and a port"),
            ("unix:", "`` is no path of a socket"),
            ("unix://a", "the path after `unix://` must begin with `/`"),
            ("unix:a\0b", "`a\\u{0}b` is no path of a socket"),
            ("unix-abstract:", "an abstract socket has a name of 1 to 107 bytes"),
            ("vsock:2:1", "sockets of `vsock:` are not supported"),
            ("etcd://a/b", "its scheme is not one of"),
        ] {
            let fault = OrdinaryTarget::read(text).unwrap_err();
            assert!(fault.starts_with(why), "{text}: {fault}");
        }
        let long = "a".repeat(254);
        OrdinaryTarget::read(&long).unwrap_err();
        OrdinaryTarget::read(&long[1..]).unwrap();
        for scheme in ["unix", "unix-abstract"] {
            OrdinaryTarget::read(&format!("{scheme}:{}", &long[..107])).unwrap();
            OrdinaryTarget::read(&format!("{scheme}:{}", &long[..108])).unwrap_err();
        }
    }
}
