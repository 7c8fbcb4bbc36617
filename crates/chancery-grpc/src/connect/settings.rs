//! The settings of a connection beside its address: connections are shared where both are the same.

use std::sync::Arc;
use std::time::Duration;

use super::tls::Tls;
use super::via::Via;

/// The settings of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionSettings {
    pub(crate) security: Security,
    pub(crate) via: Via,
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

    /// Returns the same with times that are allowed. The longest ones are as good as none, and can be added to the
    /// time of now.
    pub(crate) fn polite(self) -> Self {
        let time = self.time.clamp(LEAST_TIME, LONGEST_TIME);
        Self { time, timeout: self.timeout.min(LONGEST_TIME), ..self }
    }

    /// Returns the same with a time that is doubled so often.
    pub(crate) fn patient(self, doublings: u32) -> Self {
        let factor = 2_u32.saturating_pow(doublings);
        Self { time: self.time.saturating_mul(factor), ..self }.polite()
    }
}

const LEAST_TIME: Duration = Duration::from_secs(10);
const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 365 * 24 * 3600;

    fn after(seconds: u64) -> Keepalive {
        Keepalive::after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_peer_is_not_asked_too_often() {
        let time = |keepalive: Keepalive| keepalive.polite().time.as_secs();
        assert_eq!((time(after(0)), time(after(11)), time(after(u64::MAX))), (10, 11, YEAR));
        let timeout = Keepalive { timeout: Duration::MAX, ..after(10) }.polite().timeout;
        assert_eq!(timeout.as_secs(), YEAR);
    }

    #[test]
    fn patience_doubles_the_time() {
        let time = |doublings| after(10).patient(doublings).time.as_secs();
        assert_eq!((time(0), time(1), time(3), time(u32::MAX)), (10, 20, 80, YEAR));
    }
}
