//! The names under which the admin interface may be asked.
//!
//! A page in a browser can have its own name lead to loopback, and then read what is there
//! (DNS rebinding). Its requests have that name as `Host`, so only names are answered that no
//! stranger can own: `localhost`, IP addresses, and those that the operator states.

use std::net::{Ipv4Addr, Ipv6Addr};

use chancery_core::printable::{MAX_NAME_BYTES, PrintForm, cut, printable};
use http::{HeaderMap, Request, header};

/// The names under which the admin interface may be asked, besides `localhost` and IP addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdminHosts(Vec<String>);

/// The error for a request under another name.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` in `Host` is none of localhost, an IP address and the names in `admin-hosts`")]
pub(crate) struct ForeignHost(String);

impl AdminHosts {
    pub(crate) fn new(names: &[String]) -> Self {
        Self(names.to_vec())
    }

    /// Checks the names under which a request comes. One without any comes from no browser.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), ForeignHost> {
        if let Some(host) = request.uri().host() {
            self.check_host(host)?;
        }
        hosts(request.headers()).try_for_each(|host| self.check_host(without_port(&host)))
    }

    fn check_host(&self, host: &str) -> Result<(), ForeignHost> {
        let named = |name: &String| name.eq_ignore_ascii_case(host);
        if host.eq_ignore_ascii_case("localhost") || is_address(host) || self.0.iter().any(named) {
            return Ok(());
        }
        Err(ForeignHost(printable(&cut(host, MAX_NAME_BYTES), PrintForm::Line).into_owned()))
    }
}

fn hosts(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let hosts = headers.get_all(header::HOST).into_iter();
    hosts.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned())
}

/// The host without the port.
fn without_port(host: &str) -> &str {
    let after_address = host.rfind(']').unwrap_or(0);
    match host[after_address..].find(':') {
        Some(colon) => &host[..after_address + colon],
        None => host,
    }
}

/// Returns true for an IP address; one of version 6 is in brackets.
fn is_address(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn request(host: &str) -> Request<()> {
        Request::builder().header("host", host).body(()).unwrap()
    }

    fn check(host: &str) -> Result<(), ForeignHost> {
        let hosts = AdminHosts::new(&["xds.example".to_owned()]);
        hosts.check(&request(host))
    }

    #[test]
    fn localhost_addresses_and_stated_names_are_answered() {
        for host in [
            "localhost",
            "LocalHost:18080",
            "127.0.0.1",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:80",
            "xds.example:1",
        ] {
            assert!(check(host).is_ok(), "{host}");
        }
        let hosts = AdminHosts::default();
        assert!(hosts.check(&Request::builder().uri("/ready").body(()).unwrap()).is_ok());
    }

    #[test]
    fn other_names_are_refused_with_the_setting() {
        for host in [
            "rebound.example",
            "localhost.rebound.example",
            "127.0.0.1.nip.io",
            "",
            "::1",
            "[x]",
            "xds.example.com",
        ] {
            let refused = check(host).unwrap_err().to_string();
            assert!(refused.contains("admin-hosts"), "{refused}");
        }
        let long = check(&"x".repeat(5000)).unwrap_err().to_string();
        assert!(long.len() < 500 && long.contains("(5000 bytes)"), "{long}");
        let mut odd = request("");
        odd.headers_mut().insert("host", HeaderValue::from_bytes("a\u{9b}b".as_bytes()).unwrap());
        let refused = AdminHosts::default().check(&odd).unwrap_err().to_string();
        assert!(refused.starts_with("`a\\u{9b}b` in `Host`"), "{refused}");
        let absolute = Request::builder().uri("http://rebound.example/config").body(()).unwrap();
        assert!(AdminHosts::default().check(&absolute).is_err());
    }
}
