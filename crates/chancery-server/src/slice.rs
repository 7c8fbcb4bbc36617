//! The time for which one task works before others run.
//!
//! A worker thread has thousands of streams, and a task gives it back only when it is done. So no
//! piece of work on it is long:
//!
//! ```text
//!   many short pieces   [Slice] spends the budget of the task by the time that they take; when it is
//!                       used up, the task is polled again after the others
//!   one long piece      `WorkThreads` does it on one of a few other threads, and the task waits
//! ```
//!
//! The cost of a piece grows with its size (`cargo xtask growth`), so its size tells whether it is long.
//! Not here: the other threads (`work_threads`), and limits of size, which refuse what nobody needs
//! (`config`, `chancery_core::server`).

use std::ops::Add;
use std::pin::pin;
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::task::yield_now;

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

/// The size from which on a piece of long work is not short: 10 to 20 ms, or 120 ms if a client does all
/// that it can to make it long.
const NOT_SHORT: WorkSize = WorkSize(2 * LONG_REQUEST);
/// The number of bytes that a stream keeps for its client which take as long as one byte of a request.
const HELD_BYTES: usize = 4;
/// The number of bytes of a request that take as long as one resource.
const RESOURCE: usize = 32;

/// The size of a piece of long work: about, the bytes of a request that takes as long to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkSize(usize);

/// The length of a piece of long work, as far as its size tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Short,
    /// Up to a second.
    Long,
}

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

impl WorkSize {
    /// The size of reading a request, or of reading or writing JSON.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        Self(bytes)
    }

    /// The size of looking through all that a stream keeps for its client.
    pub(crate) fn of_stream(held_bytes: usize) -> Self {
        Self(held_bytes / HELD_BYTES)
    }

    /// The size of work on so many resources.
    pub(crate) fn of_resources(count: usize) -> Self {
        Self(count.saturating_mul(RESOURCE))
    }

    pub(crate) fn length(self) -> Length {
        if self < NOT_SHORT { Length::Short } else { Length::Long }
    }
}

impl Add for WorkSize {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Length {
    pub(crate) const ALL: [Self; 2] = [Self::Short, Self::Long];
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[test]
    fn the_sizes_of_all_parts_tell_whether_a_piece_is_short() {
        let limit = 2 * LONG_REQUEST;
        let of = |bytes: usize, held: usize| {
            (WorkSize::of_bytes(bytes) + WorkSize::of_stream(held)).length()
        };
        assert_eq!([of(limit - 1, 0), of(limit, 0)], [Length::Short, Length::Long]);
        assert_eq!([of(0, LARGE_STREAM), of(limit - 1, 4)], [Length::Short, Length::Long]);
        assert_eq!(WorkSize::of_resources(MANY_RESOURCES).length(), Length::Short);
        assert_eq!(WorkSize::of_resources(10 * MANY_RESOURCES).length(), Length::Long);
    }

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
}
