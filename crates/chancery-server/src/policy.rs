//! The choice of an audience for each client, which a user of the library makes.
//!
//! A [`Policy`] names the audience of a client. It is asked when the client of a stream identifies
//! itself, when its dynamic parameters change (S-025), after
//! [`Store::reassign`](crate::Store::reassign), and for each poll over REST. It is called on the path
//! of the stream, without a task of its own, so it must answer at once.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use chancery_core::server::load::LoadReporting;
use chancery_core::{Node, TypeUrl};

use crate::store::AudienceName;

/// Chooses the audience of a client.
pub trait Policy: Send + Sync + 'static {
    /// The audience whose snapshot the client should see.
    ///
    /// # Errors
    /// To close the stream, with the reason for the client.
    fn audience(&self, client: &Client<'_>) -> Result<AudienceName, Refusal>;

    /// The place that a resource of an audience comes from, as a file and its line, for the log. Unknown by
    /// default. It is asked when a client rejects a response, for words of the client that may be names.
    fn origin(&self, audience: &AudienceName, type_url: &TypeUrl, name: &str) -> Option<String> {
        _ = (audience, type_url, name);
        None
    }

    /// The load reports of a client that was given an audience; `None` if it is to report nothing. One every
    /// ten seconds by default. It is asked again while a stream of reports is open.
    fn load_reporting(&self, client: &Client<'_>) -> Option<LoadReporting> {
        _ = client;
        Some(LoadReporting::default())
    }

    /// Returns true if the audience of a client may depend on its dynamic parameters. If not, the policy
    /// is not asked when they change, which a client may do with each request.
    fn reads_dynamic_parameters(&self) -> bool {
        true
    }
}

/// The client that a policy is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The node as the client describes itself; `None` if its first message has no usable one
    /// (S-024). Nobody has verified it: check it against the peer before trusting it (S-137).
    pub node: Option<&'a Node>,
    /// The other end of the connection.
    pub peer: &'a Peer,
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address; `None` for a Unix socket.
    pub address: Option<SocketAddr>,
    /// True if the connection is encrypted.
    pub tls: bool,
    /// The certificate of the peer, which it proved to own, and those that lead to its authority, as
    /// DER. Empty if it showed none.
    pub certificates: Vec<Vec<u8>>,
}

/// The reason why a policy refuses a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The client must say more about itself: `INVALID_ARGUMENT`, over REST 400.
    #[error("{0}")]
    Unidentified(String),
    /// The client may not be the node it claims to be, or is not wanted: `PERMISSION_DENIED`, over REST 403.
    #[error("{0}")]
    Denied(String),
    /// The client should come back later: `UNAVAILABLE`, over REST 503.
    #[error("{0}")]
    Unavailable(String),
    /// The node does not state what its resources need, or it does not fit: `FAILED_PRECONDITION`, over REST
    /// 400.
    #[error("{0}")]
    Unstated(String),
    /// There are too many clients that differ from each other: `RESOURCE_EXHAUSTED`, over REST 503.
    #[error("{0}")]
    Full(String),
}

/// One audience for every client, those without a node included.
#[derive(Clone, Debug)]
pub struct OneAudience(pub AudienceName);

/// The audience is a function of the node. Clients without a node are refused.
///
/// ```
/// use chancery_server::{AudienceName, ByNode, Node};
///
/// let policy = ByNode(|node: &Node| AudienceName::from(node.cluster.as_str()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ByNode<F>(pub F);

impl Peer {
    /// Returns true if nobody else can listen in and the peer is known: over mutual TLS, a Unix
    /// socket, or from the same machine (S-137).
    pub fn is_trusted(&self) -> bool {
        let local = self.address.is_none_or(|address| address.ip().to_canonical().is_loopback());
        local || (self.tls && !self.certificates.is_empty())
    }
}

impl Peer {
    /// The address without its port.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.address.map(|address| address.ip().to_canonical())
    }

    /// The same without the certificates, which take much memory.
    pub(crate) fn without_certificates(self: &Arc<Self>) -> Arc<Self> {
        if self.certificates.is_empty() {
            return Arc::clone(self);
        }
        Arc::new(Self { address: self.address, tls: self.tls, certificates: Vec::new() })
    }

    /// The bytes that it keeps, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let certificates = self.certificates.iter();
        size_of::<Self>() + certificates.map(|it| size_of::<Vec<u8>>() + it.len()).sum::<usize>()
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str("unix"),
        }
    }
}

impl Policy for OneAudience {
    fn audience(&self, _client: &Client<'_>) -> Result<AudienceName, Refusal> {
        Ok(self.0.clone())
    }

    fn reads_dynamic_parameters(&self) -> bool {
        false
    }
}

impl<F> Policy for ByNode<F>
where
    F: Fn(&Node) -> AudienceName + Send + Sync + 'static,
{
    fn audience(&self, client: &Client<'_>) -> Result<AudienceName, Refusal> {
        client.node.map(&self.0).ok_or_else(Refusal::anonymous)
    }
}

impl Refusal {
    /// The name of the reason, for metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Unidentified(_) => "unidentified",
            Self::Denied(_) => "denied",
            Self::Unavailable(_) => "unavailable",
            Self::Unstated(_) => "unstated",
            Self::Full(_) => "full",
        }
    }

    /// The refusal of a client without a node by a policy that needs one (S-024).
    pub fn anonymous() -> Self {
        Self::Unidentified("the first request has no `node` with an `id`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: Option<&str>, tls: bool, certificate: bool) -> Peer {
        let certificates = if certificate { vec![vec![1]] } else { Vec::new() };
        Peer { address: address.map(|text| text.parse().unwrap()), tls, certificates }
    }

    #[test]
    fn secrets_go_only_where_nobody_else_listens() {
        // S-137
        assert!(peer(None, false, false).is_trusted());
        assert!(peer(Some("127.0.0.1:1"), false, false).is_trusted());
        assert!(peer(Some("[::ffff:127.0.0.1]:1"), false, false).is_trusted());
        assert!(peer(Some("192.0.2.1:1"), true, true).is_trusted());
        assert!(!peer(Some("192.0.2.1:1"), true, false).is_trusted());
        assert!(!peer(Some("192.0.2.1:1"), false, false).is_trusted());
    }

    #[test]
    fn a_client_that_does_not_say_who_it_is_gets_the_configured_answer() {
        // S-024
        let peer = peer(None, false, false);
        let client = Client { node: None, peer: &peer };
        assert_eq!(OneAudience("g".into()).audience(&client).unwrap(), "g".into());
        let by_node = ByNode(|node: &Node| node.id.as_str().into());
        assert_eq!(by_node.audience(&client), Err(Refusal::anonymous()));
    }
}
