//! The states of connections, and of policies that have many of them.

use std::fmt;
use std::sync::Arc;

/// The state of a policy, or of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Connectivity {
    /// Nothing is connected, and nobody has asked for it.
    Idle,
    /// A connection is being made.
    Connecting,
    /// Calls can be sent.
    Ready,
    /// Connections have failed, and are tried again.
    TransientFailure,
}

/// The state of one subchannel, as its driver says. After a failure the driver waits, with the
/// backoff of gRPC, before it says that the subchannel is idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubchannelState {
    /// There is no connection, and one may be asked for.
    Idle,
    /// A connection is being made.
    Connecting,
    /// There is a connection.
    Ready,
    /// The last attempt has failed, for this reason.
    Failed(Arc<str>),
}

/// The number of members in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StateCounts {
    pub(super) idle: usize,
    pub(super) connecting: usize,
    pub(super) ready: usize,
    pub(super) failed: usize,
}

impl StateCounts {
    pub(super) fn add(&mut self, state: Connectivity) {
        *self.of(state) += 1;
    }

    pub(super) fn remove(&mut self, state: Connectivity) {
        let count = self.of(state);
        *count = count.saturating_sub(1);
    }

    fn of(&mut self, state: Connectivity) -> &mut usize {
        match state {
            Connectivity::Idle => &mut self.idle,
            Connectivity::Connecting => &mut self.connecting,
            Connectivity::Ready => &mut self.ready,
            Connectivity::TransientFailure => &mut self.failed,
        }
    }

    /// Returns the state of the whole: the best of its members (C-113).
    pub(super) fn aggregated(self) -> Connectivity {
        match self {
            Self { ready: 1.., .. } => Connectivity::Ready,
            Self { connecting: 1.., .. } => Connectivity::Connecting,
            Self { idle: 1.., .. } => Connectivity::Idle,
            _ => Connectivity::TransientFailure,
        }
    }
}

impl fmt::Display for Connectivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "IDLE",
            Self::Connecting => "CONNECTING",
            Self::Ready => "READY",
            Self::TransientFailure => "TRANSIENT_FAILURE",
        })
    }
}
