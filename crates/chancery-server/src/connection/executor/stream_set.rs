//! The streams of one connection, polled by the connection's own task.
//!
//! A stream is polled only if it was woken, and for as long as the task has budget; then the next
//! poll begins where this one ended, so that no stream keeps others from being polled. Not here:
//! the bits that say which streams are ready (`ready_set`), HTTP and the timers (`connection`).

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use super::ready_set::{ReadyBits, ReadySet, STREAM_BITS, Subtask, SubtaskWaker};

/// The streams of one connection, by index. The index of a stream that is done is used again.
pub(crate) struct StreamSet<S> {
    ready_set: Arc<ReadySet>,
    entries: Vec<Option<StreamEntry<S>>>,
    free: Vec<usize>,
    /// The number of streams that are done and whose last bytes may not be written.
    unwritten: usize,
    /// The most streams that there were at once, with those.
    most: usize,
    /// The index of the stream at which the budget ran out, which is polled first the next time.
    stopped_at: Option<usize>,
}

struct StreamEntry<S> {
    stream: S,
    waker: SubtaskWaker,
}

impl<S: Future<Output = ()> + Unpin> StreamSet<S> {
    pub(crate) fn new() -> Self {
        Self {
            ready_set: Arc::default(),
            entries: Vec::new(),
            free: Vec::new(),
            unwritten: 0,
            most: 0,
            stopped_at: None,
        }
    }

    /// Adds a stream, which is ready to be polled.
    pub(crate) fn insert(&mut self, stream: S) {
        let index = self.free.pop().unwrap_or_else(|| {
            // Most connections have a stream or two.
            self.entries.reserve_exact(if self.entries.len() < 4 { 1 } else { self.entries.len() });
            self.entries.push(None);
            self.entries.len() - 1
        });
        let waker = SubtaskWaker::new(&self.ready_set, Subtask::Stream(index));
        waker.wake();
        self.entries[index] = Some(StreamEntry { stream, waker });
        self.most = self.most.max(self.open() + self.unwritten);
    }

    /// Notes that all bytes are written.
    pub(crate) fn all_written(&mut self) {
        self.unwritten = 0;
    }

    /// Polls the streams that are ready, for as long as the task has budget. When it has none left,
    /// the other streams stay ready, and the next call begins with them.
    pub(crate) fn poll_ready(&mut self, ready: ReadyBits, has_budget: impl Fn() -> bool) {
        let start = self.stopped_at.take().unwrap_or(0);
        let first = start % STREAM_BITS;
        for bit in ready.stream_bits(first) {
            let from = if bit == first { start } else { bit };
            self.poll_bit(from..self.entries.len(), &has_budget);
        }
        if ready.has(Subtask::Stream(first)) {
            self.poll_bit(first..start, &has_budget);
        }
    }

    /// Polls the streams that share one bit and are in the range. The range begins with such a
    /// stream.
    fn poll_bit(&mut self, indices: Range<usize>, has_budget: &impl Fn() -> bool) {
        for index in indices.step_by(STREAM_BITS) {
            if !has_budget() {
                self.stopped_at.get_or_insert(index);
                self.ready_set.wake(Subtask::Stream(index));
                return;
            }
            self.poll(index);
        }
    }

    /// Makes all streams ready.
    pub(crate) fn wake_all(&self) {
        for entry in self.entries.iter().flatten() {
            entry.waker.wake();
        }
    }

    /// Polls a stream if it was woken. It may be gone already: a waker outlives its stream.
    fn poll(&mut self, index: usize) {
        let Some(Some(entry)) = self.entries.get_mut(index) else { return };
        if !entry.waker.is_woken() {
            return;
        }
        if Pin::new(&mut entry.stream).poll(&mut entry.waker.poll_context()).is_ready() {
            self.entries[index] = None;
            self.free.push(index);
            self.unwritten += 1;
        }
    }
}

impl<S> StreamSet<S> {
    /// The number of streams that are not done.
    fn open(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The number of places that HTTP keeps for streams beside those that are not done: it has each of
    /// them until its last bytes are written, and then keeps its place.
    pub(crate) fn spare_places(&self) -> usize {
        self.most - self.open()
    }

    pub(crate) fn ready_set(&self) -> &Arc<ReadySet> {
        &self.ready_set
    }
}

impl<S> Drop for StreamSet<S> {
    fn drop(&mut self) {
        self.ready_set.close();
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake, Waker};

    use tokio::sync::Notify;
    use tokio::task::coop::{consume_budget, has_budget_remaining};

    use super::*;

    type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Counts the wakes of the connection's task.
    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls as the connection's task does; returns false if no stream was ready.
    fn run(streams: &mut StreamSet<Boxed>, task: &Arc<WakeCounter>) -> bool {
        let ready_set = Arc::clone(streams.ready_set());
        ready_set.start_poll(&Waker::from(Arc::clone(task)));
        let mut any = false;
        while let Some(ready) = ready_set.take() {
            any = true;
            streams.poll_ready(ready, has_budget_remaining);
        }
        any
    }

    /// A stream that counts its polls and never ends.
    fn endless(polls: &Arc<AtomicUsize>, notify: &Arc<Notify>) -> impl Future<Output = ()> + use<> {
        let (polls, notify) = (Arc::clone(polls), Arc::clone(notify));
        async move {
            loop {
                polls.fetch_add(1, Ordering::Relaxed);
                notify.notified().await;
            }
        }
    }

    #[test]
    fn a_change_wakes_the_task_once_and_polls_the_streams_it_concerns() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(WakeCounter::default()));
        let parts: Vec<_> = (0..3).map(|_| (Arc::default(), Arc::default())).collect();
        for (polls, notify) in &parts {
            streams.insert(Box::pin(endless(polls, notify)));
        }
        assert!(run(&mut streams, &task));
        assert!(!run(&mut streams, &task), "nothing happened");
        for (_, notify) in &parts[..2] {
            notify.notify_one();
        }
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert!(run(&mut streams, &task));
        let polls = parts.iter().map(|(polls, _)| polls.load(Ordering::Relaxed));
        assert_eq!(polls.collect::<Vec<usize>>(), [2, 2, 1]);
    }

    #[test]
    fn the_places_of_all_streams_that_were_there_or_not_written_at_once_are_kept() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(WakeCounter::default()));
        let mut answer_three = |writes| {
            (0..3).for_each(|_| streams.insert(Box::pin(async {})));
            let before = streams.spare_places();
            run(&mut streams, &task);
            if writes {
                streams.all_written();
            }
            (before, streams.spare_places())
        };
        assert_eq!([answer_three(true), answer_three(false)], [(0, 3), (0, 3)]);
        assert_eq!([answer_three(true), answer_three(true)], [(3, 6), (3, 6)]);
    }

    #[test]
    fn a_stream_woken_while_the_task_runs_is_polled_without_waking_it() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(WakeCounter::default()));
        let (polls, notify) = (Arc::default(), Arc::<Notify>::default());
        streams.insert(Box::pin(endless(&polls, &notify)));
        streams.insert(Box::pin(async move { notify.notify_one() }));
        run(&mut streams, &task);
        assert_eq!((polls.load(Ordering::Relaxed), task.0.load(Ordering::Relaxed)), (2, 0));
    }

    #[tokio::test]
    async fn streams_without_budget_are_polled_when_the_task_has_some_again() {
        let (mut streams, polls) = (StreamSet::<Boxed>::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..1000 {
            let (polls, mut work) = (Arc::clone(&polls), Box::pin(consume_budget()));
            streams.insert(Box::pin(std::future::poll_fn(move |cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                work.as_mut().poll(cx)
            })));
        }
        let ready_set = Arc::clone(streams.ready_set());
        std::future::poll_fn(|cx| {
            ready_set.start_poll(cx.waker());
            let Some(ready) = ready_set.take() else { return Poll::Ready(()) };
            streams.poll_ready(ready, has_budget_remaining);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        assert_eq!(polls.load(Ordering::Relaxed), 1000, "once each");
        assert_eq!(streams.free.len(), 1000, "all are done");
    }

    #[test]
    fn an_index_is_used_again_and_a_waker_of_its_last_owner_does_no_harm() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(WakeCounter::default()));
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        streams.insert(Box::pin(std::future::poll_fn(move |cx| {
            *keep.lock().unwrap() = Some(cx.waker().clone());
            Poll::Ready(())
        })));
        run(&mut streams, &task);
        let late: Waker = kept.lock().unwrap().take().unwrap();
        late.wake_by_ref();
        run(&mut streams, &task);
        let (polls, notify) = (Arc::default(), Arc::default());
        streams.insert(Box::pin(endless(&polls, &notify)));
        run(&mut streams, &task);
        assert_eq!((streams.entries.len(), streams.free.len()), (1, 0));
        drop(streams);
        late.wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 2, "nobody is there to be woken");
    }

    #[test]
    fn a_stream_woken_while_it_is_polled_is_polled_again() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(WakeCounter::default()));
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        streams.insert(Box::pin(std::future::poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            match counted.fetch_add(1, Ordering::Relaxed) {
                2 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })));
        run(&mut streams, &task);
        assert_eq!((polls.load(Ordering::Relaxed), streams.free.len()), (3, 1));
        assert_eq!(task.0.load(Ordering::Relaxed), 0, "the task saw it before it slept");
    }

    #[test]
    fn a_stream_that_ends_while_it_is_ready_is_not_polled_again() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(WakeCounter::default()));
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        streams.insert(Box::pin(std::future::poll_fn(move |cx| {
            counted.fetch_add(1, Ordering::Relaxed);
            cx.waker().wake_by_ref();
            Poll::Ready(())
        })));
        run(&mut streams, &task);
        assert_eq!((polls.load(Ordering::Relaxed), streams.free.len()), (1, 1));
        streams.insert(Box::pin(std::future::pending()));
        assert!(run(&mut streams, &task));
        assert!(!run(&mut streams, &task), "its wake is forgotten with it");
    }

    #[test]
    fn the_next_owner_of_an_index_is_not_polled_for_the_last_one() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(WakeCounter::default()));
        let late = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&late);
        streams.insert(Box::pin(std::future::poll_fn(move |cx| {
            *keep.lock().unwrap() = Some(cx.waker().clone());
            Poll::Ready(())
        })));
        run(&mut streams, &task);
        let (polls, notify) = (Arc::default(), Arc::default());
        streams.insert(Box::pin(endless(&polls, &notify)));
        run(&mut streams, &task);
        let late: Waker = late.lock().unwrap().take().unwrap();
        late.wake();
        assert!(run(&mut streams, &task), "the bit is set");
        assert_eq!(polls.load(Ordering::Relaxed), 1, "the flag is not");
    }

    /// Polls the streams that are ready, but no more of them than the budget.
    fn poll_some(streams: &mut StreamSet<Boxed>, budget: usize) {
        let left = AtomicUsize::new(budget);
        let spend =
            || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
        let ready_set = Arc::clone(streams.ready_set());
        ready_set.start_poll(Waker::noop());
        streams.poll_ready(ready_set.take().unwrap(), || spend().is_ok());
    }

    #[test]
    fn streams_that_are_always_ready_keep_no_other_from_being_polled() {
        for count in [3, STREAM_BITS, 3 * STREAM_BITS + 7] {
            let mut streams = StreamSet::<Boxed>::new();
            let polls: Arc<Mutex<Vec<usize>>> = Arc::new(Mutex::new(vec![0; count]));
            for index in 0..count {
                let polls = Arc::clone(&polls);
                streams.insert(Box::pin(std::future::poll_fn(move |cx| {
                    polls.lock().unwrap()[index] += 1;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })));
            }
            for _ in 0..2 * count {
                poll_some(&mut streams, 2);
            }
            let polls = polls.lock().unwrap();
            let (least, most) = (polls.iter().min().unwrap(), polls.iter().max().unwrap());
            assert!(*least >= 2 && *most <= 6, "{count} streams: {least} to {most} polls");
        }
    }

    #[test]
    fn all_are_gone_with_the_connection() {
        let mut streams = StreamSet::<Boxed>::new();
        let running = Arc::new(());
        let (held, ready_set) = (Arc::downgrade(&running), Arc::clone(streams.ready_set()));
        streams.insert(Box::pin(async move {
            let _kept = (running, ready_set);
            std::future::pending::<()>().await;
        }));
        drop(streams);
        assert!(held.upgrade().is_none());
    }
}
