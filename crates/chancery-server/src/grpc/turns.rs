//! Turns at sending something big.
//!
//! When a whole fleet reconnects, serving a few clients in full is better than serving all of them
//! in slices: the total is the same and most have their answer sooner (S-111). A turn ends when
//! the client has taken what it was sent, and at the latest after [`LEASE`], because a client that
//! does not read must delay only itself (S-108).
//!
//! Nobody watches the turns but who waits: the first in the queue takes the place of the oldest
//! turn when its lease is over.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// How long a client can keep others waiting by not reading. Some take longer on a slow network,
/// which only means that a few more are served at once.
const LEASE: Duration = Duration::from_millis(20);

/// How long a stream waits for its turn: longer, and its client would give up first, so that one
/// more that comes back later is better.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turns there are.
pub(crate) struct Turns(Arc<Mutex<State>>);

struct State {
    most: usize,
    /// The turns that are taken, oldest first, and when their leases are over.
    taken: VecDeque<(u64, Instant)>,
    /// Who waits, first come first served.
    queue: VecDeque<(u64, Waker)>,
    /// The number of the newest ticket.
    last: u64,
}

/// Waiting for a turn, in the order of asking.
pub(crate) struct Waiting {
    turns: Arc<Mutex<State>>,
    ticket: u64,
    patience: Instant,
    timer: Pin<Box<Sleep>>,
}

/// No turn came in time.
#[derive(Debug)]
pub(crate) struct TooMany;

/// One's turn, until it is dropped or the lease is over.
pub(crate) struct Turn {
    turns: Arc<Mutex<State>>,
    ticket: u64,
}

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1);
        let (taken, queue) = (VecDeque::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(State { most, taken, queue, last: 0 })))
    }

    pub(crate) fn wait(&self) -> Waiting {
        let patience = Instant::now() + PATIENCE;
        let mut state = lock(&self.0);
        state.last += 1;
        let ticket = state.last;
        state.queue.push_back((ticket, Waker::noop().clone()));
        let timer = Box::pin(sleep_until(patience));
        Waiting { turns: Arc::clone(&self.0), ticket, patience, timer }
    }
}

impl Waiting {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Turn, TooMany>> {
        loop {
            let at = match lock(&self.turns).take(self.ticket, cx.waker()) {
                Ok(()) => {
                    let (turns, ticket) = (Arc::clone(&self.turns), self.ticket);
                    return Poll::Ready(Ok(Turn { turns, ticket }));
                }
                Err(over) => over.map_or(self.patience, |over| over.min(self.patience)),
            };
            if self.patience <= Instant::now() {
                return Poll::Ready(Err(TooMany));
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

impl State {
    /// Gives a turn to who is first in the queue, if there is one. If not, says when there will be
    /// one at the latest; who is not the first is woken when it is.
    fn take(&mut self, ticket: u64, waker: &Waker) -> Result<(), Option<Instant>> {
        let Some(place) = self.place(ticket) else { return Err(None) };
        self.queue[place].1.clone_from(waker);
        if place > 0 {
            return Err(None);
        }
        let now = Instant::now();
        if self.taken.len() >= self.most {
            match self.taken.front() {
                Some((_, over)) if *over > now => return Err(Some(*over)),
                _ => self.taken.pop_front(),
            };
        }
        self.queue.pop_front();
        self.taken.push_back((ticket, now + LEASE));
        self.wake_first();
        Ok(())
    }

    /// Tickets are in the order of their numbers.
    fn place(&self, ticket: u64) -> Option<usize> {
        self.queue.binary_search_by_key(&ticket, |(waiting, _)| *waiting).ok()
    }

    /// The first of the queue may have a turn, or has to see to its coming.
    fn wake_first(&self) {
        if let Some((_, waker)) = self.queue.front() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = lock(&self.turns);
        if let Some(place) = state.place(self.ticket) {
            state.queue.remove(place);
            state.wake_first();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = lock(&self.turns);
        state.taken.retain(|(ticket, _)| *ticket != self.ticket);
        state.wake_first();
    }
}

/// No code panics with the lock held.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_comes_when_another_ends_or_takes_too_long() {
        // S-108, S-111
        let turns = Turns::new(1);
        let first = poll_fn(|cx| turns.wait().poll(cx)).await.unwrap();
        let mut waiting = turns.wait();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.poll(&mut cx).is_pending(), "the limit");
        drop(first);
        let before = Instant::now();
        let second = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        let mut waiting = turns.wait();
        let _third = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert!(before.elapsed() >= LEASE, "who does not read loses the turn");
        drop(second);
        let fourth = turns.wait().poll(&mut cx);
        assert!(fourth.is_pending(), "what was lost is not given back twice");
    }

    #[tokio::test]
    async fn turns_come_in_the_order_of_asking() {
        // S-111
        let turns = Turns::new(1);
        let mut first = turns.wait();
        let (mut gone, mut second, mut third) = (turns.wait(), turns.wait(), turns.wait());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(third.poll(&mut cx).is_pending(), "not before the others");
        let Poll::Ready(Ok(turn)) = first.poll(&mut cx) else { panic!("nobody is before it") };
        assert!(gone.poll(&mut cx).is_pending() && second.poll(&mut cx).is_pending());
        drop((gone, turn));
        assert!(third.poll(&mut cx).is_pending());
        assert!(second.poll(&mut cx).is_ready(), "who went away is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken() {
        // S-108
        let turns = Arc::new(Turns::new(2));
        let all: Vec<_> = (0..100)
            .map(|number| {
                let mut waiting = turns.wait();
                tokio::spawn(async move {
                    let turn = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
                    // Some read, some do not.
                    match number % 3 {
                        0 => drop(turn),
                        _ => std::mem::forget(turn),
                    }
                })
            })
            .collect();
        let begun = Instant::now();
        for one in all {
            one.await.unwrap();
        }
        assert!(begun.elapsed() <= LEASE * 40, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_sent_away() {
        // S-111
        let turns = Turns::new(1);
        let mut waiting: Vec<_> = (0..600).map(|_| turns.wait()).collect();
        let mut came = 0;
        for waiting in &mut waiting {
            // Nobody reads, so each turn lasts as long as it can.
            match poll_fn(|cx| waiting.poll(cx)).await {
                Ok(turn) => std::mem::forget(turn),
                Err(TooMany) => continue,
            }
            came += 1;
        }
        let leases = PATIENCE.as_millis() / LEASE.as_millis();
        assert!((leases - 50..=leases + 1).contains(&came), "{came}");
    }
}
