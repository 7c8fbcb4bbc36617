//! The audiences somebody belongs to, and what each of them sees.
//!
//! ```text
//!   client --> Grouping --> group --+--> Audience --> name in the Store
//!                  node id ---------+        |
//!                                            +------> Catalog: its snapshot, published
//! ```
//!
//! An audience is published when its first client asks, and again after each load; one that had
//! no stream and no question between two loads is withdrawn. So the store holds what is watched
//! and not every combination of group and node.
//!
//! Catalog and store are looked at under one lock: else a client that asks while a load comes in
//! could put the older snapshot over the newer one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_catalog::{Audience, Catalog};
use chancery_server::{
    AudienceName, Client, Observer, Policy, Refusal, Store, StreamEvent, StreamEventKind,
};
use tracing::info;

use super::grouping::Grouping;

/// The policy of the daemon. Clones are the same.
#[derive(Clone)]
pub(crate) struct Audiences {
    store: Arc<Store>,
    catalog: Catalog,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    grouping: Arc<Grouping>,
    /// The groups and nodes with overlays, as of the last load.
    known: Known,
    seats: BTreeMap<AudienceName, Seat>,
    /// The audience each open stream belongs to.
    streams: HashMap<u64, AudienceName>,
}

#[derive(Default, PartialEq)]
struct Known {
    groups: Arc<[Arc<str>]>,
    nodes: Arc<[Arc<str>]>,
}

/// One audience that is published.
struct Seat {
    audience: Audience,
    streams: usize,
    /// Whether a client was put here since the last load.
    asked: bool,
}

impl Audiences {
    /// Nobody belongs anywhere yet.
    pub(crate) fn new(store: Arc<Store>, catalog: Catalog, grouping: Grouping) -> Self {
        let known = Known::of(&catalog);
        let inner = Inner {
            grouping: Arc::new(grouping),
            known,
            seats: BTreeMap::new(),
            streams: HashMap::new(),
        };
        Self { store, catalog, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Brings everybody to what the catalog says now, and to other rules if there are any.
    ///
    /// Streams are told to ask again before anything is published: a node that moves to another
    /// audience must not be shown for a moment what its former one sees from now on.
    pub(crate) fn follow(&self, grouping: Option<Grouping>) {
        let mut inner = self.lock();
        let known = Known::of(&self.catalog);
        let mut moved = known != inner.known;
        inner.known = known;
        if let Some(grouping) = grouping {
            moved |= grouping != *inner.grouping;
            inner.grouping = Arc::new(grouping);
        }
        moved |= self.sweep(&mut inner);
        if moved {
            self.store.reassign();
        }
        for (name, seat) in &inner.seats {
            self.publish(name, &seat.audience);
        }
    }

    /// The groups the rules speak of and the directory does not hold. Their nodes see the files
    /// at the top alone, which may be meant and is more often a slip.
    pub(crate) fn without_files(&self) -> BTreeSet<String> {
        let inner = self.lock();
        let known = |name: &&str| inner.known.groups.iter().any(|group| **group == **name);
        inner.grouping.names().filter(|name| !known(name)).map(str::to_owned).collect()
    }

    /// Withdraws the audiences nobody belongs to; whether there were any.
    ///
    /// A client may have been put there and not be watching yet: regrouping makes it ask again.
    fn sweep(&self, inner: &mut Inner) -> bool {
        let before = inner.seats.len();
        inner.seats.retain(|name, seat| {
            let kept = std::mem::take(&mut seat.asked) || seat.streams > 0;
            if !kept {
                self.store.withdraw(name);
            }
            kept
        });
        inner.seats.len() < before
    }

    /// Publishes what an audience sees, unless no load so far had it whole.
    fn publish(&self, name: &AudienceName, audience: &Audience) {
        let Audience { group, node } = audience;
        if let Some(snapshot) = self.catalog.snapshot(group.as_deref(), node.as_deref()) {
            self.store.publish(name, snapshot);
        }
    }

    /// Makes sure an audience is published.
    fn seat(&self, inner: &mut Inner, audience: Audience) -> AudienceName {
        let name = name_of(&audience);
        if let Some(seat) = inner.seats.get_mut(&name) {
            seat.asked = true;
            return name;
        }
        self.publish(&name, &audience);
        inner.seats.insert(name.clone(), Seat { audience, streams: 0, asked: true });
        name
    }

    /// No code panics with the lock held, and what it guards would be whole even then.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for Audiences {
    fn audience(&self, client: &Client<'_>) -> Result<AudienceName, Refusal> {
        let (grouping, groups) = {
            let inner = self.lock();
            (Arc::clone(&inner.grouping), Arc::clone(&inner.known.groups))
        };
        let group = match client.node {
            Some(node) => grouping.of_node(node, &groups)?,
            None => grouping.of_nobody()?,
        };
        let node = client.node.map(|node| node.id.as_str());
        let mut inner = self.lock();
        let audience = self.catalog.audience(group.as_deref(), node);
        // A client that is let in and not answered waits for its timeout, and can go nowhere else
        // meanwhile (T-28).
        if self.catalog.snapshot(audience.group.as_deref(), audience.node.as_deref()).is_none() {
            let name = name_of(&audience);
            let why = format!("the files of `{name}` have not been free of faults so far");
            return Err(Refusal::Unavailable(why));
        }
        Ok(self.seat(&mut inner, audience))
    }
}

impl Observer for Audiences {
    /// Keeps count of the streams of each audience, and tells of their coming and going.
    fn observe(&self, event: &StreamEvent<'_>) {
        let (stream, node) = (event.stream, event.node.map_or("", |node| &node.id));
        if let (StreamEventKind::Assigned, Some(group)) = (&event.kind, event.audience) {
            let moved = self.lock().joined(stream, group);
            let what = if moved { "stream moved" } else { "stream opened" };
            info!(stream, node, %group, peer = %event.peer, "{what}");
        }
        if let StreamEventKind::Gone { after, .. } = event.kind
            && self.lock().left(stream)
        {
            info!(stream, node, seconds = after.as_secs(), "stream closed");
        }
    }
}

impl Inner {
    /// Whether the stream belonged to another audience before.
    fn joined(&mut self, stream: u64, group: &AudienceName) -> bool {
        let moved = self.left(stream);
        if let Some(seat) = self.seats.get_mut(group) {
            seat.streams += 1;
        }
        self.streams.insert(stream, group.clone());
        moved
    }

    /// Whether the stream belonged to an audience.
    fn left(&mut self, stream: u64) -> bool {
        let Some(group) = self.streams.remove(&stream) else { return false };
        if let Some(seat) = self.seats.get_mut(&group) {
            seat.streams = seat.streams.saturating_sub(1);
        }
        true
    }
}

impl Known {
    fn of(catalog: &Catalog) -> Self {
        Self {
            groups: catalog.groups().iter().cloned().collect(),
            nodes: catalog.nodes().iter().cloned().collect(),
        }
    }
}

/// The name of an audience in the store and in log lines. Slashes and percent signs inside of
/// names are encoded, as in the directory, so that no two audiences share a name.
fn name_of(audience: &Audience) -> AudienceName {
    let encoded = |name: &str| name.replace('%', "%25").replace('/', "%2F").replace('+', "%2B");
    match (&audience.group, &audience.node) {
        (None, None) => "base".into(),
        (Some(group), None) => format!("groups/{}", encoded(group)).into(),
        (None, Some(node)) => format!("nodes/{}", encoded(node)).into(),
        (Some(group), Some(node)) => {
            format!("groups/{}+nodes/{}", encoded(group), encoded(node)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use chancery_core::{Node, TypeUrl};
    use chancery_proto::schema::Schema;
    use chancery_server::Peer;
    use chancery_sources::{Directory, Options};

    use super::*;
    use crate::config::Config;

    struct Setup {
        dir: tempfile::TempDir,
        directory: Directory,
        store: Arc<Store>,
        audiences: Audiences,
    }

    impl Setup {
        fn new(files: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            files.iter().for_each(|file| write(dir.path(), file));
            Self::of(dir)
        }

        fn of(dir: tempfile::TempDir) -> Self {
            let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
            directory.load();
            let store = Store::new();
            let grouping = Grouping::new(&Config::default());
            let audiences = Audiences::new(Arc::clone(&store), directory.catalog(), grouping);
            Self { dir, directory, store, audiences }
        }

        fn load(&mut self) {
            self.directory.load();
            self.audiences.follow(None);
        }

        fn group(&self, id: &str, cluster: &str) -> AudienceName {
            let node = node(id, cluster);
            self.audiences.audience(&Client { node: Some(&node), peer: &peer() }).unwrap()
        }

        /// The names of the clusters an audience sees.
        fn seen(&self, group: &str) -> Option<Vec<String>> {
            let snapshot = self.store.current(group)?;
            let clusters = snapshot.set(&TypeUrl::new("envoy.config.cluster.v3.Cluster"));
            Some(clusters.iter().map(|cluster| cluster.name().to_string()).collect())
        }

        fn tell(&self, stream: u64, group: Option<&AudienceName>, kind: StreamEventKind<'_>) {
            let event = StreamEvent { stream, peer: &peer(), node: None, audience: group, kind };
            self.audiences.observe(&event);
        }
    }

    fn node(id: &str, cluster: &str) -> Node {
        Node { id: id.to_owned(), cluster: cluster.to_owned(), ..Node::default() }
    }

    fn peer() -> Peer {
        Peer { address: None, tls: false, certificates: Vec::new() }
    }

    /// A cluster named as its file.
    fn write(dir: &Path, file: &str) {
        let path = dir.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        fs::write(&path, format!("\"@type\": {url}\nname: {name}\n")).unwrap();
    }

    #[test]
    fn an_audience_is_published_when_somebody_asks() {
        let setup = Setup::new(&["a.yaml", "groups/g/b.yaml", "nodes/n/c.yaml"]);
        assert_eq!(setup.store.snapshots().len(), 0);
        assert_eq!(setup.group("n", "g").as_str(), "groups/g+nodes/n");
        assert_eq!(setup.group("other", "").as_str(), "base");
        assert_eq!(setup.seen("groups/g+nodes/n").unwrap(), ["a", "b", "c"]);
        assert_eq!(setup.seen("base").unwrap(), ["a"]);
        assert_eq!(setup.store.snapshots().len(), 2);
    }

    #[test]
    fn a_load_reaches_all_that_are_watched() {
        let mut setup = Setup::new(&["a.yaml", "groups/g/b.yaml"]);
        setup.group("n", "");
        setup.group("n", "g");
        write(setup.dir.path(), "d.yaml");
        setup.load();
        assert_eq!(setup.seen("base").unwrap(), ["a", "d"]);
        assert_eq!(setup.seen("groups/g").unwrap(), ["a", "b", "d"]);
    }

    #[test]
    fn what_nobody_watches_is_withdrawn() {
        let mut setup = Setup::new(&["a.yaml", "groups/g/b.yaml"]);
        let (base, group) = (setup.group("n", ""), setup.group("n", "g"));
        setup.tell(1, Some(&group), StreamEventKind::Assigned);
        setup.load();
        setup.load();
        assert_eq!(setup.seen(base.as_str()), None);
        assert!(setup.seen(group.as_str()).is_some());
        setup.tell(1, Some(&group), StreamEventKind::Gone { code: None, after: Duration::ZERO });
        setup.load();
        assert_eq!(setup.seen(group.as_str()), None);
        setup.group("n", "g");
        assert!(setup.seen(group.as_str()).is_some());
    }

    #[test]
    fn a_stream_that_moves_is_counted_where_it_is() {
        let mut setup = Setup::new(&["a.yaml", "groups/g/b.yaml"]);
        let (base, group) = (setup.group("n", ""), setup.group("n", "g"));
        setup.tell(1, Some(&base), StreamEventKind::Assigned);
        setup.tell(1, Some(&group), StreamEventKind::Assigned);
        setup.load();
        setup.load();
        assert_eq!(setup.seen("base"), None);
        assert!(setup.seen("groups/g").is_some());
    }

    #[test]
    fn clients_of_an_audience_that_was_never_whole_are_told_to_come_back() {
        // T-28, S-057
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a.yaml");
        write(dir.path(), "groups/g/b.yaml");
        fs::write(dir.path().join("groups/g/b.yaml"), "nonsense").unwrap();
        let mut setup = Setup::of(dir);
        let refused = {
            let node = node("n", "g");
            setup.audiences.audience(&Client { node: Some(&node), peer: &peer() })
        };
        let Err(Refusal::Unavailable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("groups/g"), "{why}");
        assert!(setup.seen(setup.group("n", "").as_str()).is_some());
        write(setup.dir.path(), "groups/g/b.yaml");
        setup.load();
        assert_eq!(setup.group("n", "g").as_str(), "groups/g");
        assert_eq!(setup.seen("groups/g").unwrap(), ["a", "b"]);
    }

    #[test]
    fn groups_without_files_are_known() {
        let mut setup = Setup::new(&["a.yaml", "groups/g/b.yaml"]);
        let rules = r#"{"groups": [{"name": "g", "match": {"id": "g"}},
                                   {"name": "h", "match": {"id": "h"}}]}"#;
        let config: Config = serde_json::from_str(rules).unwrap();
        setup.audiences.follow(Some(Grouping::new(&config)));
        assert_eq!(setup.audiences.without_files(), ["h".to_owned()].into());
        write(setup.dir.path(), "groups/h/c.yaml");
        setup.load();
        assert_eq!(setup.audiences.without_files(), [].into());
    }

    #[test]
    fn no_two_audiences_share_a_name() {
        let audience = |group: Option<&str>, node: Option<&str>| {
            name_of(&Audience { group: group.map(Arc::from), node: node.map(Arc::from) })
        };
        let names = [
            audience(None, None),
            audience(Some("a"), Some("b")),
            audience(Some("a+nodes/b"), None),
            audience(Some("a/b"), None),
            audience(Some("a%2Fb"), None),
            audience(None, Some("a")),
        ];
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}
