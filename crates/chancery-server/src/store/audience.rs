//! One audience: what its nodes should see, and who watches it.
//!
//! ```text
//!   publish:   state <- snapshot     count it     what differs?     wake whom it touches
//!   a watch:   what does it want?                  look at the count, then at the state
//! ```
//!
//! A watch says what it wants before it looks, and a publication changes the state before it asks
//! who wants it: so no change is missed, whoever comes first. A watch that is left alone sees the
//! newest state whenever it looks for a reason of its own, and is woken by a publication when it has
//! not looked for [`LONG`]: what it saw last would stay in memory otherwise. There is no queue.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use atomic_waker::AtomicWaker;
use chancery_core::Snapshot;
use chancery_core::server::{DemandEdit, DemandFilter, SnapshotChanges};
use tokio::time::Instant;

use super::{AudienceName, Store};

/// What there is to see for one audience.
#[derive(Clone, Debug, Default)]
pub(crate) struct AudienceState {
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) published: Option<Instant>,
    pub(crate) epoch: u64,
}

/// One audience.
pub(super) struct Audience {
    state: Mutex<AudienceState>,
    /// How often the state changed.
    count: AtomicU64,
    watchers: Mutex<Watchers>,
    begun: Instant,
}

#[derive(Default)]
struct Watchers {
    last: u64,
    handles: BTreeMap<u64, Arc<WatcherHandle>>,
}

/// How a watch hears of news.
struct WatcherHandle {
    waker: AtomicWaker,
    /// `None` if everything is news.
    demand: Mutex<Option<DemandFilter>>,
    /// When it looked last, in milliseconds since there is the audience.
    looked: AtomicU64,
}

/// One watcher of one audience.
pub(crate) struct Watch {
    store: Arc<Store>,
    name: AudienceName,
    audience: Arc<Audience>,
    handle: Arc<WatcherHandle>,
    id: u64,
    /// The count of the state that was seen last; `None` before the first.
    seen: Option<u64>,
}

impl Audience {
    pub(super) fn new(epoch: u64) -> Self {
        let state = Mutex::new(AudienceState { epoch, ..AudienceState::default() });
        let (count, watchers) = (AtomicU64::default(), Mutex::default());
        Self { state, count, watchers, begun: Instant::now() }
    }

    pub(super) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        lock(&self.state).snapshot.clone()
    }

    /// Whether nobody watches it and nothing was published.
    pub(super) fn is_unused(&self) -> bool {
        lock(&self.watchers).handles.is_empty() && lock(&self.state).snapshot.is_none()
    }

    /// Shows another snapshot; [`tell`](Self::tell) of it then. Returns the one before.
    pub(super) fn replace(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<Snapshot>> {
        self.change(|state| {
            state.published = Some(Instant::now());
            state.snapshot.replace(Arc::clone(snapshot))
        })
    }

    /// Wakes those whom it concerns that one snapshot took the place of another.
    pub(super) fn notify(&self, before: Option<&Snapshot>, after: &Snapshot) {
        let changes = before.map(|before| SnapshotChanges::between(before, after, &KEYS));
        self.wake(|demand| changes.as_ref().is_none_or(|it| demand.is_touched_by(it)));
    }

    /// Shows nothing any more: watchers keep what they saw.
    pub(super) fn withdraw(&self) {
        self.change(|state| state.snapshot = None);
    }

    /// Tells all watchers to ask for their audience again.
    pub(super) fn reassign(&self, epoch: u64) {
        self.change(|state| state.epoch = epoch);
        self.wake(|_| true);
    }

    fn change<T>(&self, change: impl FnOnce(&mut AudienceState) -> T) -> T {
        let mut state = lock(&self.state);
        let before = change(&mut state);
        self.count.fetch_add(1, Ordering::Release);
        before
    }

    fn wake(&self, whom: impl Fn(&DemandFilter) -> bool) {
        let now = self.age(Instant::now());
        for handle in lock(&self.watchers).handles.values() {
            let looked = handle.looked.load(Ordering::Relaxed);
            if now.saturating_sub(looked) >= LONG || lock(&handle.demand).as_ref().is_none_or(&whom)
            {
                handle.waker.wake();
            }
        }
    }

    /// For how many milliseconds there had been the audience then.
    fn age(&self, now: Instant) -> u64 {
        let age = now.saturating_duration_since(self.begun);
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Watch {
    /// Call it with the store's lock held, so that the audience is not forgotten meanwhile.
    pub(super) fn new(store: Arc<Store>, name: AudienceName, audience: Arc<Audience>) -> Self {
        let looked = AtomicU64::new(audience.age(Instant::now()));
        let (waker, demand) = (AtomicWaker::new(), Mutex::default());
        let handle = Arc::new(WatcherHandle { waker, demand, looked });
        let mut watchers = lock(&audience.watchers);
        watchers.last += 1;
        let id = watchers.last;
        watchers.handles.insert(id, Arc::clone(&handle));
        drop(watchers);
        Self { store, name, audience, handle, id, seen: None }
    }

    pub(crate) fn audience(&self) -> &AudienceName {
        &self.name
    }

    /// Takes over an edit of the demand. From the first one on, only what touches it is news.
    pub(crate) fn want(&self, edit: &DemandEdit) {
        lock(&self.handle.demand).get_or_insert_default().apply(edit, &KEYS);
    }

    /// Wants what another watch wanted, which is about to go.
    pub(crate) fn want_as(&self, before: &Self) {
        *lock(&self.handle.demand) = lock(&before.handle.demand).take();
    }

    /// The newest state, if it has not been seen yet. The waker is woken by the next news.
    pub(crate) fn poll_state(&mut self, cx: &Context<'_>, now: Instant) -> Poll<AudienceState> {
        // First the waker, then the look: what comes between them wakes.
        self.handle.waker.register(cx.waker());
        if self.seen == Some(self.audience.count.load(Ordering::Acquire)) {
            return Poll::Pending;
        }
        self.handle.looked.store(self.audience.age(now), Ordering::Relaxed);
        let state = lock(&self.audience.state);
        self.seen = Some(self.audience.count.load(Ordering::Acquire));
        Poll::Ready(state.clone())
    }

    /// Waits for a state that has not been seen yet. Cancel-safe.
    pub(crate) async fn state(&mut self) -> AudienceState {
        poll_fn(|cx| self.poll_state(cx, Instant::now())).await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.audience.watchers).handles.remove(&self.id);
        self.store.forget_if_unused(&self.name);
    }
}

/// The keys of the hashes of names, which nobody outside can foresee.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

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
        let watch = store.watch("g".into());
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
        let Poll::Ready(state) = watch.poll_state(&cx, Instant::now()) else {
            panic!("there is news")
        };
        assert!(Arc::ptr_eq(&state.snapshot.unwrap(), &newest));
        watch.want(&edit(true, &[]));
        store.publish("g", snapshot("3"));
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
        assert_eq!(state.epoch, 1);
    }
}
