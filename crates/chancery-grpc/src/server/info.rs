//! The things about a connection that a program can see of each of its calls.

use std::net::SocketAddr;
use std::sync::Arc;

use super::peer::Peer;

/// The connection of a call. It is an extension of each request.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    local: SocketAddr,
    remote: SocketAddr,
    peer: Arc<Peer>,
}

impl ConnectionInfo {
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { local, remote, peer: Arc::new(Peer::Plain) }
    }

    /// The same connection, whose peer has proved who it is.
    pub(super) fn with(self, peer: Peer) -> Self {
        Self { peer: Arc::new(peer), ..self }
    }

    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The server's end of the connection.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The peer's end of the connection.
    pub fn peer_address(&self) -> SocketAddr {
        self.remote
    }

    /// Returns true if the connection is TLS.
    pub fn is_encrypted(&self) -> bool {
        matches!(*self.peer, Peer::Tls(_))
    }

    /// The certificate of the peer, as DER, if it has shown one. It was verified.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        self.peer.certificate().map(|der| &**der)
    }
}
