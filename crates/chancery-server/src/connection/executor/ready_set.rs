//! Who of a connection has something to do.
//!
//! ```text
//!   publish --> waker of a stream --> [ReadySet]: stream 3 is due --> the connection's task
//!   socket  --> waker of HTTP ------> [ReadySet]: HTTP is due ------/
//! ```
//!
//! Each part of a connection has its own waker, a [`SubtaskWaker`], which notes that the part is due, so
//! that a wake of one costs the others nothing, and a part that is woken by another while the task
//! runs costs no wake of the task. It does so twice for each message, so it is two words that are
//! written without a lock: a flag of the part, and a bit of the ready_set. Many streams bit a bit; the
//! task looks at their flags.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};

use atomic_waker::AtomicWaker;

/// Where the parts of a connection say that they have something to do.
#[derive(Default)]
pub(crate) struct ReadySet {
    /// The bits of those that are due, and [`AWAKE`]. Nothing: the task is asleep.
    bits: AtomicU64,
    task: AtomicWaker,
}

/// Those that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadyBits(u64);

/// What one part of a connection rings with.
pub(crate) struct SubtaskWaker {
    flag: Arc<WakeFlag>,
    waker: Waker,
}

struct WakeFlag {
    ready_set: Arc<ReadySet>,
    bit: u64,
    woken: AtomicBool,
}

/// A part of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Subtask {
    /// HTTP itself.
    Http,
    /// The times of the connection.
    Lifetime,
    /// The stream in that index.
    Stream(usize),
}

/// The task runs, and will look who is due before it sleeps.
const AWAKE: u64 = 1;
/// The bits for streams begin here.
const FIRST: usize = 3;
/// How many bits there are for streams.
pub(super) const STREAM_BITS: usize = u64::BITS as usize - FIRST;

impl Subtask {
    fn bit(self) -> u64 {
        match self {
            Self::Http => 1 << 1,
            Self::Lifetime => 1 << 2,
            Self::Stream(index) => 1 << (FIRST + index % STREAM_BITS),
        }
    }
}

impl ReadyBits {
    pub(crate) fn has(self, part: Subtask) -> bool {
        self.0 & part.bit() != 0
    }

    /// Of which shares of the streams some may be due.
    pub(crate) fn stream_bits(self) -> impl Iterator<Item = usize> {
        let mut left = self.0 >> FIRST;
        std::iter::from_fn(move || {
            let bit = (left != 0).then_some(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(bit)
        })
    }
}

impl ReadySet {
    /// The connection's task runs.
    pub(crate) fn start_poll(&self, task: &Waker) {
        self.task.register(task);
        self.bits.fetch_or(AWAKE, Ordering::AcqRel);
    }

    /// Who is due; `None` if nobody is: the task sleeps now.
    pub(crate) fn take(&self) -> Option<ReadyBits> {
        let asleep = self.bits.compare_exchange(AWAKE, 0, Ordering::AcqRel, Ordering::Acquire);
        asleep.err().map(|_| ReadyBits(self.bits.swap(AWAKE, Ordering::AcqRel) & !AWAKE))
    }

    /// Nobody listens any more. Wakers keep the ready_set, so it must not keep the task.
    pub(crate) fn close(&self) {
        self.bits.store(AWAKE, Ordering::Release);
        drop(self.task.take());
    }

    pub(crate) fn wake(&self, part: Subtask) {
        self.set(part.bit());
    }

    fn set(&self, bit: u64) {
        if self.bits.fetch_or(bit, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }
}

impl SubtaskWaker {
    pub(crate) fn new(ready_set: &Arc<ReadySet>, part: Subtask) -> Self {
        let (ready_set, bit) = (Arc::clone(ready_set), part.bit());
        let flag = Arc::new(WakeFlag { ready_set, bit, woken: AtomicBool::new(false) });
        Self { waker: Waker::from(Arc::clone(&flag)), flag }
    }

    /// Whether the part is due, by its own flag.
    pub(crate) fn is_woken(&self) -> bool {
        self.flag.woken.load(Ordering::Acquire)
    }

    /// To poll the part with. What happens from now on makes it due again.
    pub(crate) fn poll_context(&self) -> Context<'_> {
        self.flag.woken.swap(false, Ordering::AcqRel);
        Context::from_waker(&self.waker)
    }

    /// Makes the part due.
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
            self.ready_set.set(self.bit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts the wakes of the connection's task.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_task_is_woken_once_until_it_sleeps_again() {
        let (ready_set, task) = (Arc::new(ReadySet::default()), Arc::new(Task::default()));
        let woken = || task.0.load(Ordering::Relaxed);
        ready_set.start_poll(&Waker::from(Arc::clone(&task)));
        assert_eq!(ready_set.take(), None, "nobody is due, even if the task was polled");
        let (http, stream) = (
            SubtaskWaker::new(&ready_set, Subtask::Http),
            SubtaskWaker::new(&ready_set, Subtask::Stream(70)),
        );
        http.wake();
        stream.wake();
        stream.wake();
        assert_eq!(woken(), 1);
        ready_set.start_poll(&Waker::from(Arc::clone(&task)));
        let due = ready_set.take().unwrap();
        assert!(
            due.has(Subtask::Http) && !due.has(Subtask::Lifetime) && due.has(Subtask::Stream(9))
        );
        assert_eq!(due.stream_bits().collect::<Vec<_>>(), [70 % STREAM_BITS]);
        assert!(stream.is_woken());
        stream.poll_context().waker().wake_by_ref();
        assert_eq!(woken(), 1, "it runs");
        assert!(
            ready_set
                .take()
                .is_some_and(|due| due.has(Subtask::Stream(70)) && !due.has(Subtask::Http))
        );
        assert_eq!(ready_set.take(), None);
        stream.poll_context().waker().wake_by_ref();
        assert_eq!(woken(), 2);
    }

    #[test]
    fn nobody_is_woken_when_the_connection_is_gone() {
        let (ready_set, task) = (Arc::new(ReadySet::default()), Arc::new(Task::default()));
        ready_set.start_poll(&Waker::from(Arc::clone(&task)));
        assert_eq!(ready_set.take(), None);
        ready_set.close();
        SubtaskWaker::new(&ready_set, Subtask::Lifetime).wake();
        assert_eq!((task.0.load(Ordering::Relaxed), Arc::strong_count(&task)), (0, 1));
    }
}
