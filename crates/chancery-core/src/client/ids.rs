//! The ids of servers, streams and watches.

use crate::Scope;

/// One server of a client, by its index among the [`Setup::servers`].
///
/// [`Setup::servers`]: crate::client::Setup::servers
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(usize);

/// One stream of a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// The server at its other end.
    pub server: ServerId,
    /// The types on it.
    pub scope: Scope,
}

/// One watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

impl ServerId {
    pub(super) fn new(index: usize) -> Self {
        Self(index)
    }

    /// Returns its index among the servers.
    pub fn index(self) -> usize {
        self.0
    }
}

impl WatchId {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }
}
