//! The times of HTTP/2 keepalive (S-113): when a silent peer is sent a ping, and when it is given up.
//! Nothing is sent or read here.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Times;

/// The keepalive of one connection.
pub(super) struct Keepalive {
    /// The silence after which the peer is sent a ping.
    interval: Duration,
    /// The time that the peer has for its answer.
    timeout: Duration,
    ping_sent: bool,
    deadline: Instant,
}

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepaliveAction {
    Ping,
    GiveUp,
}

impl Keepalive {
    /// `None` if keepalive is off.
    pub(super) fn new(times: &Times, now: Instant) -> Option<Self> {
        let interval = times.http2_keepalive?;
        Some(Self {
            interval,
            timeout: times.keepalive_timeout,
            ping_sent: false,
            deadline: now + interval,
        })
    }

    /// The time of the next decision.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the action that is due at the deadline. The last bytes of the peer came at
    /// `last_read`.
    pub(super) fn on_deadline(
        &mut self,
        last_read: Instant,
        now: Instant,
    ) -> Option<KeepaliveAction> {
        if self.ping_sent {
            return Some(KeepaliveAction::GiveUp);
        }
        self.deadline = last_read + self.interval;
        if self.deadline > now {
            return None;
        }
        self.ping_sent = true;
        self.deadline = now + self.timeout;
        Some(KeepaliveAction::Ping)
    }

    /// Notes that the peer answered.
    pub(super) fn pong_received(&mut self, now: Instant) {
        self.ping_sent = false;
        self.deadline = now + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_peer_is_pinged_and_given_up_without_an_answer() {
        // S-113
        let [interval, timeout] = [10, 3].map(Duration::from_secs);
        let times = Times {
            http2_keepalive: Some(interval),
            keepalive_timeout: timeout,
            ..Times::default()
        };
        let begun = Instant::now();
        let mut keepalive = Keepalive::new(&times, begun).unwrap();
        let last_read = begun + Duration::from_secs(4);
        assert_eq!(keepalive.on_deadline(last_read, begun + interval), None, "it sent something");
        assert_eq!(keepalive.deadline(), last_read + interval);
        assert_eq!(
            keepalive.on_deadline(last_read, last_read + interval),
            Some(KeepaliveAction::Ping)
        );
        assert_eq!(keepalive.deadline(), last_read + interval + timeout);
        keepalive.pong_received(last_read + interval);
        let asked = keepalive.deadline();
        assert_eq!(asked, last_read + interval + interval);
        assert_eq!(keepalive.on_deadline(last_read + interval, asked), Some(KeepaliveAction::Ping));
        assert_eq!(
            keepalive.on_deadline(asked, keepalive.deadline()),
            Some(KeepaliveAction::GiveUp),
            "bytes are no pong"
        );
        let never = Times { http2_keepalive: None, ..times };
        assert!(Keepalive::new(&never, begun).is_none());
    }
}
