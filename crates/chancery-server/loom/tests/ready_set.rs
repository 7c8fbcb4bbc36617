//! Every order in which threads can wake the streams of a connection, tried by [loom].
//!
//!     RUSTFLAGS='--cfg loom' cargo test -p chancery-server-loom --target-dir target/loom
//!
//! The files of the executor that threads share are taken in by their path, and run here with loom's
//! atomics. A wake that is lost leaves the task asleep for ever, which loom reports as a deadlock.
//!
//! [loom]: https://docs.rs/loom
#![cfg(loom)]

#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../src/connection/executor/ready_set.rs"]
mod ready_set;
#[expect(dead_code, reason = "the server uses more of it")]
#[path = "../../src/connection/executor/stream_set.rs"]
mod stream_set;
#[path = "../../src/connection/executor/sync.rs"]
mod sync;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

use loom::future::block_on;
use loom::sync::atomic::AtomicUsize;
use loom::thread;
use ready_set::{ReadySet, Subtask, SubtaskWaker};
use stream_set::StreamSet;
use sync::{AtomicWaker, Ordering};

type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// Something that a stream waits for: a counter, and the waker of the stream.
#[derive(Default)]
struct Source {
    count: AtomicUsize,
    waker: AtomicWaker,
}

impl Source {
    /// Counts, and wakes the stream, as the store or a socket does.
    fn advance(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.waker.wake();
    }
}

/// A connection's task with streams that wait for sources.
struct ConnectionTask {
    streams: StreamSet<Boxed>,
    open: Rc<Cell<usize>>,
    /// The number of streams that may still be polled in this poll of the task.
    budget: Rc<Cell<usize>>,
}

impl ConnectionTask {
    fn new() -> Self {
        Self { streams: StreamSet::new(), open: Rc::default(), budget: Rc::default() }
    }

    /// Adds a stream that ends when its source has counted to `last`.
    fn insert(&mut self, source: &Arc<Source>, last: usize) {
        let (source, open) = (Arc::clone(source), Rc::clone(&self.open));
        let budget = Rc::clone(&self.budget);
        open.set(open.get() + 1);
        self.streams.insert(Box::pin(poll_fn(move |cx| {
            budget.set(budget.get() - 1);
            source.waker.register(cx.waker());
            if source.count.load(Ordering::Acquire) < last {
                return Poll::Pending;
            }
            open.set(open.get() - 1);
            Poll::Ready(())
        })));
    }

    /// Runs until no stream is open. Each poll of the task may poll so many streams; when it has,
    /// the task wakes itself.
    fn run(&mut self, budget: usize) {
        let ready_set = Arc::clone(self.streams.ready_set());
        block_on(poll_fn(|cx| {
            self.budget.set(budget);
            ready_set.start_poll(cx.waker());
            while let Some(ready) = ready_set.take() {
                self.streams.poll_ready(ready, || self.budget.get() > 0);
                if self.budget.get() == 0 {
                    cx.waker().wake_by_ref();
                    break;
                }
            }
            if self.open.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
}

#[test]
fn a_wake_at_any_time_is_followed_by_a_poll() {
    loom::model(|| {
        let (mut task, source) = (ConnectionTask::new(), Arc::<Source>::default());
        task.insert(&source, 1);
        let other = thread::spawn(move || source.advance());
        task.run(usize::MAX);
        other.join().unwrap();
    });
}

#[test]
fn a_wake_while_the_stream_is_polled_is_followed_by_another_poll() {
    loom::model(|| {
        let (mut task, source) = (ConnectionTask::new(), Arc::<Source>::default());
        task.insert(&source, 2);
        let other = thread::spawn(move || (0..2).for_each(|_| source.advance()));
        task.run(usize::MAX);
        other.join().unwrap();
    });
}

#[test]
fn streams_that_share_a_bit_lose_no_wake_to_each_other() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (mut task, sources) = (ConnectionTask::new(), [0, 1].map(|_| Arc::<Source>::default()));
        sources.iter().for_each(|source| task.insert(source, 1));
        let others = sources.map(|source| thread::spawn(move || source.advance()));
        task.run(usize::MAX);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn a_task_without_budget_polls_the_other_streams_later() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (mut task, sources) = (ConnectionTask::new(), [0, 1].map(|_| Arc::<Source>::default()));
        sources.iter().for_each(|source| task.insert(source, 1));
        let other = thread::spawn(move || sources.iter().for_each(|source| source.advance()));
        task.run(1);
        other.join().unwrap();
    });
}

#[test]
fn a_poll_sees_what_was_written_before_the_wake() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (ready_set, written) = (Arc::<ReadySet>::default(), Arc::new(AtomicUsize::new(0)));
        let subtask = SubtaskWaker::new(&ready_set, Subtask::Http);
        let others = [1, 2].map(|bit| {
            let (written, waker) = (Arc::clone(&written), subtask.poll_context().waker().clone());
            thread::spawn(move || {
                // Relaxed: nothing but the wake makes it visible.
                written.fetch_or(bit, Ordering::Relaxed);
                waker.wake();
            })
        });
        block_on(poll_fn(|cx| {
            ready_set.start_poll(cx.waker());
            while ready_set.take().is_some() {
                let _ = subtask.is_woken().then(|| subtask.poll_context());
                if written.load(Ordering::Relaxed) == 3 {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        }));
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// The waker of a task that is over.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_outlives_the_connection_keeps_no_task_alive() {
    loom::model(|| {
        let (ready_set, task) = (Arc::<ReadySet>::default(), Arc::new(Nobody));
        ready_set.start_poll(&Waker::from(Arc::clone(&task)));
        assert!(ready_set.take().is_none());
        let late = SubtaskWaker::new(&ready_set, Subtask::Http);
        let other = thread::spawn(move || {
            late.wake();
            late
        });
        ready_set.close();
        let late = other.join().unwrap();
        late.wake();
        assert_eq!(Arc::strong_count(&task), 1);
    });
}
