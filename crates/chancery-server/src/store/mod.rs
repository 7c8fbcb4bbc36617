//! What every group of nodes should see, and who wants to hear when that changes.
//!
//! A group's snapshot is one pointer ([`group`]): publishing replaces it and wakes those streams of
//! the group that want something of what changed ([`wants`]), and a stream that was slow sees only
//! the newest one.
//!
//! Groups come into being by being published or watched, and go when they are neither.

mod group;
mod wants;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_core::Snapshot;

use self::group::Group;
pub(crate) use self::group::{State, Watch};

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
    groups: BTreeMap<GroupName, Arc<Group>>,
    /// How often all streams were told to ask for their group again.
    epoch: u64,
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
        let mut groups = self.lock();
        let group = groups.group(group.into());
        if group.snapshot().is_some_and(|shown| Arc::ptr_eq(&shown, &snapshot)) {
            return;
        }
        let before = group.show(&snapshot);
        drop(groups);
        group.tell(before.as_deref(), &snapshot);
    }

    /// Forgets the snapshot of `group`. Its clients keep what they have, and new ones wait.
    pub fn withdraw(&self, group: impl Into<GroupName>) {
        let group = group.into();
        let mut groups = self.lock();
        if let Some(known) = groups.groups.get(&group) {
            known.withdraw();
        }
        groups.forget_if_unused(&group);
    }

    /// What the nodes of `group` should see, if that is known.
    pub fn current(&self, group: impl Into<GroupName>) -> Option<Arc<Snapshot>> {
        let group = group.into();
        self.lock().groups.get(&group).and_then(|group| group.snapshot())
    }

    /// The groups with a snapshot, and their snapshots.
    pub fn snapshots(&self) -> Vec<(GroupName, Arc<Snapshot>)> {
        let groups = self.lock();
        let all = groups.groups.iter();
        all.filter_map(|(name, group)| Some((name.clone(), group.snapshot()?))).collect()
    }

    /// Makes every stream ask the policy for its group again: call it when the policy would
    /// decide otherwise than before.
    pub fn regroup(&self) {
        let mut groups = self.lock();
        groups.epoch += 1;
        let epoch = groups.epoch;
        for group in groups.groups.values() {
            group.regroup(epoch);
        }
    }

    /// Follows one group, from its present state on.
    pub(crate) fn watch(self: &Arc<Self>, group: GroupName) -> Watch {
        let mut groups = self.lock();
        let known = groups.group(group.clone());
        Watch::new(Arc::clone(self), group, known)
    }

    fn forget_if_unused(&self, group: &GroupName) {
        self.lock().forget_if_unused(group);
    }

    /// No code panics with the lock held, and the map would be whole even then.
    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Groups {
    fn group(&mut self, name: GroupName) -> Arc<Group> {
        let epoch = self.epoch;
        Arc::clone(self.groups.entry(name).or_insert_with(|| Arc::new(Group::new(epoch))))
    }

    fn forget_if_unused(&mut self, name: &GroupName) {
        if self.groups.get(name).is_some_and(|group| group.is_unused()) {
            self.groups.remove(name);
        }
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
    use tokio::time::Instant;

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
        let cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(watch.poll_state(&cx, Instant::now()).is_pending());
    }

    #[tokio::test]
    async fn a_group_is_forgotten_with_its_last_watcher_unless_it_is_published() {
        // S-011
        let store = Store::new();
        let watches = ["a", "b"].map(|group| store.watch(group.into()));
        store.publish("a", Snapshot::new());
        assert_eq!(store.lock().groups.len(), 2);
        drop(watches);
        assert_eq!(store.lock().groups.len(), 1);
        store.withdraw("a");
        assert_eq!(store.lock().groups.len(), 0);
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
