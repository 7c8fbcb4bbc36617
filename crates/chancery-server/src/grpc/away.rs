//! A session that does long work on another thread, and the end of one that keeps much.
//!
//! The thread of a connection is for all of its streams, and for those of other connections. Work on a
//! million names, and freeing them, is done on the few threads for long work, which peers share by the
//! work that they are given (`work_line`). What a session keeps is charged until it is freed.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::time::Instant;
use tonic::Status;

use super::framing::Frames;
use super::session::{LongWork, StreamSession};
use super::status::out_of_memory;
use crate::budget::MemoryCharge;
use crate::slice::WorkSize;
use crate::turns::Line;
use crate::work_threads::WorkThreads;

/// A session that does long work on another thread.
pub(super) struct AwaySession {
    /// The session and its work, until it begins.
    waiting: Arc<Mutex<Option<Waiting>>>,
    returned: Pin<Box<dyn Future<Output = Option<Returned>> + Send>>,
}

/// A session that waits for its turn, and what it is to do.
type Waiting = (StreamSession, LongWork);

/// A session that is back with the responses that it made, or the status with which it has ended. Such
/// a session was freed at once.
pub(super) type Returned = Result<(StreamSession, Frames), Status>;

impl AwaySession {
    pub(super) fn new(
        session: StreamSession,
        (work, line): (LongWork, Line),
        threads: &WorkThreads,
        (charge, beside): (&Arc<MemoryCharge>, usize),
    ) -> Self {
        let piece = (line, work.size);
        let waiting = Arc::new(Mutex::new(Some((session, work))));
        let (waits, held) = (Arc::clone(&waiting), Arc::clone(charge));
        let work = move || {
            let (mut session, LongWork { run, .. }) = take(&waits)?;
            let mut out = Frames::default();
            let outcome = run(&mut session, &mut out).and_then(|()| {
                session.note(Instant::now());
                // All that it keeps now is charged before others begin. The stream charges nothing
                // meanwhile.
                let bytes = beside + session.held_bytes() + out.held_bytes();
                let held = session.shared().metrics.counted(held.set(bytes));
                held.map_err(out_of_memory)
            });
            Some(match outcome {
                Ok(()) => Ok((session, out)),
                Err(status) => {
                    session.ends(&status);
                    Err(status)
                }
            })
        };
        let returned = threads.beside_workers(charge.share(), piece, work);
        Self { waiting, returned: Box::pin(async move { returned.await.flatten() }) }
    }

    /// Ready when the session is back; with `None` if the server ends.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Returned>> {
        self.returned.as_mut().poll(cx)
    }

    /// Gives the turn to others. Returns the session, unless its work has begun.
    pub(super) fn cancel(self) -> Option<StreamSession> {
        take(&self.waiting).map(|(session, _)| session)
    }
}

fn take(waiting: &Mutex<Option<Waiting>>) -> Option<Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Frees what a stream kept on another thread, and gives its charge back after that.
pub(super) fn free(kept: impl Send + 'static, threads: &WorkThreads, charge: &Arc<MemoryCharge>) {
    // Without a runtime the process ends.
    let Ok(runtime) = Handle::try_current() else { return };
    let (threads, charge) = (threads.clone(), Arc::clone(charge));
    let piece = (Line::Front, WorkSize::of_stream(charge.bytes()));
    runtime.spawn(async move {
        threads.beside_workers(charge.share(), piece, move || drop(kept)).await;
        drop(charge);
    });
}
