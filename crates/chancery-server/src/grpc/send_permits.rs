//! Permits to send a large response.
//!
//! When a whole fleet reconnects, serving a few clients in full is better than serving all of them
//! in slices: the total time is the same and most clients have their response sooner (S-111). A
//! permit ends when the client has taken what it was sent, and at the latest after [`MAX_HOLD`],
//! because a client that does not read must delay only itself (S-108).
//!
//! No task watches the permits. The first request in the queue waits with a timer, and takes the
//! place of the oldest permit when that one's time is over.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The longest time for which a permit counts, so that a client that does not read delays the
/// others no longer. On a slow network a client takes longer; then a few more responses than the
/// limit are sent at once.
const MAX_HOLD: Duration = Duration::from_millis(20);

/// The time for which a stream waits for a permit. After a longer wait its client would have given up, so the
/// stream is refused and the client comes back later.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The permits of one server.
pub(crate) struct SendPermits(Arc<Mutex<PermitQueue>>);

struct PermitQueue {
    /// The number of permits that may be held at once.
    limit: usize,
    /// The permits that are held, oldest first, and when their time is over.
    held: VecDeque<(u64, Instant)>,
    /// The requests that wait, first come first served.
    queue: VecDeque<(u64, Waker)>,
    /// The number of the newest ticket.
    last: u64,
}

/// A request for a permit. Requests are granted in the order in which they were made.
pub(crate) struct PermitRequest {
    permits: Arc<Mutex<PermitQueue>>,
    ticket: u64,
    give_up_at: Instant,
    timer: Pin<Box<Sleep>>,
}

/// No permit was free in time.
#[derive(Debug)]
pub(crate) struct PermitTimeout;

/// A permit. It ends when it is dropped, or when its time is over.
pub(crate) struct SendPermit {
    permits: Arc<Mutex<PermitQueue>>,
    ticket: u64,
}

impl SendPermits {
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        let (held, queue) = (VecDeque::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(PermitQueue { limit, held, queue, last: 0 })))
    }

    pub(crate) fn request(&self) -> PermitRequest {
        let give_up_at = Instant::now() + MAX_WAIT;
        let mut state = lock(&self.0);
        state.last += 1;
        let ticket = state.last;
        state.queue.push_back((ticket, Waker::noop().clone()));
        let timer = Box::pin(sleep_until(give_up_at));
        PermitRequest { permits: Arc::clone(&self.0), ticket, give_up_at, timer }
    }
}

impl PermitRequest {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendPermit, PermitTimeout>> {
        loop {
            let at = match lock(&self.permits).grant(self.ticket, cx.waker()) {
                Ok(()) => {
                    let (permits, ticket) = (Arc::clone(&self.permits), self.ticket);
                    return Poll::Ready(Ok(SendPermit { permits, ticket }));
                }
                Err(over) => over.map_or(self.give_up_at, |over| over.min(self.give_up_at)),
            };
            if self.give_up_at <= Instant::now() {
                return Poll::Ready(Err(PermitTimeout));
            }
            if self.timer.deadline() != at {
                self.timer.as_mut().reset(at);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl PermitQueue {
    /// Grants a permit to the first request of the queue, if one is free. If none is, the error is
    /// the time when one will be at the latest; a request that is not the first gets no time, and is
    /// woken when it becomes the first.
    fn grant(&mut self, ticket: u64, waker: &Waker) -> Result<(), Option<Instant>> {
        let Some(position) = self.position(ticket) else { return Err(None) };
        self.queue[position].1.clone_from(waker);
        if position > 0 {
            return Err(None);
        }
        let now = Instant::now();
        if self.held.len() >= self.limit {
            match self.held.front() {
                Some((_, over)) if *over > now => return Err(Some(*over)),
                _ => self.held.pop_front(),
            };
        }
        self.queue.pop_front();
        self.held.push_back((ticket, now + MAX_HOLD));
        self.wake_first();
        Ok(())
    }

    /// The position in the queue, which is sorted by ticket.
    fn position(&self, ticket: u64) -> Option<usize> {
        self.queue.binary_search_by_key(&ticket, |(waiting, _)| *waiting).ok()
    }

    /// Wakes the first request of the queue: a permit may be free, or it has to start its timer.
    fn wake_first(&self) {
        if let Some((_, waker)) = self.queue.front() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for PermitRequest {
    fn drop(&mut self) {
        let mut state = lock(&self.permits);
        if let Some(position) = state.position(self.ticket) {
            state.queue.remove(position);
            state.wake_first();
        }
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        let mut state = lock(&self.permits);
        state.held.retain(|(ticket, _)| *ticket != self.ticket);
        state.wake_first();
    }
}

/// No code panics with the lock held.
fn lock(state: &Mutex<PermitQueue>) -> MutexGuard<'_, PermitQueue> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_permit_comes_when_another_ends_or_is_held_too_long() {
        // S-108, S-111
        let permits = SendPermits::new(1);
        let first = poll_fn(|cx| permits.request().poll(cx)).await.unwrap();
        let mut waiting = permits.request();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.poll(&mut cx).is_pending(), "the limit");
        drop(first);
        let before = Instant::now();
        let second = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        let mut waiting = permits.request();
        let _third = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert!(before.elapsed() >= MAX_HOLD, "who does not read loses the permit");
        drop(second);
        let fourth = permits.request().poll(&mut cx);
        assert!(fourth.is_pending(), "what was lost is not given back twice");
    }

    #[tokio::test]
    async fn permits_come_in_the_order_of_asking() {
        // S-111
        let permits = SendPermits::new(1);
        let mut first = permits.request();
        let (mut gone, mut second, mut third) =
            (permits.request(), permits.request(), permits.request());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(third.poll(&mut cx).is_pending(), "not before the others");
        let Poll::Ready(Ok(permit)) = first.poll(&mut cx) else { panic!("nobody is before it") };
        assert!(gone.poll(&mut cx).is_pending() && second.poll(&mut cx).is_pending());
        drop((gone, permit));
        assert!(third.poll(&mut cx).is_pending());
        assert!(second.poll(&mut cx).is_ready(), "who went away is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_is_woken() {
        // S-108
        let permits = Arc::new(SendPermits::new(2));
        let all: Vec<_> = (0..100)
            .map(|number| {
                let mut waiting = permits.request();
                tokio::spawn(async move {
                    let permit = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
                    // Some read, some do not.
                    match number % 3 {
                        0 => drop(permit),
                        _ => std::mem::forget(permit),
                    }
                })
            })
            .collect();
        let begun = Instant::now();
        for one in all {
            one.await.unwrap();
        }
        assert!(begun.elapsed() <= MAX_HOLD * 40, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_too_long_is_refused() {
        // S-111
        let permits = SendPermits::new(1);
        let mut waiting: Vec<_> = (0..600).map(|_| permits.request()).collect();
        let mut granted = 0;
        for waiting in &mut waiting {
            // Nobody reads, so each permit lasts as long as it can.
            match poll_fn(|cx| waiting.poll(cx)).await {
                Ok(permit) => std::mem::forget(permit),
                Err(PermitTimeout) => continue,
            }
            granted += 1;
        }
        let leases = MAX_WAIT.as_millis() / MAX_HOLD.as_millis();
        assert!((leases - 50..=leases + 1).contains(&granted), "{granted}");
    }
}
