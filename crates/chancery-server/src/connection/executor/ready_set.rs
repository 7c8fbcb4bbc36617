//! The set of subtasks of a connection that are ready to be polled.
//!
//! ```text
//!   publish --> waker of a stream --> [ReadySet]: stream 3 is ready --> the connection's task
//!   socket  --> waker of HTTP ------> [ReadySet]: HTTP is ready ------/
//! ```
//!
//! Each subtask has a waker of its own, a [`SubtaskWaker`], so that a wake of one does not poll the
//! others, and a subtask that another one wakes while the task runs does not wake the task. A wake
//! writes two words without a lock: the flag of the subtask, and its bit in the set. Many streams
//! share a bit; the task tells them apart by their flags.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use super::sync::{AtomicBool, AtomicU64, AtomicWaker, Ordering};

/// The subtasks of one connection that have something to do.
#[derive(Default)]
pub(crate) struct ReadySet {
    /// The bits of the subtasks that are ready, and [`AWAKE`]. Zero: the task sleeps.
    bits: AtomicU64,
    /// The waker of the connection's task.
    task: AtomicWaker,
}

/// The bits that were set when the task looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadyBits(u64);

/// The waker of one subtask.
pub(crate) struct SubtaskWaker {
    flag: Arc<WakeFlag>,
    waker: Waker,
}

/// The flag of one subtask. Wakers share it, and may outlive the subtask.
struct WakeFlag {
    ready_set: Arc<ReadySet>,
    bit: u64,
    woken: AtomicBool,
}

/// A part of a connection that is polled by itself.
#[derive(Clone, Copy)]
pub(crate) enum Subtask {
    /// HTTP itself: reading requests, writing frames.
    Http,
    /// The timers of the connection.
    Lifetime,
    /// The stream with that index.
    Stream(usize),
}

/// The task runs, and will look at the set before it sleeps.
const AWAKE: u64 = 1;
/// The position of the first bit that belongs to streams.
const FIRST_STREAM: usize = 3;
/// The number of bits that streams share. Under loom it is one, so that two streams share it.
pub(crate) const STREAM_BITS: usize =
    if cfg!(loom) { 1 } else { u64::BITS as usize - FIRST_STREAM };

impl Subtask {
    fn bit(self) -> u64 {
        match self {
            Self::Http => 1 << 1,
            Self::Lifetime => 1 << 2,
            Self::Stream(index) => 1 << (FIRST_STREAM + index % STREAM_BITS),
        }
    }
}

impl ReadyBits {
    pub(crate) fn has(self, subtask: Subtask) -> bool {
        self.0 & subtask.bit() != 0
    }

    /// The bits of streams that are set, from `start` upwards and then from the lowest one. Bit `n`
    /// stands for the streams with the indices `n`, `n + STREAM_BITS` and so on.
    pub(crate) fn stream_bits(self, start: usize) -> impl Iterator<Item = usize> {
        let bits = self.0 >> FIRST_STREAM;
        let before = bits & ((1 << start) - 1);
        ones(bits ^ before).chain(ones(before))
    }
}

/// The positions of the bits that are set, from the lowest one.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then_some(bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(lowest)
    })
}

impl ReadySet {
    /// Notes that the connection's task runs, and that `task` wakes it from now on.
    pub(crate) fn start_poll(&self, task: &Waker) {
        self.task.register(task);
        self.bits.fetch_or(AWAKE, Ordering::AcqRel);
    }

    /// Takes the bits that are set. Returns `None` if none is: the task counts as asleep then, and
    /// the next wake wakes it.
    pub(crate) fn take(&self) -> Option<ReadyBits> {
        let asleep = self.bits.compare_exchange(AWAKE, 0, Ordering::AcqRel, Ordering::Acquire);
        asleep.err().map(|_| ReadyBits(self.bits.swap(AWAKE, Ordering::AcqRel) & !AWAKE))
    }

    /// Ends the use of the set. Wakers keep the set alive, so it must not keep the task alive.
    pub(crate) fn close(&self) {
        self.bits.store(AWAKE, Ordering::Release);
        drop(self.task.take());
    }

    pub(crate) fn wake(&self, subtask: Subtask) {
        self.set_bit(subtask.bit());
    }

    fn set_bit(&self, bit: u64) {
        if self.bits.fetch_or(bit, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }
}

impl SubtaskWaker {
    pub(crate) fn new(ready_set: &Arc<ReadySet>, subtask: Subtask) -> Self {
        let (ready_set, bit) = (Arc::clone(ready_set), subtask.bit());
        let flag = Arc::new(WakeFlag { ready_set, bit, woken: AtomicBool::new(false) });
        Self { waker: Waker::from(Arc::clone(&flag)), flag }
    }

    /// Returns true if the subtask was woken since it was polled last.
    pub(crate) fn is_woken(&self) -> bool {
        self.flag.woken.load(Ordering::Acquire)
    }

    /// The context to poll the subtask with. The flag is cleared before the poll and not after it,
    /// so that a wake during the poll counts.
    pub(crate) fn poll_context(&self) -> Context<'_> {
        self.flag.woken.swap(false, Ordering::AcqRel);
        Context::from_waker(&self.waker)
    }

    pub(crate) fn wake(&self) {
        self.waker.wake_by_ref();
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.ready_set.set_bit(self.bit);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts the wakes of the connection's task.
    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_task_is_woken_once_until_it_sleeps_again() {
        let (ready_set, task) = (Arc::new(ReadySet::default()), Arc::new(WakeCounter::default()));
        let woken = || task.0.load(Ordering::Relaxed);
        ready_set.start_poll(&Waker::from(Arc::clone(&task)));
        assert_eq!(ready_set.take(), None, "no subtask is ready, even if the task was polled");
        let (http, stream) = (
            SubtaskWaker::new(&ready_set, Subtask::Http),
            SubtaskWaker::new(&ready_set, Subtask::Stream(70)),
        );
        http.wake();
        stream.wake();
        stream.wake();
        assert_eq!(woken(), 1);
        ready_set.start_poll(&Waker::from(Arc::clone(&task)));
        let ready = ready_set.take().unwrap();
        assert!(
            ready.has(Subtask::Http)
                && !ready.has(Subtask::Lifetime)
                && ready.has(Subtask::Stream(9))
        );
        assert_eq!(ready.stream_bits(0).collect::<Vec<_>>(), [70 % STREAM_BITS]);
        assert!(stream.is_woken());
        stream.poll_context().waker().wake_by_ref();
        assert_eq!(woken(), 1, "it runs");
        assert!(
            ready_set
                .take()
                .is_some_and(|ready| ready.has(Subtask::Stream(70)) && !ready.has(Subtask::Http))
        );
        assert_eq!(ready_set.take(), None);
        stream.poll_context().waker().wake_by_ref();
        assert_eq!(woken(), 2);
    }

    #[test]
    fn nobody_is_woken_when_the_connection_is_gone() {
        let (ready_set, task) = (Arc::new(ReadySet::default()), Arc::new(WakeCounter::default()));
        ready_set.start_poll(&Waker::from(Arc::clone(&task)));
        assert_eq!(ready_set.take(), None);
        ready_set.close();
        SubtaskWaker::new(&ready_set, Subtask::Lifetime).wake();
        assert_eq!((task.0.load(Ordering::Relaxed), Arc::strong_count(&task)), (0, 1));
    }
}
