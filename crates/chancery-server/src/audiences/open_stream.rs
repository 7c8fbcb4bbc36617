//! The streams that are open at the moment, for those who ask about them.

use std::sync::Arc;
use std::time::Duration;

use chancery_catalog::Audience;
use chancery_core::Node;

use crate::policy::Peer;
use crate::store::Caller;

/// A stream that is open, or a poll over REST that is being answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenStream {
    /// The audience that it belongs to.
    pub audience: Audience,
    /// The node, as the client describes itself; `None` if it does not. Nobody has verified it (S-137).
    pub node: Option<Arc<Node>>,
    /// The other end of the connection.
    pub peer: Arc<Peer>,
    /// The time since it was opened.
    pub age: Duration,
    /// True for a poll.
    pub is_poll: bool,
}

impl OpenStream {
    pub(super) fn new(audience: Audience, caller: Caller) -> Self {
        let Caller { node, peer, since, is_poll } = caller;
        Self { audience, node, peer, age: since.elapsed(), is_poll }
    }
}
