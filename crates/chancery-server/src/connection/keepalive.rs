//! When a peer that says nothing is asked over HTTP/2 whether it is there, and when it is given up
//! (S-113). Knows times, and neither sends nor reads.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Times;

/// The doubts about one peer.
pub(super) struct Keepalive {
    /// How long it may say nothing.
    quiet: Duration,
    /// How long it may take to answer.
    patience: Duration,
    asked: bool,
    at: Instant,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    Ask,
    GiveUp,
}

impl Keepalive {
    /// None, if peers are not asked.
    pub(super) fn new(times: &Times, now: Instant) -> Option<Self> {
        let quiet = times.http2_keepalive?;
        Some(Self { quiet, patience: times.keepalive_timeout, asked: false, at: now + quiet })
    }

    /// When to look again.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// That time has come; the peer was heard last at `heard`.
    pub(super) fn due(&mut self, heard: Instant, now: Instant) -> Option<Doubt> {
        if self.asked {
            return Some(Doubt::GiveUp);
        }
        self.at = heard + self.quiet;
        if self.at > now {
            return None;
        }
        self.asked = true;
        self.at = now + self.patience;
        Some(Doubt::Ask)
    }

    /// It is there.
    pub(super) fn answered(&mut self, now: Instant) {
        self.asked = false;
        self.at = now + self.quiet;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_quiet_is_asked_and_who_does_not_answer_given_up() {
        // S-113
        let [quiet, patience] = [10, 3].map(Duration::from_secs);
        let times =
            Times { http2_keepalive: Some(quiet), keepalive_timeout: patience, ..Times::default() };
        let begun = Instant::now();
        let mut keepalive = Keepalive::new(&times, begun).unwrap();
        let heard = begun + Duration::from_secs(4);
        assert_eq!(keepalive.due(heard, begun + quiet), None, "it said something");
        assert_eq!(keepalive.at(), heard + quiet);
        assert_eq!(keepalive.due(heard, heard + quiet), Some(Doubt::Ask));
        assert_eq!(keepalive.at(), heard + quiet + patience);
        keepalive.answered(heard + quiet);
        let asked = keepalive.at();
        assert_eq!(asked, heard + quiet + quiet);
        assert_eq!(keepalive.due(heard + quiet, asked), Some(Doubt::Ask));
        assert_eq!(
            keepalive.due(asked, keepalive.at()),
            Some(Doubt::GiveUp),
            "a word is no answer"
        );
        let never = Times { http2_keepalive: None, ..times };
        assert!(Keepalive::new(&never, begun).is_none());
    }
}
