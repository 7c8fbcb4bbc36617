//! Turns at sending something big.
//!
//! When a whole fleet reconnects, serving a few clients in full is better than serving all of them
//! in slices: the total is the same and most have their answer sooner (S-111). A turn ends when
//! the client has taken what it was sent, and at the latest after [`LEASE`], because a client that
//! does not read must delay only itself (S-108).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::Sleep;
use tokio_util::sync::PollSemaphore;

/// How long a client can keep others waiting by not reading. Some take longer on a slow network,
/// which only means that a few more are served at once.
const LEASE: Duration = Duration::from_millis(20);

/// The turns there are.
pub(crate) struct Turns(Arc<Semaphore>);

/// How long a stream waits for its turn: longer, and its client would give up first, so that one
/// more that comes back later is better.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waiting for a turn, in the order of asking.
pub(crate) struct Waiting {
    turn: PollSemaphore,
    patience: Pin<Box<Sleep>>,
}

/// No turn came in time.
#[derive(Debug)]
pub(crate) struct TooMany;

/// One's turn, until it is dropped or the lease is over.
pub(crate) struct Turn {
    _ended_by_drop: oneshot::Sender<()>,
}

impl Turns {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count.clamp(1, Semaphore::MAX_PERMITS))))
    }

    pub(crate) fn wait(&self) -> Waiting {
        Waiting {
            turn: PollSemaphore::new(Arc::clone(&self.0)),
            patience: Box::pin(tokio::time::sleep(PATIENCE)),
        }
    }
}

impl Waiting {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Turn, TooMany>> {
        let Poll::Ready(permit) = self.turn.poll_acquire(cx) else {
            return self.patience.as_mut().poll(cx).map(|()| Err(TooMany));
        };
        let (sender, ended) = oneshot::channel::<()>();
        // The body is not polled while its client does not read, so it cannot end its own lease.
        // The task ends with the turn, or with the lease.
        tokio::spawn(async move {
            let _permit = permit;
            tokio::time::timeout(LEASE, ended).await.ok();
        });
        Poll::Ready(Ok(Turn { _ended_by_drop: sender }))
    }
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
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(waiting.poll(&mut cx).is_pending(), "the limit");
        drop(first);
        let before = tokio::time::Instant::now();
        let second = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO);
        let mut waiting = turns.wait();
        let _third = poll_fn(|cx| waiting.poll(cx)).await.unwrap();
        assert!(before.elapsed() >= LEASE, "who does not read loses the turn");
        drop(second);
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
