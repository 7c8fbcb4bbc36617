//! Clients are shown what their audience sees, and are left alone otherwise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use chancery_catalog::{ChangeSet, Entry, Hold, Key, Origin, OverlayNames};
use chancery_core::{Node, Resource, Snapshot, TypeUrl};
use tokio::time::Instant;

use super::*;
use crate::Peer;
use crate::store::{AudienceState, Caller, Watch};

type ByCluster = fn(&Client<'_>, &OverlayNames) -> Result<Option<String>, Refusal>;

/// The group named as the cluster of a node, if it is known; `outside` is no cluster of ours.
fn by_cluster(client: &Client<'_>, groups: &OverlayNames) -> Result<Option<String>, Refusal> {
    let cluster = &client.node.ok_or_else(Refusal::anonymous)?.cluster;
    match &**cluster {
        "outside" => Err(Refusal::Denied("not one of ours".to_owned())),
        name => Ok(groups.contains(name).then(|| name.to_owned())),
    }
}

fn always_g(_: &Client<'_>, _: &OverlayNames) -> Result<Option<String>, Refusal> {
    Ok(Some("g".to_owned()))
}

/// A catalog and its audiences.
struct Setup {
    catalog: Catalog,
    audiences: Audiences<ByCluster>,
}

impl Setup {
    fn empty() -> Self {
        let catalog = Catalog::new();
        let audiences = Audiences::new(catalog.clone(), by_cluster as ByCluster);
        Self { catalog, audiences }
    }

    fn new() -> Self {
        let setup = Self::empty();
        setup.put(&Layer::Base, "a", 1);
        setup
    }

    fn commit(&self, edit: impl FnOnce(&mut ChangeSet)) {
        let mut changes = ChangeSet::new("test");
        edit(&mut changes);
        self.audiences.commit(changes);
    }

    fn put(&self, layer: &Layer, name: &str, body: u8) {
        self.commit(|changes| put(changes, layer, name, body));
    }

    fn audience(&self, id: &str, cluster: &str) -> Result<AudienceName, Refusal> {
        let node = node(id, cluster);
        self.audiences.audience(&Client { node: Some(&node), peer: &peer() })
    }

    /// A watch, as a stream of this node has it.
    fn watch(&self, id: &str, cluster: &str) -> Watch {
        let store = self.audiences.store();
        let asking = store.asking(Caller::of_test(Some(Arc::new(node(id, cluster)))));
        store.watch(self.audience(id, cluster).unwrap(), &asking)
    }

    /// The names of the clusters an audience is shown.
    fn shown(&self, audience: &str) -> Option<Vec<String>> {
        self.audiences.store().current(audience).map(|snapshot| names(&snapshot))
    }
}

fn put(changes: &mut ChangeSet, layer: &Layer, name: &str, body: u8) {
    let resource = Resource::new(name.parse().unwrap(), vec![body].into());
    changes.put(layer, &cds(), Entry::new(resource, Origin::program("test")));
}

fn cds() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot.set(&cds()).iter().map(|cluster| cluster.name().to_string()).collect()
}

fn group(name: &str) -> Layer {
    Layer::Group(name.into())
}

fn of_node(id: &str) -> Layer {
    Layer::Node(id.into())
}

fn node(id: &str, cluster: &str) -> Node {
    Node { id: id.to_owned(), cluster: cluster.to_owned(), ..Node::default() }
}

fn peer() -> Peer {
    Peer { address: None, tls: false, certificates: Vec::new() }
}

/// The news of a watch, if there is any.
fn news(watch: &mut Watch) -> Option<AudienceState> {
    let cx = Context::from_waker(Waker::noop());
    match watch.poll_state(&cx, Instant::now()) {
        Poll::Ready(state) => Some(state),
        Poll::Pending => None,
    }
}

#[test]
fn a_question_changes_nothing() {
    let setup = Setup::new();
    setup.put(&group("g"), "b", 1);
    setup.put(&of_node("n"), "c", 1);
    assert_eq!(setup.audience("n", "g").unwrap().as_str(), "groups/g+nodes/n");
    assert_eq!(setup.audience("other", "").unwrap().as_str(), "base");
    assert_eq!(setup.audiences.store().snapshots().len(), 0);
    assert_eq!(setup.audiences.store().watched(), []);
}

#[test]
fn what_is_watched_is_shown() {
    let setup = Setup::new();
    setup.put(&group("g"), "b", 1);
    setup.put(&of_node("n"), "c", 1);
    let watches = [setup.watch("n", "g"), setup.watch("other", "")];
    assert_eq!(setup.shown("groups/g+nodes/n").unwrap(), ["a", "b", "c"]);
    assert_eq!(setup.shown("base").unwrap(), ["a"]);
    assert_eq!(setup.audiences.store().snapshots().len(), 2);
    drop(watches);
    assert_eq!(setup.audiences.store().snapshots().len(), 0);
    assert_eq!(setup.shown("edge"), None, "a name of nobody");
}

#[test]
fn a_commit_reaches_those_it_changes_and_no_others() {
    let setup = Setup::new();
    setup.put(&group("g"), "b", 1);
    let (mut base, mut of_group) = (setup.watch("n", ""), setup.watch("n", "g"));
    assert!(news(&mut base).is_some() && news(&mut of_group).is_some());
    setup.put(&group("g"), "c", 1);
    assert!(news(&mut base).is_none());
    let seen = news(&mut of_group).unwrap();
    assert_eq!(names(&seen.snapshot.unwrap()), ["a", "b", "c"]);
    assert!(seen.published.is_some() && !seen.reassigned);
    setup.put(&Layer::Base, "d", 1);
    assert_eq!(names(&news(&mut base).unwrap().snapshot.unwrap()), ["a", "d"]);
    assert_eq!(names(&news(&mut of_group).unwrap().snapshot.unwrap()), ["a", "b", "c", "d"]);
}

#[test]
fn an_overlay_that_comes_or_goes_moves_its_node_and_asks_no_other() {
    let setup = Setup::new();
    let (mut one, mut other) = (setup.watch("n", ""), setup.watch("m", ""));
    assert!(news(&mut one).is_some() && news(&mut other).is_some());
    setup.put(&of_node("n"), "b", 1);
    assert!(news(&mut one).unwrap().reassigned);
    assert!(news(&mut other).is_none());
    let mut one = setup.watch("n", "");
    assert_eq!(names(&news(&mut one).unwrap().snapshot.unwrap()), ["a", "b"]);
    setup.commit(|changes| changes.remove_layer(&of_node("n")));
    assert!(news(&mut one).unwrap().reassigned);
    assert!(news(&mut other).is_none());
    assert_eq!(setup.audience("n", "").unwrap().as_str(), "base");
}

/// Notes what is shown when a watch is woken for the first time.
struct WhenWoken {
    store: Arc<Store>,
    shown: Mutex<Option<Arc<Snapshot>>>,
    woken: AtomicBool,
}

impl Wake for WhenWoken {
    fn wake(self: Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            *self.shown.lock().unwrap() = self.store.current("base");
        }
    }
}

#[test]
fn a_node_that_moves_is_not_shown_what_its_former_audience_sees_from_now_on() {
    let setup = Setup::new();
    let store = setup.audiences.store();
    let mut watch = setup.watch("n", "");
    let before = store.current("base").unwrap();
    let woken =
        Arc::new(WhenWoken { store, shown: Mutex::default(), woken: AtomicBool::default() });
    let waker = Waker::from(Arc::clone(&woken));
    let cx = Context::from_waker(&waker);
    assert!(watch.poll_state(&cx, Instant::now()).is_ready());
    assert!(watch.poll_state(&cx, Instant::now()).is_pending());
    setup.commit(|changes| {
        put(changes, &Layer::Base, "secret", 1);
        changes.remove(&Layer::Base, Key { type_url: cds(), name: "a".parse().unwrap() });
        put(changes, &of_node("n"), "b", 1);
    });
    let shown = woken.shown.lock().unwrap().clone().unwrap();
    assert!(Arc::ptr_eq(&shown, &before), "it was asked to move before anything was shown");
    let seen = news(&mut watch).unwrap();
    assert_eq!(names(&seen.snapshot.unwrap()), ["secret"]);
    assert!(seen.reassigned, "whoever sees the snapshot sees that it is to ask again");
}

#[test]
fn a_group_that_comes_has_everybody_ask_again() {
    let setup = Setup::new();
    let (mut one, mut other) = (setup.watch("n", "g"), setup.watch("m", ""));
    assert!(news(&mut one).is_some() && news(&mut other).is_some());
    setup.put(&group("g"), "b", 1);
    assert!(news(&mut one).unwrap().reassigned && news(&mut other).unwrap().reassigned);
    assert_eq!(setup.audience("n", "g").unwrap().as_str(), "groups/g");
}

#[test]
fn another_assignment_has_everybody_ask_again() {
    let setup = Setup::new();
    setup.put(&group("g"), "b", 1);
    let mut watch = setup.watch("n", "");
    assert!(!news(&mut watch).unwrap().reassigned);
    setup.audiences.assign(always_g);
    assert!(news(&mut watch).unwrap().reassigned);
    assert_eq!(setup.audience("n", "").unwrap().as_str(), "groups/g");
}

#[test]
fn clients_of_an_audience_that_was_never_whole_are_told_to_come_back() {
    // T-28, S-057
    let setup = Setup::empty();
    let Err(Refusal::Unavailable(why)) = setup.audience("n", "g") else {
        panic!("nothing was committed")
    };
    assert_eq!(why, "there is no configuration so far");
    setup.commit(|changes| {
        put(changes, &Layer::Base, "a", 1);
        changes.hold(Hold::Layer(group("g")));
    });
    let Err(Refusal::Unavailable(why)) = setup.audience("n", "g") else {
        panic!("{:?}", setup.audience("n", "g"))
    };
    assert_eq!(why, "`groups/g` is held back and has had no good state so far");
    assert_eq!(setup.audience("n", "").unwrap().as_str(), "base");
    assert!(matches!(setup.audience("n", "outside"), Err(Refusal::Denied(_))));
    setup.commit(|changes| changes.release(Hold::Layer(group("g"))));
    assert_eq!(setup.audience("n", "g").unwrap().as_str(), "groups/g");
}

#[test]
fn a_held_layer_keeps_its_audience_and_lets_the_others_go_on() {
    let setup = Setup::new();
    setup.put(&group("g"), "b", 1);
    let _watches = [setup.watch("n", ""), setup.watch("n", "g")];
    setup.commit(|changes| changes.hold(Hold::Layer(group("g"))));
    setup.put(&Layer::Base, "c", 1);
    assert_eq!(setup.shown("base").unwrap(), ["a", "c"]);
    assert_eq!(setup.shown("groups/g").unwrap(), ["a", "b"]);
    setup.commit(|changes| changes.release(Hold::Layer(group("g"))));
    assert_eq!(setup.shown("groups/g").unwrap(), ["a", "b", "c"]);
}

#[test]
fn revisions_of_several_sources_may_be_followed_in_any_order() {
    let setup = Setup::new();
    let mut watch = setup.watch("n", "");
    assert!(news(&mut watch).is_some());
    let commit = |edit: &dyn Fn(&mut ChangeSet)| {
        let mut changes = ChangeSet::new("test");
        edit(&mut changes);
        setup.catalog.commit(changes).unwrap()
    };
    let one = commit(&|changes| put(changes, &of_node("n"), "b", 1));
    let two = commit(&|changes| put(changes, &Layer::Base, "c", 1));
    setup.audiences.follow(&two);
    let seen = news(&mut watch).unwrap();
    assert!(seen.reassigned, "the revision before may have moved it");
    assert_eq!(names(&seen.snapshot.unwrap()), ["a", "c"]);
    setup.audiences.follow(&one);
    assert!(news(&mut watch).is_none(), "it was overtaken");
}

#[test]
fn an_overlay_that_goes_and_comes_back_before_its_node_asks_is_seen() {
    let setup = Setup::new();
    setup.put(&of_node("n"), "b", 1);
    let mut watch = setup.watch("n", "");
    assert_eq!(names(&news(&mut watch).unwrap().snapshot.unwrap()), ["a", "b"]);
    setup.commit(|changes| changes.remove_layer(&of_node("n")));
    setup.put(&of_node("n"), "c", 1);
    // It is asked to move, and is where it belongs.
    let seen = news(&mut watch).unwrap();
    assert!(seen.reassigned && *watch.audience() == setup.audience("n", "").unwrap());
    assert_eq!(names(&seen.snapshot.unwrap()), ["a", "c"]);
    setup.put(&of_node("n"), "d", 1);
    assert_eq!(names(&news(&mut watch).unwrap().snapshot.unwrap()), ["a", "c", "d"]);
}

/// The supply of a catalog in which something is committed and followed before it answers.
struct CommitsInBetween {
    catalog: Catalog,
    audiences: Mutex<Option<Audiences<ByCluster>>>,
}

impl Supply for Arc<CommitsInBetween> {
    fn supply(&self, audience: &AudienceName) -> Option<AudienceSnapshot> {
        let before = FromCatalog(self.catalog.clone()).supply(audience);
        if let Some(audiences) = self.audiences.lock().ok()?.take() {
            let mut changes = ChangeSet::new("test");
            put(&mut changes, &Layer::Base, "b", 1);
            audiences.commit(changes);
        }
        before
    }
}

#[test]
fn a_commit_between_a_look_at_the_catalog_and_its_answer_is_not_lost() {
    let Setup { catalog, .. } = Setup::new();
    let supply =
        Arc::new(CommitsInBetween { catalog: catalog.clone(), audiences: Mutex::default() });
    let audiences = Audiences(Arc::new(Shared {
        store: Store::supplied_by(Arc::clone(&supply)),
        catalog: catalog.clone(),
        assign: ArcSwap::from_pointee(by_cluster as ByCluster),
        followed: Mutex::new(1),
    }));
    *supply.audiences.lock().unwrap() = Some(audiences.clone());
    let setup = Setup { catalog, audiences };
    let mut watch = setup.watch("n", "");
    assert!(supply.audiences.lock().unwrap().is_none(), "the supply was asked");
    assert_eq!(names(&news(&mut watch).unwrap().snapshot.unwrap()), ["a", "b"]);
    setup.put(&Layer::Base, "c", 1);
    assert_eq!(names(&news(&mut watch).unwrap().snapshot.unwrap()), ["a", "b", "c"]);
}

/// A watch that goes where it is reassigned to, as a stream does.
struct OpenStream {
    id: String,
    cluster: String,
    watch: Watch,
}

impl OpenStream {
    fn new(setup: &Setup, id: &str, cluster: &str) -> Self {
        let watch = setup.watch(id, cluster);
        Self { id: id.to_owned(), cluster: cluster.to_owned(), watch }
    }

    fn look(&mut self, setup: &Setup) {
        while let Some(state) = news(&mut self.watch) {
            if state.reassigned {
                let watch = setup.watch(&self.id, &self.cluster);
                if watch.audience() != self.watch.audience() {
                    self.watch = watch;
                }
            }
        }
    }
}

#[test]
fn open_streams_are_listed_until_they_end() {
    let setup = Setup::new();
    setup.put(&group("g"), "b", 0);
    let (of_g, other) = (setup.watch("n", "g"), setup.watch("n", ""));
    let listed = || {
        let streams = setup.audiences.streams().into_iter();
        let told = streams.map(|it| (it.audience.to_string(), it.node.unwrap().id.clone()));
        told.collect::<std::collections::BTreeSet<_>>()
    };
    let base = ("nodes without an overlay".to_owned(), "n".to_owned());
    assert_eq!(listed(), [base.clone(), ("group `g`".to_owned(), "n".to_owned())].into());
    drop(of_g);
    assert_eq!(listed(), [base].into());
    drop(other);
    assert_eq!(listed().len(), 0);
}

#[test]
fn whoever_watches_while_sources_commit_ends_with_the_newest() {
    let setup = Setup::new();
    setup.put(&group("g"), "b", 0);
    let ids = ["k", "l", "m", "n"];
    let streams = std::thread::scope(|scope| {
        for source in 0..2 {
            let setup = &setup;
            scope.spawn(move || {
                for round in 0..100u8 {
                    let layer = if round % 3 == 0 { Layer::Base } else { group("g") };
                    setup.put(&layer, ["c", "d"][source], round);
                    let own = of_node(ids[usize::from(round) % ids.len()]);
                    match round % 8 {
                        5 => setup.commit(|changes| changes.remove_layer(&own)),
                        _ if source == 0 => setup.put(&own, "e", round),
                        _ => {}
                    }
                }
            });
        }
        let streams = ids.map(|id| {
            let setup = &setup;
            scope.spawn(move || {
                let mut streams = ["g", ""].map(|cluster| OpenStream::new(setup, id, cluster));
                for _ in 0..200 {
                    // Others come and go beside it.
                    drop(setup.watch(id, "g"));
                    streams.iter_mut().for_each(|stream| stream.look(setup));
                }
                streams
            })
        });
        streams.map(|stream| stream.join().unwrap())
    });
    let store = setup.audiences.store();
    for mut stream in streams.into_iter().flatten() {
        stream.look(&setup);
        let name = stream.watch.audience().clone();
        assert_eq!(name, setup.audience(&stream.id, &stream.cluster).unwrap());
        let wanted = setup.catalog.seen_by(&audience_of(&name).unwrap()).unwrap().snapshot;
        assert_eq!(store.current(&name), Some(wanted), "{name}");
    }
}
