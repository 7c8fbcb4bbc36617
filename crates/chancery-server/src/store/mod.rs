//! What every audience of nodes should see, and who wants to hear when that changes.
//!
//! An audience's snapshot is one pointer ([`audience`]): publishing replaces it and wakes those streams of
//! the audience that want something of what changed ([`DemandFilter`](chancery_core::server::DemandFilter)), and a stream that was slow sees only
//! the newest one.
//!
//! Audiences come into being by being published or watched, and go when they are neither.

mod audience;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_core::Snapshot;

use self::audience::Audience;
pub(crate) use self::audience::{AudienceState, Watch};

/// The name of an audience: the nodes that see the same snapshot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AudienceName(Arc<str>);

/// The snapshots of all audiences.
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
    audiences: Mutex<Audiences>,
}

#[derive(Default)]
struct Audiences {
    audiences: BTreeMap<AudienceName, Arc<Audience>>,
    /// How often all streams were told to ask for their audience again.
    epoch: u64,
}

impl AudienceName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Store {
    /// A store without audiences, ready to be shared.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes `snapshot` what the nodes of `audience` should see from now on.
    pub fn publish(&self, audience: impl Into<AudienceName>, snapshot: impl Into<Arc<Snapshot>>) {
        let snapshot = snapshot.into();
        let mut audiences = self.lock();
        let audience = audiences.audience(audience.into());
        if audience.snapshot().is_some_and(|shown| Arc::ptr_eq(&shown, &snapshot)) {
            return;
        }
        let before = audience.replace(&snapshot);
        drop(audiences);
        audience.notify(before.as_deref(), &snapshot);
    }

    /// Forgets the snapshot of `audience`. Its clients keep what they have, and new ones wait.
    pub fn withdraw(&self, audience: impl Into<AudienceName>) {
        let audience = audience.into();
        let mut audiences = self.lock();
        if let Some(known) = audiences.audiences.get(&audience) {
            known.withdraw();
        }
        audiences.forget_if_unused(&audience);
    }

    /// What the nodes of `audience` should see, if that is known.
    pub fn current(&self, audience: impl Into<AudienceName>) -> Option<Arc<Snapshot>> {
        let audience = audience.into();
        self.lock().audiences.get(&audience).and_then(|audience| audience.snapshot())
    }

    /// The audiences with a snapshot, and their snapshots.
    pub fn snapshots(&self) -> Vec<(AudienceName, Arc<Snapshot>)> {
        let audiences = self.lock();
        let all = audiences.audiences.iter();
        all.filter_map(|(name, audience)| Some((name.clone(), audience.snapshot()?))).collect()
    }

    /// Makes every stream ask the policy for its audience again: call it when the policy would
    /// decide otherwise than before.
    pub fn reassign(&self) {
        let mut audiences = self.lock();
        audiences.epoch += 1;
        let epoch = audiences.epoch;
        for audience in audiences.audiences.values() {
            audience.reassign(epoch);
        }
    }

    /// Follows one audience, from its present state on.
    pub(crate) fn watch(self: &Arc<Self>, audience: AudienceName) -> Watch {
        let mut audiences = self.lock();
        let known = audiences.audience(audience.clone());
        Watch::new(Arc::clone(self), audience, known)
    }

    fn forget_if_unused(&self, audience: &AudienceName) {
        self.lock().forget_if_unused(audience);
    }

    /// No code panics with the lock held, and the map would be whole even then.
    fn lock(&self) -> MutexGuard<'_, Audiences> {
        self.audiences.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audiences {
    fn audience(&mut self, name: AudienceName) -> Arc<Audience> {
        let epoch = self.epoch;
        Arc::clone(self.audiences.entry(name).or_insert_with(|| Arc::new(Audience::new(epoch))))
    }

    fn forget_if_unused(&mut self, name: &AudienceName) {
        if self.audiences.get(name).is_some_and(|audience| audience.is_unused()) {
            self.audiences.remove(name);
        }
    }
}

impl From<&str> for AudienceName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for AudienceName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<&Self> for AudienceName {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl fmt::Display for AudienceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AudienceName {
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
    async fn an_audience_is_forgotten_with_its_last_watcher_unless_it_is_published() {
        // S-011
        let store = Store::new();
        let watches = ["a", "b"].map(|audience| store.watch(audience.into()));
        store.publish("a", Snapshot::new());
        assert_eq!(store.lock().audiences.len(), 2);
        drop(watches);
        assert_eq!(store.lock().audiences.len(), 1);
        store.withdraw("a");
        assert_eq!(store.lock().audiences.len(), 0);
    }

    #[tokio::test]
    async fn reassigning_wakes_everybody() {
        let store = Store::new();
        let mut watch = store.watch("g".into());
        let before = watch.state().await.epoch;
        store.reassign();
        assert_ne!(watch.state().await.epoch, before);
        assert_eq!(store.watch("later".into()).state().await.epoch, 1);
    }
}
