//! The snapshot of every audience, and those who want to hear when it changes.
//!
//! An audience's snapshot is one pointer ([`audience`]): a new one replaces it and wakes those
//! streams of the audience that want something of what changed
//! ([`DemandFilter`](chancery_core::server::DemandFilter)), and a stream that was slow sees only the
//! newest one.
//!
//! A snapshot is either published, and stays until it is withdrawn, or supplied: the first watcher of
//! an audience has the store ask its [`Supply`], and the last one takes the snapshot with it. Each
//! supplied snapshot carries the number of its revision, and an older one never takes the place of a
//! newer: so it does not matter whether an answer of the supply or an [update](Store::update) comes
//! first, and no lock is held over both.

mod audience;
mod caller;
mod demand;
mod name;
mod superseded;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use chancery_catalog::AudienceSnapshot;
use chancery_core::{Node, Snapshot};
use tokio::time::Instant;

use crate::status::StatusBook;

use self::audience::{Asking, WatchedAudience};
pub(crate) use self::audience::{AudienceState, Place, Watch};
pub(crate) use self::caller::Caller;
pub use self::demand::{Demand, TypeDemand};
pub use self::name::AudienceName;

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
    audiences: Mutex<AudienceMap>,
    supply: Option<Box<dyn Supply>>,
    /// The function that is called when an audience wants something else.
    demand_changed: OnceLock<DemandChanged>,
    pub(crate) status: StatusBook,
}

/// A function that is called with the name of an audience that wants something else.
type DemandChanged = Box<dyn Fn(&AudienceName) + Send + Sync>;

/// A supplier of snapshots for audiences that somebody watches.
pub trait Supply: Send + Sync + 'static {
    /// The snapshot the audience sees now; `None` if the audience is unknown, or there is none so far.
    ///
    /// It is asked when an audience gets its first watcher, on the path of a stream.
    fn supply(&self, audience: &AudienceName) -> Option<AudienceSnapshot>;
}

/// The audiences that are published or watched, by name.
#[derive(Default)]
struct AudienceMap {
    audiences: HashMap<AudienceName, Arc<WatchedAudience>>,
    /// The number of reassignments so far.
    epoch: u64,
}

impl Store {
    /// A store without audiences, ready to be shared.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A store that asks for the snapshots of the audiences that are watched.
    pub fn supplied_by(supply: impl Supply) -> Arc<Self> {
        Arc::new(Self { supply: Some(Box::new(supply)), ..Self::default() })
    }

    /// Makes `snapshot` what the nodes of `audience` see from now on.
    pub fn publish(&self, audience: impl Into<AudienceName>, snapshot: impl Into<Arc<Snapshot>>) {
        let (snapshot, now) = (snapshot.into(), Instant::now());
        self.status.0.before_load(now);
        let mut audiences = self.lock();
        let audience = audiences.audience(audience.into());
        if audience.snapshot().is_some_and(|shown| Arc::ptr_eq(&shown, &snapshot)) {
            return;
        }
        let before = audience.publish(&snapshot);
        drop(audiences);
        let mut wakers = Vec::new();
        audience.concerned(&before, &snapshot, now, &mut wakers);
        self.status.0.shown(None, now);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The book of what its clients want and hold.
    pub fn status(&self) -> StatusBook {
        self.status.clone()
    }

    /// Shows the nodes of audiences newer snapshots than the supplied ones they see. Nothing happens
    /// if nobody watches an audience, or it sees a newer one already.
    ///
    /// Streams are woken a few hundred at a time: a thread that is woken for each would interrupt
    /// this one as often, and one that is woken for all finds nothing in the processor's cache.
    pub fn update<N: AsRef<str>>(&self, newer: impl IntoIterator<Item = (N, AudienceSnapshot)>) {
        let now = Instant::now();
        self.status.0.before_load(now);
        self.update_now(newer, now);
        self.status.0.shown(None, now);
    }

    /// Does so as a part of a load that began at this moment.
    pub(crate) fn update_now<N: AsRef<str>>(
        &self,
        newer: impl IntoIterator<Item = (N, AudienceSnapshot)>,
        now: Instant,
    ) {
        let mut wakers = Vec::new();
        for (audience, newer) in newer {
            self.show(audience.as_ref(), &newer, Some(now), &mut wakers);
            if wakers.len() >= WOKEN_TOGETHER {
                wakers.drain(..).for_each(Waker::wake);
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The audiences that somebody watches.
    pub fn watched(&self) -> Vec<AudienceName> {
        let audiences = self.lock();
        let watched = audiences.audiences.iter().filter(|(_, audience)| audience.is_watched());
        let mut watched: Vec<_> = watched.map(|(name, _)| name.clone()).collect();
        watched.sort();
        watched
    }

    /// The nodes that streams are of, each as often as it has streams.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        let audiences: Vec<_> = self.lock().audiences.values().cloned().collect();
        audiences.iter().flat_map(|audience| audience.nodes()).collect()
    }

    /// Has the store keep what the streams of each audience want, and calls a function with the name
    /// of each audience of which that changes. Returns false if somebody follows it already.
    ///
    /// Call this before the server serves: the demand of streams that are open already is not known.
    /// The function runs on the path of a stream and must not block. Calls for one audience may come
    /// from several streams at a time, so look at the [`demand`](Self::demand) and not at the order
    /// of calls. Exact names cost memory for each stream. REST polls are no part of the demand.
    pub fn follow_demand(&self, changed: impl Fn(&AudienceName) + Send + Sync + 'static) -> bool {
        self.demand_changed.set(Box::new(changed)).is_ok()
    }

    /// The resources that the streams of an audience want together, if somebody
    /// [follows](Self::follow_demand) that.
    pub fn demand(&self, audience: impl Into<AudienceName>) -> Demand {
        let audience = audience.into();
        let known = self.lock().audiences.get(&audience).cloned();
        known.map(|audience| audience.demand()).unwrap_or_default()
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

    /// The snapshot that the nodes of `audience` see, if there is one.
    pub fn current(&self, audience: impl Into<AudienceName>) -> Option<Arc<Snapshot>> {
        let audience = audience.into();
        self.lock().audiences.get(&audience).and_then(|audience| audience.snapshot())
    }

    /// The audiences with a snapshot, and their snapshots.
    pub fn snapshots(&self) -> Vec<(AudienceName, Arc<Snapshot>)> {
        let audiences = self.lock();
        let all = audiences.audiences.iter();
        let all = all.filter_map(|(name, audience)| Some((name.clone(), audience.snapshot()?)));
        let mut all: Vec<_> = all.collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Makes every stream ask the policy for its audience again: call it when the policy would
    /// decide otherwise than before.
    pub fn reassign(&self) {
        self.next_epoch().iter().for_each(|audience| audience.reassign(None));
    }

    /// Makes the streams of one audience ask the policy again, and wakes no others.
    pub fn reassign_audience(&self, audience: impl Into<AudienceName>) {
        self.next_epoch();
        let known = self.lock().audiences.get(&audience.into()).cloned();
        known.inspect(|audience| audience.reassign(None));
    }

    /// Makes the streams of some nodes ask the policy again, in whichever audience they are.
    pub fn reassign_nodes<'a>(&self, ids: impl IntoIterator<Item = &'a str>) {
        let nodes: BTreeSet<&str> = ids.into_iter().collect();
        self.next_epoch().iter().for_each(|audience| audience.reassign(Some(&nodes)));
    }

    /// Those who watch something, with the audience of each.
    pub(crate) fn callers(&self) -> Vec<(AudienceName, Caller)> {
        let audiences = self.lock();
        let known = audiences.audiences.iter();
        let known: Vec<_> = known.map(|(name, known)| (name.clone(), Arc::clone(known))).collect();
        drop(audiences);
        let of_one = |(name, known): (AudienceName, Arc<WatchedAudience>)| {
            known.callers().into_iter().map(move |caller| (name.clone(), caller))
        };
        known.into_iter().flat_map(of_one).collect()
    }

    /// A client is about to ask the policy for its audience.
    pub(crate) fn asking(&self, caller: Caller) -> Asking {
        Asking { epoch: self.lock().epoch, caller }
    }

    /// Follows the audience that the policy answered with, from its present state on.
    pub(crate) fn watch(self: &Arc<Self>, name: AudienceName, asking: &Asking) -> Watch {
        let mut audiences = self.lock();
        let known = audiences.audience(name.clone());
        // A snapshot that nobody watches may be about to go, and is not kept up to date.
        let is_first = !known.is_watched();
        let watch = Watch::new(Arc::clone(self), name, known, asking);
        if audiences.epoch != asking.epoch {
            watch.reassign();
        }
        drop(audiences);
        if is_first && let Some(supply) = &self.supply {
            let supplied = supply.supply(watch.audience());
            let mut wakers = Vec::new();
            supplied.inspect(|it| self.show(watch.audience().as_str(), it, None, &mut wakers));
            wakers.into_iter().for_each(Waker::wake);
        }
        watch
    }

    /// Shows a supplied snapshot, and takes the wakers of those whom it concerns.
    fn show(
        &self,
        name: &str,
        supplied: &AudienceSnapshot,
        at: Option<Instant>,
        wakers: &mut Vec<Waker>,
    ) {
        let audiences = self.lock();
        let known = audiences.audiences.get(name).filter(|audience| audience.is_watched());
        let Some(audience) = known.cloned() else { return };
        let Ok(before) = audience.supply(supplied, at) else { return };
        drop(audiences);
        let now = at.unwrap_or_else(Instant::now);
        audience.concerned(&before, &supplied.snapshot, now, wakers);
    }

    /// Returns true if somebody follows what streams want.
    fn follows_demand(&self) -> bool {
        self.demand_changed.get().is_some()
    }

    /// Tells whoever follows the demand that an audience wants something else. No lock is held.
    fn demand_changed(&self, audience: &AudienceName) {
        if let Some(changed) = self.demand_changed.get() {
            changed(audience);
        }
    }

    /// Has each question that is under way now asked again. Returns the audiences there are: a
    /// question for any other comes later.
    fn next_epoch(&self) -> Vec<Arc<WatchedAudience>> {
        let mut audiences = self.lock();
        audiences.epoch += 1;
        self.status.0.reassigned();
        audiences.audiences.values().cloned().collect()
    }

    fn forget_if_unused(&self, audience: &AudienceName) {
        self.lock().forget_if_unused(audience);
    }

    /// No code panics with the lock held, and the map would be whole even then.
    fn lock(&self) -> MutexGuard<'_, AudienceMap> {
        self.audiences.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AudienceMap {
    fn audience(&mut self, name: AudienceName) -> Arc<WatchedAudience> {
        Arc::clone(self.audiences.entry(name).or_insert_with(|| Arc::new(WatchedAudience::new())))
    }

    fn forget_if_unused(&mut self, name: &AudienceName) {
        if self.audiences.get(name).is_some_and(|audience| audience.is_unused()) {
            self.audiences.remove(name);
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.snapshots()).finish()
    }
}

/// The number of streams that are woken together.
const WOKEN_TOGETHER: usize = 64;

#[cfg(test)]
mod tests;
