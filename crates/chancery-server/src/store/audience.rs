//! One audience: the snapshot its nodes see, and those who watch it.
//!
//! ```text
//!   show:      state <- snapshot     count it     what differs?     wake whom it touches
//!   a watch:   what does it want?                  look at the count, then at the state
//! ```
//!
//! A watch says what it wants before it looks, and a new snapshot is in the state before anybody is
//! asked who wants it: so no change is missed, whoever comes first. A watch that is left alone sees
//! the newest state whenever it looks for a reason of its own, and is woken by a change when it has
//! not looked for [`LONG`]: what it saw last would stay in memory otherwise. There is no queue.
//!
//! A stream that has to ask for its audience again hears so with the state, and never later: whoever
//! sees a snapshot that came after a reassignment sees the reassignment too.

mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use atomic_waker::AtomicWaker;
use chancery_catalog::AudienceSnapshot;
use chancery_core::server::{DemandEdit, DemandFilter, SnapshotChanges};
use chancery_core::{Node, Snapshot};
use tokio::time::Instant;

pub(crate) use self::place::Place;
use super::Store;
use super::caller::Caller;
use super::demand::{Demand, DemandCounts};
use super::name::AudienceName;
use super::superseded::SupersededSizes;
use crate::policy::Peer;
use crate::status::StreamCard;

/// The state of an audience, as a watch sees it when it looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct AudienceState {
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// When the snapshot took the place of another; `None` if it did so unseen.
    pub(crate) published: Option<Instant>,
    /// True if the stream is to ask for its audience again before it takes the snapshot.
    pub(crate) reassigned: bool,
}

/// An audience in the store: what it sees, and its watchers.
pub(super) struct WatchedAudience {
    shown: Mutex<Shown>,
    /// The number of changes of what is shown.
    count: AtomicU64,
    watchers: Mutex<Watchers>,
    /// The resources that its streams want together, if somebody follows that.
    demand: Mutex<DemandCounts>,
    superseded: Mutex<SupersededSizes>,
    begun: Instant,
}

/// The snapshot of an audience, and where it comes from.
#[derive(Default)]
enum Shown {
    /// There is none.
    #[default]
    Nothing,
    /// It was published, and stays until it is withdrawn.
    Published { snapshot: Arc<Snapshot>, at: Instant },
    /// It was supplied because the audience is watched, and goes with the last watcher.
    Supplied { snapshot: Arc<Snapshot>, revision: u64, at: Option<Instant> },
}

#[derive(Default)]
struct Watchers {
    last: u64,
    handles: BTreeMap<u64, Arc<WatcherHandle>>,
}

/// The way to reach a watch.
struct WatcherHandle {
    waker: AtomicWaker,
    /// `None` if everything is news.
    demand: Mutex<Option<DemandFilter>>,
    /// When it looked last, in milliseconds since there is the audience.
    looked: AtomicU64,
    /// The count of the state that it saw last, or of a later one if it wants nothing of what changed since.
    /// Before the first it is that of no state.
    current: AtomicU64,
    /// True if the stream is to ask for its audience again.
    reassigned: AtomicBool,
    /// Its node, as the stream knows it.
    node: Mutex<Option<Arc<Node>>>,
    peer: Arc<Peer>,
    since: Instant,
    is_poll: bool,
}

/// A question for an audience that is under way. It is made before the policy is asked, so that a
/// reassignment meanwhile is not missed.
pub(crate) struct Asking {
    /// The number of reassignments before it.
    pub(super) epoch: u64,
    /// The client that asks.
    pub(super) caller: Caller,
}

/// One watcher of one audience.
pub(crate) struct Watch {
    store: Arc<Store>,
    name: AudienceName,
    audience: Arc<WatchedAudience>,
    handle: Arc<WatcherHandle>,
    id: u64,
    /// The count of the state that was seen last; `None` before the first.
    seen: Option<u64>,
    /// All that the stream wants; `None` if nobody follows the demand.
    wanted: Option<Box<Demand>>,
    /// The card of the stream, if it has one.
    card: Option<Arc<StreamCard>>,
}

/// The snapshot before a change, and the number of the change.
pub(super) struct Before {
    pub(super) snapshot: Option<Arc<Snapshot>>,
    count: u64,
}

/// The snapshot that is shown was not changed.
pub(super) struct Unchanged;

impl WatchedAudience {
    pub(super) fn new() -> Self {
        Self {
            shown: Mutex::default(),
            count: AtomicU64::default(),
            watchers: Mutex::default(),
            demand: Mutex::default(),
            superseded: Mutex::default(),
            begun: Instant::now(),
        }
    }

    pub(super) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        lock(&self.shown).snapshot().cloned()
    }

    /// The resources that its streams want together.
    pub(super) fn demand(&self) -> Demand {
        lock(&self.demand).demand()
    }

    pub(super) fn is_watched(&self) -> bool {
        !lock(&self.watchers).handles.is_empty()
    }

    /// The nodes of its streams, each as often as it has streams.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        let watchers = lock(&self.watchers);
        watchers.handles.values().filter_map(|handle| lock(&handle.node).clone()).collect()
    }

    /// Those who watch it.
    pub(super) fn callers(&self) -> Vec<Caller> {
        let watchers = lock(&self.watchers);
        watchers.handles.values().map(|handle| handle.caller()).collect()
    }

    /// Returns true if nobody watches it and nothing was published.
    pub(super) fn is_unused(&self) -> bool {
        !self.is_watched() && !matches!(*lock(&self.shown), Shown::Published { .. })
    }

    /// Shows a snapshot that is published; [`concerned`](Self::concerned) says whom to wake then.
    /// Returns the one before.
    pub(super) fn publish(&self, snapshot: &Arc<Snapshot>) -> Before {
        let shown = Shown::Published { snapshot: Arc::clone(snapshot), at: Instant::now() };
        self.show(&mut lock(&self.shown), shown)
    }

    /// Shows a snapshot that is supplied, unless a newer one is shown, or one that was published;
    /// [`concerned`](Self::concerned) says whom to wake then. Returns the one before, or that
    /// nothing changed.
    pub(super) fn supply(
        &self,
        supplied: &AudienceSnapshot,
        at: Option<Instant>,
    ) -> Result<Before, Unchanged> {
        let AudienceSnapshot { snapshot, revision } = supplied;
        let mut shown = lock(&self.shown);
        match &mut *shown {
            Shown::Published { .. } => return Err(Unchanged),
            Shown::Supplied { revision: known, .. } if *known >= *revision => {
                return Err(Unchanged);
            }
            Shown::Supplied { snapshot: known, revision: of, .. }
                if Arc::ptr_eq(known, snapshot) =>
            {
                *of = *revision;
                return Err(Unchanged);
            }
            Shown::Supplied { .. } | Shown::Nothing => {}
        }
        let snapshot = Arc::clone(snapshot);
        Ok(self.show(&mut shown, Shown::Supplied { snapshot, revision: *revision, at }))
    }

    /// Takes the wakers of the streams that it concerns that one snapshot took the place of another.
    pub(super) fn concerned(
        &self,
        before: &Before,
        after: &Snapshot,
        now: Instant,
        wakers: &mut Vec<Waker>,
    ) {
        let old = before.snapshot.as_deref();
        let changes = old.map(|before| SnapshotChanges::between(before, after, &KEYS));
        self.take_wakers(now, wakers, |handle| {
            let demand = lock(&handle.demand);
            let touched = |demand: &DemandFilter| {
                changes.as_ref().is_none_or(|changes| demand.is_touched_by(changes))
            };
            let is_touched = demand.as_ref().is_none_or(touched);
            if !is_touched {
                // With the demand locked, so that nobody wants more meanwhile.
                handle.pass(before.count);
            }
            is_touched
        });
    }

    /// Shows nothing any more: watchers keep what they saw.
    pub(super) fn withdraw(&self) {
        self.show(&mut lock(&self.shown), Shown::Nothing);
    }

    /// Has watchers ask for their audience again: all, or those of some nodes.
    pub(super) fn reassign(&self, nodes: Option<&BTreeSet<&str>>) {
        let concerns = |handle: &WatcherHandle| match nodes {
            Some(nodes) => lock(&handle.node).as_ref().is_some_and(|it| nodes.contains(&*it.id)),
            None => true,
        };
        for handle in lock(&self.watchers).handles.values().filter(|handle| concerns(handle)) {
            handle.reassigned.store(true, Ordering::Release);
            handle.waker.wake();
        }
    }

    fn show(&self, shown: &mut Shown, now: Shown) -> Before {
        let before = std::mem::replace(shown, now);
        let count = self.count.fetch_add(1, Ordering::Release);
        Before { snapshot: before.snapshot().cloned(), count }
    }

    fn take_wakers(
        &self,
        now: Instant,
        wakers: &mut Vec<Waker>,
        whom: impl Fn(&WatcherHandle) -> bool,
    ) {
        let now = self.age(now);
        for handle in lock(&self.watchers).handles.values() {
            let looked = handle.looked.load(Ordering::Relaxed);
            if now.saturating_sub(looked) >= LONG || whom(handle) {
                wakers.extend(handle.waker.take());
            }
        }
    }

    /// The age of the audience at that time, in milliseconds.
    fn age(&self, now: Instant) -> u64 {
        let age = now.saturating_duration_since(self.begun);
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }
}

impl WatcherHandle {
    /// Takes in that the change after this count concerns nothing that the watch wants. If it was not current
    /// before, it is not now.
    fn pass(&self, count: u64) {
        let (before, after) = (count, count + 1);
        _ = self.current.compare_exchange(before, after, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn caller(&self) -> Caller {
        let (node, peer) = (lock(&self.node).clone(), Arc::clone(&self.peer));
        Caller { node, peer, since: self.since, is_poll: self.is_poll }
    }
}

impl Watch {
    /// Call it with the store's lock held, so that the audience is not forgotten meanwhile.
    pub(super) fn new(
        store: Arc<Store>,
        name: AudienceName,
        audience: Arc<WatchedAudience>,
        asking: &Asking,
    ) -> Self {
        let handle = Arc::new(WatcherHandle {
            waker: AtomicWaker::new(),
            demand: Mutex::default(),
            looked: AtomicU64::new(audience.age(Instant::now())),
            current: AtomicU64::new(NO_STATE),
            reassigned: AtomicBool::new(false),
            node: Mutex::new(asking.caller.node.clone()),
            peer: Arc::clone(&asking.caller.peer),
            since: asking.caller.since,
            is_poll: asking.caller.is_poll,
        });
        let mut watchers = lock(&audience.watchers);
        watchers.last += 1;
        let id = watchers.last;
        watchers.handles.insert(id, Arc::clone(&handle));
        drop(watchers);
        let wanted = store.follows_demand().then(Box::default);
        Self { store, name, audience, handle, id, seen: None, wanted, card: None }
    }

    /// Tells the card of the stream what the watch sees.
    pub(crate) fn tell(&mut self, card: &Arc<StreamCard>) {
        self.card = Some(Arc::clone(card));
    }

    /// The place of the stream.
    pub(crate) fn place(&self) -> Place {
        Place::new(&self.name, &self.audience, &self.handle)
    }

    /// The stream is to ask for its audience again: the answer it came with may be outdated.
    pub(super) fn reassign(&self) {
        self.handle.reassigned.store(true, Ordering::Release);
    }

    /// Returns true if the stream is to ask for its audience again.
    pub(crate) fn is_reassigned(&self) -> bool {
        self.handle.reassigned.load(Ordering::Acquire)
    }

    pub(crate) fn audience(&self) -> &AudienceName {
        &self.name
    }

    /// Notes that the stream says something else of its node.
    pub(crate) fn is_of(&self, node: Arc<Node>) {
        *lock(&self.handle.node) = Some(node);
    }

    /// Takes over an edit of the demand. From the first one on, only what touches it is news.
    pub(crate) fn want(&mut self, edit: &DemandEdit) {
        lock(&self.handle.demand).get_or_insert_default().apply(edit, &KEYS);
        if let Some(wanted) = &mut self.wanted {
            let (come, gone) = wanted.apply(edit);
            self.recount(&come, &gone);
        }
    }

    /// Wants what another watch wanted, which is about to go.
    pub(crate) fn want_as(&mut self, before: &Self) {
        *lock(&self.handle.demand) = lock(&before.handle.demand).take();
        if let (Some(wanted), Some(before)) = (&mut self.wanted, &before.wanted) {
            wanted.clone_from(before);
            self.recount(before, &Demand::default());
        }
    }

    /// Counts what came and what went, and says so if the audience wants something else now.
    fn recount(&self, come: &Demand, gone: &Demand) {
        let mut counts = lock(&self.audience.demand);
        let is_new = counts.add(come);
        let is_other = counts.remove(gone) || is_new;
        drop(counts);
        if is_other {
            self.store.demand_changed(&self.name);
        }
    }

    /// The newest state, if it has not been seen yet. The waker is woken by the next news.
    pub(crate) fn poll_state(&mut self, cx: &Context<'_>, now: Instant) -> Poll<AudienceState> {
        // First the waker, then the look: what comes between them wakes.
        self.handle.waker.register(cx.waker());
        let unseen = self.seen != Some(self.audience.count.load(Ordering::Acquire));
        if !unseen && !self.is_reassigned() {
            return Poll::Pending;
        }
        self.handle.looked.store(self.audience.age(now), Ordering::Relaxed);
        if let Some(card) = &self.card {
            // Before the look: the state is that of this load, or newer.
            card.unsettle(self.store.status.0.load());
        }
        let shown = lock(&self.audience.shown);
        let count = self.audience.count.load(Ordering::Acquire);
        let (snapshot, published) = (shown.snapshot().cloned(), shown.published());
        drop(shown);
        self.seen = Some(count);
        self.handle.current.store(count, Ordering::Release);
        // After the snapshot: whoever reassigned before it was shown is not missed.
        let reassigned = self.is_reassigned();
        if reassigned {
            // It is one or the other until the audience is known.
            self.card.iter().for_each(|card| card.asks_again());
            self.handle.reassigned.store(false, Ordering::Release);
        }
        Poll::Ready(AudienceState { snapshot, published, reassigned })
    }

    /// The bytes that a stream is charged for because it holds a snapshot that may be superseded. The
    /// waker is woken by the next news.
    pub(crate) fn superseded_bytes(&self, cx: &Context<'_>, held: &Arc<Snapshot>) -> usize {
        self.handle.waker.register(cx.waker());
        if self.seen == Some(self.audience.count.load(Ordering::Acquire)) {
            return 0;
        }
        let Some(newest) = self.audience.snapshot() else { return 0 };
        lock(&self.audience.superseded).share_of(held, &newest)
    }

    /// Waits for a state that has not been seen yet. Cancel-safe.
    pub(crate) async fn state(&mut self) -> AudienceState {
        poll_fn(|cx| self.poll_state(cx, Instant::now())).await
    }
}

impl Shown {
    fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match self {
            Self::Nothing => None,
            Self::Published { snapshot, .. } | Self::Supplied { snapshot, .. } => Some(snapshot),
        }
    }

    fn published(&self) -> Option<Instant> {
        match self {
            Self::Nothing => None,
            Self::Published { at, .. } => Some(*at),
            Self::Supplied { at, .. } => *at,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.audience.watchers).handles.remove(&self.id);
        self.store.forget_if_unused(&self.name);
        if let Some(wanted) = &self.wanted {
            self.recount(&Demand::default(), wanted);
        }
    }
}

/// The keys of the hashes of names, which nobody outside can foresee.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The count of no state.
const NO_STATE: u64 = u64::MAX;

/// After so many milliseconds, whoever has not looked is shown the newest. Under steady change that
/// wakes everybody this often, and no snapshot outlives it by much.
const LONG: u64 = 10_000;

/// No code panics with one of these locks held, and what they guard would be whole even then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};
    use std::time::Duration;

    use bytes::Bytes;
    use chancery_core::server::NamesEdit;
    use chancery_core::{Resource, TypeUrl};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn eds() -> TypeUrl {
        TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment")
    }

    fn snapshot(body: &'static str) -> Snapshot {
        let mut snapshot = Snapshot::new();
        let body = Bytes::from_static(body.as_bytes());
        snapshot.insert(&eds(), Resource::new("a".parse().unwrap(), body));
        snapshot
    }

    /// A demand for endpoints.
    fn edit(wildcard: bool, names: &[&str]) -> DemandEdit {
        let names = NamesEdit::All(names.iter().map(|name| Arc::from(*name)).collect());
        DemandEdit { type_url: eds(), wildcard, names }
    }

    /// A store with one watch, and how often that was woken.
    fn watched() -> (Arc<Store>, Watch, Waker, Arc<Count>) {
        let store = Store::new();
        store.publish("g", snapshot("1"));
        let count = Arc::new(Count::default());
        let watch = store.watch("g".into(), &store.asking(Caller::of_test(None)));
        (store, watch, Waker::from(Arc::clone(&count)), count)
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_not_looked_for_long_is_shown_the_newest() {
        let (store, mut watch, waker, count) = watched();
        let cx = Context::from_waker(&waker);
        watch.want(&edit(false, &[]));
        assert!(watch.poll_state(&cx, Instant::now()).is_ready());
        tokio::time::advance(Duration::from_millis(LONG - 1)).await;
        store.publish("g", snapshot("2"));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        store.publish("g", snapshot("3"));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(watch.poll_state(&cx, Instant::now()).is_ready());
        store.publish("g", snapshot("4"));
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "it has looked just now");
    }

    #[test]
    fn a_watch_that_is_not_touched_sleeps_and_sees_the_newest_when_it_looks() {
        // S-107
        let (store, mut watch, waker, count) = watched();
        let cx = Context::from_waker(&waker);
        assert!(watch.poll_state(&cx, Instant::now()).is_ready());
        watch.want(&edit(false, &["b"]));
        assert!(watch.poll_state(&cx, Instant::now()).is_pending());
        let newest = Arc::new(snapshot("2"));
        store.publish("g", Arc::clone(&newest));
        assert_eq!(count.0.load(Ordering::Relaxed), 0, "it is not for this watch");
        assert!(watch.place().standing().is_current, "it has passed");
        let Poll::Ready(state) = watch.poll_state(&cx, Instant::now()) else {
            panic!("there is news")
        };
        assert!(Arc::ptr_eq(&state.snapshot.unwrap(), &newest));
        watch.want(&edit(true, &[]));
        store.publish("g", snapshot("3"));
        assert!(watch.place().standing().is_unseen);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        store.publish("g", newest);
        store.reassign();
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "who was woken has yet to look");
    }

    #[test]
    fn reassigning_wakes_those_who_want_nothing() {
        let (store, mut watch, waker, count) = watched();
        let cx = Context::from_waker(&waker);
        watch.want(&edit(false, &[]));
        assert!(watch.poll_state(&cx, Instant::now()).is_ready());
        store.reassign();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        let Poll::Ready(state) = watch.poll_state(&cx, Instant::now()) else {
            panic!("there is news")
        };
        assert!(state.reassigned);
        assert!(watch.poll_state(&cx, Instant::now()).is_pending(), "it is said once");
    }
}
