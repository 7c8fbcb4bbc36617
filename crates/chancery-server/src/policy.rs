//! Who sees what: the decision a user of the library makes.
//!
//! A [`Policy`] names the audience of a client. It is asked when a stream says who it is, when its
//! dynamic parameters change (S-025), and when [`Store::reassign`](crate::Store::reassign) says so;
//! for a poll over REST it is asked each time. It must answer at once: it is called on the path of
//! the stream, without a task of its own.

use std::net::SocketAddr;

use chancery_core::Node;

use crate::store::AudienceName;

/// Chooses the audience of a client.
pub trait Policy: Send + Sync + 'static {
    /// The audience whose snapshot the client should see.
    ///
    /// # Errors
    /// To close the stream, with the reason for the client.
    fn audience(&self, client: &Client<'_>) -> Result<AudienceName, Refusal>;
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// What the client says about itself; `None` if its first message does not say it usably
    /// (S-024). It is self-declared: check it against the peer before trusting it (S-137).
    pub node: Option<&'a Node>,
    /// The other end of the connection.
    pub peer: &'a Peer,
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address; `None` for a Unix socket.
    pub address: Option<SocketAddr>,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The certificates the peer proved to own the first of, as DER. Empty if it showed none.
    pub certificates: Vec<Vec<u8>>,
}

/// Why a client is turned away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It must say more about itself: `INVALID_ARGUMENT`, over REST 400.
    #[error("{0}")]
    Unidentified(String),
    /// It may not be who it says it is, or is not wanted: `PERMISSION_DENIED`, over REST 403.
    #[error("{0}")]
    Denied(String),
    /// It should come back later: `UNAVAILABLE`, over REST 503.
    #[error("{0}")]
    Unavailable(String),
}

/// One audience for every client, also for those that do not say who they are.
#[derive(Clone, Debug)]
pub struct OneAudience(pub AudienceName);

/// The audience is a function of the node; clients that do not say who they are are turned away.
///
/// ```
/// use chancery_core::Node;
/// use chancery_server::{ByNode, AudienceName};
///
/// let policy = ByNode(|node: &Node| AudienceName::from(node.cluster.as_str()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ByNode<F>(pub F);

impl Peer {
    /// Whether nobody else can listen in and the peer is known: mutual TLS, a Unix socket, or the
    /// same machine (S-137).
    pub fn is_trusted(&self) -> bool {
        let local = self.address.is_none_or(|address| address.ip().to_canonical().is_loopback());
        local || (self.tls && !self.certificates.is_empty())
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
    /// What a policy that needs to know the client says to one that does not tell (S-024).
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
