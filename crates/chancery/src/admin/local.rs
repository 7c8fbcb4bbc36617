//! The requests that processes on the same machine send themselves, and no others.
//!
//! A request that changes something, or asks about clients, is answered over loopback alone, and to no web
//! page: one from elsewhere, one that a proxy passed on, and one with an `Origin` are refused. Not here:
//! the names under which the interface may be asked (`hosts`).

use std::net::IpAddr;

use http::header::{FORWARDED, ORIGIN, VIA};
use http::{HeaderMap, StatusCode};

use super::api::ApiError;

/// The reason for which a request is not taken as one of this machine.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotLocal {
    #[error("this is answered to processes on the same machine only, over a loopback address")]
    Elsewhere,
    #[error("a request that a proxy passed on is not answered")]
    PassedOn,
    #[error("a request with an `Origin` is not answered: this is for no web page")]
    WebPage,
}

impl From<NotLocal> for ApiError {
    fn from(refused: NotLocal) -> Self {
        let code = match refused {
            NotLocal::Elsewhere => "not-local",
            NotLocal::PassedOn => "passed-on",
            NotLocal::WebPage => "web-page",
        };
        Self::new(StatusCode::FORBIDDEN, code, refused.to_string())
    }
}

/// Checks who asks.
pub(super) fn check(peer: IpAddr, headers: &HeaderMap) -> Result<(), NotLocal> {
    if headers.contains_key(ORIGIN) {
        return Err(NotLocal::WebPage);
    }
    if !peer.to_canonical().is_loopback() {
        return Err(NotLocal::Elsewhere);
    }
    match headers.keys().any(|name| is_of_proxy(name.as_str())) {
        true => Err(NotLocal::PassedOn),
        false => Ok(()),
    }
}

/// Returns true for a header that a proxy adds. One on the same machine, as an Envoy that shows `/ready`,
/// would lend its own address to anybody.
fn is_of_proxy(header: &str) -> bool {
    [FORWARDED.as_str(), VIA.as_str(), "x-real-ip"].contains(&header)
        || ["x-forwarded-", "x-envoy-"].iter().any(|prefix| header.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_on_the_same_machine_are_answered_and_nobody_else() {
        let (local, none) = (IpAddr::from([127, 0, 0, 1]), HeaderMap::new());
        for peer in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert!(check(peer.parse().unwrap(), &none).is_ok(), "{peer}");
        }
        for peer in ["10.1.2.3", "::2", "::ffff:10.1.2.3", "0.0.0.0", "::"] {
            let refused = check(peer.parse().unwrap(), &none);
            assert!(matches!(refused, Err(NotLocal::Elsewhere)), "{peer}");
        }
        for header in [
            "origin",
            "forwarded",
            "via",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-real-ip",
            "x-envoy-expected-rq-timeout-ms",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header, http::HeaderValue::from_static("null"));
            assert!(check(local, &headers).is_err(), "{header}");
        }
    }
}
