//! The other end of a stream, as those see it who ask about streams.

use std::sync::Arc;

use chancery_core::Node;
use tokio::time::Instant;

use crate::policy::Peer;

/// The other end of a stream, or of a poll over REST.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The node, if it says which it is.
    pub(crate) node: Option<Arc<Node>>,
    /// The other end of the connection.
    pub(crate) peer: Arc<Peer>,
    /// When the stream was opened.
    pub(crate) since: Instant,
    /// True for a poll.
    pub(crate) is_poll: bool,
}

#[cfg(test)]
impl Caller {
    /// A client on the same machine.
    pub(crate) fn of_test(node: Option<Arc<Node>>) -> Self {
        let peer = Peer { address: None, tls: false, certificates: Vec::new() };
        Self { node, peer: Arc::new(peer), since: Instant::now(), is_poll: false }
    }
}
