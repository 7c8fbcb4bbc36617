//! The peers that may ask for the status of clients (S-137).

use http::HeaderMap;
use http::header::{FORWARDED, VIA};

use crate::policy::Peer;

/// The peers that may ask for the status of clients on the discovery port.
///
/// An answer tells what all clients have, without secrets. So a peer that may ask for its own configuration
/// may not ask for this because of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CsdsReaders {
    /// Nobody: the methods are not there.
    Nobody,
    /// Processes on the same machine, over a loopback address or a Unix socket.
    #[default]
    Local,
    /// These, and all that have proved to own a client certificate.
    Certified,
}

impl CsdsReaders {
    /// The reason for a peer that is not let in.
    pub(crate) fn refusal(self) -> &'static str {
        match self {
            Self::Nobody | Self::Local => {
                "the status of clients is told to processes on the same machine only"
            }
            Self::Certified => {
                "the status of clients is told to processes on the same machine, and to peers with a \
                 client certificate"
            }
        }
    }

    /// Returns true if a peer may ask. A proxy on the same machine would lend its own address to anybody, so
    /// requests that one passed on count as those of nobody.
    pub(crate) fn include(self, peer: &Peer, headers: &HeaderMap) -> bool {
        let is_near = peer.address.is_none_or(|it| it.ip().to_canonical().is_loopback());
        let is_passed_on = headers.keys().any(|name| is_of_proxy(name.as_str()));
        let is_local = is_near && !is_passed_on;
        match self {
            Self::Nobody => false,
            Self::Local => is_local,
            Self::Certified => is_local || (peer.tls && !peer.certificates.is_empty()),
        }
    }
}

fn is_of_proxy(header: &str) -> bool {
    [FORWARDED.as_str(), VIA.as_str(), "x-real-ip"].contains(&header)
        || ["x-forwarded-", "x-envoy-"].iter().any(|prefix| header.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// S-137
    #[test]
    fn who_may_ask_is_local_or_has_a_certificate_if_that_counts() {
        let peer = |address: Option<&str>, certificate: bool| Peer {
            address: address.map(|it| it.parse().unwrap()),
            tls: true,
            certificates: if certificate { vec![vec![1]] } else { Vec::new() },
        };
        let plain = HeaderMap::new();
        let all = [CsdsReaders::Nobody, CsdsReaders::Local, CsdsReaders::Certified];
        let may = |peer: &Peer, headers: &HeaderMap| all.map(|it| it.include(peer, headers));
        assert_eq!(may(&peer(None, false), &plain), [false, true, true]);
        assert_eq!(may(&peer(Some("[::ffff:127.0.0.1]:1"), false), &plain), [false, true, true]);
        assert_eq!(may(&peer(Some("192.0.2.1:1"), false), &plain), [false; 3]);
        assert_eq!(may(&peer(Some("192.0.2.1:1"), true), &plain), [false, false, true]);
        for header in ["via", "forwarded", "x-forwarded-for", "x-envoy-external-address"] {
            let passed_on = HeaderMap::from_iter([(
                http::HeaderName::from_static(header),
                HeaderValue::from_static("x"),
            )]);
            assert_eq!(may(&peer(Some("127.0.0.1:1"), false), &passed_on), [false; 3], "{header}");
        }
    }
}
