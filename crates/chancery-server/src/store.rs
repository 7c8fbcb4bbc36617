//! What every group of nodes should see, and who wants to hear when that changes.
//!
//! A group's snapshot is one pointer behind a watch: publishing replaces it and wakes the streams
//! of that group, and a stream that was slow sees only the newest one. There is no queue.
//!
//! Groups come into being by being published or watched, and go when they are neither.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use chancery_core::Snapshot;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

/// The name of a group: the nodes that see the same snapshot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Arc<str>);

/// The snapshots of all groups.
///
/// ```
/// use chancery_core::Snapshot;
/// use chancery_server::Store;
///
/// let store = Store::new();
/// store.publish("edge", Snapshot::new());
/// assert!(store.current("edge").is_some());
/// assert!(store.current("elsewhere").is_none());
/// ```
#[derive(Default)]
pub struct Store {
    groups: Mutex<Groups>,
}

#[derive(Default)]
struct Groups {
    senders: BTreeMap<GroupName, watch::Sender<State>>,
    /// How often all streams were told to ask for their group again.
    epoch: u64,
}

/// What there is to see for one group.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) published: Option<Instant>,
    pub(crate) epoch: u64,
}

/// One watcher of one group.
pub(crate) struct Watch {
    store: Arc<Store>,
    group: GroupName,
    /// `None` only while it is dropped.
    states: Option<WatchStream<State>>,
}

impl GroupName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Store {
    /// A store without groups, ready to be shared.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes `snapshot` what the nodes of `group` should see from now on.
    pub fn publish(&self, group: impl Into<GroupName>, snapshot: impl Into<Arc<Snapshot>>) {
        let snapshot = snapshot.into();
        self.lock().sender(group.into()).send_if_modified(|state| {
            if state.snapshot.as_ref().is_some_and(|old| Arc::ptr_eq(old, &snapshot)) {
                return false;
            }
            state.snapshot = Some(snapshot);
            state.published = Some(Instant::now());
            true
        });
    }

    /// Forgets the snapshot of `group`. Its clients keep what they have, and new ones wait.
    pub fn withdraw(&self, group: impl Into<GroupName>) {
        let group = group.into();
        let mut groups = self.lock();
        let Some(sender) = groups.senders.get(&group) else { return };
        sender.send_modify(|state| state.snapshot = None);
        groups.forget_if_unused(&group);
    }

    /// What the nodes of `group` should see, if that is known.
    pub fn current(&self, group: impl Into<GroupName>) -> Option<Arc<Snapshot>> {
        let group = group.into();
        self.lock().senders.get(&group).and_then(|sender| sender.borrow().snapshot.clone())
    }

    /// The groups with a snapshot, and their snapshots.
    pub fn snapshots(&self) -> Vec<(GroupName, Arc<Snapshot>)> {
        let groups = self.lock();
        let all = groups.senders.iter();
        all.filter_map(|(group, sender)| Some((group.clone(), sender.borrow().snapshot.clone()?)))
            .collect()
    }

    /// Makes every stream ask the policy for its group again: call it when the policy would
    /// decide otherwise than before.
    pub fn regroup(&self) {
        let mut groups = self.lock();
        groups.epoch += 1;
        let epoch = groups.epoch;
        for sender in groups.senders.values() {
            sender.send_modify(|state| state.epoch = epoch);
        }
    }

    /// Follows one group, from its present state on.
    pub(crate) fn watch(self: &Arc<Self>, group: GroupName) -> Watch {
        let receiver = self.lock().sender(group.clone()).subscribe();
        Watch { store: Arc::clone(self), group, states: Some(WatchStream::new(receiver)) }
    }

    /// No code panics with the lock held, and the map would be whole even then.
    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Groups {
    fn sender(&mut self, group: GroupName) -> &watch::Sender<State> {
        let epoch = self.epoch;
        self.senders
            .entry(group)
            .or_insert_with(|| watch::Sender::new(State { epoch, ..State::default() }))
    }

    fn forget_if_unused(&mut self, group: &GroupName) {
        let unused = |sender: &watch::Sender<State>| {
            sender.receiver_count() == 0 && sender.borrow().snapshot.is_none()
        };
        if self.senders.get(group).is_some_and(unused) {
            self.senders.remove(group);
        }
    }
}

impl Watch {
    pub(crate) fn group(&self) -> &GroupName {
        &self.group
    }

    /// The newest state, if it has not been seen yet.
    pub(crate) fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<State> {
        let Some(states) = &mut self.states else { return Poll::Pending };
        match std::pin::Pin::new(states).poll_next(cx) {
            Poll::Ready(Some(state)) => Poll::Ready(state),
            // The store outlives its watchers, so there always is a sender.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Waits for a state that has not been seen yet. Cancel-safe.
    pub(crate) async fn state(&mut self) -> State {
        match &mut self.states {
            Some(states) => states.next().await.unwrap_or_default(),
            None => State::default(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.states = None;
        self.store.lock().forget_if_unused(&self.group);
    }
}

impl From<&str> for GroupName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for GroupName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<&Self> for GroupName {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.snapshots()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_watcher_sees_the_present_and_then_the_newest() {
        // S-107
        let store = Store::new();
        let mut watch = store.watch("g".into());
        assert!(watch.state().await.snapshot.is_none());
        store.publish("g", Snapshot::new());
        let newest = Arc::new(Snapshot::new());
        store.publish("g", Arc::clone(&newest));
        assert!(Arc::ptr_eq(&watch.state().await.snapshot.unwrap(), &newest));
        store.publish("g", newest);
        let waker = std::task::Waker::noop();
        assert!(watch.poll_state(&mut Context::from_waker(waker)).is_pending());
    }

    #[tokio::test]
    async fn a_group_is_forgotten_with_its_last_watcher_unless_it_is_published() {
        // S-011
        let store = Store::new();
        let watches = ["a", "b"].map(|group| store.watch(group.into()));
        store.publish("a", Snapshot::new());
        assert_eq!(store.lock().senders.len(), 2);
        drop(watches);
        assert_eq!(store.lock().senders.len(), 1);
        store.withdraw("a");
        assert_eq!(store.lock().senders.len(), 0);
    }

    #[tokio::test]
    async fn regrouping_wakes_everybody() {
        let store = Store::new();
        let mut watch = store.watch("g".into());
        let before = watch.state().await.epoch;
        store.regroup();
        assert_ne!(watch.state().await.epoch, before);
        assert_eq!(store.watch("later".into()).state().await.epoch, 1);
    }
}
