//! The things about a connection that a program can see of each of its calls.

use std::net::SocketAddr;

/// The connection of a call. It is an extension of each request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The server's end of the connection.
    pub local_address: SocketAddr,
    /// The peer's end of the connection.
    pub peer_address: SocketAddr,
}

impl ConnectionInfo {
    pub(super) fn new(local_address: SocketAddr, peer_address: SocketAddr) -> Self {
        Self { local_address, peer_address }
    }
}
