//! Principals: conditions on who makes a call.

use super::{ArrivedCall, PeerIdentity, RbacHeader};
use crate::matching::{AddressRange, TextMatcher};

/// A condition on who makes a call. A tree is as deep as the resource that it is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Everybody.
    Any,
    /// All of these hold.
    And(Vec<Self>),
    /// One of these holds.
    Or(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
    /// The peer has this name; without one, the connection is TLS.
    Authenticated(Option<TextMatcher>),
    /// The peer's address is in the range. `source_ip`, `direct_remote_ip` and `remote_ip` are the same here,
    /// because no peer speaks for another (C-092).
    RemoteIp(AddressRange),
    /// A header matches.
    Header(RbacHeader),
    /// The path matches.
    UrlPath(TextMatcher),
    /// Metadata of filters, of which gRPC has none: only the inversion holds.
    Metadata {
        /// True if the condition is inverted.
        is_inverted: bool,
    },
}

impl Principal {
    /// Returns true if the condition holds.
    pub fn matches(&self, call: &ArrivedCall<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::And(all) => all.iter().all(|id| id.matches(call)),
            Self::Or(some) => some.iter().any(|id| id.matches(call)),
            Self::Not(id) => !id.matches(call),
            Self::Authenticated(name) => is_authenticated(name.as_ref(), &call.identity),
            Self::RemoteIp(range) => range.contains(call.peer.ip()),
            Self::Header(header) => header.matches(call),
            Self::UrlPath(path) => path.matches(call.path.as_bytes()),
            Self::Metadata { is_inverted } => *is_inverted,
        }
    }
}

/// The name of a peer is a URI, or else a name of DNS, or else the subject, or else empty. Names of one kind
/// hide those of the next, also if none of them matches.
fn is_authenticated(name: Option<&TextMatcher>, identity: &PeerIdentity<'_>) -> bool {
    let (certificate, name) = match (identity, name) {
        (PeerIdentity::Plain, _) => return false,
        (PeerIdentity::Tls(_), None) => return true,
        (PeerIdentity::Tls(None), Some(name)) => return name.matches(b""),
        (PeerIdentity::Tls(Some(certificate)), Some(name)) => (certificate, name),
    };
    let any_of = |names: &[String]| names.iter().any(|found| name.matches(found.as_bytes()));
    match (certificate.uris, certificate.dns_names) {
        ([], []) => name.matches(certificate.subject.as_bytes()),
        ([], dns_names) => any_of(dns_names),
        (uris, _) => any_of(uris),
    }
}
