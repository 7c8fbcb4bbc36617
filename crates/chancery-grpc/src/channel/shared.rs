//! The part of a channel that its clones, its calls and its driver share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use chancery_calls::Failure;
use tokio::sync::watch;

use super::published::Published;

/// The state of a channel.
pub(super) struct Shared {
    /// The name of the service, for routing and for servers.
    pub(super) authority: Arc<str>,
    /// A random number that stays, for hash policies.
    pub(super) channel_id: u64,
    published: ArcSwap<Published>,
    changes: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(authority: Arc<str>, channel_id: u64) -> Self {
        let published = ArcSwap::from_pointee(Published::Waiting);
        Self { authority, channel_id, published, changes: watch::channel(0).0 }
    }

    pub(super) fn publish(&self, published: Published) {
        self.published.store(Arc::new(published));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The driver has ended: calls fail from now on, and nobody waits.
    pub(super) fn close(&self) {
        self.publish(Published::Failed(Failure::unavailable("the channel is closed")));
    }

    pub(super) fn published(&self) -> arc_swap::Guard<Arc<Published>> {
        self.published.load()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
