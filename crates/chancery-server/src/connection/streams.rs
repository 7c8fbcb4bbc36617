//! The streams of one connection, run by the connection's own task.
//!
//! ```text
//!   publish --> waker of a stream --> [Bell]: stream 3 is due --> the connection's task
//!   socket  --> waker of HTTP ------> [Bell]: HTTP is due ------/
//! ```
//!
//! HTTP/2 hands every stream to an executor, which is the connection itself: what concerns several
//! of its streams wakes one task, which polls those streams and then HTTP, which then has the
//! responses of all of them to write. Each part of the connection has its own waker, which notes
//! that it is due, so that a wake of one costs the others nothing, and a part that is woken by
//! another while the task runs costs no wake of the task.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use tokio::task::coop::has_budget_remaining;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The streams there are.
pub(super) struct Streams {
    bell: Arc<Bell>,
    all: Vec<Option<Stream>>,
    free: Vec<usize>,
}

struct Stream {
    task: Task,
    rope: Rope,
}

/// Who of a connection has something to do.
#[derive(Default)]
pub(super) struct Due {
    /// HTTP itself.
    pub(super) http: bool,
    /// The times of the connection.
    pub(super) life: bool,
    streams: Vec<usize>,
    born: Vec<Task>,
}

/// Where the parts of a connection say that they have something to do.
#[derive(Default)]
pub(super) struct Bell(Mutex<State>);

#[derive(Default)]
struct State {
    due: Due,
    /// Who is woken if it is asleep: the connection's task.
    task: Option<Waker>,
    awake: bool,
}

/// What one part of a connection rings with.
pub(super) struct Rope {
    pull: Arc<Pull>,
    waker: Waker,
}

struct Pull {
    bell: Arc<Bell>,
    part: Part,
    pulled: AtomicBool,
}

#[derive(Clone, Copy)]
pub(super) enum Part {
    Http,
    Life,
    Stream(usize),
}

/// Takes the streams HTTP/2 opens.
#[derive(Clone)]
pub(super) struct Executor(Arc<Bell>);

impl Streams {
    pub(super) fn new() -> Self {
        Self { bell: Arc::default(), all: Vec::new(), free: Vec::new() }
    }

    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    pub(super) fn executor(&self) -> Executor {
        Executor(Arc::clone(&self.bell))
    }

    /// Polls the streams that are due, as long as the task may do more before others have the
    /// thread: streams that are polled after that find nothing ready.
    pub(super) fn run(&mut self, due: &mut Due) {
        for task in due.born.drain(..) {
            due.streams.push(self.take_in(task));
        }
        for (index, place) in due.streams.iter().enumerate() {
            if !has_budget_remaining() {
                self.bell.ring(|later| later.streams.extend_from_slice(&due.streams[index..]));
                break;
            }
            self.poll(*place);
        }
        due.streams.clear();
    }

    /// Has all streams polled again.
    pub(super) fn wake_all(&self) {
        for stream in self.all.iter().flatten() {
            stream.rope.waker.wake_by_ref();
        }
    }

    fn take_in(&mut self, task: Task) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        let rope = Rope::new(&self.bell, Part::Stream(place));
        self.all[place] = Some(Stream { task, rope });
        place
    }

    fn poll(&mut self, place: usize) {
        // A waker outlives its stream, and the place may be another's then, or nobody's.
        let Some(Some(stream)) = self.all.get_mut(place) else { return };
        if stream.task.as_mut().poll(&mut stream.rope.context()).is_ready() {
            self.all[place] = None;
            self.free.push(place);
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.bell.hang_up();
    }
}

impl Bell {
    /// The connection's task runs, and will look who is due before it sleeps.
    pub(super) fn attend(&self, task: &Waker) {
        let mut state = self.lock();
        state.awake = true;
        match &mut state.task {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        }
    }

    /// Who is due; `false` if nobody is: the task sleeps now.
    pub(super) fn take(&self, due: &mut Due) -> bool {
        let mut state = self.lock();
        std::mem::swap(&mut state.due, due);
        state.awake = due.http || due.life || !due.streams.is_empty() || !due.born.is_empty();
        state.awake
    }

    fn ring(&self, note: impl FnOnce(&mut Due)) {
        let mut state = self.lock();
        note(&mut state.due);
        let asleep = !std::mem::replace(&mut state.awake, true);
        let task = if asleep { state.task.clone() } else { None };
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Nobody listens any more. Streams hold the bell, so it must not hold them.
    fn hang_up(&self) {
        let left = std::mem::take(&mut *self.lock());
        drop(left);
    }

    /// Nothing panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rope {
    pub(super) fn new(bell: &Arc<Bell>, part: Part) -> Self {
        let pull = Arc::new(Pull { bell: Arc::clone(bell), part, pulled: AtomicBool::new(false) });
        Self { waker: Waker::from(Arc::clone(&pull)), pull }
    }

    /// To poll the part with. What happens from now on makes it due again.
    pub(super) fn context(&self) -> Context<'_> {
        self.pull.pulled.swap(false, Ordering::AcqRel);
        Context::from_waker(&self.waker)
    }

    /// Makes the part due.
    pub(super) fn pull(&self) {
        self.waker.wake_by_ref();
    }
}

impl Wake for Pull {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.pulled.swap(true, Ordering::AcqRel) {
            return;
        }
        self.bell.ring(|due| match self.part {
            Part::Http => due.http = true,
            Part::Life => due.life = true,
            Part::Stream(place) => due.streams.push(place),
        });
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Executor {
    fn execute(&self, task: F) {
        self.0.ring(|due| due.born.push(Box::pin(task)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Poll;

    use hyper::rt::Executor as _;
    use tokio::sync::Notify;
    use tokio::task::coop::consume_budget;

    use super::*;

    /// Counts the wakes of the connection's task.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the connection's task does; `false` if it had nothing to do.
    fn run(streams: &mut Streams, task: &Arc<Task>) -> bool {
        let bell = Arc::clone(streams.bell());
        bell.attend(&Waker::from(Arc::clone(task)));
        let (mut due, mut any) = (Due::default(), false);
        while bell.take(&mut due) {
            any = true;
            streams.run(&mut due);
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
        let (mut streams, task) = (Streams::new(), Arc::new(Task::default()));
        let parts: Vec<_> = (0..3).map(|_| (Arc::default(), Arc::default())).collect();
        for (polls, news) in &parts {
            streams.executor().execute(endless(polls, news));
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
        let (mut streams, task) = (Streams::new(), Arc::new(Task::default()));
        let (polls, news) = (Arc::default(), Arc::<Notify>::default());
        streams.executor().execute(endless(&polls, &news));
        streams.executor().execute(async move { news.notify_one() });
        run(&mut streams, &task);
        assert_eq!((polls.load(Ordering::Relaxed), task.0.load(Ordering::Relaxed)), (2, 0));
    }

    #[tokio::test]
    async fn who_could_do_nothing_is_polled_when_the_task_may_go_on() {
        let (mut streams, polls) = (Streams::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..1000 {
            let (polls, mut work) = (Arc::clone(&polls), Box::pin(consume_budget()));
            streams.executor().execute(std::future::poll_fn(move |cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                work.as_mut().poll(cx)
            }));
        }
        let (bell, mut due) = (Arc::clone(streams.bell()), Due::default());
        std::future::poll_fn(|cx| {
            bell.attend(cx.waker());
            if !bell.take(&mut due) {
                return Poll::Ready(());
            }
            streams.run(&mut due);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        assert_eq!(polls.load(Ordering::Relaxed), 1000, "once each");
        assert_eq!(streams.free.len(), 1000, "all are done");
    }

    #[test]
    fn a_place_is_taken_again_and_a_waker_of_its_last_owner_does_no_harm() {
        let (mut streams, task) = (Streams::new(), Arc::new(Task::default()));
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        streams.executor().execute(std::future::poll_fn(move |cx| {
            *keep.lock().unwrap() = Some(cx.waker().clone());
            Poll::Ready(())
        }));
        run(&mut streams, &task);
        let late: Waker = kept.lock().unwrap().take().unwrap();
        late.wake_by_ref();
        run(&mut streams, &task);
        let (polls, news) = (Arc::default(), Arc::default());
        streams.executor().execute(endless(&polls, &news));
        run(&mut streams, &task);
        assert_eq!((streams.all.len(), streams.free.len()), (1, 0));
        drop(streams);
        late.wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 2, "nobody is there to be woken");
    }

    #[test]
    fn all_are_gone_with_the_connection() {
        let streams = Streams::new();
        let (running, executor) = (Arc::new(()), streams.executor());
        let (held, own) = (Arc::downgrade(&running), executor.clone());
        executor.execute(async move {
            let _kept = (running, own);
            std::future::pending::<()>().await;
        });
        drop(streams);
        assert!(held.upgrade().is_none());
    }
}
