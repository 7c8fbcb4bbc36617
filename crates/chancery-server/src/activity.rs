//! The number of requests of one connection, their unread bytes, and the signal that they must end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use crate::budget::PeerShare;
use crate::policy::Peer;
use crate::unread_bodies::UnreadBodies;

/// The requests of one connection. All of them run in the connection's task, which looks at this
/// after each of them, and polls all of them when they must end.
#[derive(Default)]
pub(crate) struct ConnectionActivity {
    open: AtomicUsize,
    total: AtomicUsize,
    draining: AtomicBool,
    pub(crate) unread: UnreadBodies,
}

/// One request of a connection, from its arrival to the end of its response.
pub(crate) struct ActiveRequest(Arc<ConnectionActivity>);

/// The connection that a request came from.
pub(crate) struct RequestContext {
    pub(crate) peer: Arc<Peer>,
    pub(crate) activity: Arc<ConnectionActivity>,
    pub(crate) share: Arc<PeerShare>,
}

impl ConnectionActivity {
    pub(crate) fn begin(self: &Arc<Self>) -> ActiveRequest {
        self.open.fetch_add(1, Ordering::AcqRel);
        self.total.fetch_add(1, Ordering::AcqRel);
        ActiveRequest(Arc::clone(self))
    }

    /// The number of requests so far, including those that have ended.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::Acquire)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Says that the requests must end. They have to be polled to see it.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Waits until the requests must end. The connection polls them then, so no waker is kept.
    pub(crate) async fn drained(&self) {
        let draining = |_: &mut Context<'_>| match self.is_draining() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        std::future::poll_fn(draining).await;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}
