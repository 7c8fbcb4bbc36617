//! The place of a stream, for those who look at it from outside: what it has seen of its audience, and the way
//! to wake it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::{WatchedAudience, WatcherHandle, lock};
use crate::store::AudienceName;

/// The place of a stream: its audience, and the way to reach its watch.
#[derive(Clone)]
pub(crate) struct Place {
    name: AudienceName,
    audience: Arc<WatchedAudience>,
    handle: Arc<WatcherHandle>,
}

/// The part of its audience that a stream has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// True if it has seen the present state, or wants nothing of what changed since it looked.
    pub(crate) is_current: bool,
    /// True if it has still to look at the present state, or to ask for its audience again.
    pub(crate) is_unseen: bool,
    /// True if it has still to look at what says that it has to ask for its audience again.
    pub(crate) is_reassigned: bool,
    /// When the present state was shown, as far as that is known.
    pub(crate) since: Option<Instant>,
}

impl Place {
    pub(super) fn new(
        name: &AudienceName,
        audience: &Arc<WatchedAudience>,
        handle: &Arc<WatcherHandle>,
    ) -> Self {
        let (audience, handle) = (Arc::clone(audience), Arc::clone(handle));
        Self { name: name.clone(), audience, handle }
    }

    pub(crate) fn audience(&self) -> &AudienceName {
        &self.name
    }

    /// Wakes the stream.
    pub(crate) fn wake(&self) {
        self.handle.waker.wake();
    }

    /// The part of its audience that the stream has seen. Whoever finds it current and looks at its card after that does not find it
    /// settled with an older state.
    pub(crate) fn standing(&self) -> Standing {
        let is_reassigned = self.handle.reassigned.load(Ordering::Acquire);
        let current = self.handle.current.load(Ordering::Acquire);
        let shown = lock(&self.audience.shown);
        let count = self.audience.count.load(Ordering::Acquire);
        let (is_shown, since) = (shown.snapshot().is_some(), shown.published());
        drop(shown);
        let is_unseen = is_reassigned || current != count;
        Standing { is_current: is_shown && !is_unseen, is_unseen, is_reassigned, since }
    }
}
