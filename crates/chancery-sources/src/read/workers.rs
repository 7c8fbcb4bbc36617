//! The same work on many items, on as many threads as there are cores.
//!
//! The results are the same as those of one thread, in the same order.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number of threads that work at the same time, at most.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does the work on each of the items.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = cores().min(items.len() / FEWEST);
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        // If no more threads can be started, those that run do all the work.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, worker).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut done = worker();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The number of items for which a thread of its own is worth its cost.
const FEWEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_make_is_in_order() {
        for count in [0, 1, FEWEST, 10 * FEWEST] {
            let items: Vec<usize> = (0..count).collect();
            let wanted: Vec<_> = items.iter().map(|item| item * 2).collect();
            assert_eq!(map(&items, |item| item * 2), wanted);
        }
    }
}
