//! A cluster as the driver runs it: its tree of policies, and the subchannels that the tree asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use chancery_calls::balancing::{
    Action, Cluster, Description, Node, OutlierDetection, Priority, PriorityNames, SubchannelId,
    SubchannelState, Tree, Wake,
};
use chancery_core::{Resource, Time};
use tokio::time::Instant;

use super::published::{ClusterHandle, ClusterState};
use crate::connect::{Inbox, InboxKey, Subchannel};
use crate::dice::ThreadDice;
use crate::process;

/// The clusters of an aggregate, or the one cluster.
pub(super) type Clusters = Priority<OutlierDetection<Cluster>>;

/// A cluster with its tree.
pub(super) struct RunningCluster {
    pub(super) id: u64,
    tree: Tree<Clusters, ThreadDice>,
    subchannels: Vec<Option<(SubchannelId, Subchannel)>>,
    /// The names of the priorities of each cluster that it aggregates, or of itself.
    pub(super) names: BTreeMap<Arc<str>, PriorityNames>,
    handle: Weak<ClusterHandle>,
    /// The resources that its targets were last made of; `None` if more than them counts.
    made_of: Option<Vec<Arc<Resource>>>,
    /// True if something has happened since its state was published.
    is_changed: bool,
}

impl RunningCluster {
    /// Returns a cluster that knows nothing yet, with the handle that calls get.
    pub(super) fn new(
        name: Arc<str>,
        id: u64,
        inbox: &Arc<Inbox>,
        began: Instant,
    ) -> (Self, Arc<ClusterHandle>) {
        let handle = ClusterHandle::new(name, id, inbox, began);
        let running = Self {
            id,
            tree: Tree::new(ThreadDice),
            subchannels: Vec::new(),
            names: BTreeMap::new(),
            handle: Arc::downgrade(&handle),
            made_of: None,
            is_changed: false,
        };
        (running, handle)
    }

    /// Returns the handle, if a configuration or a call still has it.
    pub(super) fn handle(&self) -> Option<Arc<ClusterHandle>> {
        self.handle.upgrade()
    }

    /// Returns true if its targets are to be made again, because they would be made of something else.
    pub(super) fn is_outdated(&mut self, sources: Option<Vec<Arc<Resource>>>) -> bool {
        let are_same = |before: &[Arc<Resource>], now: &[Arc<Resource>]| {
            before.len() == now.len() && before.iter().zip(now).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let is_same = match (&self.made_of, &sources) {
            (Some(before), Some(now)) => are_same(before, now),
            _ => false,
        };
        self.made_of = sources;
        !is_same
    }

    pub(super) fn update(&mut self, targets: &<Clusters as Node>::Config, now: Time) {
        self.tree.update(targets, now);
        self.is_changed = true;
    }

    pub(super) fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, now: Time) {
        self.tree.subchannel(id, state, now);
        self.is_changed = true;
    }

    pub(super) fn wake(&mut self, wake: Wake, now: Time) {
        self.tree.wake(wake, now);
        self.is_changed = true;
    }

    pub(super) fn on_time(&mut self, now: Time) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.tree.on_time(now);
            self.is_changed = true;
        }
    }

    /// Describes its tree; `None` before the first update.
    pub(super) fn describe(&self) -> Option<Description> {
        self.tree.describe()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.tree.deadline()
    }

    /// Does what the tree asks for, and publishes what calls see. Returns true if names of DNS are to
    /// be resolved again.
    pub(super) fn settle(&mut self, inbox: &Arc<Inbox>) -> bool {
        if !std::mem::take(&mut self.is_changed) {
            return false;
        }
        let mut resolves = false;
        while let Some(action) = self.tree.next_action() {
            match action {
                Action::Create { id, address, .. } => {
                    let key = InboxKey { cluster: self.id, subchannel: id };
                    let subchannel = process::pool().subchannel(address, inbox, key);
                    let least = id.slot() + 1;
                    if self.subchannels.len() < least {
                        self.subchannels.resize_with(least, || None);
                    }
                    self.subchannels[id.slot()] = Some((id, subchannel));
                }
                Action::Connect(id) => {
                    if let Some(subchannel) = self.subchannel_of(id) {
                        subchannel.connect();
                    }
                }
                Action::Close(id) => {
                    if let Some(place) = self.subchannels.get_mut(id.slot()) {
                        *place = None;
                    }
                }
                Action::Resolve => resolves = true,
                // There are no metrics yet, and no reports of load outside of calls.
                Action::Count(_) | Action::WatchLoad { .. } => {}
            }
        }
        self.publish();
        resolves
    }

    fn subchannel_of(&self, id: SubchannelId) -> Option<&Subchannel> {
        let (of, subchannel) = self.subchannels.get(id.slot())?.as_ref()?;
        (*of == id).then_some(subchannel)
    }

    /// Publishes the picker with the connections of now. Calls are woken by it.
    fn publish(&mut self) {
        let Some(handle) = self.handle.upgrade() else { return };
        let senders = self.subchannels.iter().map(|place| {
            let (id, subchannel) = place.as_ref()?;
            Some((*id, subchannel.sender()?))
        });
        let senders = senders.collect();
        let (connectivity, picker) = (self.tree.connectivity(), self.tree.picker());
        handle.publish(ClusterState { connectivity, picker, senders, is_closed: false });
    }
}
