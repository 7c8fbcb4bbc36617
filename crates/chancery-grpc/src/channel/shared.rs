//! The part of a channel that its clones, its calls and its driver share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use chancery_calls::Failure;
use http::uri::Authority;
use tokio::sync::{Semaphore, oneshot, watch};
use tonic::Status;

use super::published::Published;
use crate::connect::{Answer, Inbox};
use crate::read::quoted;

/// The state of a channel.
pub(super) struct Shared {
    /// The name of the service, for routing and for servers.
    pub(super) authority: Arc<str>,
    /// The target of the channel, for metrics.
    pub(super) target: Arc<str>,
    /// The same as requests have it, if they can.
    uri_authority: Option<Authority>,
    /// A random number that stays, for hash policies.
    pub(super) channel_id: u64,
    published: ArcSwap<Published>,
    /// The mail of the driver.
    pub(super) inbox: Arc<Inbox>,
    /// The number of explanations that may be asked for at a time, which bounds the questions to the driver.
    pub(super) explanations: Semaphore,
    changes: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(target: &str, authority: Arc<str>, channel_id: u64) -> Self {
        let published = ArcSwap::from_pointee(Published::Waiting { for_names: false });
        let (changes, explanations) = (watch::channel(0).0, Semaphore::new(EXPLANATIONS));
        let uri_authority = Authority::try_from(&*authority).ok();
        let target = target.into();
        Self {
            authority,
            target,
            uri_authority,
            channel_id,
            published,
            inbox: Arc::default(),
            explanations,
            changes,
        }
    }

    /// Returns the authority of requests.
    pub(super) fn uri_authority(&self) -> Result<Authority, Status> {
        let why = || format!("`{}` cannot be the authority of a call", quoted(&self.authority));
        self.uri_authority.clone().ok_or_else(|| Status::internal(why()))
    }

    pub(super) fn publish(&self, published: Published) {
        self.published.store(Arc::new(published));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Asks the driver about the way of a call to a cluster, or to none. There is no answer if the driver has ended.
    pub(super) fn ask(&self, cluster: Option<u64>) -> oneshot::Receiver<Answer> {
        self.inbox.ask(cluster)
    }

    /// The driver has ended: calls fail from now on, and nobody waits.
    pub(super) fn close(&self) {
        self.publish(Published::Failed(Failure::unavailable("the channel is closed")));
        self.inbox.close();
    }

    pub(super) fn published(&self) -> arc_swap::Guard<Arc<Published>> {
        self.published.load()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// The explanations of a channel that are made at a time. More wait, which is nothing that calls see.
const EXPLANATIONS: usize = 16;
