//! The life of one stream, of discovery or of load reports.
//!
//! ```text
//!    Closed --needed--> Opening --opened--> Open
//!      ^                   |                 |
//!      |                   +---- ended ------+
//!      |                   v
//!      +--not needed-- Backoff --its time--> Opening
//! ```
//!
//! Only an open stream has data of its own, so that nothing of it is left when it is lost. A stream
//! that ends after a response is opened again at once if it lived for a while, and is no failure
//! (C-068, [gRFC A57]); each of the others waits longer than the one before (C-069).
//!
//! [gRFC A57]: https://github.com/grpc/proposal/blob/master/A57-xds-client-failure-mode-behavior.md

mod backoff;

use std::time::Duration;

use self::backoff::Backoff;
use super::setup::Settings;
use crate::Time;

/// The state of one stream, with the waits between its attempts.
#[derive(Debug)]
pub(super) struct Lifecycle<S> {
    state: LifecycleState<S>,
    backoff: Backoff,
    /// Tells the waits of this stream from those of others.
    number: u64,
}

#[derive(Debug)]
enum LifecycleState<S> {
    Closed,
    Backoff { until: Time },
    Opening,
    Open(Established<S>),
}

/// A stream that was opened.
#[derive(Debug)]
struct Established<S> {
    since: Time,
    has_responded: bool,
    stream: S,
}

/// The end of a stream, or of an attempt to open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The peer had responded (C-068).
    AfterResponse,
    /// The peer had not: it cannot be reached (C-067).
    WithoutResponse,
}

impl<S> Lifecycle<S> {
    pub(super) fn new(number: u64) -> Self {
        Self { state: LifecycleState::Closed, backoff: Backoff::default(), number }
    }

    /// Begins to open the stream, if there is none and its wait is over. Returns true if it did.
    pub(super) fn begin_opening(&mut self, now: Time) -> bool {
        let is_due = match self.state {
            LifecycleState::Closed => true,
            LifecycleState::Backoff { until } => until <= now,
            LifecycleState::Opening | LifecycleState::Open(_) => false,
        };
        if is_due {
            self.state = LifecycleState::Opening;
        }
        is_due
    }

    /// The stream is there. Returns false if nobody was opening it.
    pub(super) fn opened(&mut self, now: Time, stream: S) -> bool {
        let is_expected = matches!(self.state, LifecycleState::Opening);
        if is_expected {
            let open = Established { since: now, has_responded: false, stream };
            self.state = LifecycleState::Open(open);
        }
        is_expected
    }

    /// The peer has responded: the next failure is the first again.
    pub(super) fn respond(&mut self) {
        if let LifecycleState::Open(open) = &mut self.state {
            open.has_responded = true;
            self.backoff.reset();
        }
    }

    /// The stream ended, or could not be opened. Returns `None` if there was none.
    pub(super) fn ended(&mut self, now: Time, settings: &Settings) -> Option<StreamEnd> {
        let responded_since = match &self.state {
            LifecycleState::Opening => None,
            LifecycleState::Open(open) => open.has_responded.then_some(open.since),
            LifecycleState::Closed | LifecycleState::Backoff { .. } => return None,
        };
        let wait = self.backoff.wait(settings, self.number);
        let (until, end) = match responded_since {
            // One that is closed after each response is not hammered either.
            Some(since) => {
                self.backoff.reset();
                (now.max(since + wait), StreamEnd::AfterResponse)
            }
            None => (now + wait, StreamEnd::WithoutResponse),
        };
        self.state = LifecycleState::Backoff { until };
        Some(end)
    }

    /// Gives the stream up. Returns true if there was one, or one was being opened.
    pub(super) fn close(&mut self) -> bool {
        let is_at_rest = self.is_at_rest();
        self.state = LifecycleState::Closed;
        !is_at_rest
    }

    /// Returns true if there is no stream, and none is being opened.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.state, LifecycleState::Closed | LifecycleState::Backoff { .. })
    }

    /// Returns true if the stream was given up, or never needed.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, LifecycleState::Closed)
    }

    /// Returns true if the peer has responded on the open stream.
    pub(super) fn has_responded(&self) -> bool {
        matches!(&self.state, LifecycleState::Open(open) if open.has_responded)
    }

    /// Returns the time of the next attempt, if the last one failed.
    pub(super) fn next_attempt(&self) -> Option<Time> {
        match self.state {
            LifecycleState::Backoff { until } => Some(until),
            LifecycleState::Closed | LifecycleState::Opening | LifecycleState::Open(_) => None,
        }
    }

    /// Returns the open stream.
    pub(super) fn stream(&self) -> Option<&S> {
        match &self.state {
            LifecycleState::Open(open) => Some(&open.stream),
            LifecycleState::Closed | LifecycleState::Backoff { .. } | LifecycleState::Opening => {
                None
            }
        }
    }

    /// Returns the open stream.
    pub(super) fn stream_mut(&mut self) -> Option<&mut S> {
        match &mut self.state {
            LifecycleState::Open(open) => Some(&mut open.stream),
            LifecycleState::Closed | LifecycleState::Backoff { .. } | LifecycleState::Opening => {
                None
            }
        }
    }

    /// Returns the wait from a response to the next poll: at least `refresh`, and never quite the
    /// same.
    pub(super) fn poll_wait(&mut self, settings: &Settings, refresh: Duration) -> Duration {
        self.backoff.spread(settings, self.number, refresh)
    }
}
