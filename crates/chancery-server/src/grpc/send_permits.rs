//! Permits to send a large response.
//!
//! When a whole fleet reconnects, serving a few clients in full is better than serving all of them
//! in slices: the total time is the same and most clients have their response sooner (S-111). A
//! permit ends when the client has taken what it was sent, and at the latest after [`MAX_HOLD`], or
//! [`MAX_WAIT_FOR_ROOM`] after the last time that the client had room for more, because a client that
//! does not read must delay only itself (S-108).
//!
//! Peers take [turns](crate::turns).
//!
//! No task watches the permits. The request whose turn it is waits with a timer, and takes the place
//! of the permit whose time is over first.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::budget::PeerShare;
use crate::turns::{Line, Ticket, Turns};

/// The longest time for which a permit counts, so that a client that does not read delays the
/// others no longer. On a slow network a client takes longer; then a few more responses than the
/// limit are sent at once.
const MAX_HOLD: Duration = Duration::from_millis(20);

/// The longest time for which a permit counts while the client has no room for more: a client nearby
/// makes room sooner, and thousands of clients that do not read delay the others only by that each.
const MAX_WAIT_FOR_ROOM: Duration = Duration::from_millis(2);

/// The time for which a stream waits for a permit. After a longer wait its client would have given up, so the
/// stream is refused and the client comes back later.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The permits of one server.
pub(crate) struct SendPermits(Arc<Mutex<PermitQueue>>);

#[derive(Default)]
struct PermitQueue {
    /// The number of permits that may be held at once.
    limit: usize,
    /// The permits that are held.
    held: Vec<HeldPermit>,
    turns: Turns,
}

struct HeldPermit {
    ticket: Ticket,
    /// The latest time when it is over.
    latest: Instant,
    /// The time when it is over, unless the client makes room.
    over: Instant,
}

/// A request for a permit.
pub(crate) struct PermitRequest {
    permits: Arc<Mutex<PermitQueue>>,
    peer: Arc<PeerShare>,
    ticket: Ticket,
    give_up_at: Instant,
    timer: Pin<Box<Sleep>>,
}

/// No permit was free in time.
#[derive(Debug)]
pub(crate) struct PermitTimeout;

/// A permit. It ends when it is dropped, or when its time is over.
pub(crate) struct SendPermit {
    permits: Arc<Mutex<PermitQueue>>,
    ticket: Ticket,
}

impl SendPermits {
    pub(crate) fn new(limit: usize) -> Self {
        let queue = PermitQueue { limit: limit.max(1), ..PermitQueue::default() };
        Self(Arc::new(Mutex::new(queue)))
    }

    pub(crate) fn request(&self, peer: &Arc<PeerShare>) -> PermitRequest {
        let give_up_at = Instant::now() + MAX_WAIT;
        let ticket = lock(&self.0).turns.add(peer, Line::End);
        let timer = Box::pin(sleep_until(give_up_at));
        let (permits, peer) = (Arc::clone(&self.0), Arc::clone(peer));
        PermitRequest { permits, peer, ticket, give_up_at, timer }
    }
}

impl PermitRequest {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendPermit, PermitTimeout>> {
        loop {
            let at = match lock(&self.permits).grant(&self.peer, self.ticket, cx.waker()) {
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
    /// Grants a permit to the request whose turn it is, if one is free. If none is, the error is the
    /// time when one will be at the latest; a request whose turn it is not gets no time, and is woken
    /// when it is its turn.
    fn grant(
        &mut self,
        peer: &Arc<PeerShare>,
        ticket: Ticket,
        waker: &Waker,
    ) -> Result<(), Option<Instant>> {
        if !self.turns.is_first(peer, ticket, waker) {
            return Err(None);
        }
        let now = Instant::now();
        if self.held.len() >= self.limit {
            let first = self.held.iter().enumerate().min_by_key(|(_, held)| held.over);
            match first.map(|(at, held)| (at, held.over)) {
                Some((_, over)) if over > now => return Err(Some(over)),
                first => first.map(|(at, _)| self.held.swap_remove(at)),
            };
        }
        let latest = now + MAX_HOLD;
        self.held.push(HeldPermit { ticket, latest, over: latest });
        self.turns.take_first();
        Ok(())
    }
}

impl SendPermit {
    /// Notes that the client has no room for more.
    pub(crate) fn waits_for_room(&self) {
        let mut state = lock(&self.permits);
        let ticket = self.ticket;
        let Some(held) = state.held.iter_mut().find(|held| held.ticket == ticket) else { return };
        let before = held.over;
        held.over = held.latest.min(Instant::now() + MAX_WAIT_FOR_ROOM);
        if held.over < before {
            // The first in line waits for a later time.
            state.turns.wake_first();
        }
    }
}

impl Drop for PermitRequest {
    fn drop(&mut self) {
        lock(&self.permits).turns.remove(&self.peer, self.ticket);
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        let mut state = lock(&self.permits);
        state.held.retain(|held| held.ticket != self.ticket);
        state.turns.wake_first();
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
    use crate::turns::tests::peers;

    #[tokio::test(start_paused = true)]
    async fn a_permit_comes_when_another_ends_or_is_held_too_long() {
        // S-108, S-111
        let (permits, peer) = (SendPermits::new(1), &peers(1)[0]);
        let first = poll_fn(|cx| permits.request(peer).poll(cx)).await.unwrap();
        let mut waiting = permits.request(peer);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.poll(&mut cx).is_pending(), "the limit");
        drop(first);
        let before = Instant::now();
        let second = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        let mut waiting = permits.request(peer);
        let _third = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert!(before.elapsed() >= MAX_HOLD, "who does not read loses the permit");
        drop(second);
        let fourth = permits.request(peer).poll(&mut cx);
        assert!(fourth.is_pending(), "what was lost is not given back twice");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_without_room_holds_a_permit_for_a_shorter_time() {
        // S-108, S-111
        let (permits, peer) = (SendPermits::new(2), &peers(1)[0]);
        let _reads = poll_fn(|cx| permits.request(peer).poll(cx)).await.unwrap();
        let unread = poll_fn(|cx| permits.request(peer).poll(cx)).await.unwrap();
        let mut waiting = permits.request(peer);
        let mut waiting = tokio::spawn(async move { poll_fn(|cx| waiting.poll(cx)).await });
        tokio::task::yield_now().await;
        let begun = Instant::now();
        unread.waits_for_room();
        let _third = (&mut waiting).await.unwrap().unwrap();
        assert_eq!(begun.elapsed(), MAX_WAIT_FOR_ROOM);
        let mut waiting = permits.request(peer);
        let _fourth = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert_eq!(begun.elapsed(), MAX_HOLD, "who has room keeps it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_makes_room_keeps_its_permit() {
        // S-111
        let (permits, peer) = (SendPermits::new(1), &peers(1)[0]);
        let slow = poll_fn(|cx| permits.request(peer).poll(cx)).await.unwrap();
        let (begun, mut waiting) = (Instant::now(), permits.request(peer));
        let mut cx = Context::from_waker(Waker::noop());
        while waiting.poll(&mut cx).is_pending() {
            slow.waits_for_room();
            tokio::time::advance(MAX_WAIT_FOR_ROOM / 2).await;
        }
        assert_eq!(begun.elapsed(), MAX_HOLD);
    }

    #[tokio::test]
    async fn permits_come_in_the_order_of_asking() {
        // S-111
        let (permits, peer) = (SendPermits::new(1), &peers(1)[0]);
        let mut first = permits.request(peer);
        let (mut gone, mut second, mut third) =
            (permits.request(peer), permits.request(peer), permits.request(peer));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(third.poll(&mut cx).is_pending(), "not before the others");
        let Poll::Ready(Ok(permit)) = first.poll(&mut cx) else { panic!("nobody is before it") };
        assert!(gone.poll(&mut cx).is_pending() && second.poll(&mut cx).is_pending());
        drop((gone, permit));
        assert!(third.poll(&mut cx).is_pending());
        assert!(second.poll(&mut cx).is_ready(), "who went away is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn peers_take_turns_whatever_the_number_of_their_requests() {
        // S-108, S-111
        let (permits, peers) = (SendPermits::new(1), peers(3));
        for _ in 0..6_000 {
            // These do not read, and keep their permits.
            let mut unread = permits.request(&peers[0]);
            tokio::spawn(async move { poll_fn(|cx| unread.poll(cx)).await.map(std::mem::forget) });
        }
        let begun = Instant::now();
        for peer in &peers[1..] {
            let mut waiting = permits.request(peer);
            poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        }
        assert!(begun.elapsed() <= MAX_HOLD * 4, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_is_woken() {
        // S-108
        let (permits, peer) = (Arc::new(SendPermits::new(2)), &peers(1)[0]);
        let all: Vec<_> = (0..100)
            .map(|number| {
                let mut waiting = permits.request(peer);
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
        let (permits, peer) = (SendPermits::new(1), &peers(1)[0]);
        let mut waiting: Vec<_> = (0..600).map(|_| permits.request(peer)).collect();
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
