//! The proxy that the environment names for ordinary targets: `https_proxy` and `no_proxy` (gRFC A1).
//!
//! Names in lower case come first. Never here: targets of `xds:`, whose proxies are those of the control plane.

use std::env;
use std::net::IpAddr;

use chancery_calls::matching::AddressRange;
use chancery_core::base64;

use super::ordinary_target::{Place, place};
use crate::connect::{HttpProxy, Secret};
use crate::read::quoted;

/// The variables of an environment that say which proxy is used.
#[derive(Default)]
pub(super) struct ProxyVariables {
    proxy: Option<String>,
    exceptions: Vec<Exception>,
}

/// Servers that are reached without the proxy.
struct Exception {
    hosts: Hosts,
    /// `None` means all ports.
    port: Option<u16>,
}

enum Hosts {
    All,
    Range(AddressRange),
    /// A name, and all below it.
    Name(String),
    /// All names that end with this.
    Below(String),
}

impl ProxyVariables {
    /// Reads the environment of the process. A value that is no text is no URL, which is told when it is used.
    pub(super) fn of_process() -> Self {
        Self::read(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Reads the variables of an environment. An empty one is as none.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&str; 2]| {
            let values = names.into_iter().filter_map(&variable).map(|it| it.trim().to_owned());
            values.into_iter().find(|value| !value.is_empty())
        };
        let proxy = first(["https_proxy", "HTTPS_PROXY"]);
        let exceptions = first(["no_proxy", "NO_PROXY"]).unwrap_or_default();
        let exceptions = exceptions.split(',').filter_map(Exception::read).collect();
        Self { proxy, exceptions }
    }

    /// Returns the proxy by which a host is reached, if there is one, or the reason why it cannot be used. The host
    /// itself is never reached by one.
    pub(super) fn proxy_of(&self, host: &str, port: u16) -> Result<Option<HttpProxy>, String> {
        let Some(url) = &self.proxy else { return Ok(None) };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|it| it.to_canonical());
        let is_here = host == "localhost" || address.is_some_and(|it| it.is_loopback());
        if is_here || self.exceptions.iter().any(|it| it.is_for(&host, address, port)) {
            return Ok(None);
        }
        proxy(url).map(Some)
    }
}

impl Exception {
    /// Reads `*`, an address, a range of addresses, or a name. What is none of these is for no server.
    fn read(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text == "*" {
            return Some(Self { hosts: Hosts::All, port: None });
        }
        if let Some((prefix, bits)) = text.split_once('/') {
            let range = AddressRange::new(prefix.parse().ok()?, bits.parse().ok()?);
            return Some(Self { hosts: Hosts::Range(range), port: None });
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self { hosts: one(address), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, digits)) => (host, Some(digits.parse().ok()?)),
            None => (text.as_str(), None),
        };
        let host = host.strip_suffix('.').unwrap_or(host);
        let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let hosts = match (address.parse::<IpAddr>(), host.strip_prefix('*').unwrap_or(host)) {
            (Ok(address), _) => one(address),
            (Err(_), "" | ".") => return None,
            (Err(_), below) if below.starts_with('.') => Hosts::Below(below.to_owned()),
            (Err(_), _) => Hosts::Name(host.to_owned()),
        };
        Some(Self { hosts, port })
    }

    fn is_for(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        let is_host = match &self.hosts {
            Hosts::All => true,
            Hosts::Range(range) => address.is_some_and(|address| range.contains(address)),
            Hosts::Below(end) => host.ends_with(end.as_str()),
            Hosts::Name(name) => host
                .strip_suffix(name.as_str())
                .is_some_and(|it| it.is_empty() || it.ends_with('.')),
        };
        is_host && self.port.is_none_or(|it| it == port)
    }
}

fn one(address: IpAddr) -> Hosts {
    Hosts::Range(AddressRange::new(address, 128))
}

/// Reads the URL of a proxy. Its password is in no message.
fn proxy(url: &str) -> Result<HttpProxy, String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(format!("a proxy of `{}:` is not supported, only `http:` is", quoted(scheme)));
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (user, server) = match rest.rsplit_once('@') {
        Some((user, server)) => (Some(user), server),
        None => (None, rest),
    };
    // Without an `@` it may be a user whose host was forgotten, so no message quotes it.
    let hidden = |why| if user.is_some() { why } else { "its host or its port is none".to_owned() };
    let (host, port) = match place(server, DEFAULT_PORT).map_err(hidden)? {
        Place::Name { host, port } => (host, port),
        Place::Addresses(addresses) => {
            let address = addresses.first().ok_or("it has no host")?;
            (address.ip().to_string(), address.port())
        }
        Place::Socket(_) => return Err("a socket is no proxy".to_owned()),
    };
    let authorization = user.map(authorization).transpose()?;
    Ok(HttpProxy { host, port, authorization, server: None })
}

/// Returns the value of `proxy-authorization` for `user:password`, in which `%` escapes bytes.
fn authorization(user: &str) -> Result<Secret, String> {
    let mut bytes = Vec::with_capacity(user.len() + 1);
    let mut rest = user.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.filter(|it| it.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("its user has a `%` that escapes nothing")?);
        rest = after.get(2..).unwrap_or_default();
    }
    if !user.contains(':') {
        bytes.push(b':');
    }
    Ok(Secret(format!("Basic {}", base64::encode(&bytes))))
}

/// The port of a proxy that states none.
const DEFAULT_PORT: u16 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> ProxyVariables {
        ProxyVariables::read(|name| {
            all.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn proxied(all: &[(&str, &str)], host: &str, port: u16) -> Option<String> {
        variables(all).proxy_of(host, port).unwrap().map(|proxy| proxy.to_string())
    }

    #[test]
    fn names_in_lower_case_come_first() {
        // gRFC A1
        let both = [("https_proxy", "a"), ("HTTPS_PROXY", "b"), ("http_proxy", "c")];
        assert_eq!(proxied(&both, "x.example", 1).unwrap(), "proxy a:80");
        assert_eq!(proxied(&both[1..], "x.example", 1).unwrap(), "proxy b:80");
        assert_eq!(proxied(&both[2..], "x.example", 1), None);
        let empty = [("https_proxy", " "), ("HTTPS_PROXY", "b")];
        assert_eq!(proxied(&empty, "x.example", 1).unwrap(), "proxy b:80");
        let exceptions = [("HTTPS_PROXY", "b"), ("no_proxy", "x.example"), ("NO_PROXY", "*")];
        assert_eq!(proxied(&exceptions, "x.example", 1), None);
        assert!(proxied(&exceptions, "y.example", 1).is_some());
        let rooted = [("https_proxy", "a"), ("no_proxy", "x.example.")];
        assert_eq!(proxied(&rooted, "x.example.", 1), None);
        assert_eq!(proxied(&rooted, "x.example", 1), None);
    }

    #[test]
    fn what_may_be_a_password_is_in_no_message() {
        for url in ["http://user:s3cret", "user:s3cret/", "http://[s3cret"] {
            let error = variables(&[("https_proxy", url)]).proxy_of("x.example", 1).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn some_servers_have_no_proxy() {
        for (exceptions, host, port, is_proxied) in [
            ("", "localhost", 1, false),
            ("", "LOCALHOST.", 1, false),
            ("", "127.1.2.3", 1, false),
            ("", "::1", 1, false),
            ("", "10.0.0.1", 1, true),
            ("*", "x.example", 1, false),
            ("a, x.example", "x.example", 1, false),
            ("X.example", "y.x.EXAMPLE.", 1, false),
            ("x.example", "yx.example", 1, true),
            (".x.example", "x.example", 1, true),
            (".x.example", "y.x.example", 1, false),
            ("*.x.example", "y.x.example", 1, false),
            ("x.example:1", "x.example", 1, false),
            ("x.example:1", "x.example", 2, true),
            ("x.example:", "x.example", 1, true),
            ("10.0.0.1", "10.0.0.1", 1, false),
            ("10.0.0.1:2", "10.0.0.1", 1, true),
            ("10.0.0.0/8", "10.9.9.9", 1, false),
            ("10.0.0.0/8", "11.0.0.1", 1, true),
            ("10.0.0.0/8", "a.example", 1, true),
            ("2001:db8::/32", "2001:db8::5", 1, false),
            ("[2001:db8::5]:1", "2001:db8::5", 1, false),
            ("[2001:db8::5]:1", "2001:db8::5", 2, true),
            ("2001:db8::5", "2001:db8::5", 2, false),
            (",., ,/", "x.example", 1, true),
        ] {
            let found = proxied(&[("https_proxy", "a"), ("no_proxy", exceptions)], host, port);
            assert_eq!(found.is_some(), is_proxied, "{exceptions} {host}:{port}");
        }
    }

    #[test]
    fn a_proxy_is_a_url() {
        for (url, shown, authorization) in [
            ("http://p.example", "proxy p.example:80", None),
            ("HTTP://p.example:3128/", "proxy p.example:3128", None),
            ("p.example:3128", "proxy p.example:3128", None),
            ("http://[::1]:3128", "proxy [::1]:3128", None),
            ("http://u:p@10.0.0.1:3128", "proxy 10.0.0.1:3128", Some("Basic dTpw")),
            ("http://u@p", "proxy p:80", Some("Basic dTo=")),
            ("http://a%40b:%00@p", "proxy p:80", Some("Basic YUBiOgA=")),
        ] {
            let found = proxy(url).unwrap();
            assert_eq!(found.to_string(), shown);
            assert_eq!(found.authorization, authorization.map(|it| Secret(it.to_owned())));
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_told_without_its_password() {
        for (url, why) in [
            ("https://u:secret@p", "a proxy of `https:` is not supported, only `http:` is"),
            ("socks5://p", "a proxy of `socks5:` is not supported, only `http:` is"),
            ("http://u:secret@p/a", "`p/a` is no name of a host"),
            ("http://u:secret@p:0", "`0` is no port"),
            ("http://u:%secret@p", "its user has a `%` that escapes nothing"),
            ("http://u:%+1@p", "its user has a `%` that escapes nothing"),
            ("http://u:%", "its host or its port is none"),
            ("\u{fffd}", "its host or its port is none"),
        ] {
            let variables = variables(&[("https_proxy", url)]);
            let found = variables.proxy_of("a.example", 80).map(|_| ()).unwrap_err();
            assert_eq!(found, why);
        }
    }
}
