//! The few threads for long pieces of work, which peers share by the work that they are given.
//!
//! Not here: the order ([`WorkLine`]), and the work.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::task::spawn_blocking;

use crate::budget::PeerShare;
use crate::slice::{WorkSize, cores};
use crate::turns::Line;
use crate::work_line::{WorkLine, WorkPlaceKind, WorkTicket};

/// The threads for long pieces of work: as many as half of the cores, and one for short pieces. There are
/// few, because each keeps for the next piece what the allocator gave it for the last.
#[derive(Clone)]
pub(crate) struct WorkThreads(Arc<Mutex<WorkLine>>);

/// The wait of a piece for a thread. It is given up when this is dropped.
struct Waiting {
    threads: WorkThreads,
    ticket: WorkTicket,
}

/// The place of a piece that runs, which is free again when this is dropped.
struct WorkPlace {
    threads: WorkThreads,
    ticket: WorkTicket,
    kind: WorkPlaceKind,
    since: Instant,
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
            let place = threads.place(&peer, line, size).await;
            let work = move || {
                // The place is taken until the work is done, even if nobody waits for it any more.
                let _place = place;
                work()
            };
            spawn_blocking(work).await.ok()
        }
    }

    /// Waits for a place.
    async fn place(&self, peer: &PeerShare, line: Line, size: WorkSize) -> WorkPlace {
        let ticket = self.lock().add(peer.key(), line, size.length());
        let waiting = Waiting { threads: self.clone(), ticket };
        poll_fn(|cx| waiting.poll(cx)).await
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, WorkLine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn poll(&self, cx: &Context<'_>) -> Poll<WorkPlace> {
        let Self { threads, ticket } = self;
        let Some(kind) = threads.lock().take(ticket, cx.waker()) else { return Poll::Pending };
        let (threads, ticket) = (threads.clone(), ticket.clone());
        Poll::Ready(WorkPlace { threads, ticket, kind, since: Instant::now() })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.threads.lock().remove(&self.ticket);
    }
}

impl Drop for WorkPlace {
    fn drop(&mut self) {
        self.threads.lock().end(&self.ticket, self.kind, self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::turns::tests::peers;

    #[tokio::test]
    async fn other_tasks_run_during_a_long_piece_of_work() {
        let (said, heard) = mpsc::channel();
        let other = tokio::spawn(async move { said.send(()) });
        let threads = WorkThreads::new();
        let long = move || heard.recv_timeout(Duration::from_secs(20));
        let piece = (Line::End, WorkSize::of_bytes(0));
        let long = threads.beside_workers(&peers(1)[0], piece, long);
        assert_eq!(long.await, Some(Ok(())));
        other.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn places_come_back_from_work_that_panics_and_from_who_waits_no_more() {
        let (threads, peers) = (WorkThreads::new(), peers(2));
        let (line, size) = (Line::End, WorkSize::of_bytes(0));
        for _ in 0..=cores() {
            let fails = threads.beside_workers(&peers[0], (line, size), || panic!("it fails"));
            assert_eq!(fails.await, None::<()>);
        }
        let mut taken = Vec::new();
        loop {
            let mut place = pin!(threads.place(&peers[taken.len() % 2], line, size));
            match poll_fn(|cx| Poll::Ready(place.as_mut().poll(cx))).await {
                Poll::Ready(place) => taken.push(place),
                Poll::Pending => break,
            }
        }
        assert_eq!(taken.len(), cores().div_ceil(2) + 1);
        drop(taken);
        assert!(threads.lock().is_forgotten());
    }
}
