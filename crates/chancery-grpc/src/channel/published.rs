//! The values that calls of a channel see: its driver puts them there, and they are read without a lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use chancery_calls::Failure;
use chancery_calls::balancing::{Connectivity, Picker, Wake};
use chancery_calls::filters::FilterChain;
use chancery_calls::routing::RouteConfig;
use chancery_core::Time;
use tokio::sync::watch;
use tokio::time::Instant;

use super::awaited::Connecting;
use super::senders::Senders;
use crate::connect::Inbox;

/// The configuration of a channel, as far as it is known.
#[derive(Debug)]
pub(super) enum Published {
    /// Nothing is known yet.
    Waiting {
        /// True if the control plane has sent a configuration, and names in it are asked for.
        for_names: bool,
    },
    /// There is none, for this reason.
    Failed(Failure),
    /// All that the listener leads to.
    Config(ChannelConfig),
}

/// A whole configuration. It is replaced, and never changed.
#[derive(Debug)]
pub(super) struct ChannelConfig {
    pub(super) routes: Arc<RouteConfig>,
    /// The `max_stream_duration` of the connection manager.
    pub(super) max_stream_duration: Option<Duration>,
    /// True if the server of the routes may say under which authority calls go (C-105).
    pub(super) trusts_authorities: bool,
    /// The HTTP filters of the listener.
    pub(super) filters: FilterChain,
    /// True if there is no control plane, and the routes are only a form.
    pub(super) is_direct: bool,
    /// Every cluster that the routes name.
    pub(super) clusters: BTreeMap<Arc<str>, Arc<ClusterHandle>>,
}

/// A cluster, for as long as a configuration or a call uses it (C-100).
pub(super) struct ClusterHandle {
    pub(super) name: Arc<str>,
    pub(super) id: u64,
    state: ArcSwap<ClusterState>,
    changes: watch::Sender<u64>,
    inbox: Arc<Inbox>,
    /// The beginning of the time of the tree.
    began: Instant,
}

/// The picker of a cluster, and the connections that it chooses among.
pub(super) struct ClusterState {
    pub(super) connectivity: Connectivity,
    pub(super) picker: Option<Arc<dyn Picker>>,
    pub(super) senders: Senders,
    /// The connection that calls may wait for.
    pub(super) connecting: Option<Connecting>,
    /// True if nothing will be published any more.
    pub(super) is_closed: bool,
}

impl ClusterHandle {
    pub(super) fn new(name: Arc<str>, id: u64, inbox: &Arc<Inbox>, began: Instant) -> Arc<Self> {
        let state = ClusterState {
            connectivity: Connectivity::Idle,
            picker: None,
            senders: Senders::default(),
            connecting: None,
            is_closed: false,
        };
        Arc::new(Self {
            name,
            id,
            state: ArcSwap::from_pointee(state),
            changes: watch::channel(0).0,
            inbox: Arc::clone(inbox),
            began,
        })
    }

    /// Puts another state there, and wakes the calls that wait for one.
    pub(super) fn publish(&self, state: ClusterState) {
        self.state.store(Arc::new(state));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn state(&self) -> arc_swap::Guard<Arc<ClusterState>> {
        self.state.load()
    }

    /// Returns what tells of changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the time, as the tree of the cluster counts it.
    pub(super) fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// A picker wants something to be connected.
    pub(super) fn wake(&self, wake: Wake) {
        self.inbox.wake(self.id, wake);
    }
}

impl ClusterState {
    /// Returns the last state of a cluster whose driver has ended.
    pub(super) fn closed() -> Self {
        Self {
            connectivity: Connectivity::TransientFailure,
            picker: None,
            senders: Senders::default(),
            connecting: None,
            is_closed: true,
        }
    }
}

impl Drop for ClusterHandle {
    fn drop(&mut self) {
        self.inbox.unused();
    }
}

impl fmt::Debug for ClusterHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterHandle").field("name", &self.name).finish_non_exhaustive()
    }
}
