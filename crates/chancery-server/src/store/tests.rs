//! Watches: what they see of an audience, and which of them a reassignment wakes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use chancery_core::TypeUrl;
use chancery_core::server::{DemandEdit, NamesEdit};

use super::*;

fn watch(store: &Arc<Store>, audience: &str) -> Watch {
    store.watch(audience.into(), &store.asking(Caller::of_test(None)))
}

/// The news of a watch, if there is any.
fn news(watch: &mut Watch) -> Option<AudienceState> {
    let cx = Context::from_waker(Waker::noop());
    match watch.poll_state(&cx, Instant::now()) {
        Poll::Ready(state) => Some(state),
        Poll::Pending => None,
    }
}

fn node(id: &str) -> Node {
    Node { id: id.to_owned(), ..Node::default() }
}

fn revision(revision: u64) -> AudienceSnapshot {
    AudienceSnapshot { snapshot: Arc::new(Snapshot::new()), revision }
}

#[tokio::test]
async fn a_watcher_sees_the_present_and_then_the_newest() {
    // S-107
    let store = Store::new();
    let mut watch = watch(&store, "g");
    assert!(watch.state().await.snapshot.is_none());
    store.publish("g", Snapshot::new());
    let newest = Arc::new(Snapshot::new());
    store.publish("g", Arc::clone(&newest));
    assert!(Arc::ptr_eq(&watch.state().await.snapshot.unwrap(), &newest));
    assert!(news(&mut watch).is_none());
}

#[test]
fn an_audience_is_forgotten_with_its_last_watcher_unless_it_is_published() {
    // S-011
    let store = Store::new();
    let watches = ["a", "b"].map(|audience| watch(&store, audience));
    store.publish("a", Snapshot::new());
    assert_eq!(store.lock().audiences.len(), 2);
    drop(watches);
    assert_eq!(store.lock().audiences.len(), 1);
    store.withdraw("a");
    assert_eq!(store.lock().audiences.len(), 0);
}

#[test]
fn reassigning_reaches_everybody() {
    let store = Store::new();
    let mut watches = ["g", "h"].map(|audience| watch(&store, audience));
    assert!(watches.iter_mut().all(|watch| !news(watch).unwrap().reassigned));
    store.reassign();
    assert!(watches.iter_mut().all(|watch| news(watch).unwrap().reassigned));
    assert!(!news(&mut watch(&store, "later")).unwrap().reassigned);
}

#[test]
fn reassigning_one_audience_or_node_leaves_the_others_alone() {
    let store = Store::new();
    let mut watches = [("g", "a"), ("g", "b"), ("h", "a")].map(|(audience, id)| {
        let mut watch =
            store.watch(audience.into(), &store.asking(Caller::of_test(Some(Arc::new(node(id))))));
        news(&mut watch);
        watch
    });
    store.reassign_audience("g");
    let asked = watches.each_mut().map(|watch| news(watch).is_some_and(|it| it.reassigned));
    assert_eq!(asked, [true, true, false]);
    store.reassign_nodes(["a", "other"]);
    let asked = watches.each_mut().map(|watch| news(watch).is_some_and(|it| it.reassigned));
    assert_eq!(asked, [true, false, true]);
}

#[test]
fn a_reassignment_while_the_policy_is_asked_is_not_missed() {
    let store = Store::new();
    let asking = store.asking(Caller::of_test(Some(Arc::new(node("a")))));
    // The policy answers `g`, and means another audience from now on.
    store.reassign_nodes(["a"]);
    let mut watch = store.watch("g".into(), &asking);
    assert!(watch.is_reassigned());
    assert!(news(&mut watch).unwrap().reassigned);
    assert!(news(&mut watch).is_none());
}

/// Supplies a new snapshot each time, of the revision it is given; nothing for the revision 0.
#[derive(Clone, Default)]
struct Supplied(Arc<AtomicU64>);

impl Supply for Supplied {
    fn supply(&self, _: &AudienceName) -> Option<AudienceSnapshot> {
        let number = self.0.load(Ordering::Relaxed);
        (number > 0).then(|| revision(number))
    }
}

#[test]
fn what_is_watched_is_supplied_and_goes_with_its_last_watcher() {
    // S-011
    let supply = Supplied(Arc::new(AtomicU64::new(1)));
    let store = Store::supplied_by(supply.clone());
    assert!(store.current("g").is_none());
    let mut first = watch(&store, "g");
    let seen = news(&mut first).unwrap();
    assert_eq!(seen.published, None, "nothing changed for anybody");
    let snapshot = seen.snapshot.unwrap();
    supply.0.store(2, Ordering::Relaxed);
    let second = watch(&store, "g");
    assert!(
        Arc::ptr_eq(&store.current("g").unwrap(), &snapshot),
        "an update would have replaced it"
    );
    drop((first, second));
    assert!(store.current("g").is_none());
    assert_eq!(store.lock().audiences.len(), 0);
    let _third = watch(&store, "g");
    assert!(!Arc::ptr_eq(&store.current("g").unwrap(), &snapshot));
}

#[test]
fn an_update_is_for_audiences_that_are_watched() {
    let supply = Supplied::default();
    let store = Store::supplied_by(supply);
    store.update([("g", revision(1))]);
    assert!(store.current("g").is_none());
    let mut watch = watch(&store, "g");
    assert!(news(&mut watch).unwrap().snapshot.is_none(), "there is nothing so far");
    let newer = revision(2);
    store.update([("g", newer.clone())]);
    let seen = news(&mut watch).unwrap();
    assert!(seen.published.is_some() && Arc::ptr_eq(&seen.snapshot.unwrap(), &newer.snapshot));
    store.update([("g", revision(1))]);
    store.update([("g", AudienceSnapshot { revision: 3, ..newer.clone() })]);
    assert!(news(&mut watch).is_none(), "older ones and the same are no news");
    store.update([("g", revision(2))]);
    assert!(Arc::ptr_eq(&store.current("g").unwrap(), &newer.snapshot));
}

/// A supply that is overtaken: while it answers with what it looked up, something newer comes.
struct Overtaken {
    store: Mutex<std::sync::Weak<Store>>,
    newer: AudienceSnapshot,
}

impl Supply for Arc<Overtaken> {
    fn supply(&self, audience: &AudienceName) -> Option<AudienceSnapshot> {
        let older = revision(1);
        self.store.lock().ok()?.upgrade()?.update([(audience.clone(), self.newer.clone())]);
        Some(older)
    }
}

#[test]
fn an_answer_that_is_overtaken_by_an_update_does_not_hide_it() {
    let supply = Arc::new(Overtaken { store: Mutex::default(), newer: revision(2) });
    let store = Store::supplied_by(Arc::clone(&supply));
    *supply.store.lock().unwrap() = Arc::downgrade(&store);
    let mut watch = watch(&store, "g");
    let seen = news(&mut watch).unwrap();
    assert!(Arc::ptr_eq(&seen.snapshot.unwrap(), &supply.newer.snapshot));
    assert!(news(&mut watch).is_none());
}

#[test]
fn what_is_published_by_hand_is_not_replaced_by_what_is_supplied() {
    let store = Store::supplied_by(Supplied(Arc::new(AtomicU64::new(1))));
    let own = Arc::new(Snapshot::new());
    store.publish("g", Arc::clone(&own));
    drop(watch(&store, "g"));
    store.update([("g", revision(2))]);
    assert!(Arc::ptr_eq(&store.current("g").unwrap(), &own));
}

/// A store of which somebody follows the demand, and the audiences that it was told of.
fn followed() -> (Arc<Store>, Arc<Mutex<Vec<String>>>) {
    let (store, told) = (Store::new(), Arc::<Mutex<Vec<String>>>::default());
    let heard = Arc::clone(&told);
    assert!(store.follow_demand(move |audience| heard.lock().unwrap().push(audience.to_string())));
    assert!(!store.follow_demand(|_| ()), "there is one who follows");
    (store, told)
}

fn cds() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn edit(wildcard: bool, names: NamesEdit) -> DemandEdit {
    DemandEdit { type_url: cds(), wildcard, names }
}

/// The wildcard and the names that an audience wants of clusters.
fn wanted(store: &Store, audience: &str) -> Option<(bool, Vec<String>)> {
    let demand = store.demand(audience);
    let of_type = demand.get(&cds())?;
    Some((of_type.wildcard, of_type.names.iter().map(|name| name.to_string()).collect()))
}

#[test]
fn the_demand_of_an_audience_is_what_its_streams_want_together() {
    let (store, told) = followed();
    let taken = || std::mem::take(&mut *told.lock().unwrap());
    let (mut one, mut other) = (watch(&store, "g"), watch(&store, "g"));
    assert!(store.demand("g").is_empty());
    one.want(&edit(false, NamesEdit::All(names(&["a", "b"]))));
    other.want(&edit(true, NamesEdit::All(names(&["b"]))));
    assert_eq!(wanted(&store, "g").unwrap(), (true, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(taken(), ["g", "g"]);
    let (added, removed) = (names(&["b"]), names(&["a", "z"]));
    one.want(&edit(false, NamesEdit::Change { added, removed }));
    assert_eq!(wanted(&store, "g").unwrap(), (true, vec!["b".to_owned()]));
    assert_eq!(taken(), ["g"]);
    one.want(&edit(false, NamesEdit::All(names(&[]))));
    assert_eq!(taken(), [] as [&str; 0], "the other wants it still");
    drop(one);
    assert_eq!(taken(), [] as [&str; 0], "it wanted nothing any more");
    drop(other);
    assert_eq!(taken(), ["g"]);
    assert_eq!(wanted(&store, "g"), None);
    assert!(store.demand("g").is_empty());
}

#[test]
fn a_stream_that_moves_takes_its_demand_along() {
    let (store, told) = followed();
    let mut before = watch(&store, "g");
    before.want(&edit(false, NamesEdit::All(names(&["a"]))));
    let mut after = watch(&store, "h");
    after.want_as(&before);
    drop(before);
    assert_eq!(wanted(&store, "g"), None);
    assert_eq!(wanted(&store, "h").unwrap(), (false, vec!["a".to_owned()]));
    assert_eq!(*told.lock().unwrap(), ["g", "h", "g"]);
    let added = names(&["b"]);
    after.want(&edit(false, NamesEdit::Change { added, removed: names(&["a"]) }));
    assert_eq!(wanted(&store, "h").unwrap(), (false, vec!["b".to_owned()]));
}

#[test]
fn a_demand_that_nobody_follows_is_not_kept() {
    let store = Store::new();
    let mut watch = watch(&store, "g");
    watch.want(&edit(true, NamesEdit::All(names(&["a"]))));
    assert!(store.demand("g").is_empty());
}
