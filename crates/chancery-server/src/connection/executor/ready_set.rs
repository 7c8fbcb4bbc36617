//! Who of a connection has something to do.
//!
//! ```text
//!   publish --> waker of a stream --> [Bell]: stream 3 is due --> the connection's task
//!   socket  --> waker of HTTP ------> [Bell]: HTTP is due ------/
//! ```
//!
//! Each part of a connection has its own waker, a [`Rope`], which notes that the part is due, so
//! that a wake of one costs the others nothing, and a part that is woken by another while the task
//! runs costs no wake of the task. It does so twice for each message, so it is two words that are
//! written without a lock: a flag of the part, and a bit of the bell. Many streams share a bit; the
//! task looks at their flags.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};

use atomic_waker::AtomicWaker;

/// Where the parts of a connection say that they have something to do.
#[derive(Default)]
pub(crate) struct Bell {
    /// The bits of those that are due, and [`AWAKE`]. Nothing: the task is asleep.
    bits: AtomicU64,
    task: AtomicWaker,
}

/// Those that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due(u64);

/// What one part of a connection rings with.
pub(crate) struct Rope {
    pull: Arc<Pull>,
    waker: Waker,
}

struct Pull {
    bell: Arc<Bell>,
    bit: u64,
    pulled: AtomicBool,
}

/// A part of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// HTTP itself.
    Http,
    /// The times of the connection.
    Life,
    /// The stream in that place.
    Stream(usize),
}

/// The task runs, and will look who is due before it sleeps.
const AWAKE: u64 = 1;
/// The bits for streams begin here.
const FIRST: usize = 3;
/// How many bits there are for streams.
pub(super) const SHARES: usize = u64::BITS as usize - FIRST;

impl Part {
    fn bit(self) -> u64 {
        match self {
            Self::Http => 1 << 1,
            Self::Life => 1 << 2,
            Self::Stream(place) => 1 << (FIRST + place % SHARES),
        }
    }
}

impl Due {
    pub(crate) fn has(self, part: Part) -> bool {
        self.0 & part.bit() != 0
    }

    /// Of which shares of the streams some may be due.
    pub(crate) fn shares(self) -> impl Iterator<Item = usize> {
        let mut left = self.0 >> FIRST;
        std::iter::from_fn(move || {
            let share = (left != 0).then_some(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(share)
        })
    }
}

impl Bell {
    /// The connection's task runs.
    pub(crate) fn attend(&self, task: &Waker) {
        self.task.register(task);
        self.bits.fetch_or(AWAKE, Ordering::AcqRel);
    }

    /// Who is due; `None` if nobody is: the task sleeps now.
    pub(crate) fn take(&self) -> Option<Due> {
        let asleep = self.bits.compare_exchange(AWAKE, 0, Ordering::AcqRel, Ordering::Acquire);
        asleep.err().map(|_| Due(self.bits.swap(AWAKE, Ordering::AcqRel) & !AWAKE))
    }

    /// Nobody listens any more. Wakers keep the bell, so it must not keep the task.
    pub(crate) fn hang_up(&self) {
        self.bits.store(AWAKE, Ordering::Release);
        drop(self.task.take());
    }

    pub(crate) fn ring(&self, part: Part) {
        self.set(part.bit());
    }

    fn set(&self, bit: u64) {
        if self.bits.fetch_or(bit, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }
}

impl Rope {
    pub(crate) fn new(bell: &Arc<Bell>, part: Part) -> Self {
        let (bell, bit) = (Arc::clone(bell), part.bit());
        let pull = Arc::new(Pull { bell, bit, pulled: AtomicBool::new(false) });
        Self { waker: Waker::from(Arc::clone(&pull)), pull }
    }

    /// Whether the part is due, by its own flag.
    pub(crate) fn is_pulled(&self) -> bool {
        self.pull.pulled.load(Ordering::Acquire)
    }

    /// To poll the part with. What happens from now on makes it due again.
    pub(crate) fn context(&self) -> Context<'_> {
        self.pull.pulled.swap(false, Ordering::AcqRel);
        Context::from_waker(&self.waker)
    }

    /// Makes the part due.
    pub(crate) fn pull(&self) {
        self.waker.wake_by_ref();
    }
}

impl Wake for Pull {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.pulled.swap(true, Ordering::AcqRel) {
            self.bell.set(self.bit);
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
        let (bell, task) = (Arc::new(Bell::default()), Arc::new(Task::default()));
        let woken = || task.0.load(Ordering::Relaxed);
        bell.attend(&Waker::from(Arc::clone(&task)));
        assert_eq!(bell.take(), None, "nobody is due, even if the task was polled");
        let (http, stream) = (Rope::new(&bell, Part::Http), Rope::new(&bell, Part::Stream(70)));
        http.pull();
        stream.pull();
        stream.pull();
        assert_eq!(woken(), 1);
        bell.attend(&Waker::from(Arc::clone(&task)));
        let due = bell.take().unwrap();
        assert!(due.has(Part::Http) && !due.has(Part::Life) && due.has(Part::Stream(9)));
        assert_eq!(due.shares().collect::<Vec<_>>(), [70 % SHARES]);
        assert!(stream.is_pulled());
        stream.context().waker().wake_by_ref();
        assert_eq!(woken(), 1, "it runs");
        assert!(bell.take().is_some_and(|due| due.has(Part::Stream(70)) && !due.has(Part::Http)));
        assert_eq!(bell.take(), None);
        stream.context().waker().wake_by_ref();
        assert_eq!(woken(), 2);
    }

    #[test]
    fn nobody_is_woken_when_the_connection_is_gone() {
        let (bell, task) = (Arc::new(Bell::default()), Arc::new(Task::default()));
        bell.attend(&Waker::from(Arc::clone(&task)));
        assert_eq!(bell.take(), None);
        bell.hang_up();
        Rope::new(&bell, Part::Life).pull();
        assert_eq!((task.0.load(Ordering::Relaxed), Arc::strong_count(&task)), (0, 1));
    }
}
