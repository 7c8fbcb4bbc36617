//! The streams of one connection, run by the connection's own task.
//!
//! What concerns several streams of a connection wakes one task, which polls those streams and
//! then HTTP, which then has the responses of all of them to write. Who is due is told by the
//! [`ReadySet`]. What a stream does is not here: see [`stream`](super::super::stream).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::coop::has_budget_remaining;

use super::ready_set::{ReadyBits, ReadySet, STREAM_BITS, Subtask, SubtaskWaker};

/// The streams there are.
pub(crate) struct StreamSet<S> {
    ready_set: Arc<ReadySet>,
    all: Vec<Option<StreamEntry<S>>>,
    free: Vec<usize>,
}

struct StreamEntry<S> {
    stream: S,
    waker: SubtaskWaker,
}

impl<S: Future<Output = ()> + Unpin> StreamSet<S> {
    pub(crate) fn new() -> Self {
        Self { ready_set: Arc::default(), all: Vec::new(), free: Vec::new() }
    }

    /// Takes in a stream, which is due at once.
    pub(crate) fn insert(&mut self, stream: S) {
        let index = self.free.pop().unwrap_or_else(|| {
            // Most connections have a stream or two.
            self.all.reserve_exact(if self.all.len() < 4 { 1 } else { self.all.len() });
            self.all.push(None);
            self.all.len() - 1
        });
        let waker = SubtaskWaker::new(&self.ready_set, Subtask::Stream(index));
        waker.wake();
        self.all[index] = Some(StreamEntry { stream, waker });
    }

    /// Polls the streams that are due, as long as the task may do more before others have the
    /// thread: streams that are polled after that find nothing ready.
    pub(crate) fn poll_ready(&mut self, ready: ReadyBits) {
        for bit in ready.stream_bits() {
            for index in (bit..self.all.len()).step_by(STREAM_BITS) {
                if !has_budget_remaining() {
                    self.ready_set.wake(Subtask::Stream(index));
                    break;
                }
                self.poll(index);
            }
        }
    }

    /// Has all streams polled again.
    pub(crate) fn wake_all(&self) {
        for entry in self.all.iter().flatten() {
            entry.waker.wake();
        }
    }

    /// A waker outlives its stream, so that the index may be nobody's.
    fn poll(&mut self, index: usize) {
        let Some(Some(entry)) = self.all.get_mut(index) else { return };
        if !entry.waker.is_woken() {
            return;
        }
        if Pin::new(&mut entry.stream).poll(&mut entry.waker.poll_context()).is_ready() {
            self.all[index] = None;
            self.free.push(index);
        }
    }
}

impl<S> StreamSet<S> {
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
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake, Waker};

    use tokio::sync::Notify;
    use tokio::task::coop::consume_budget;

    use super::*;

    type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Counts the wakes of the connection's task.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the connection's task does; `false` if it had nothing to do.
    fn run(streams: &mut StreamSet<Boxed>, task: &Arc<Task>) -> bool {
        let ready_set = Arc::clone(streams.ready_set());
        ready_set.start_poll(&Waker::from(Arc::clone(task)));
        let mut any = false;
        while let Some(ready) = ready_set.take() {
            any = true;
            streams.poll_ready(ready);
        }
        any
    }

    /// A stream that counts its polls and never ends.
    fn endless(polls: &Arc<AtomicUsize>, news: &Arc<Notify>) -> impl Future<Output = ()> + use<> {
        let (polls, news) = (Arc::clone(polls), Arc::clone(news));
        async move {
            loop {
                polls.fetch_add(1, Ordering::Relaxed);
                news.notified().await;
            }
        }
    }

    #[test]
    fn a_change_wakes_the_task_once_and_polls_whom_it_concerns() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(Task::default()));
        let parts: Vec<_> = (0..3).map(|_| (Arc::default(), Arc::default())).collect();
        for (polls, news) in &parts {
            streams.insert(Box::pin(endless(polls, news)));
        }
        assert!(run(&mut streams, &task));
        assert!(!run(&mut streams, &task), "nothing happened");
        for (_, news) in &parts[..2] {
            news.notify_one();
        }
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert!(run(&mut streams, &task));
        let polls = parts.iter().map(|(polls, _)| polls.load(Ordering::Relaxed));
        assert_eq!(polls.collect::<Vec<usize>>(), [2, 2, 1]);
    }

    #[test]
    fn who_is_woken_while_the_task_runs_is_polled_without_waking_it() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(Task::default()));
        let (polls, news) = (Arc::default(), Arc::<Notify>::default());
        streams.insert(Box::pin(endless(&polls, &news)));
        streams.insert(Box::pin(async move { news.notify_one() }));
        run(&mut streams, &task);
        assert_eq!((polls.load(Ordering::Relaxed), task.0.load(Ordering::Relaxed)), (2, 0));
    }

    #[tokio::test]
    async fn who_could_do_nothing_is_polled_when_the_task_may_go_on() {
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
            streams.poll_ready(ready);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        assert_eq!(polls.load(Ordering::Relaxed), 1000, "once each");
        assert_eq!(streams.free.len(), 1000, "all are done");
    }

    #[test]
    fn a_place_is_taken_again_and_a_waker_of_its_last_owner_does_no_harm() {
        let (mut streams, task) = (StreamSet::<Boxed>::new(), Arc::new(Task::default()));
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
        let (polls, news) = (Arc::default(), Arc::default());
        streams.insert(Box::pin(endless(&polls, &news)));
        run(&mut streams, &task);
        assert_eq!((streams.all.len(), streams.free.len()), (1, 0));
        drop(streams);
        late.wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 2, "nobody is there to be woken");
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
