//! The atomics of the executor: those of the standard library or, where [loom] explores the orders
//! in which threads can run, loom's.
//!
//! [loom]: https://docs.rs/loom

#[cfg(loom)]
pub(crate) use self::loom_waker::AtomicWaker;
#[cfg(not(loom))]
pub(crate) use atomic_waker::AtomicWaker;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(loom)]
mod loom_waker {
    use std::task::Waker;

    /// loom's model of an atomic waker, with the methods of the crate `atomic-waker`.
    #[derive(Default)]
    pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(crate) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }

        pub(crate) fn take(&self) -> Option<Waker> {
            self.0.take_waker()
        }

        pub(crate) fn wake(&self) {
            self.0.wake();
        }
    }
}
