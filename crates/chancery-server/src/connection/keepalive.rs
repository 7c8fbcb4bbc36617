//! When a peer that says nothing is asked over HTTP/2 whether it is there, and when it is given up
//! (S-113). Knows times, and neither sends nor reads.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Times;

/// The doubts about one peer.
pub(super) struct Keepalive {
    /// How long it may say nothing.
    interval: Duration,
    /// How long it may take to answer.
    timeout: Duration,
    ping_sent: bool,
    deadline: Instant,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepaliveAction {
    Ping,
    GiveUp,
}

impl Keepalive {
    /// None, if peers are not asked.
    pub(super) fn new(times: &Times, now: Instant) -> Option<Self> {
        let interval = times.http2_keepalive?;
        Some(Self {
            interval,
            timeout: times.keepalive_timeout,
            ping_sent: false,
            deadline: now + interval,
        })
    }

    /// When to look again.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// That time has come; the peer was heard last at `heard`.
    pub(super) fn on_deadline(&mut self, heard: Instant, now: Instant) -> Option<KeepaliveAction> {
        if self.ping_sent {
            return Some(KeepaliveAction::GiveUp);
        }
        self.deadline = heard + self.interval;
        if self.deadline > now {
            return None;
        }
        self.ping_sent = true;
        self.deadline = now + self.timeout;
        Some(KeepaliveAction::Ping)
    }

    /// It is there.
    pub(super) fn pong_received(&mut self, now: Instant) {
        self.ping_sent = false;
        self.deadline = now + self.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_quiet_is_asked_and_who_does_not_answer_given_up() {
        // S-113
        let [interval, timeout] = [10, 3].map(Duration::from_secs);
        let times = Times {
            http2_keepalive: Some(interval),
            keepalive_timeout: timeout,
            ..Times::default()
        };
        let begun = Instant::now();
        let mut keepalive = Keepalive::new(&times, begun).unwrap();
        let heard = begun + Duration::from_secs(4);
        assert_eq!(keepalive.on_deadline(heard, begun + interval), None, "it said something");
        assert_eq!(keepalive.deadline(), heard + interval);
        assert_eq!(keepalive.on_deadline(heard, heard + interval), Some(KeepaliveAction::Ping));
        assert_eq!(keepalive.deadline(), heard + interval + timeout);
        keepalive.pong_received(heard + interval);
        let asked = keepalive.deadline();
        assert_eq!(asked, heard + interval + interval);
        assert_eq!(keepalive.on_deadline(heard + interval, asked), Some(KeepaliveAction::Ping));
        assert_eq!(
            keepalive.on_deadline(asked, keepalive.deadline()),
            Some(KeepaliveAction::GiveUp),
            "a word is no answer"
        );
        let never = Times { http2_keepalive: None, ..times };
        assert!(Keepalive::new(&never, begun).is_none());
    }
}
