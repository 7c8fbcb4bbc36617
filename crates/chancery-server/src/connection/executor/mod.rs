//! The executor of one connection.
//!
//! A connection is one task of the runtime, and that task is an executor of its own: it polls the
//! streams of the connection, HTTP and the connection's timers, which are called its subtasks here.
//! No channel and no other task stands between them, so a change that concerns a thousand streams
//! of a connection costs one wake of one task and one write to one socket.
//!
//! This page is the contract. What a stream does is not here (see [`stream`](super::stream)), nor
//! what HTTP does ([`http2`](super::http2)).
//!
//! # Who polls what, and in which order
//!
//! The runtime polls the connection's task, which calls [`Executor::poll`]. That runs rounds until
//! no subtask is ready:
//!
//! 1. The bits of the subtasks that are ready are taken from the [`ReadySet`](ready_set::ReadySet).
//! 2. The streams that are ready are polled; their responses go to HTTP.
//! 3. HTTP is polled if it is ready: it reads requests, which become streams for the next round,
//!    and makes frames of responses. Frames stay in the [`Cork`].
//! 4. The timers are polled if one of them fired or requests began or ended.
//!
//! After the last round everything that was gathered is written, once. There are at most
//! [`MAX_ROUNDS`] rounds in a poll; then, or when the task has no budget left or has read its part,
//! the task wakes itself and other tasks get the thread.
//!
//! # When a subtask is woken
//!
//! A subtask is polled when its own waker was called since its last poll began, and at no other
//! time. It is polled with that waker, so the usual contract of futures holds: a subtask that
//! returns `Pending` must have left the waker where something will call it. A new stream is ready at
//! once. A waker may be called after its stream is done, or after the connection is gone: that does
//! nothing, even if the index of the stream belongs to another one by then, because each stream has
//! a flag of its own.
//!
//! A stream is spared one poll: after a chunk it may say by `would_pend` that another poll would only
//! return `Pending` and that its waker is where it has to be. Then it is not polled again until it is
//! woken. A body that cannot be sure says no; that costs a poll and nothing else.
//!
//! # Why no wake is lost
//!
//! A waker sets the flag of its subtask, and then the bit in the set if the flag was clear. The task
//! clears the bits, then the flag of a subtask, and then polls it. So a wake that comes before the
//! flag is cleared is seen by that poll; one that comes later finds the flag clear and sets the bit
//! again. The bit [`AWAKE`](ready_set) says that the task will look at the set before it sleeps: the
//! task gives it up only by a compare-and-swap against a set without any other bit, so a waker that
//! finds the word zero knows that the task sleeps, and wakes it. The task leaves its waker in the set
//! before it looks at the set. A loom test (`crates/chancery-server/loom`) tries all orders of these
//! steps.
//!
//! # Fairness
//!
//! Within a round, each stream that is ready is polled once at most. When the task's budget runs out
//! in the middle, the streams that were not polled stay ready and are the first of the next poll:
//! streams that are always ready keep no other from being polled. HTTP and the timers are polled in
//! each round in which they are ready, whatever the streams do.
//!
//! # What may block
//!
//! Nothing. All subtasks run on one thread of the runtime, and one that takes long delays all others
//! of its connection, and other connections of that thread. This holds for a program's policy, its
//! observers and its own services too.
//!
//! # Writes
//!
//! HTTP writes and flushes frame by frame into the [`Cork`], which only gathers. The cork is emptied
//! to the socket when it is full, and once at the end of each poll of the task; a poll that gathered
//! nothing makes no system call. A socket that takes no more stops HTTP, which then takes no more
//! from the streams. The timers are polled when that begins, because a socket that takes nothing for
//! long is the end of the connection.

mod cork;
mod ready_set;
mod stream_set;
mod sync;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

pub(super) use cork::{Cork, SocketTimes};
use ready_set::{ReadyBits, Subtask, SubtaskWaker};
pub(super) use stream_set::StreamSet;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::has_budget_remaining;
use tokio::task::yield_now;

/// The number of rounds in a poll, after which other tasks get the thread.
const MAX_ROUNDS: usize = 16;

/// The executor of one connection. Dropping it drops the streams.
pub(super) struct Executor<I, S> {
    streams: StreamSet<S>,
    http: SubtaskWaker,
    lifetime: SubtaskWaker,
    cork: Cork<I>,
    /// True if the socket took no more at the end of the last poll. The timers know it.
    socket_is_full: bool,
    /// The number of bytes that waited for the socket then, in either direction.
    waiting_bytes: usize,
}

/// One round of a poll, as far as it is not about streams.
#[derive(Clone, Copy)]
pub(super) struct Round(ReadyBits);

impl Round {
    pub(super) fn has_http(self) -> bool {
        self.0.has(Subtask::Http)
    }

    pub(super) fn has_lifetime(self) -> bool {
        self.0.has(Subtask::Lifetime)
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin, S: Future<Output = ()> + Unpin> Executor<I, S> {
    /// An executor without streams that writes through `cork`. HTTP and the timers are ready.
    pub(super) fn new(cork: Cork<I>) -> Self {
        let streams = StreamSet::new();
        let http = SubtaskWaker::new(streams.ready_set(), Subtask::Http);
        let lifetime = SubtaskWaker::new(streams.ready_set(), Subtask::Lifetime);
        http.wake();
        lifetime.wake();
        Self { streams, http, lifetime, cork, socket_is_full: false, waiting_bytes: 0 }
    }

    /// Polls what is ready. `rest` is called in each round, after the streams, to poll HTTP and the
    /// timers; when it returns `Ready`, the connection is over and nothing more is written.
    ///
    /// # Errors
    /// When the socket fails.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut rest: impl FnMut(&mut Self, Round) -> Poll<()>,
    ) -> Poll<io::Result<()>> {
        self.streams.ready_set().start_poll(cx.waker());
        let mut rounds = 0;
        while let Some(ready) = self.streams.ready_set().take() {
            self.streams.poll_ready(ready, has_budget_remaining);
            if rest(self, Round(ready)).is_ready() {
                return Poll::Ready(Ok(()));
            }
            rounds += 1;
            if rounds == MAX_ROUNDS || !has_budget_remaining() || self.cork.is_sated() {
                wake_after_others(cx);
                break;
            }
        }
        let uncorked = self.cork.poll_uncork(&mut self.http.poll_context());
        self.waiting_bytes = if uncorked.is_pending() { self.cork.waiting_bytes() } else { 0 };
        match uncorked {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                self.socket_is_full = false;
                self.streams.all_written();
            }
            Poll::Pending if self.socket_is_full => {}
            Poll::Pending => {
                self.socket_is_full = true;
                self.lifetime.wake();
            }
        }
        Poll::Pending
    }

    /// The context to poll HTTP with, and where it puts new streams.
    pub(super) fn http(&mut self) -> (Context<'_>, &mut StreamSet<S>) {
        (self.http.poll_context(), &mut self.streams)
    }

    /// The context to poll the timers with.
    pub(super) fn lifetime(&self) -> Context<'_> {
        self.lifetime.poll_context()
    }

    /// Returns true if the socket took no more at the end of the last poll.
    pub(super) fn socket_is_full(&self) -> bool {
        self.socket_is_full
    }

    /// The times at which the socket moved bytes.
    pub(super) fn socket_times(&self) -> SocketTimes {
        self.cork.socket_times()
    }

    pub(super) fn wake_http(&self) {
        self.http.wake();
    }

    pub(super) fn wake_lifetime(&self) {
        self.lifetime.wake();
    }

    pub(super) fn wake_streams(&self) {
        self.streams.wake_all();
    }
}

impl<I, S> Executor<I, S> {
    /// The number of bytes that wait for a socket that takes no more: those for it, and those that were
    /// read of it meanwhile.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// The number of places that HTTP keeps for streams beside those that are not done.
    pub(super) fn spare_places(&self) -> usize {
        self.streams.spare_places()
    }
}

/// Wakes the task when the runtime has looked at its sockets and timers. A task that wakes itself at
/// once is among the tasks that a busy thread runs before it looks, so a few connections that always
/// have work would keep all others waiting.
pub(super) fn wake_after_others(cx: &mut Context<'_>) {
    // Ready would mean that there is no runtime to wake the task.
    if pin!(yield_now()).poll(cx).is_ready() {
        cx.waker().wake_by_ref();
    }
}

#[cfg(test)]
mod tests;
