//! The few threads for long pieces of work, which peers share by the work that they are given.
//!
//! A piece that waits is in the line with all that it takes to begin. It begins when its place is free, and not
//! when the task that waits for it is polled: that one may itself have to wait for long (`connection::turn`),
//! and a free place is kept for nobody meanwhile.
//!
//! Not here: the order ([`WorkLine`]), and the work.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::budget::PeerShare;
use crate::slice::{WorkSize, cores};
use crate::turns::Line;
use crate::work_line::{WorkLine, WorkPlaceKind, WorkTicket};

/// The threads for long pieces of work: as many as half of the cores, and one for short pieces. There are
/// few, because each keeps for the next piece what the allocator gave it for the last.
#[derive(Clone)]
pub(crate) struct WorkThreads(Arc<Mutex<WorkLine<Piece>>>);

/// A piece of work, to be called on a thread for long work.
type Piece = Box<dyn FnOnce(WorkPlace) + Send>;

/// The wait for a piece. A piece that has not begun is given up when this is dropped.
struct Waiting {
    threads: WorkThreads,
    ticket: WorkTicket,
}

/// The place of a piece, which is free again when this is dropped.
struct WorkPlace {
    threads: WorkThreads,
    ticket: WorkTicket,
    kind: WorkPlaceKind,
    /// The time when the work began; `None` if it has not begun.
    since: Option<Instant>,
}

impl WorkThreads {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(WorkLine::new(cores().div_ceil(2), 1))))
    }

    /// Does a long piece of work on another thread; `None` if it panics or the runtime ends.
    pub(crate) fn beside_workers<T, F>(
        &self,
        peer: &Arc<PeerShare>,
        (line, size): (Line, WorkSize),
        work: F,
    ) -> impl Future<Output = Option<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (threads, peer) = (self.clone(), Arc::clone(peer));
        async move {
            let (done, returned) = oneshot::channel();
            let begin = move |place: WorkPlace| drop(done.send(place.within(work)));
            let order = (line, size.length());
            let ticket = threads.lock().add(peer.key(), order, Box::new(begin));
            let _waiting = Waiting { threads: threads.clone(), ticket };
            threads.begin_next();
            returned.await.ok()
        }
    }

    /// Begins those pieces for which there are places, each on a thread of its own. A runtime that has
    /// ended gives them up.
    fn begin_next(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        while let Some((place, piece)) = self.next() {
            drop(runtime.spawn_blocking(move || do_all(place, piece)));
        }
    }

    /// The piece whose turn it is, with its place, if there is one. No piece is called or dropped with
    /// the lock held.
    fn next(&self) -> Option<(WorkPlace, Piece)> {
        let (ticket, kind, piece) = self.lock().next()?;
        Some((WorkPlace { threads: self.clone(), ticket, kind, since: None }, piece))
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, WorkLine<Piece>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does a piece, and then those whose turn it is, on the same thread: another one would take memory of its own
/// from the allocator.
fn do_all(place: WorkPlace, piece: Piece) {
    let threads = place.threads.clone();
    let mut next = Some((place, piece));
    while let Some((place, piece)) = next {
        piece(place);
        next = threads.next();
    }
}

impl WorkPlace {
    /// Does the work. The place is taken until it is done, even if nobody waits for it any more.
    fn within<T>(mut self, work: impl FnOnce() -> T) -> T {
        self.since = Some(Instant::now());
        work()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let piece = self.threads.lock().remove(&self.ticket);
        drop(piece);
    }
}

impl Drop for WorkPlace {
    fn drop(&mut self) {
        let Self { threads, ticket, kind, since } = self;
        let work = since.map_or(Duration::ZERO, |since| since.elapsed());
        threads.lock().end(ticket, *kind, work);
        // This thread goes on with the next piece, unless the work panics.
        if std::thread::panicking() {
            threads.begin_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;
    use crate::turns::tests::peers;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn piece() -> (Line, WorkSize) {
        (Line::End, WorkSize::of_bytes(0))
    }

    /// Polls a wait once.
    async fn poll_once<F: Future>(mut waiting: Pin<&mut F>) -> Poll<F::Output> {
        poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await
    }

    /// Takes all places, until the sender is dropped.
    async fn take_all(threads: &WorkThreads, peer: &Arc<PeerShare>) -> mpsc::Sender<()> {
        let (keeps, kept) = mpsc::channel::<()>();
        let kept = Arc::new(Mutex::new(kept));
        let (said, heard) = mpsc::channel();
        for _ in 0..=cores().div_ceil(2) {
            let (kept, said) = (Arc::clone(&kept), said.clone());
            let work = move || {
                said.send(()).unwrap();
                drop(kept.lock().map(|kept| kept.recv()));
            };
            tokio::spawn(threads.beside_workers(peer, piece(), work));
        }
        tokio::task::yield_now().await;
        for _ in 0..=cores().div_ceil(2) {
            heard.recv_timeout(PATIENCE).unwrap();
        }
        keeps
    }

    #[tokio::test]
    async fn other_tasks_run_during_a_long_piece_of_work() {
        let (said, heard) = mpsc::channel();
        let other = tokio::spawn(async move { said.send(()) });
        let threads = WorkThreads::new();
        let long = move || heard.recv_timeout(PATIENCE);
        let long = threads.beside_workers(&peers(1)[0], piece(), long);
        assert_eq!(long.await, Some(Ok(())));
        other.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_piece_begins_although_nobody_polls_its_wait_and_delays_nobody() {
        let (threads, peers) = (WorkThreads::new(), peers(3));
        let keeps = take_all(&threads, &peers[0]).await;
        let (said, heard) = mpsc::channel();
        let mut unpolled = Vec::new();
        for number in 0..2 * cores() {
            let said = said.clone();
            let work = move || said.send(number).unwrap();
            let mut waiting = Box::pin(threads.beside_workers(&peers[1], piece(), work));
            assert!(poll_once(waiting.as_mut()).await.is_pending());
            unpolled.push(waiting);
        }
        let other = tokio::spawn(threads.beside_workers(&peers[2], piece(), || ()));
        tokio::task::yield_now().await;
        drop(keeps);
        let done = tokio::time::timeout(PATIENCE, other).await.expect("it waits for no poll");
        assert_eq!(done.unwrap(), Some(()));
        for _ in &unpolled {
            heard.recv_timeout(PATIENCE).unwrap();
        }
    }

    #[tokio::test]
    async fn a_piece_whose_wait_is_dropped_is_not_done() {
        let (threads, peers) = (WorkThreads::new(), peers(2));
        let keeps = take_all(&threads, &peers[0]).await;
        let held = Arc::new(());
        let work = {
            let held = Arc::clone(&held);
            move || drop(held)
        };
        {
            let mut waiting = pin!(threads.beside_workers(&peers[1], piece(), work));
            assert!(poll_once(waiting.as_mut()).await.is_pending());
            assert_eq!(Arc::strong_count(&held), 2);
        }
        assert_eq!(
            Arc::strong_count(&held),
            1,
            "what it took to begin is free while the places are taken"
        );
        drop(keeps);
        assert_eq!(threads.beside_workers(&peers[1], piece(), || 7).await, Some(7));
    }

    #[tokio::test]
    async fn places_come_back_from_work_that_panics() {
        let (threads, peers) = (WorkThreads::new(), peers(2));
        for _ in 0..=cores() {
            let fails = threads.beside_workers(&peers[0], piece(), || panic!("it fails"));
            assert_eq!(fails.await, None::<()>);
        }
        assert!(threads.lock().is_forgotten());
        drop(take_all(&threads, &peers[1]).await);
    }

    #[test]
    fn nobody_waits_for_a_runtime_that_has_ended() {
        let (threads, peers) = (WorkThreads::new(), peers(2));
        let build = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (ended, runtime) = (build(), build());
        let keeps = runtime.block_on(take_all(&threads, &peers[0]));
        let mut waiting: Vec<_> = (0..10_000)
            .map(|_| Box::pin(threads.beside_workers(&peers[1], piece(), || ())))
            .collect();
        ended.block_on(async {
            for waiting in &mut waiting {
                assert!(poll_once(waiting.as_mut()).await.is_pending());
            }
        });
        drop((ended, keeps));
        runtime.block_on(async {
            for waiting in waiting {
                assert_eq!(waiting.await, Some(()), "a thread of the other one did it");
            }
            drop(take_all(&threads, &peers[0]).await);
        });
    }
}
