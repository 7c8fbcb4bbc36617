//! When a connection ends: idle for too long, old, or because the server shuts down.
//!
//! An old connection goes so that clients spread over new replicas (S-112), and all go at shutdown
//! (S-139). In these cases the client is told first (GOAWAY), then the streams end, those without
//! an answer after their first one, and what is left after the grace is cut. One that is given up
//! ([`keepalive`](super::keepalive)) is closed at once. Whatever comes next is one timer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::keepalive::{Doubt, Keepalive};
use crate::body::Activity;
use crate::chance;
use crate::config::Times;

/// The times of one connection.
pub(super) struct Life {
    activity: Arc<Activity>,
    stage: Stage,
    /// When it is old.
    old: Option<Instant>,
    idle_since: Option<Instant>,
    keepalive: Option<Keepalive>,
    /// How many requests had begun when that was looked at.
    begun: usize,
    timer: Option<Pin<Box<Sleep>>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

enum Stage {
    Serving,
    /// The client was told, and the streams end at that time.
    Told(Instant),
    /// The streams are ending, and the connection at that time.
    Draining(Instant),
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Tell the client to open no more streams.
    Goaway,
    /// Let the streams end.
    Drain,
    /// Ask the peer whether it is there.
    Ask,
    /// It is not: end all that is open.
    GiveUp,
    /// Close it.
    Over,
}

impl Life {
    pub(super) fn new(times: &Times, activity: &Arc<Activity>, stop: CancellationToken) -> Self {
        let age = times.max_connection_age.map(|age| {
            let jitter = times.age_jitter.clamp(0.0, 1.0);
            age.mul_f64(1.0 - jitter) + chance::within(age.mul_f64(jitter))
        });
        let now = Instant::now();
        Self {
            activity: Arc::clone(activity),
            stage: Stage::Serving,
            old: age.map(|age| now + age),
            idle_since: Some(now),
            keepalive: None,
            begun: 0,
            timer: None,
            stop: Box::pin(stop.cancelled_owned()),
        }
    }

    /// Has the peer asked whether it is there when it says nothing for long.
    #[must_use]
    pub(super) fn with_keepalive(mut self, times: &Times) -> Self {
        self.keepalive = Keepalive::new(times, Instant::now());
        self
    }

    /// The peer is there.
    pub(super) fn answered(&mut self) {
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.answered(Instant::now());
        }
    }

    /// Whether requests began or ended since it was asked last. If so, poll.
    pub(super) fn is_news(&mut self) -> bool {
        let (begun, idle) = (self.activity.begun(), self.activity.is_idle());
        if begun == self.begun && idle == self.idle_since.is_some() {
            return false;
        }
        self.begun = begun;
        self.idle_since = idle.then(Instant::now);
        true
    }

    /// The next change, of a connection whose peer was heard last at `heard`.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        times: &Times,
        heard: Instant,
    ) -> Poll<Change> {
        if let Stage::Serving = self.stage
            && self.stop.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(self.told(chance::within(times.drain)));
        }
        loop {
            let Some(at) = self.next_time(times) else { return Poll::Pending };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            ready!(timer.as_mut().poll(cx));
            if let Some(change) = self.due(at, times, heard) {
                return Poll::Ready(change);
            }
        }
    }

    fn next_time(&self, times: &Times) -> Option<Instant> {
        let doubt = self.keepalive.as_ref().map(Keepalive::at);
        let own = match self.stage {
            Stage::Serving => {
                let idle = self.idle_since.map(|since| since + times.idle_timeout);
                [self.old, idle].into_iter().flatten().min()
            }
            Stage::Told(at) | Stage::Draining(at) => Some(at),
        };
        [doubt, own].into_iter().flatten().min()
    }

    /// What `at` was the time for.
    fn due(&mut self, at: Instant, times: &Times, heard: Instant) -> Option<Change> {
        let now = Instant::now();
        if let Some(keepalive) = &mut self.keepalive
            && keepalive.at() == at
        {
            return match keepalive.due(heard, now)? {
                Doubt::Ask => Some(Change::Ask),
                Doubt::GiveUp => {
                    self.keepalive = None;
                    self.stage = Stage::Draining(now + LAST_WORDS);
                    Some(Change::GiveUp)
                }
            };
        }
        Some(match self.stage {
            // An idle connection has nothing to lose, but a request may be on its way.
            Stage::Serving => self.told(Duration::ZERO),
            Stage::Told(_) => {
                // The streams end themselves within the grace; this is for those that cannot.
                self.stage = Stage::Draining(now + times.grace + LAST_WORDS);
                Change::Drain
            }
            Stage::Draining(_) => Change::Over,
        })
    }

    fn told(&mut self, streams_end_in: Duration) -> Change {
        self.stage = Stage::Told(Instant::now() + streams_end_in);
        Change::Goaway
    }
}

/// How long the last frames of a connection may take.
const LAST_WORDS: Duration = Duration::from_secs(2);
