//! The end of a connection: because it is idle or old, or because the server stops.
//!
//! An old connection ends so that clients spread over new replicas (S-112), and all end when the
//! server stops (S-139). The client is sent GOAWAY first; then the streams end, those without an
//! answer after their first one; and streams that are left after the grace are cut. A connection
//! whose peer is given up ([`keepalive`](super::keepalive)) is closed at once, and so is one whose
//! socket takes nothing for too long. One timer serves for all of this: it is set to whatever comes next.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::executor::SocketTimes;
use super::keepalive::{Keepalive, KeepaliveAction};
use crate::activity::ConnectionActivity;
use crate::config::Times;
use crate::random;
use crate::stall::patience;

/// The timers of one connection.
pub(super) struct Lifetime {
    activity: Arc<ConnectionActivity>,
    stage: LifetimeStage,
    /// The time at which the connection is old.
    old: Option<Instant>,
    idle_since: Option<Instant>,
    keepalive: Option<Keepalive>,
    /// The number of requests so far, as of the last look.
    begun: usize,
    timer: Option<Pin<Box<Sleep>>>,
    stop: CancellationToken,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

enum LifetimeStage {
    Serving,
    /// The client was sent GOAWAY. The streams are asked to end at that time.
    GoawaySent(Instant),
    /// The streams are ending. The connection is cut at that time.
    Draining(Instant),
}

/// An action that is due for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifetimeAction {
    /// Tell the client to open no more streams.
    Goaway,
    /// Let the streams end.
    Drain,
    /// Send a ping to the peer.
    Ping,
    /// The peer did not answer: end all streams.
    GiveUp,
    /// Close the connection.
    Close,
    /// Close the connection, because its socket takes nothing.
    Stalled,
}

impl Lifetime {
    pub(super) fn new(
        times: &Times,
        activity: &Arc<ConnectionActivity>,
        stop: CancellationToken,
    ) -> Self {
        let age = times.max_connection_age.map(|age| {
            let jitter = times.age_jitter.clamp(0.0, 1.0);
            age.mul_f64(1.0 - jitter) + random::duration_up_to(age.mul_f64(jitter))
        });
        let now = Instant::now();
        Self {
            activity: Arc::clone(activity),
            stage: LifetimeStage::Serving,
            old: age.map(|age| now + age),
            idle_since: Some(now),
            keepalive: None,
            begun: 0,
            timer: None,
            stopped: Box::pin(stop.clone().cancelled_owned()),
            stop,
        }
    }

    /// Adds keepalive, if the settings have it.
    #[must_use]
    pub(super) fn with_keepalive(mut self, times: &Times) -> Self {
        self.keepalive = Keepalive::new(times, Instant::now());
        self
    }

    /// Notes that the peer answered a ping.
    pub(super) fn pong_received(&mut self) {
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.pong_received(Instant::now());
        }
    }

    /// Returns true if requests began or ended since the last call. The timers have to be polled then.
    pub(super) fn activity_changed(&mut self) -> bool {
        let (begun, idle) = (self.activity.total(), self.activity.is_idle());
        if begun == self.begun && idle == self.idle_since.is_some() {
            return false;
        }
        self.begun = begun;
        self.idle_since = idle.then(Instant::now);
        true
    }

    /// Notes that the connection ends as soon as its last frames are written.
    pub(super) fn give_up(&mut self) {
        self.keepalive = None;
        self.stage = LifetimeStage::Draining(Instant::now() + LAST_FRAMES);
    }

    /// The next action that is due.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        times: &Times,
        socket: SocketTimes,
    ) -> Poll<LifetimeAction> {
        if let LifetimeStage::Serving = self.stage
            && self.stopped.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(self.send_goaway(random::duration_up_to(times.drain)));
        }
        loop {
            let Some(at) = self.next_time(times, socket) else { return Poll::Pending };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            ready!(timer.as_mut().poll(cx));
            if self.stalled_at(times, socket).is_some_and(|stalled| stalled <= at) {
                return Poll::Ready(LifetimeAction::Stalled);
            }
            if let Some(change) = self.due(at, times, socket.last_read) {
                return Poll::Ready(change);
            }
        }
    }

    /// Returns true if the connection ends, or has to when the timers are polled.
    pub(super) fn ends(&self) -> bool {
        self.has_begun_to_end() || self.stop.is_cancelled()
    }

    fn has_begun_to_end(&self) -> bool {
        !matches!(self.stage, LifetimeStage::Serving)
    }

    /// The time at which the connection ends if its socket takes nothing until then.
    fn stalled_at(&self, times: &Times, socket: SocketTimes) -> Option<Instant> {
        let ends = self.has_begun_to_end();
        socket.full_since.map(|since| since + patience(times.stall_timeout, ends))
    }

    fn next_time(&self, times: &Times, socket: SocketTimes) -> Option<Instant> {
        let keepalive = self.keepalive.as_ref().map(Keepalive::deadline);
        let own = match self.stage {
            LifetimeStage::Serving => {
                let idle = self.idle_since.map(|since| since + times.idle_timeout);
                [self.old, idle].into_iter().flatten().min()
            }
            LifetimeStage::GoawaySent(at) | LifetimeStage::Draining(at) => Some(at),
        };
        [keepalive, own, self.stalled_at(times, socket)].into_iter().flatten().min()
    }

    /// The action that was due at `at`.
    fn due(&mut self, at: Instant, times: &Times, last_read: Instant) -> Option<LifetimeAction> {
        let now = Instant::now();
        if let Some(keepalive) = &mut self.keepalive
            && keepalive.deadline() == at
        {
            return match keepalive.on_deadline(last_read, now)? {
                KeepaliveAction::Ping => Some(LifetimeAction::Ping),
                KeepaliveAction::GiveUp => {
                    self.give_up();
                    Some(LifetimeAction::GiveUp)
                }
            };
        }
        Some(match self.stage {
            // Idle or old. An idle connection has no streams, but a request may be on its way.
            LifetimeStage::Serving => self.send_goaway(Duration::ZERO),
            LifetimeStage::GoawaySent(_) => {
                // The streams end within the grace by themselves; those that cannot are cut later.
                self.stage = LifetimeStage::Draining(now + times.grace + LAST_FRAMES);
                LifetimeAction::Drain
            }
            LifetimeStage::Draining(_) => LifetimeAction::Close,
        })
    }

    fn send_goaway(&mut self, streams_end_in: Duration) -> LifetimeAction {
        self.stage = LifetimeStage::GoawaySent(Instant::now() + streams_end_in);
        LifetimeAction::Goaway
    }
}

/// The time for the last frames of a connection.
const LAST_FRAMES: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_from_the_stop_on_before_its_timers_are_polled() {
        let (times, activity, stop) = (Times::default(), Arc::default(), CancellationToken::new());
        let lifetime = Lifetime::new(&times, &activity, stop.clone());
        assert!(!lifetime.ends());
        stop.cancel();
        assert!(lifetime.ends());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_sent_goaway_ends() {
        let (times, activity) = (Times::default(), Arc::default());
        let mut lifetime = Lifetime::new(&times, &activity, CancellationToken::new());
        tokio::time::advance(times.idle_timeout).await;
        let now = Instant::now();
        let socket = SocketTimes { last_read: now, full_since: None };
        let polled = lifetime.poll(&mut Context::from_waker(Waker::noop()), &times, socket);
        assert_eq!(polled, Poll::Ready(LifetimeAction::Goaway));
        assert!(lifetime.ends());
    }
}
