//! The requests that processes on the same machine send themselves, and no others.
//!
//! A request that changes something, or asks about clients, is answered over loopback alone, and to no web
//! page: one from elsewhere, one that a proxy passed on, and one with an `Origin` are refused. Not here:
//! the names under which the interface may be asked (`hosts`).

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, ORIGIN, VIA};

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

/// Checks who asks.
pub(super) fn check(peer: IpAddr, headers: &HeaderMap) -> Result<(), NotLocal> {
    if !peer.to_canonical().is_loopback() {
        return Err(NotLocal::Elsewhere);
    }
    if headers.contains_key(ORIGIN) {
        return Err(NotLocal::WebPage);
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
