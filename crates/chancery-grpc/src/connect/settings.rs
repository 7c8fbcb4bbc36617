//! The settings of a connection beside its address: connections are shared where both are the same.

use std::sync::Arc;
use std::time::Duration;

use super::tls::Tls;

/// The settings of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionSettings {
    pub(crate) security: Security,
    /// `None` if a peer that is silent is waited for.
    pub(crate) keepalive: Option<Keepalive>,
}

/// The protection of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Security {
    /// None: everything goes in the clear.
    #[default]
    Plain,
    /// TLS.
    Tls(Arc<Tls>),
}

/// Questions to a peer that is silent, whether it is still there (`PING` of HTTP/2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Keepalive {
    /// The time after which a peer is asked that has sent nothing. Less than 10 seconds count as 10 seconds, as
    /// in other implementations of gRPC.
    pub time: Duration,
    /// The time that the peer has for its answer before the connection counts as lost. By default 20 seconds.
    pub timeout: Duration,
    /// True if it is asked also while there are no calls. By default false: servers of gRPC close a connection
    /// that asks too often.
    pub without_calls: bool,
}

impl Keepalive {
    /// Asks after this time of silence, and has the defaults of gRPC otherwise.
    pub fn after(time: Duration) -> Self {
        Self { time, timeout: Duration::from_secs(20), without_calls: false }
    }

    /// Returns the same with the least time that is allowed.
    pub(crate) fn polite(self) -> Self {
        Self { time: self.time.max(LEAST_TIME), ..self }
    }
}

const LEAST_TIME: Duration = Duration::from_secs(10);
