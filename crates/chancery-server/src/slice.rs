//! The time for which one task works before others run.
//!
//! A worker thread has thousands of streams, and a task gives it back only when it is done. So no
//! piece of work on it is long:
//!
//! ```text
//!   many short pieces   [Slice] spends the budget of the task by the time that they take; when it is
//!                       used up, the task is polled again after the others
//!   one long piece      [WorkThreads] does it on one of a few other threads, and the task waits
//! ```
//!
//! The cost of a piece grows with its size (`cargo xtask growth`), so its size tells whether it is long.
//! Not here: limits of size, which refuse what nobody needs (`config`, `chancery_core::server`).

use std::pin::pin;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::task::{spawn_blocking, yield_now};

use crate::budget::PeerShare;
use crate::places::Places;
use crate::turns::Line;

/// The size in bytes of a request as protobuf, from which on it takes long to read.
pub(crate) const LONG_REQUEST: usize = 1024 * 1024;
/// The size in bytes of a request or a resource as JSON, from which on it takes long to read or write.
pub(crate) const LONG_JSON: usize = 64 * 1024;
/// The number of names in a request from which on its work is long: some 10 ms.
pub(crate) const MANY_NAMES: usize = 20_000;
/// The size in bytes of what a stream keeps for its client, from which on its responses are long: of
/// so many names that are owed.
pub(crate) const LARGE_STREAM: usize = 128 * MANY_NAMES;
/// The number of resources from which on work on all of them is long.
pub(crate) const MANY_RESOURCES: usize = 10_000;

/// The time that one unit of the budget of a task stands for. Tokio gives a task 128 of them at a time.
const UNIT: Duration = Duration::from_micros(100);
/// The time after which a task that can wait anywhere lets others run.
const SHARE: Duration = Duration::from_millis(2);
/// The most units that are spent at once.
const MOST_UNITS: u128 = 128;

/// The work of a task since it was polled.
pub(crate) struct Slice {
    since: Instant,
}

impl Slice {
    pub(crate) fn begin() -> Self {
        Self { since: Instant::now() }
    }

    /// Spends the budget of the task for the time since the last call. Returns true if there is some
    /// left. If not, the caller has its task woken.
    pub(crate) fn spend(&mut self, cx: &mut Context<'_>) -> bool {
        let took = self.since.elapsed();
        if took >= UNIT {
            self.since = Instant::now();
            spend(took, cx);
        }
        has_budget_remaining()
    }

    /// Lets others run if this task has worked for a while.
    pub(crate) async fn share(&mut self) {
        if self.since.elapsed() >= SHARE {
            yield_now().await;
            self.since = Instant::now();
        }
    }
}

fn spend(took: Duration, cx: &mut Context<'_>) {
    let units = (took.as_micros() / UNIT.as_micros()).min(MOST_UNITS);
    for _ in 0..units {
        if pin!(consume_budget()).poll(cx).is_pending() {
            return;
        }
    }
}

/// The number of cores, of which each has a worker.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The threads for long pieces of work, for which peers take turns. There are few, because each keeps
/// for the next piece what the allocator gave it for the last.
#[derive(Clone)]
pub(crate) struct WorkThreads(Places);

impl WorkThreads {
    pub(crate) fn new() -> Self {
        Self(Places::new(cores().div_ceil(2)))
    }

    /// Does a long piece of work on another thread; `None` if it panics or the runtime ends.
    pub(crate) fn beside_workers<T, F>(
        &self,
        peer: &Arc<PeerShare>,
        line: Line,
        work: F,
    ) -> impl Future<Output = Option<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (places, peer) = (self.0.clone(), Arc::clone(peer));
        async move {
            let place = places.take(&peer, line).await;
            let work = move || {
                // The place is taken until the work is done, even if nobody waits for it any more.
                let _place = place;
                work()
            };
            spawn_blocking(work).await.ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;
    use crate::turns::tests::peers;

    #[tokio::test]
    async fn time_uses_the_budget_up() {
        poll_fn(|cx| {
            spend(UNIT * 100, cx);
            assert!(has_budget_remaining());
            spend(UNIT * 100, cx);
            assert!(!has_budget_remaining());
            Poll::Ready(())
        })
        .await;
        yield_now().await;
        assert!(has_budget_remaining(), "each poll has a budget of its own");
    }

    #[tokio::test]
    async fn other_tasks_run_during_a_long_piece_of_work() {
        let (said, heard) = mpsc::channel();
        let other = tokio::spawn(async move { said.send(()) });
        let threads = WorkThreads::new();
        let long = move || heard.recv_timeout(Duration::from_secs(20));
        let long = threads.beside_workers(&peers(1)[0], Line::End, long);
        assert_eq!(long.await, Some(Ok(())));
        other.await.unwrap().unwrap();
    }
}
