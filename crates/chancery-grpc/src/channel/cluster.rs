//! A cluster as the driver runs it: its tree of policies, and the subchannels that the tree asked for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use chancery_calls::balancing::{
    Action, Cluster, Description, Endpoint, LoadWatch, Node, OutlierDetection, Priority,
    PriorityNames, SubchannelId, SubchannelState, Tree, Wake,
};
use chancery_core::{Resource, Time};
use http::uri::Authority;
use tokio::time::Instant;

use super::awaited::Connecting;
use super::published::{ClusterHandle, ClusterState};
use super::security::EndpointSettings;
use super::senders::Senders;
use super::watched_load::WatchedLoad;
use crate::connect::{ConnectionSettings, Inbox, InboxKey, Subchannel};
use crate::dice::ThreadDice;
use crate::{metrics, process};

/// The clusters of an aggregate, or the one cluster.
pub(super) type Clusters = Priority<OutlierDetection<Cluster>>;

/// A cluster with its tree.
pub(super) struct RunningCluster {
    pub(super) id: u64,
    name: Arc<str>,
    tree: Tree<Clusters, ThreadDice>,
    subchannels: Vec<Option<Connected>>,
    senders: Senders,
    /// The connection that calls may wait for.
    connecting: Option<Connecting>,
    /// The settings of connections to each cluster that it aggregates, or to itself.
    settings: BTreeMap<Arc<str>, EndpointSettings>,
    /// The names of the priorities of each cluster that it aggregates, or of itself.
    pub(super) names: BTreeMap<Arc<str>, PriorityNames>,
    handle: Weak<ClusterHandle>,
    /// The authority of calls that no program makes; `None` if the name of the target cannot be one.
    authority: Option<Authority>,
    began: Instant,
    /// The resources that its targets were last made of; `None` if more than them counts.
    made_of: Option<Sources>,
    /// True if something has happened since its state was published.
    is_changed: bool,
}

/// A subchannel of a tree, with its connection.
struct Connected {
    id: SubchannelId,
    endpoint: Arc<Endpoint>,
    address: SocketAddr,
    /// The cluster that it leads to.
    leaf: Arc<str>,
    settings: Arc<ConnectionSettings>,
    subchannel: Subchannel,
    /// The reports of its server that come by themselves, while there is a connection and somebody wants them.
    reports: Option<WatchedLoad>,
}

/// All that the targets of a cluster are made of.
pub(super) struct Sources {
    pub(super) resources: Vec<Arc<Resource>>,
    /// True if calls may have sessions.
    pub(super) has_sessions: bool,
}

impl Sources {
    fn are(&self, other: &Self) -> bool {
        let mut pairs = self.resources.iter().zip(&other.resources);
        self.has_sessions == other.has_sessions
            && self.resources.len() == other.resources.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl RunningCluster {
    /// Returns a cluster that knows nothing yet, with the handle that calls get.
    pub(super) fn new(
        name: Arc<str>,
        id: u64,
        inbox: &Arc<Inbox>,
        authority: Option<Authority>,
        began: Instant,
    ) -> (Self, Arc<ClusterHandle>) {
        let handle = ClusterHandle::new(Arc::clone(&name), id, inbox, began);
        let running = Self {
            id,
            name,
            tree: Tree::new(ThreadDice),
            subchannels: Vec::new(),
            senders: Senders::default(),
            connecting: None,
            settings: BTreeMap::new(),
            names: BTreeMap::new(),
            handle: Arc::downgrade(&handle),
            authority,
            began,
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
    pub(super) fn is_outdated(&mut self, sources: Option<Sources>) -> bool {
        let is_same = match (&self.made_of, &sources) {
            (Some(before), Some(now)) => before.are(now),
            _ => false,
        };
        self.made_of = sources;
        !is_same
    }

    /// There are other endpoints, or other settings of connections to them.
    pub(super) fn update(
        &mut self,
        targets: &<Clusters as Node>::Config,
        settings: BTreeMap<Arc<str>, EndpointSettings>,
        inbox: &Arc<Inbox>,
        now: Time,
    ) {
        self.tree.update(targets, now);
        if self.settings != settings {
            self.settings = settings;
            self.connect_anew(inbox, now);
        }
        self.is_changed = true;
    }

    /// Replaces the connections that have other settings now, so that no call goes on a connection that is not
    /// secured as the control plane wants it. The calls that are under way end where they are.
    fn connect_anew(&mut self, inbox: &Arc<Inbox>, now: Time) {
        for slot in 0..self.subchannels.len() {
            let Some(it) = &mut self.subchannels[slot] else { continue };
            let wanted = self.settings.get(&it.leaf).map(|settings| settings.of(it.address));
            let Some(wanted) = wanted.filter(|wanted| **wanted != it.settings) else { continue };
            let key = InboxKey { cluster: self.id, subchannel: it.id };
            let wanted = Arc::clone(wanted);
            // In this order, so that the state of the old connection is not taken for that of the new one.
            let (id, address, leaf) = (it.id, it.address, Arc::clone(&it.leaf));
            let endpoint = Arc::clone(&it.endpoint);
            self.subchannels[slot] = None;
            self.senders.set(id, None);
            inbox.forget(key);
            self.tree.subchannel(id, &SubchannelState::Idle, now);
            let subchannel = process::pool().subchannel(address, &wanted, inbox, key);
            let connected = Connected {
                id,
                endpoint,
                address,
                leaf,
                settings: wanted,
                subchannel,
                reports: None,
            };
            self.subchannels[slot] = Some(connected);
        }
    }

    pub(super) fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, now: Time) {
        if let Some(connected) = self.connected(id) {
            let mut sender = None;
            if *state == SubchannelState::Ready {
                sender = connected.subchannel.sender();
            } else {
                // Also where calls that are under way keep the old connection.
                connected.reports = None;
            }
            let (endpoint, address) = (Arc::clone(&connected.endpoint), connected.address);
            self.senders.set(id, sender);
            let before = self.connecting.take();
            self.connecting = Connecting::after(before, &endpoint, address, state);
        }
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

    /// Describes its tree. There is nothing to say before the first update.
    pub(super) fn describe(&self) -> Option<Description> {
        self.tree.describe()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.tree.deadline()
    }

    /// Does what the tree of a channel to this target asks for, and publishes what calls see. Returns true if names of DNS are to
    /// be resolved again.
    pub(super) fn settle(&mut self, inbox: &Arc<Inbox>, target: &str) -> bool {
        if !std::mem::take(&mut self.is_changed) {
            return false;
        }
        let mut resolves = false;
        while let Some(action) = self.tree.next_action() {
            match action {
                Action::Create { id, address, endpoint } => {
                    self.create(id, address, endpoint, inbox);
                }
                Action::Connect(id) => {
                    if let Some(connected) = self.connected(id) {
                        connected.subchannel.connect();
                    }
                }
                Action::Close(id) => {
                    if let Some(place) = self.subchannels.get_mut(id.slot()) {
                        *place = None;
                    }
                    self.senders.set(id, None);
                }
                Action::Resolve => resolves = true,
                Action::Count(counted) => metrics::counted(&counted, target, &self.name),
                Action::WatchLoad { id, watch } => self.watch_load(id, watch),
            }
        }
        self.publish();
        resolves
    }

    fn create(
        &mut self,
        id: SubchannelId,
        address: SocketAddr,
        endpoint: Arc<Endpoint>,
        inbox: &Arc<Inbox>,
    ) {
        // One without a cluster was closed again before this.
        let Some(leaf) = self.tree.root().and_then(|root| root.child_of(id)) else { return };
        let Some(settings) = self.settings.get(leaf) else { return };
        let (leaf, settings) = (Arc::clone(leaf), Arc::clone(settings.of(address)));
        let key = InboxKey { cluster: self.id, subchannel: id };
        let subchannel = process::pool().subchannel(address, &settings, inbox, key);
        let least = id.slot() + 1;
        if self.subchannels.len() < least {
            self.subchannels.resize_with(least, || None);
        }
        let connected =
            Connected { id, endpoint, address, leaf, settings, subchannel, reports: None };
        self.subchannels[id.slot()] = Some(connected);
    }

    /// Asks the server of a subchannel for reports, or does not any more.
    fn watch_load(&mut self, id: SubchannelId, watch: Option<LoadWatch>) {
        let (authority, began) = (self.authority.clone(), self.began);
        let Some(connected) = self.connected(id) else { return };
        // Without a connection it is told again when there is one.
        let sender = connected.subchannel.sender();
        let wanted = authority.zip(sender).zip(watch);
        connected.reports = wanted.map(|((authority, sender), watch)| {
            WatchedLoad::new(sender, authority, connected.address, watch, began)
        });
    }

    fn connected(&mut self, id: SubchannelId) -> Option<&mut Connected> {
        let connected = self.subchannels.get_mut(id.slot())?.as_mut()?;
        (connected.id == id).then_some(connected)
    }

    /// Publishes the picker with the connections of now. Calls are woken by it.
    fn publish(&mut self) {
        let Some(handle) = self.handle.upgrade() else { return };
        let (senders, connecting) = (self.senders.clone(), self.connecting.clone());
        let (connectivity, picker) = (self.tree.connectivity(), self.tree.picker());
        handle.publish(ClusterState {
            connectivity,
            picker,
            senders,
            connecting,
            is_closed: false,
        });
    }
}
