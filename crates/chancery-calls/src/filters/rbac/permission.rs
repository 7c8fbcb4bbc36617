//! Permissions: conditions on what a call is about.

use super::{ArrivedCall, RbacHeader};
use crate::matching::{AddressRange, TextMatcher};

/// A condition on what a call is about. A tree is as deep as the resource that it is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Every call.
    Any,
    /// All of these hold.
    And(Vec<Self>),
    /// One of these holds.
    Or(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
    /// A header matches.
    Header(RbacHeader),
    /// The path matches.
    UrlPath(TextMatcher),
    /// The server's address is in the range.
    DestinationIp(AddressRange),
    /// The server's port is this.
    DestinationPort(u32),
    /// Metadata of filters, of which gRPC has none: only the inversion holds.
    Metadata {
        /// True if the condition is inverted.
        is_inverted: bool,
    },
    /// The server name that the client asked for in TLS, which gRPC takes to be empty.
    RequestedServerName(TextMatcher),
}

impl Permission {
    /// Returns true if the condition holds.
    pub fn matches(&self, call: &ArrivedCall<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::And(all) => all.iter().all(|rule| rule.matches(call)),
            Self::Or(some) => some.iter().any(|rule| rule.matches(call)),
            Self::Not(rule) => !rule.matches(call),
            Self::Header(header) => header.matches(call),
            Self::UrlPath(path) => path.matches(call.path.as_bytes()),
            Self::DestinationIp(range) => range.contains(call.local.ip()),
            Self::DestinationPort(port) => u32::from(call.local.port()) == *port,
            Self::Metadata { is_inverted } => *is_inverted,
            Self::RequestedServerName(name) => name.matches(b""),
        }
    }
}
