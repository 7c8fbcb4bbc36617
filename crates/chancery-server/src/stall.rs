//! The patience with a client that has bytes to read and takes none, or that has sent a part of a
//! request and not the rest.
//!
//! Such a client keeps memory, and it cannot be told from one that is gone. A client that owes an
//! answer, or has nothing to read, is not meant: it costs next to nothing, and may stay for as long as
//! it likes (S-108, S-109). Not here: a socket that takes nothing (`connection::lifetime`).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The time for a client to take something while its connection drains.
const WHILE_DRAINING: Duration = Duration::from_secs(2);

/// The number of bytes that a client has to take in its time, unless fewer wait: one that takes a byte
/// at a time keeps as much as one that takes nothing. In the minute that it has by default, a line of
/// a kilobit a second takes more.
const LEAST: usize = 4 * 1024;

/// The time since a client did its part of what is under way.
///
/// The timer is not set anew whenever the client does something: it fires too early then, and is set
/// for the rest.
#[derive(Default)]
pub(crate) struct StallTimer {
    since: Option<Instant>,
    /// The number of bytes that it took since then.
    taken: usize,
    /// True if its time was over at the last look.
    is_late: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

/// The time for which a client may do nothing.
pub(crate) fn patience(timeout: Duration, draining: bool) -> Duration {
    if draining { timeout.min(WHILE_DRAINING) } else { timeout }
}

impl StallTimer {
    /// Notes that the client took so many bytes. It has its time again when they are enough.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_add(bytes);
        if self.taken >= LEAST {
            self.taken = 0;
            self.since = None;
            self.is_late = false;
        }
    }

    /// Notes that nobody waits for the client.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Ready if the client has done nothing for as long as that. It is looked twice: a task that waited
    /// for its turn has not read yet what the client sent meanwhile.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, patience: Duration) -> Poll<()> {
        let over = *self.since.get_or_insert_with(Instant::now) + patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(over)));
        if timer.deadline() > over {
            timer.as_mut().reset(over);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if over <= Instant::now() {
                if std::mem::replace(&mut self.is_late, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            timer.as_mut().reset(over);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn is_over(stall: &mut StallTimer, patience: Duration) -> bool {
        let mut look =
            || stall.poll(&mut Context::from_waker(std::task::Waker::noop()), patience).is_ready();
        look() || look()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_waited_for_that_long() {
        let (mut stall, begun) = (StallTimer::default(), Instant::now());
        poll_fn(|cx| stall.poll(cx, MINUTE)).await;
        assert_eq!(begun.elapsed(), MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_has_time_again() {
        let mut stall = StallTimer::default();
        for _ in 0..10 {
            assert!(!is_over(&mut stall, MINUTE));
            advance(MINUTE * 3 / 4).await;
            assert!(!is_over(&mut stall, MINUTE));
            stall.took(LEAST - 1);
            stall.took(1);
        }
        let begun = Instant::now();
        poll_fn(|cx| stall.poll(cx, MINUTE)).await;
        assert_eq!(begun.elapsed(), MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_too_little_in_its_time_has_no_more() {
        let (mut stall, begun) = (StallTimer::default(), Instant::now());
        for _ in 0..60 {
            assert!(!is_over(&mut stall, MINUTE));
            stall.took(LEAST / 61);
            advance(MINUTE / 60).await;
        }
        assert!(is_over(&mut stall, MINUTE));
        assert_eq!(begun.elapsed(), MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_it_no_longer() {
        let mut stall = StallTimer::default();
        assert!(!is_over(&mut stall, patience(MINUTE, false)));
        advance(WHILE_DRAINING / 2).await;
        assert!(!is_over(&mut stall, patience(MINUTE, true)));
        advance(WHILE_DRAINING / 2).await;
        assert!(is_over(&mut stall, patience(MINUTE, true)));
        assert_eq!(patience(Duration::from_secs(1), true), Duration::from_secs(1));
    }
}
