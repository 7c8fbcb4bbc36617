//! The connections that a filter chain is for.

use std::fmt::{self, Display, Formatter};

use crate::matching::AddressRange;

/// The conditions of a filter chain. An empty list is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainMatch {
    /// Ranges of the server's address.
    pub destinations: Vec<AddressRange>,
    /// The sort of transport.
    pub transport: TransportMatch,
    /// The sort of source.
    pub source_type: SourceType,
    /// Ranges of the peer's address.
    pub sources: Vec<AddressRange>,
    /// Ports of the peer.
    pub source_ports: Vec<u16>,
    /// True if it asks for something that only listener filters or an original destination can tell, which
    /// gRPC has not: a destination port, server names or application protocols. Such a chain matches nothing.
    pub is_impossible: bool,
}

/// The sort of transport that a chain is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransportMatch {
    /// `raw_buffer`, which is the transport of every connection as long as nothing looks into it. It counts
    /// more than none.
    RawBuffer,
    /// No condition.
    #[default]
    Any,
    /// Another transport, which no connection has.
    Other,
}

/// The sort of source that a chain is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceType {
    /// No condition.
    #[default]
    Any,
    /// The peer has the server's address, or a loopback address.
    SameIpOrLoopback,
    /// The peer has another address.
    External,
}

impl ChainMatch {
    /// Returns true if some connection can match.
    pub(super) fn is_possible(&self) -> bool {
        !self.is_impossible && self.transport != TransportMatch::Other
    }
}

impl Display for SourceType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "ANY",
            Self::SameIpOrLoopback => "SAME_IP_OR_LOOPBACK",
            Self::External => "EXTERNAL",
        })
    }
}
