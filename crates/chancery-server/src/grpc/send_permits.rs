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
//! A permit is granted when one is free, and not when the stream that waits for it is polled: that one may
//! itself have to wait for long (`connection::turn`). The time of a permit that is not used yet counts too, so
//! that it delays the others no longer than one of a client that does not read. When that is over, the stream
//! has had its turn, and sends when it is polled.
//!
//! While requests wait, one task watches the time of the permits that are held.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::budget::PeerShare;
use crate::turns::{Line, Ticket, Turns};

/// The longest time for which a permit counts before it is used, and from then on, so that a client that
/// does not read delays the others no longer. On a slow network a client takes longer; then a few more
/// responses than the limit are sent at once.
const MAX_HOLD: Duration = Duration::from_millis(20);

/// The longest time for which a permit counts while the client has no room for more: a client nearby
/// makes room sooner, and thousands of clients that do not read delay the others only by that each.
const MAX_WAIT_FOR_ROOM: Duration = Duration::from_millis(2);

/// The time for which a stream waits for a permit. After a longer wait its client would have given up, so the
/// stream is refused and the client comes back later.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The permits of one server.
pub(crate) struct SendPermits(Arc<Permits>);

struct Permits {
    queue: Mutex<PermitQueue>,
    /// Notified when the time of a permit is over sooner than the watching task knows.
    sooner: Notify,
}

#[derive(Default)]
struct PermitQueue {
    /// The number of permits that may be held at once.
    limit: usize,
    /// The permits that are held.
    held: Vec<HeldPermit>,
    turns: Turns,
    /// True while a task watches the permits.
    is_watched: bool,
}

struct HeldPermit {
    ticket: Ticket,
    /// False until the stream that it was granted to is polled.
    is_used: bool,
    /// The latest time when it is over.
    latest: Instant,
    /// The time when it is over, unless the client makes room.
    over: Instant,
}

/// A request for a permit.
pub(crate) struct PermitRequest {
    permits: Arc<Permits>,
    peer: Arc<PeerShare>,
    ticket: Ticket,
    timer: Pin<Box<Sleep>>,
}

/// No permit was free in time.
#[derive(Debug)]
pub(crate) struct PermitTimeout;

/// A permit. It ends when it is dropped, or when its time is over.
pub(crate) struct SendPermit {
    permits: Arc<Permits>,
    ticket: Ticket,
}

impl SendPermits {
    pub(crate) fn new(limit: usize) -> Self {
        let queue = PermitQueue { limit: limit.max(1), ..PermitQueue::default() };
        Self(Arc::new(Permits { queue: Mutex::new(queue), sooner: Notify::new() }))
    }

    pub(crate) fn request(&self, peer: &Arc<PeerShare>) -> PermitRequest {
        let (permits, peer) = (Arc::clone(&self.0), Arc::clone(peer));
        let timer = Box::pin(sleep_until(Instant::now() + MAX_WAIT));
        let ticket = permits.lock().turns.add(&peer, Line::End);
        permits.grant_free();
        if permits.lock().begin_watch() {
            tokio::spawn(watch(Arc::clone(&permits)));
        }
        PermitRequest { permits, peer, ticket, timer }
    }
}

/// Gives the places of permits whose time is over to others, as long as requests wait.
async fn watch(permits: Arc<Permits>) {
    loop {
        permits.grant_free();
        let Some(over) = permits.lock().next_over() else { return };
        // Both have it look again.
        drop(timeout_at(over, permits.sooner.notified()).await);
    }
}

impl PermitRequest {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendPermit, PermitTimeout>> {
        self.permits.grant_free();
        if !self.permits.lock().waits(&self.peer, self.ticket, cx.waker()) {
            let (permits, ticket) = (Arc::clone(&self.permits), self.ticket);
            return Poll::Ready(Ok(SendPermit { permits, ticket }));
        }
        self.timer.as_mut().poll(cx).map(|()| Err(PermitTimeout))
    }
}

impl Permits {
    /// Grants permits to those whose turn it is, as long as any are free.
    fn grant_free(&self) {
        loop {
            // Nobody is woken with the lock held.
            let granted = self.lock().grant(Instant::now());
            let Some(waker) = granted else { return };
            waker.wake();
        }
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, PermitQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PermitQueue {
    /// Grants a permit to the request whose turn it is, if one is free. Returns the waker of that.
    fn grant(&mut self, now: Instant) -> Option<Waker> {
        if self.turns.is_empty() {
            return None;
        }
        if self.held.len() >= self.limit {
            let first = self.held.iter().enumerate().min_by_key(|(_, held)| held.over);
            let (at, _) = first.filter(|(_, held)| held.over <= now)?;
            self.held.swap_remove(at);
        }
        let (ticket, waker) = self.turns.take_first()?;
        let latest = now + MAX_HOLD;
        self.held.push(HeldPermit { ticket, is_used: false, latest, over: latest });
        Some(waker)
    }

    /// Returns true if a request waits, and has `waker` woken when it is granted a permit. If it was granted one,
    /// that counts as used from now on.
    fn waits(&mut self, peer: &Arc<PeerShare>, ticket: Ticket, waker: &Waker) -> bool {
        if self.turns.waits(peer, ticket, waker) {
            return true;
        }
        if let Some(held) = self.held_by(ticket) {
            let latest = Instant::now() + MAX_HOLD;
            (held.is_used, held.latest, held.over) = (true, latest, latest);
        }
        false
    }

    fn held_by(&mut self, ticket: Ticket) -> Option<&mut HeldPermit> {
        self.held.iter_mut().find(|held| held.ticket == ticket)
    }

    /// Returns true if a task has to watch the permits from now on.
    fn begin_watch(&mut self) -> bool {
        let begins = !self.is_watched && !self.turns.is_empty();
        self.is_watched |= begins;
        begins
    }

    /// The time when a permit is over for the request whose turn it is. If none waits, nobody watches any more.
    fn next_over(&mut self) -> Option<Instant> {
        let waited = self.held.iter().filter(|_| !self.turns.is_empty());
        let over = waited.map(|held| held.over).min();
        self.is_watched = over.is_some();
        over
    }
}

impl SendPermit {
    /// Notes that the client has no room for more.
    pub(crate) fn waits_for_room(&self) {
        let mut queue = self.permits.lock();
        let Some(held) = queue.held_by(self.ticket) else { return };
        let before = held.over;
        held.over = held.latest.min(Instant::now() + MAX_WAIT_FOR_ROOM);
        let is_sooner = held.over < before && queue.is_watched;
        drop(queue);
        if is_sooner {
            self.permits.sooner.notify_one();
        }
    }
}

impl Drop for PermitRequest {
    fn drop(&mut self) {
        let mut queue = self.permits.lock();
        queue.turns.remove(&self.peer, self.ticket);
        queue.held.retain(|held| held.ticket != self.ticket || held.is_used);
        drop(queue);
        self.permits.grant_free();
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        self.permits.lock().held.retain(|held| held.ticket != self.ticket);
        self.permits.grant_free();
    }
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

    #[tokio::test(start_paused = true)]
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
    async fn a_request_that_is_not_polled_delays_others_by_the_time_of_its_permit() {
        // S-108
        let (permits, peers) = (SendPermits::new(1), peers(3));
        let _first = poll_fn(|cx| permits.request(&peers[0]).poll(cx)).await.unwrap();
        let begun = Instant::now();
        let mut cx = Context::from_waker(Waker::noop());
        let mut unpolled: Vec<_> = (0..400).map(|_| permits.request(&peers[1])).collect();
        assert!(unpolled.iter_mut().all(|one| one.poll(&mut cx).is_pending()));
        let mut other = permits.request(&peers[2]);
        let other = poll_fn(|cx| other.poll(cx)).await.unwrap();
        assert_eq!(begun.elapsed(), MAX_HOLD * 2, "its turn is after one of each");
        assert!(unpolled[0].poll(&mut cx).is_ready(), "it has had its turn, and sends");
        assert!(unpolled[1].poll(&mut cx).is_pending());
        drop(other);
        assert!(unpolled[1].poll(&mut cx).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_was_granted_and_not_used_comes_back() {
        // S-108
        let (permits, peer) = (SendPermits::new(1), &peers(1)[0]);
        let mut cx = Context::from_waker(Waker::noop());
        let unused = permits.request(peer);
        let mut waiting = permits.request(peer);
        assert!(waiting.poll(&mut cx).is_pending());
        drop(unused);
        assert!(waiting.poll(&mut cx).is_ready());
        tokio::time::advance(MAX_HOLD * 2).await;
        drop((permits.request(peer), waiting));
        let queue = permits.0.lock();
        assert!(queue.turns.is_empty() && queue.held.is_empty() && !queue.is_watched);
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
